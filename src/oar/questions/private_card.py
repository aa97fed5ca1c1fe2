"""A card that is differentially private: made from noisy sums over everybody, and from nothing else of their data.

Each person's features are clipped to bounds that are public and scaled into the unit ball, z. Three sums over the
people are all that is read of them: how many there are in each class, Σ z by class, and Σ zzᵀ of all. If one person is
replaced by another, these change by at most √8 in Euclidean length: with the same class Σ z and Σ zzᵀ change by at most
2 each; with another, two counts and two sums change by at most 1 each, and Σ zzᵀ by at most 2. Normal noise of standard
deviation σ in each number makes them (ε, δ)-differentially private if

    Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ,     Δ = √8,

the exact condition of Balle and Wang (2018). Whatever is computed from them without the data is as private. So people
are drawn from the noisy sums (normal within each class, with one covariance), the plan is made anew for these, and its
card is theirs. Real members answer it, and an audit says what that is worth, beside the card without noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.round_steps import above, bound_step, is_multiple
from oar.checks import choose, is_listing, is_number, with_near_names
from oar.errors import DataError, OARError, OptionError
from oar.people import Population
from oar.people.wording import counted, shown
from oar.plans import Audit, Card, Result
from oar.plans.cards.publish import FEWEST
from oar.plans.cards.publish_table import owned
from oar.plans.cards.rare_levels import rare_levels
from oar.problem import Problem
from oar.questions.least.trials import halve
from oar.recourse import collective
from oar.referee import audit
from oar.solvers.registry import EffortLike
from oar.typing import BoundsLike

Array = NDArray[np.float64]
SENSITIVITY = sqrt(8.0)
NUMBERS = ("number", "integer")
LEAST_VARIANCE = 1e-4  # of a feature's range, squared: noise can leave less than nothing of a variance


@dataclass(frozen=True, eq=False)
class PrivateCard:
    """A card that is differentially private, and what it costs.

    Attributes:
        card: what may be published.
        epsilon, delta: the guarantee, for each of the people, if one is replaced by another. Further cards add theirs.
        noise: σ of each sum, of people scaled into the unit ball.
        audit: the audit of everyone's responses to it. It is computed from the data, and not covered by the guarantee.
        without_noise: the audit of responses to the plan's own card; None where it has none.
    """

    card: Card
    epsilon: float
    delta: float
    noise: float
    audit: Audit
    without_noise: Audit | None

    @property
    def lost(self) -> float | None:
        """The share of the gain of the plan's own card that the noise costs; None where there is none to compare."""
        if self.without_noise is None:
            return None
        gain = self.without_noise.loss_before - self.without_noise.loss
        return (self.audit.loss - self.without_noise.loss) / gain if gain > 0 else None

    def __str__(self) -> str:
        """Say it in a sentence."""
        lost = "" if self.lost is None else f", {self.lost:.1%} of the gain lost to noise"
        return (
            f"({self.epsilon:g}, {self.delta:g})-differentially private card: goal "
            f"{'reached' if self.audit.success else 'missed'} by an audit{lost}"
        )


@with_near_names
def private_card(
    result: Result,
    epsilon: float,
    delta: float = 1e-6,
    bounds: BoundsLike = None,
    seed: int | None = None,
    *,
    effort: EffortLike = None,
    time_limit: float | None = None,
) -> PrivateCard:
    """Return a differentially private card for the problem of a result, audited.

    It protects every person's features and label; the number of people is known. It does not protect the query subject,
    whose features the card points at; nor members who make their moves where these are seen; nor the audit and other
    results. Names of columns, levels and classes, limits and bounds are taken to be public.

    Args:
        result: a result with moves of everyone and one budget.
        epsilon: the guarantee's ε; of several cards for the same people they add up.
        delta: its δ, which adds up, too.
        bounds: what features are clipped to, known without the data: a pair (lower, upper) of numbers or of arrays
            (d,), or a mapping of names to pairs. Of a table, a mapping, and of columns that it does not name the bounds
            of their limits, which must be declared: those that were observed are the data's.
        seed: of the noise, for tests alone: whoever knows it can take the noise off. None draws it from the system.
        effort: as in `oar.collective`, for the plan for people who are drawn.
        time_limit: as in `oar.collective`, for the same plan.
    """
    for name, value, most, words in (("epsilon", epsilon, np.inf, ""), ("delta", delta, 1, " and below 1")):
        if not (is_number(value) and 0 < value < most):
            raise DataError(f"{name}: must be a finite number above 0{words}, got {shown(value)}.")
    problem = result.problem
    problem.only_one_refit("a card")
    _refuse(problem)
    low, high = _bounds(problem, bounds)
    _refuse_own_values(problem, low, high)
    draw = np.random.default_rng(seed)
    noise = gaussian_noise(epsilon, delta)
    drawn = replace(problem, people=_drawn(problem.people, low, high, noise, draw), keep=None)
    card = collective(drawn, effort=effort, time_limit=time_limit).plan.card()
    try:
        plain = audit(result.plan.followed(result.plan.card()))
    except OARError:
        plain = None
    return PrivateCard(card, epsilon, delta, noise, audit(result.plan.followed(card)), plain)


def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the least σ that makes sums (ε, δ)-differentially private, to a relative 1e-9 and never less."""
    from scipy.stats import norm

    def told(sigma: float) -> float:
        a, b = SENSITIVITY / (2 * sigma), epsilon * sigma / SENSITIVITY
        return float(norm.cdf(a - b) - exp(epsilon + norm.logcdf(-a - b)))

    low = high = SENSITIVITY / epsilon
    while told(high) > delta:
        high *= 2
    while told(low) <= delta:
        low /= 2
    return halve(
        low, high, lambda sigma: sigma if told(sigma) <= delta else None, lambda low, high: high - low <= 1e-9 * high
    )[1]


def statistics(features: Array, shares: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return how many people each class has (k,), and Σ z by class (k, d) and Σ zzᵀ (d, d) of features in the ball."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    scaled = np.clip((features - middle) / half, -1.0, 1.0) / sqrt(len(low))
    return shares.sum(axis=0), shares.T @ scaled, scaled.T @ scaled


def _refuse(problem: Problem) -> None:
    people, limits = problem.people, problem.limits or Limits()
    if limits.as_observed:
        raise OptionError(
            "limits: must be known without the data for a private card, got some that were read off the data "
            f"(oar.Limits.observed), as of {limits.as_observed[0]!r}; plan with oar.Limit(lower=…, upper=…, unit=…) or "
            "oar.Limit(immutable=True) for each column."
        )
    reasons = {
        "values are predicted, which have no bounds": problem.regresses,
        "people weigh differently": people.weights is not None,
        "labels are shares of several classes": people.has_label_rows,
        "labels change or members leave": problem.levers.given,
        "participants or budgets are single people's": not problem.allowance.same_for_everyone,
        "members ask, whose rows are the query's": problem.asked.members is not None,
        "single people have limits of their own": bool(limits.own),
        f"a category has levels that fewer than {FEWEST} people have; merge them": people.encoding is not None
        and any(one.pool.size for one in rare_levels(people)),
    }
    for reason, holds in reasons.items():
        if holds:
            raise DataError(f"result: there is no private card where {reason}.")


def _bounds(problem: Problem, given: Any) -> tuple[Array, Array]:
    """Return what coordinates are clipped to (d,)."""
    people = problem.people
    if people.encoding is None:
        low, high = _plain_bounds(people, given)
    else:
        low, high = _table_bounds(problem, {} if given is None else given)
    fine = np.isfinite(low) & np.isfinite(high) & (low < high)
    if not fine.all():
        at = int(np.argmin(fine))
        name = (people.names or range(people.dimensions))[at]
        raise DataError(
            f"bounds: must be finite, the lower below the upper, got {low[at]:g} and {high[at]:g} for {name!r}."
        )
    return low, high


def _plain_bounds(people: Population, given: Any) -> tuple[Array, Array]:
    if isinstance(given, Mapping) and people.names:
        for name in given:
            choose("bounds", name, people.names)
        missing = [name for name in people.names if name not in given]
        if missing:
            raise OptionError(f"bounds: must have all features, known without the data, got none of {missing[0]!r}.")
        pairs = [_pair(given[name], name) for name in people.names]
        return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    try:
        if isinstance(given, str | Mapping):
            raise TypeError
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (people.dimensions,)) for end in given)
    except (TypeError, ValueError):
        raise DataError(
            "bounds: must be (lower, upper), known without the data, each a number or one of each of "
            f"{counted(people.dimensions, 'feature', 'features')}, got {shown(given)}."
        ) from None
    return low.copy(), high.copy()


def _pair(given: Any, name: str) -> tuple[float, float]:
    ends = tuple(given) if is_listing(given) else ()
    if len(ends) != 2 or not all(map(is_number, ends)):
        raise DataError(
            f"bounds: must be two numbers (lower, upper) of {name!r}, known without the data, got {shown(given)}."
        )
    return float(ends[0]), float(ends[1])


def _table_bounds(problem: Problem, given: Any) -> tuple[Array, Array]:
    people, limits, columns = problem.people, problem.limits or Limits(), problem.people.table
    numbers = [column.name for column in columns.schema if column.kind in NUMBERS]
    if not isinstance(given, Mapping):
        raise DataError(
            f"bounds: must be a mapping of a table's columns, such as {{'income': (0, 9000)}}, got {shown(given)}; "
            "leave it out where all limits have bounds."
        )
    for name in given:
        choose("bounds", name, numbers)
    low, high = np.zeros(people.dimensions), np.ones(people.dimensions)
    for column in columns.schema:
        place, limit = columns.places[column.name].start, limits.columns.get(column.name, Limit())
        if column.kind == "ordinal":
            high[place] = max(len(column.levels) - 1, 1)
        if column.kind not in NUMBERS:
            continue
        found = _pair(given[column.name], column.name) if column.name in given else (limit.lower, limit.upper)
        if None in found:
            raise OptionError(
                f"bounds: must have a least and a largest value of {column.name!r}, known without the data, got none; "
                f"give bounds={{{column.name!r}: (lower, upper)}}, or both in its limits."
            )
        low[place], high[place] = found
        if not (limit.immutable or limit.unit):
            raise OptionError(
                f"limits: {column.name!r} must have a unit, because a change is otherwise measured by the standard "
                "deviation of the data; give oar.Limit(unit=…)."
            )
    return low, high


def _refuse_own_values(problem: Problem, low: Array, high: Array) -> None:
    """Raise where a bound is the own value of few of the people, and no round one: whoever gave it read it off them.

    A card's own guard sees those who are drawn, and not them. That it raises tells whoever gave the bounds, and nobody
    who sees a card.
    """
    people = problem.people
    features = np.asarray(people.features, dtype=np.float64)
    columns: list[tuple[Any, int, bool]] = [(at, at, False) for at in range(people.dimensions)]
    limits = (problem.limits or Limits()).columns
    if people.encoding is not None:
        numbers = [column for column in people.encoding.schema if column.kind in NUMBERS]
        columns = [(column.name, people.encoding.places[column.name].start, column.whole) for column in numbers]
    for name, place, whole in columns:
        values, limit = features[:, place], limits.get(name, Limit())
        step = bound_step(np.sort(values), whole)
        own = [bound for _, bound, _ in limit.bounds]
        for argument, bounds in (("limits", own), ("bounds", (low[place], high[place]))):
            for bound in bounds:
                if not step or not owned(values, float(bound)) or is_multiple(float(bound), step):
                    continue
                raise OptionError(
                    f"{argument}: must be known without the data, got {bound:g} for {name!r}, which is the own value "
                    f"of fewer than {FEWEST} people; declare a round number, say {above(float(bound), step):g}."
                )


def _drawn(people: Population, low: Array, high: Array, noise: float, draw: np.random.Generator) -> Population:
    """Return people drawn from noisy sums."""
    size, d = people.size, people.dimensions
    features = np.asarray(people.features, dtype=np.float64)
    counts, sums, squares = statistics(features, people.class_rows(), low, high)
    counts = np.maximum(counts + noise * draw.normal(size=counts.shape), FEWEST)
    means = np.clip((sums + noise * draw.normal(size=sums.shape)) / counts[:, None], -1 / sqrt(d), 1 / sqrt(d))
    above = np.triu(noise * draw.normal(size=(d, d)))
    squares = squares + above + np.triu(above, 1).T  # each number of the symmetric matrix is told once
    shares = counts / counts.sum()
    values, vectors = np.linalg.eigh(squares / size - (shares * means.T) @ means)
    root = vectors * np.sqrt(np.clip(values, LEAST_VARIANCE / d, 1.0))
    codes = np.repeat(np.arange(len(counts)), np.maximum(np.rint(size * shares).astype(int), FEWEST))
    rows = means[codes] + draw.normal(size=(codes.size, d)) @ root.T
    rows = 0.5 * (low + high) + 0.5 * (high - low) * np.clip(sqrt(d) * rows, -1.0, 1.0)
    labels = np.empty(codes.size, dtype=object)
    labels[:] = [people.classes[code] for code in codes]
    if people.encoding is None:
        if people.names is None:
            return Population(rows, labels)
        import pandas

        return Population(pandas.DataFrame(rows, columns=list(people.names)), labels)
    for column in people.encoding.schema:
        place = people.encoding.places[column.name]
        if column.kind == "category":
            rows[:, place] = np.eye(len(column.levels))[rows[:, place].argmax(axis=1)]
        elif column.whole:
            rows[:, place] = np.rint(rows[:, place])
    target = people.target or "label"
    return Population.from_frame(people.encoding.decode(rows).assign(**{target: labels}), target, schema=people.schema)
