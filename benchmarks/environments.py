"""Environments of the peers: one for each list of pins in `peers/`, made on first use in `.bench-envs/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

RUNNERS = Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".bench-envs"


class NoEnvironment(Exception):
    """A peer cannot run here; the message says why."""


def environment(name: str, pins_only: bool = True, pins: Path | None = None) -> Path:
    """Return the Python of a peer's environment, which is made on first use and whenever its pins change.

    Args:
        name: what the environment is called; its pins are `peers/<name>.txt`.
        pins_only: install nothing but what is pinned. False lets pip add what a wheel of this platform needs beside
            the pins, as PyTorch's do.
        pins: another file of pins.
    """
    pins = RUNNERS / f"{name}.txt" if pins is None else pins
    mark = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    folder = ENVIRONMENTS / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    made = folder / "made-from"
    if made.exists() and made.read_text() == mark:
        return python
    print(f"making the environment of {name} …", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--no-deps"] if pins_only else []
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, "--requirement", str(pins)]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoEnvironment(f"its environment cannot be made: {last_line(done.stderr or done.stdout)}")
    made.write_text(mark)
    return python


def last_line(text: str) -> str:
    """Return what a failed command said last, or its last error if it named one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no reason was given"])[-1][:200]
