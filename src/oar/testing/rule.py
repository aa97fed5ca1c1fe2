"""`check_rule`: does an update rule keep what planning over time relies on, on a few rounds of a few people?"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.checks import is_whole
from oar.errors import DataError, OARError, OptionError
from oar.models import NearestCentroid, SoftmaxRegression
from oar.online import OnlineProblem, Path, PulledBack, Rollout, Rule, Stream, Update, centroid_weights
from oar.online.bound_training import update_of
from oar.online.rules.refits import moved_by
from oar.people import Population
from oar.problem import Query
from oar.testing.report import Fault, Report, checked, compared
from oar.tolerances import AGREEMENT
from oar.typing import ModelLike

Array = NDArray[np.float64]
PEOPLE = 9  # in a batch; three classes have three each
ROUNDS = 3
STEPS = 1e-4, 1e-5  # of finite differences, in the spread of what is changed
SAME = 1e-6  # relative difference between two θ that should be equal, as two fits are
DIRECTIONS = 3


def check_rule(
    rule: Rule, model: ModelLike | None = None, *, dimensions: int = 2, seed: int = 0, raises: bool = True
) -> Report:
    """Check an update rule against finite differences through three rounds, and say what it lacks.

    Args:
        rule: what is checked: one of oar.online, or your own.
        model: what it updates; None for softmax regression.
        dimensions: how many features the people have on whom it is checked.
        seed: they are drawn from this.
        raises: whether a failed check raises a ConformanceError, which lists all of them with advice; otherwise only
            the returned report does: `print` it.

    >>> import oar
    >>> check_rule(oar.online.ExponentialMeans(0.3), oar.NearestCentroid()).passed
    True
    """
    if isinstance(rule, type):
        raise DataError(f"rule: must be a rule, got the class {rule.__name__}; call it with its settings.")
    model = SoftmaxRegression(0.1) if model is None else model
    case = _case(rule, model, dimensions, seed)
    return checked(str(getattr(rule, "name", type(rule).__name__)), case, CHECKS, raises, _said)


def _case(rule: Rule, model: Any, dimensions: int, seed: int) -> RuleCase:
    """Draw a history and three rounds; classes overlap, and weights differ."""
    rng = np.random.default_rng(seed)
    reads = getattr(rule, "reads", None)
    if isinstance(reads, int) and reads > ROUNDS + 1:
        raise OptionError(
            f"rule: is checked on {ROUNDS} rounds and a history, got one that reads {reads} batches; check the same "
            f"rule with fewer, at most {ROUNDS + 1}."
        )
    when = np.repeat(np.arange(-1, ROUNDS), PEOPLE)
    codes = np.arange(when.size) % 3
    features = rng.standard_normal((3, dimensions))[codes] + rng.standard_normal((when.size, dimensions))
    values = features @ rng.standard_normal(dimensions) + 0.3 * rng.standard_normal(when.size)
    regresses = model.regresses
    people = Population(features, values if regresses else codes, rng.uniform(0.5, 1.5, when.size))
    place = features.mean(axis=0) + 0.1 * rng.standard_normal(dimensions)
    query = Query(place, float(values.mean()) + 1.0, within=0.1) if regresses else Query(place, 0)
    return RuleCase(rule, model, Stream(people, when), query, seed)


def _said(reason: Exception) -> str:
    """Return what to do about an error: ours say what was wrong, and in which round."""
    if not isinstance(reason, OARError):
        return "The rule's own code raised this; mend it there."
    where = "pull_back" if "pull_back" in str(reason) else "update"
    return f"Look at what the rule's {where} computes in that round."


@dataclass
class RuleCase:
    """A rule with a model, rounds of people that it is checked on, and somebody who asks."""

    rule: Rule
    model: Any
    stream: Stream
    query: Query
    seed: int

    def problem(self, **changes: Any) -> OnlineProblem:
        """Return the problem over time, with some of it changed."""
        given = {"stream": self.stream, "model": self.model, "rule": self.rule, "query": self.query}
        return OnlineProblem(**(given | {"action": Perturb(1.0), "goal_for": "every"} | changes))

    @property
    def without_history(self) -> RuleCase:
        """The same rounds, with nobody before them."""
        return self._of(self.stream.when >= 0)

    @property
    def lacking_a_class(self) -> RuleCase:
        """The same, with nobody of one class in round 1."""
        people = self.stream.people
        return self._of((self.stream.when != 1) | (people.codes(0, people.size) != 0))

    def _of(self, kept: NDArray[np.bool_]) -> RuleCase:
        rows = np.flatnonzero(kept)
        return replace(self, stream=Stream(self.stream.people.some(rows), self.stream.when[rows]))

    @cached_property
    def walk(self) -> Rollout:
        """The rule, run over the rounds."""
        return Rollout(self.problem())

    @cached_property
    def moves(self) -> Array:
        """Some moves of everyone who acts."""
        return 0.2 * self.draw((self.stream.people.size, self.stream.people.dimensions)) * self.acting

    @property
    def acting(self) -> NDArray[np.bool_]:
        """Who acts, (n, 1)."""
        return (self.stream.when >= 0)[:, None]

    @cached_property
    def path(self) -> Path:
        """θ after every round."""
        return self.walk.forward(self.moves)

    def draw(self, shape: tuple[int, ...], number: int = 0) -> Array:
        """Draw standard normal numbers; the same ones for the same shape and number."""
        return np.random.default_rng([self.seed, number, *shape]).standard_normal(shape)

    def before(self, number: int) -> Array | None:
        """Return θ before a round."""
        return self.path.parameters[number - 1] if number > 0 else self.path.first

    def update(self, number: int, order: NDArray[np.intp] | None = None, before: Array | None = None) -> Update:
        """Return a round's work made afresh, its people in another order where one is given."""
        rows = self.walk.rows(number)
        rows = rows if order is None else rows[order]
        people, newest = self.stream.people.some(rows), self.stream.when[rows] == number
        given = self.before(number) if before is None else before
        return update_of(self.model, people, newest, number, copy(given), self.moves[rows])

    def pulled(self, number: int, adjoint: Array) -> PulledBack:
        """Pull an adjoint back through a round."""
        after = self.path.parameters[number]
        return self.rule.pull_back(self.update(number), after.copy(), adjoint.copy())


def _differ(first: Array, second: Array) -> float:
    return float(np.abs(first - second).max() / (1 + np.abs(first).max()))


def interface(case: RuleCase) -> str:
    """It has a name, says what it reads, and can go there and back."""
    if not isinstance(getattr(case.rule, "name", None), str):
        raise Fault("it has no name.", "Give it a name: a short text for reports.")
    reads = getattr(case.rule, "reads", "nothing")
    whole = is_whole(reads) and reads >= 1
    if reads is not None and not whole:
        raise Fault(
            f"reads is {reads!r}.", "Say how many of the newest batches it reads, at least 1; None means all so far."
        )
    for part in ("update", "pull_back"):
        if not callable(getattr(case.rule, part, None)):
            raise Fault(f"it has no method {part}.", "Give it update(update) and pull_back(update, after, adjoint).")
    return f"reads {'everything so far' if reads is None else f'the newest {reads} batch(es)'}."


def finite(case: RuleCase) -> str:
    """It returns as many parameters as the model has, all of them numbers."""
    return f"{case.path.parameters.shape[1]} parameters, all finite, in each of {len(case.path.parameters)} rounds."


def repeatable(case: RuleCase) -> str:
    """The same round gives the same θ, whatever was asked in between."""
    again = [case.rule.update(case.update(number)) for number in reversed(range(ROUNDS))]
    gap = max(_differ(one, other) for one, other in zip(case.path.parameters, reversed(again), strict=True))
    if not gap <= SAME:
        raise Fault(
            f"the same update led to parameters that differ by {gap:.1e} of their size.",
            "Keep nothing from call to call, and draw nothing at random: θ_t is a function of the update alone.",
        )
    return f"to {gap:.0e}."


def unchanged(case: RuleCase) -> str:
    """It leaves what it is handed as it is."""
    for number in range(ROUNDS):
        update = case.update(number)
        after, adjoint = case.path.parameters[number].copy(), case.draw(case.path.parameters[number].shape)
        handed = {
            "before": update.before,
            "features": update.features,
            "newest": update.newest,
            "after": after,
            "adjoint": adjoint,
            "training.weights": update.training.weights,
            "training.targets": update.training.targets,
        }
        kept = {name: np.array(_plain(value)) for name, value in handed.items()}
        case.rule.update(update)
        case.rule.pull_back(update, after, adjoint)
        for name, value in handed.items():
            if not np.array_equal(kept[name], np.array(_plain(value)), equal_nan=True):
                raise Fault(f"it changed {name} in round {number}.", "Copy an array before you write into it.")
    return "nothing that it was handed changed."


def _plain(value: Any) -> Any:
    """Return the numbers of moved features, whatever form a training keeps them in."""
    return getattr(value, "rows", value) if value is not None else np.nan


def order(case: RuleCase) -> str:
    """Who stands where among the people makes no difference."""
    gap = 0.0
    for number in range(ROUNDS):
        size = case.walk.rows(number).size
        mixed = np.random.default_rng([case.seed, number]).permutation(size)
        gap = max(gap, _differ(case.path.parameters[number], case.rule.update(case.update(number, mixed))))
    if not gap <= SAME:
        raise Fault(
            f"with the same people in another order, parameters differ by {gap:.1e} of their size.",
            "Treat people alike; who is new is told by update.newest, which comes in the same order as the people.",
        )
    return f"to {gap:.0e}."


def forgets(case: RuleCase) -> str:
    """A rule that says that it remembers nothing does not depend on θ before."""
    if getattr(case.rule, "remembers", True):
        return "it says that it depends on θ before."
    number = ROUNDS - 1
    before = case.before(number)
    assert before is not None
    other = before + 0.1 * (1 + np.abs(before)) * case.draw(before.shape)
    gap = _differ(case.path.parameters[number], case.rule.update(case.update(number, before=other)))
    if not gap <= SAME:
        raise Fault(
            f"from another θ before, parameters differ by {gap:.1e} of their size.", "Leave out remembers = False."
        )
    return f"θ before makes no difference, to {gap:.0e}."


def shapes(case: RuleCase) -> str:
    """What is pulled back is finite, one number for each parameter and one for each feature of each who is read."""
    back = case.walk.gradient(case.path, case.moves)  # the walk itself checks what comes back
    if not back.gradient.any():
        raise Fault("no move changes anything.", "Return dL/dδ in PulledBack.moves, for everybody who is read.")
    return f"{back.gradient.shape[0]} people by {back.gradient.shape[1]} features, and λ for every round."


def by_moves(case: RuleCase) -> str:
    """dL/dδ through all rounds matches differences of L, for the last round and for every round."""
    said = ""
    for name, counts in (("last", np.eye(ROUNDS)[-1]), ("every", np.full(ROUNDS, 1 / ROUNDS))):
        slope = case.walk.gradient(case.path, case.moves, counts).gradient
        for number in range(DIRECTIONS):
            along = case.draw(case.moves.shape, number + 1) * case.acting
            advice = (
                "Look at the sign and at the weights: moves are (∂θ_t/∂δ)ᵀ λ_t, for a minimum −w̄_i ∇_x s_i(θ; v) with "
                "H v = λ_t; and at what goes on to θ_{t−1}."
            )

            def value(step: float, along: Array = along, counts: Array = counts) -> float:
                return float(counts @ case.walk.forward(case.moves + step * along).losses)

            said = _agree(f"dL/dδ of the {name} round(s)", slope, along, value, advice)
    return said


def by_before(case: RuleCase) -> str:
    """λ_{t−1} matches differences of λ_tᵀ θ_t."""
    said = ""
    for number in range(1, ROUNDS):
        before = case.before(number)
        assert before is not None
        adjoint = case.draw(before.shape)
        slope = case.pulled(number, adjoint).before
        for turn in range(DIRECTIONS):
            along = case.draw(before.shape, turn + 1)

            def value(
                step: float, number: int = number, before: Array = before, along: Array = along, by: Array = adjoint
            ) -> float:
                return float(by @ case.rule.update(case.update(number, before=before + step * along)))

            advice = "Return (∂θ_t/∂θ_{t−1})ᵀ λ_t in PulledBack.before: zeros for a refit, (I − η H) λ for one step."
            size = float(np.linalg.norm(adjoint) * np.linalg.norm(along))
            said = _agree(f"λ before round {number}", slope, along, value, advice, size)
    return said


def _agree(
    what: str, slope: Array, along: Array, value: Callable[[float], float], advice: str, size: float = 0.0
) -> str:
    """Raise unless a slope along a direction is what finite differences of a value say, beside the size of both.

    Where they differ, a shorter step decides: strongly curved models ask for one, and imprecise refits for a long one.
    """
    scale = max(1e-3 * float(np.linalg.norm(slope) * np.linalg.norm(along)), 1e-3 * size)
    differences = ((value(step) - value(-step)) / (2 * step) for step in STEPS)
    return compared(what, float((slope * along).sum()), differences, scale, AGREEMENT, advice)


def signals(case: RuleCase) -> str:
    """What is broadcast, in any round, makes the moves that were pulled back."""
    largest, broadcast = 0.0, False
    for number in range(ROUNDS):
        pulled = case.pulled(number, case.draw(case.path.parameters[number].shape))
        if not pulled.signals:
            continue
        update, broadcast = case.update(number), True
        made = sum(moved_by(update, parameters, signal) for parameters, signal in pulled.signals)
        gap = float(np.abs(made - pulled.moves).max() / max(np.abs(pulled.moves).max(), 1e-300))
        if not gap <= SAME:
            raise Fault(
                f"Σ −w̄_i ∇_x s_i(θ; v) of its signals differs from its moves by {gap:.1e} of them in round {number}.",
                "Return pairs (θ, v) that make the moves, or no signals at all.",
            )
        largest = max(largest, gap)
    return f"they make the moves, to {largest:.0e}." if broadcast else "none are broadcast."


def first_round(case: RuleCase) -> str:
    """With nothing deployed before, it begins, and what is pulled back is right there, too; or says what it needs."""
    alone = case.without_history
    try:
        _ = alone.path
    except OARError as reason:
        if "NaN" in str(reason):
            raise
        return f"it says what it needs: {_sentence(reason)}"
    return f"it begins by itself, and {_also('with nothing deployed before', alone)}"


def missing_class(case: RuleCase) -> str:
    """A batch that lacks a class leads to numbers that are right, or to an OARError that says so."""
    if getattr(case.model, "regresses", False):
        return "values have no classes."
    lacking = case.lacking_a_class
    try:
        lacking.walk.gradient(lacking.path, lacking.moves)
    except OARError as reason:
        if "NaN" in str(reason) or "finite" in str(reason):
            raise Fault(
                f"a batch without one class led to {_sentence(reason)}",
                "Leave what the class has learnt as it was, or raise an oar.errors.DataError that names the round.",
            ) from None
        return f"it says so: {_sentence(reason)}"
    return f"it goes on without, and {_also('where a batch lacks a class', lacking)}"


def _also(where: str, case: RuleCase) -> str:
    """Check slopes on other rounds; say where they are wrong."""
    try:
        return by_moves(case)
    except Fault as reason:
        raise Fault(f"{where}, {reason.detail}", reason.advice) from None


def _sentence(reason: OARError) -> str:
    return str(reason).split("; ")[0].rstrip(".") + "."


def kept_share(case: RuleCase) -> str:
    """What share of a centroid it says that it keeps is what it keeps."""
    if not callable(getattr(case.rule, "kept_share", None)) or getattr(case.model, "regresses", False):
        return "it says nothing about centroids."
    gap = 0.0
    for where, other in (
        ("", case),
        (" with nothing deployed before", case.without_history),
        (" where a batch lacks a class", case.lacking_a_class),
    ):
        try:
            gap = max(gap, _kept_otherwise(other))
        except OARError:
            if other is case:
                raise
            continue  # it says itself what it needs
        if not gap <= SAME:
            raise Fault(
                f"centroids move otherwise than kept_share says{where}, by {gap:.1e}.",
                "Return κ (k,) of μ_c ← κ_c μ_c + (1 − κ_c) mean_c, or leave kept_share out; a class that weighs "
                "nothing in a round may keep its centroid (κ_c = 1), and with nothing before nothing is kept.",
            )
    return f"centroids move as it says, to {gap:.0e}."


def _kept_otherwise(case: RuleCase) -> float:
    """Return by how much centroids move otherwise than kept_share says."""
    problem = case.problem(model=NearestCentroid(), query=case.query)
    walk, people = Rollout(problem), case.stream.people
    codes, gap = people.codes(0, people.size), 0.0
    with_moves, without = walk.forward(case.moves), walk.forward()
    for number in range(ROUNDS):
        shifts = (with_moves.parameters[number] - without.parameters[number]).reshape(-1, people.dimensions)
        weighted = centroid_weights(problem, number)[:, None] * case.moves
        said = np.array([weighted[codes == code].sum(axis=0) for code in range(len(people.classes))])
        gap = max(gap, _differ(shifts, said))
    return gap


CHECKS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("has what it takes", interface, ()),
    ("finite parameters", finite, ("has what it takes",)),
    ("same again", repeatable, ("finite parameters",)),
    ("order of people", order, ("same again",)),
    ("pulls back", shapes, ("finite parameters",)),
    ("inputs unchanged", unchanged, ("pulls back",)),
    ("remembers or not", forgets, ("same again",)),
    ("moves through rounds", by_moves, ("same again", "pulls back")),
    ("θ before", by_before, ("same again", "pulls back")),
    ("signals", signals, ("pulls back",)),
    ("nothing before", first_round, ("moves through rounds",)),
    ("missing class", missing_class, ("moves through rounds",)),
    ("share of centroids", kept_share, ("same again",)),
)
