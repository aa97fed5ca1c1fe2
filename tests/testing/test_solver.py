"""check_solver passes solvers that keep what the registry relies on, and finds every promise that is broken."""

import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import oar
from oar.solvers import Solver
from oar.solvers.builtin import OURS
from oar.solvers.descent.retrained import GradientDescent
from oar.testing import ConformanceError, check_solver


@dataclass(frozen=True)
class Clock:
    seed: int = 0
    max_steps: int = 5
    time_limit: float = np.inf


class Random(Solver):
    """Random moves within everyone's ball."""

    name, settings, verbs = "random", Clock, ("collective",)

    def propose(self, task, settings):
        people, allowance = task.problem.people, task.problem.allowance
        heading = np.random.default_rng(settings.seed).normal(size=(people.size, people.dimensions))
        return allowance.norm.project(heading, allowance.everyones(people.size))


def test_a_solver_of_ones_own_and_ours_pass():
    report = check_solver(Random)
    assert report.passed
    assert str(report).startswith("random: all 8 checks passed.")
    assert check_solver(GradientDescent()).passed
    assert "random" not in oar.solvers.registry.names()  # checked, not registered


def of_proposal(**claims):
    def propose(self, task, settings):
        found = oar.solvers.propose_collective(task.problem, "one-shot")
        return replace(found, **claims)

    return propose


def changes_people(self, task, settings):
    task.problem.people.features[0] += 1.0
    return np.zeros((24, 2))


def changes_memory(self, task, settings):
    task.problem.people.features.base[0] += 1.0
    return np.zeros((24, 2))


def counts(self, task, settings):
    self.calls = getattr(self, "calls", 0) + 1
    return np.full((24, 2), 0.01 * self.calls)


def sleeps(self, task, settings):
    time.sleep(0.3)
    return np.zeros((24, 2))


@pytest.mark.parametrize(
    ("attributes", "failed", "said"),
    [
        ({"name": ""}, "interface", "name: of a solver must be"),
        ({"requires": frozenset({"table"})}, "refusal", "refuses the problem that it is checked on"),
        ({"refusal": lambda self, task: None}, "refusal", "super().refusal(task)"),
        ({"propose": lambda self, task, settings: np.ones((24, 2))}, "limits", "moves by 1.41421, limit 0.3"),
        ({"propose": lambda self, task, settings: (np.zeros((24, 2)), np.full(2, 0.1))}, "limits", "who may not"),
        ({"propose": lambda self, task, settings: np.ones(3)}, "limits", "must propose moves of shape"),
        ({"propose": changes_people}, "problem untouched", "it writes to the problem's data"),
        ({"propose": changes_memory}, "problem untouched", "Copy arrays"),
        ({"propose": counts}, "repeatable", "default_rng(settings.seed)"),
        ({"propose": of_proposal(claimed_loss=1e-3)}, "claims", "the audit finds"),
        ({"propose": of_proposal(steps=7)}, "steps", "Stop after settings.max_steps"),
    ],
)
def test_what_is_broken_is_found(attributes, failed, said):
    made = type("Broken", (Random,), attributes)
    report = check_solver(made, raises=False)
    assert failed in [check.name for check in report.failed]
    assert any(said in f"{check.detail} {check.advice}" for check in report.failed if check.name == failed)
    with pytest.raises(ConformanceError):
        check_solver(made)


def test_a_time_limit_that_is_not_looked_at_is_found(monkeypatch):
    monkeypatch.setattr("oar.testing.solver.PATIENCE", 0.25)
    report = check_solver(type("Slow", (Random,), {"propose": sleeps}), raises=False)
    assert [check.name for check in report.failed] == ["time limit"]


def test_only_solvers_are_checked():
    with pytest.raises(oar.errors.OptionError, match=r"must be .*derived from oar.solvers.Solver"):
        check_solver(Clock())


def test_ours_have_all_that_is_asked_of_a_users():
    for kind in OURS:
        assert kind.name
        assert kind().verbs
