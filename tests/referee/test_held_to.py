"""Audits hold a plan to what was asked: who may move, how many, and the problem that was asked."""

import numpy as np
import pandas
import pytest

import oar
from oar.errors import DataError
from oar.solvers import Solver, register, unregister

RNG = np.random.default_rng(0)
LABELS = np.arange(40) % 2
FEATURES = RNG.normal(size=(40, 2)) + 1.5 * LABELS[:, None]
SOFTMAX = oar.SoftmaxRegression(0.1)


def problem(people=None, **options):
    people = oar.Population(FEATURES, LABELS) if people is None else people
    query = oar.Query([0.2, 0.6], 1, budget=5.0)
    return oar.Problem(people, SOFTMAX, query, oar.Perturb(0.5, **options))


@pytest.fixture
def solved_by():
    """Yield a function that registers a solver that answers as it is told."""

    def registered(answer, **attributes):
        kind = type("Told", (Solver,), {"name": "told", "auto": False, "propose": answer} | attributes)
        register(kind)

    yield registered
    unregister("told")


@pytest.mark.parametrize("parts", [False, True])
def test_no_more_members_move_than_are_to_be_chosen(tmp_path, parts):
    people = None
    if parts:
        pandas.DataFrame(FEATURES, columns=["a", "b"]).assign(t=LABELS).to_parquet(tmp_path / "people.parquet")
        people = oar.Population.from_parquet(tmp_path / "people.parquet", target="t")
    found = oar.audit(problem(people, participants=oar.Best(3)), np.full((40, 2), 0.1))
    assert found.violations == ("40 members move, limit 3",)
    assert not found.success
    assert not found.queries[0].success


def test_a_solver_that_serves_best_is_held_to_the_number(solved_by):
    solved_by(lambda self, task, settings: np.full((40, 2), 0.3), serves=frozenset({"retraining", "best"}))
    found = oar.collective(problem(participants=oar.Best(3)), solver="told")
    assert "40 members move, limit 3" in found.audit.violations
    assert not found.success


@pytest.mark.parametrize(
    ("verb", "moves", "said"),
    [
        ("collective", (np.zeros((40, 2)), np.full(2, 2.0)), "the query moves, and only members may"),
        ("individual", (np.full((40, 2), 0.3), np.zeros(2)), "members act, and only the query may"),
    ],
)
def test_only_those_move_whom_the_verb_lets_move(solved_by, verb, moves, said):
    solved_by(lambda self, task, settings: moves, verbs=(verb,))
    found = getattr(oar, verb)(problem(), solver="told")
    assert said in found.audit.violations
    assert not found.success


def test_a_proposal_for_another_problem_is_refused(solved_by):
    other = problem().with_action(budget=5.0)
    solved_by(lambda self, task, settings: oar.solvers.propose_collective(other))
    with pytest.raises(DataError, match="must propose a plan for the problem that it was asked"):
        oar.collective(problem(), solver="told")


def test_needs_are_sets_of_names():
    with pytest.raises(DataError, match="serves: of solver 'listed' must be a set"):
        register(type("Listed", (Solver,), {"name": "listed", "serves": ["retraining"], "propose": lambda *_: None}))


def test_the_query_does_not_move_by_an_action_that_is_for_members():
    class Half(oar.actions.Action):
        name = "half"

        def reach(self, people):
            return 0.5

        def project(self, moves, who):
            inside = np.maximum(moves, 0.0)
            return inside / np.maximum(1.0, np.linalg.norm(inside, axis=1) / 0.5)[:, None]

        def respond(self, directions, who):
            inside = np.maximum(directions, 0.0)
            return 0.5 * inside / np.maximum(np.linalg.norm(inside, axis=1), 1e-300)[:, None]

        def violations(self, moves, who):
            return np.maximum(-moves, 0.0).max(axis=1)

    people = oar.Population(FEATURES, LABELS)
    asked = oar.Problem(people, SOFTMAX, oar.Query([0.2, 0.6], 1, budget=0.5), Half())
    found = oar.audit(asked, np.zeros((40, 2)), query_move=[-0.29, -0.29])
    assert found.violations == ("the query moves, and the action is for members alone",)
    assert not found.success
