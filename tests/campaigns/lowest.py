"""The tests with the lowest versions that pyproject.toml allows: in an environment of its own, file by file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np

from .tally import Tally, parser

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".lowest"
# What tests need; which version is no promise to users
BESIDE = ("editables", "equinox", "hatchling", "hypothesis", "lightgbm", "pytest", "pytest-xdist", "xgboost-cpu")
EXTRAS = ("jax", "parquet", "dask", "excel")
# What has broken with old versions before comes first, and whatever else there is time for after it.
FIRST = ("tests/actions/limits/test_limit.py", "tests/solvers/discrete", "tests/people/tables", "tests/cli/test_cli.py")
# Campaigns start themselves; the leaderboard's referee is no part of the package, and has versions of its own; how many
# passes a golden problem takes is recorded of the pinned versions.
NOT_OURS = ("tests/campaigns", "tests/leaderboard", "tests/golden")
# Old packages warn of what newer ones, which they were not made for, will take away; that is not ours to mend.
WARNINGS = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
COUNTS = re.compile(r"(\d+) (passed|failed|errors?)\b")
PATIENCE = 1_800  # seconds for one file


def lowest(project: dict) -> list[str]:
    """Return pins of the lowest versions that users may have: of what is needed, and of the extras."""
    asked = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    pins: dict[str, str] = {}
    for requirement in asked:
        if "[" in requirement.split(">=")[0]:  # an extra of this project, which is among them anyway
            continue
        found = re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9.]+)", requirement)
        if found is None:
            raise ValueError(f"pyproject.toml: a requirement must be NAME>=VERSION to be tested, got {requirement!r}")
        pins[found[1]] = f"{found[1]}=={found[2]}"
    return sorted(pins.values())


def environment(folder: Path = FOLDER) -> Path:
    """Return the Python of an environment with the lowest versions; it is made anew where the pins have changed."""
    pins = [*lowest(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]), *BESIDE]
    python, stamp = folder / "bin" / "python", folder / ".pins"
    if not stamp.is_file() or stamp.read_text() != "\n".join(pins):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins]
        subprocess.run(install, check=True)
        own = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]  # clusters ask which version is installed
        subprocess.run([*install[: -len(pins)], *own], check=True)
        stamp.write_text("\n".join(pins))
    return python


def run(python: Path, path: str) -> tuple[int, int, str]:
    """Run a file's tests; return how many passed, how many did not, and the end of what was said."""
    command = [python, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", path]
    for kind in WARNINGS:
        command += ["-W", f"ignore::{kind}"]
    command += ["-W", "ignore:Setting penalty=None:UserWarning"]  # of scikit-learn 1.8, about its own default
    paths = str(ROOT / "tests")
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            # Old XLA complains on stderr of what its own cache holds, where tests compare what commands say.
            env=os.environ | {"PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, 1, f"{path} did not end within {PATIENCE} seconds"
    last = (done.stdout.strip().splitlines() or [""])[-1]
    counts = {kind.rstrip("s"): int(count) for count, kind in COUNTS.findall(last)}
    passed, failed = counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode not in (0, 5) and not failed:  # 5: there was nothing to run here
        failed = 1
    return passed, failed, "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign: all files, or as many as there is time for."""
    parsing = parser("lowest", __doc__)
    parsing.add_argument("paths", nargs="*", help="files or folders of tests; all by default")
    asked = parsing.parse_args(arguments)
    tally = Tally("lowest", minutes=asked.minutes, number=asked.number)
    python = environment()
    others = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    others = [path for path in others if not path.startswith((*FIRST, *NOT_OURS))]
    np.random.default_rng(asked.seed).shuffle(others)
    for path in asked.paths or [*FIRST, *others]:
        if not tally.goes_on():
            break
        passed, failed, end = run(python, path)
        print(f"{path}: {passed} passed, {failed} failed", flush=True)
        for place in range(passed + failed):
            tally.note(place < passed, f"{path}\n{end}" if place == passed else path)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
