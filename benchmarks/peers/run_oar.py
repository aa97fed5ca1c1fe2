"""OAR itself: python run_oar.py FOLDER, in the environment of this clone.

What `oar.collective` does with its defaults, in its two halves: the proposal, which is timed like everybody else's, and
the audit, whose time is told beside it, because no other contender has one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax  # noqa: F401  (OAR imports it when it is needed; everybody's imports are off the clock)
import numpy as np
from moving import Task

import oar
from oar.signals import Implicit
from oar.solvers import ProjectedGradient, propose_collective


def main(folder):
    task = Task(folder, "oar-recourse", "jax", "numpy")
    solver = ProjectedGradient(time_limit=task.allowed)
    proposal = in_memory(task, solver) if task.source.endswith(".npz") else in_parts(task, solver)
    if proposal is None:
        return
    ended = "gap closed" if proposal.finished else "" if task.over else proposal.ended
    facts = {"claimed": proposal.claimed_loss, "steps": proposal.steps}
    task.end(ended, **facts)  # now, because the audit may take longer than there is time
    began = time.perf_counter()
    audited = oar.audit(proposal.plan).loss
    task.end(ended, **facts, audited=audited, audit_seconds=time.perf_counter() - began)


def in_memory(task, solver):
    """Plan for people in arrays; keep the best moves so far at every step."""
    people = oar.Population(task.features, task.labels)
    least = np.inf

    @dataclass(frozen=True)
    class Watched(Implicit):
        """The signal that is the default here, with somebody who looks at what it is asked about."""

        def differentiate(self, training, outcome, memory):
            """Keep the best moves so far; searches among fewer people are not for keeping."""
            nonlocal least
            if outcome.moves is not None and len(outcome.moves) == people.size and outcome.loss < least:
                least, task.passes = outcome.loss, training.passes
                task.record(outcome.moves)
            return super().differentiate(training, outcome, memory)

    proposal = propose_collective(problem_of(task, people), solver, Watched())
    task.passes = proposal.passes
    task.record(proposal.plan.moves(task.features, task.labels), always=True)
    return proposal


def in_parts(task, solver):
    """Plan for people in Parquet files, who are never all in memory; only the answer is kept."""
    if not hasattr(oar.Population, "from_parquet"):
        task.end("not tried: this version of OAR reads no Parquet files in parts")
        return None
    people = oar.Population.from_parquet(Path(task.source) / "people", target="label")
    proposal = propose_collective(problem_of(task, people), solver)
    task.passes = proposal.passes
    task.record_folder(proposal.plan.write_moves)
    return proposal


def problem_of(task, people):
    """Return what is asked."""
    query, action = oar.Query(task.query, goal=task.goal), oar.Perturb(task.budget)
    return oar.Problem(people, oar.SoftmaxRegression(task.single_l2), query, action)


if __name__ == "__main__":
    main(*sys.argv[1:])
