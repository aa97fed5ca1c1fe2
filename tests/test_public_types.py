"""Types of the public surface: every parameter says what it takes; `Any` stands only where it is true."""

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import oar

ROOMS = (oar, oar.models, oar.solvers, oar.signals, oar.online, oar.worlds, oar.defences, oar.datasets, oar.testing)
ROOMS += (oar.questions, oar.limits)
REASONS = {
    "an object of another library, or of a user's, which is only handed on": """
        Population.from_dask.features Population.from_dask.labels Population.from_dask.weights
        from_equinox.module from_torch.module Custom.init Update.training State.parameters State.memory
        Memory.own
    """,
    "the field is what becomes of the argument when it is made": """
        AdvisedIndividuals.norm Caps.norm Curators.query Curators.goal Curators.pool FeatureCollision.query
        FeatureCollision.norm GradientMatching.query GradientMatching.norm Labellers.query StrategicAware.norm
        StrategicIndividuals.norm CompetingCollective.collective CompetingCollective.policy Hypernetwork.groups
        Blobs.balance Update.features
    """,
    "looked at whatever it is, and refused by a message of its own": """
        Limit.missing Limit.of.value Plausible.of.value as_signal.signal crowd_of.people
        PerformativelyStable.model check_action.action check_solver.solver
    """,
    "users' own labels, or a DataFrame, in something that they do not make": """
        RoundOutcome.prediction_before RoundOutcome.prediction BudgetAnswer.binding CoalitionAnswer.members
        Collateral.by_group Collateral.actors_by_group Collateral.everyone_by_group Credit.groups
        Collateral.by_round
    """,
    "its overloads say what goes with what": """
        audit.plan
    """,
    "called by the verbs, which have checked it": """
        propose_collective.solver propose_collective.signal propose_individual.solver propose_joint.solver
        propose_joint.signal Task.problem Task.solver Task.signal
    """,
}
ALLOWED = {name: reason for reason, names in REASONS.items() for name in names.split()}


def taken(node: ast.FunctionDef) -> list[tuple[str, str]]:
    """Return the parameters of a function with their annotations."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    named = [one for one in arguments if one.arg not in ("self", "cls")]
    return [(one.arg, "" if one.annotation is None else ast.unparse(one.annotation)) for one in named]


def made(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Return what a class takes: of its own __init__, also one that is written for type checkers, or of its fields."""
    own = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    if own:
        return taken(own[0])
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    return [(one.target.id, ast.unparse(one.annotation)) for one in fields]


def alternative(node: ast.FunctionDef) -> bool:
    """Report whether this is a public way of making an object."""
    decorated = {ast.unparse(one) for one in node.decorator_list} & {"classmethod", "staticmethod"}
    return bool(decorated) and not node.name.startswith("_")


def written(value: Any) -> Any:
    """Return the source of a class or a function."""
    tree = ast.parse(Path(sys.modules[value.__module__].__file__).read_text(encoding="utf-8"))
    return next(one for one in tree.body[::-1] if getattr(one, "name", None) == value.__name__)


@pytest.fixture(scope="module")
def parameters() -> dict[str, str]:
    """Return every public parameter, as Class.method.parameter, with its annotation."""
    found: dict[str, str] = {}
    for value in {
        id(value): value for room in ROOMS for name in room.__all__ for value in [getattr(room, name)]
    }.values():
        if not (inspect.isclass(value) or inspect.isfunction(value)) or not value.__module__.startswith("oar"):
            continue
        node = written(value)
        ways = {value.__name__: made(node) if isinstance(node, ast.ClassDef) else taken(node)}
        ours = [one for one in getattr(value, "__mro__", ()) if one.__module__.startswith("oar")]
        for one in [one for kind in ours[::-1] for one in written(kind).body]:  # those of its bases, too
            if isinstance(one, ast.FunctionDef) and alternative(one):
                ways[f"{value.__name__}.{one.name}"] = taken(one)
        found |= {f"{way}.{name}": annotation for way, each in ways.items() for name, annotation in each}
    return found


def test_every_public_parameter_has_a_type(parameters):
    assert len(parameters) > 600
    assert [name for name, annotation in parameters.items() if not annotation] == []


def test_any_stands_only_where_it_is_true(parameters):
    bare = {name for name, annotation in parameters.items() if annotation in ("Any", "Any | None")}
    assert bare - set(ALLOWED) == set()
    assert set(ALLOWED) - bare == set()  # whoever finds a type for one takes it off the list


def test_every_alias_has_its_line_in_the_reference():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    from oar import typing

    assert [name for name in typing.__all__ if f"`{name}`" not in page] == []
