"""A solver for tests of whose answers a store holds: to refuse takes no time, and the cell has a row that says so."""

import pytest

from oar.solvers import Solver, register, unregister
from oar.solvers.registry import EVERYTHING


class NotAsked(Solver):
    """Answers nothing, whatever the problem."""

    name, auto, serves = "not-asked", False, EVERYTHING

    def propose(self, task, settings):
        raise RuntimeError("not asked")


@pytest.fixture
def not_asked():
    """Yield the name of a solver that fails at once."""
    register(NotAsked)
    yield NotAsked.name
    unregister(NotAsked.name)
