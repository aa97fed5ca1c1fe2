"""`oar plan` with all its files, over the library call alone: each in a process of its own, imports included."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import oar

LIMITS = """
links = ["change(education) <= change(age)"]

[columns]
race = { immutable = true }
sex = { immutable = true }
native_country = { immutable = true }
marital_status = { immutable = true }
relationship = { immutable = true }
age = { direction = "up" }
education = { direction = "up" }
hours_per_week = { lower = 0, upper = 80 }
capital_gain = { lower = 0 }
capital_loss = { lower = 0 }
"""
LIBRARY = """
import sys
import numpy as np
import oar

people = oar.Population.read(sys.argv[1], "income", schema=sys.argv[2])
model = oar.models.Scaled(oar.SoftmaxRegression())
others = np.arange(people.size) != 7
moves = oar.Perturb(0.1, norm=1, limits=sys.argv[3], participants=others)
print(oar.collective(oar.Problem(people, model, oar.Query(people.features[7], ">50K"), moves)))
"""


def measure(rounds: int = 1) -> list[tuple[float, float]]:
    """Return seconds of processor time of the library call and of the command, in turns, on Adult."""
    census = oar.datasets.adult(Path(os.environ["OAR_DATA"]) / "adult")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        census.frame.to_csv(folder / "adult.csv", index=False)
        census.schema.save(folder / "schema.toml")
        (folder / "limits.toml").write_text(LIMITS)
        files = [folder / "adult.csv", folder / "schema.toml", folder / "limits.toml"]
        command = ["-m", "oar", "plan", files[0], "--schema", files[1], "--limits", files[2], "--target", "income"]
        command += ["--query", "7", "--goal", ">50K", "--budget", "0.1", "--group", "sex", "--force"]
        command += ["--out", folder / "plan"]
        return [(_seconds(["-c", LIBRARY, *files]), _seconds(command)) for _ in range(rounds)]


def _seconds(arguments: list) -> float:
    """Run a process; time on a busy machine says little, so what counts is what the processor did for it."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *map(str, arguments)], check=True, stdout=sys.stderr)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime - began.ru_utime + ended.ru_stime - began.ru_stime


if __name__ == "__main__":
    for library, command in measure():
        print(f"library {library:.1f} s, command {command:.1f} s, ratio {command / library:.2f}")
