"""OAR itself: python run_oar.py FOLDER, in the environment of this clone.

What `oar.collective` does with its defaults, in its two halves: the proposal, which is timed like everybody else's, and
the audit, whose time is told beside it, because no other contender has one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import jax  # noqa: F401  (OAR imports it when it is needed; everybody's imports are off the clock)
import numpy as np
from moving import Task

import oar
from oar.signals import Implicit
from oar.solvers import ProjectedGradient, propose_collective


def main(folder):
    task = Task(folder, "oar-recourse", "jax", "numpy")
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

    query, action = oar.Query(task.query, goal=task.goal), oar.Perturb(task.budget)
    problem = oar.Problem(people, oar.SoftmaxRegression(task.single_l2), query, action)
    task.record(np.zeros_like(task.features))
    proposal = propose_collective(problem, ProjectedGradient(time_limit=task.allowed), Watched())
    task.passes = proposal.passes
    moves = proposal.plan.moves(task.features, task.labels)
    task.record(moves, always=True)
    began = time.perf_counter()
    audit = oar.audit(proposal.plan)
    task._write(
        "ended.json",
        {
            "ended": "gap closed" if proposal.finished else proposal.ended,
            "claimed": proposal.claimed_loss,
            "audited": audit.loss,
            "audit_seconds": time.perf_counter() - began,
            "steps": proposal.steps,
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
