"""A small problem for studies, and scripts that run it in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import oar
from support.pages import ROOT

QUICK = oar.solvers.ProjectedGradient(max_steps=5, restarts=0)  # how good plans are is not the question here


def people(size=60, seed=3, weights=None):
    """Two clouds of people in the plane."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(["no", "yes"], size // 2)
    return oar.Population(rng.normal(0, 1, (size, 2)) + 2.0 * (labels == "yes")[:, None], labels, weights)


def problem(model=None, budget=0.5, **settings):
    """Somebody on the wrong side asks for "yes"."""
    return oar.Problem(
        settings.pop("people", None) or people(),
        model or oar.NearestCentroid(),
        oar.Query([0.7, 0.8], goal="yes"),
        oar.Perturb(budget, **settings),
    )


QUERIES = {"near": oar.Query([0.9, 0.9], goal="yes"), "far": oar.Query([0.4, 0.2], goal="yes")}
SLOW = """
import sys, time
import oar.studies.work as work
from support.study_problems import run_small
collective = work.collective
def slowly(asked, **given):  # so that there is time to be killed in
    time.sleep(float(sys.argv[2]))
    with open(sys.argv[3], "a") as notes:
        notes.write(repr(asked.action) + "\\n")
    return collective(asked, **given)
work.collective = slowly
if __name__ == "__main__":
    run_small(sys.argv[1], workers=1)
    print("done", flush=True)
"""


def run_small(store, **settings):
    """Run a study of sixteen quick cells, half of which are solved once for two seeds."""
    axes = {"budgets": [0.1, 0.2, 0.3, 0.4], "participation": [0.5, 1.0], "seeds": [0, 1]}
    with oar.solvers.default_effort("normal"):  # of this process as of those that are started beside it
        return oar.study(problem(oar.SoftmaxRegression()), **axes, store=store, solver=QUICK, **settings)


def slow_process(store, pause, notes):
    """Start a process that runs the small study slowly, and notes every cell that it begins to answer."""
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(store), str(pause), str(notes)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
