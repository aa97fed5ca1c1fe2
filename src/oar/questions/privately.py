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

from oar.audit import audit
from oar.errors import DataError, OARError, OptionError, with_near_names
from oar.people import Population
from oar.plans import Audit, Card, Result
from oar.plans.publish import FEWEST
from oar.plans.rare import rare_levels
from oar.problem import Problem
from oar.recourse import collective

Array = NDArray[np.float64]
SENSITIVITY = sqrt(8.0)
LEAST_VARIANCE = 1e-4  # of a feature's range, squared: noise can leave less than nothing of a variance


@dataclass(frozen=True, eq=False)
class PrivateCard:
    """A card that is differentially private, and what it costs.

    Attributes:
        card: what may be published.
        epsilon, delta: the guarantee, for each of the people, if one is replaced by another. Further cards add theirs.
        noise: σ of each sum, of people scaled into the unit ball.
        audit: of everyone's answers to it. It is from the data, and not covered.
        without_noise: that of answers to the plan's own card; None where it has none.
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
    result: Result, epsilon: float, delta: float = 1e-6, bounds: Any = None, seed: int | None = None
) -> PrivateCard:
    """Return a differentially private card for the problem of a result, audited.

    It protects every person's features and label, the number of people being known. It does not protect who asks, whose
    features the card points at; nor members who make their moves where these are seen; nor the audit and other results.
    Names of columns, levels and classes, limits and bounds are taken to be public.

    Args:
        result: what was planned, of moves by everyone with one budget.
        epsilon: the guarantee's ε; of several cards for the same people they add up.
        delta: its δ, which adds up, too.
        bounds: what features are clipped to, known without the data: a pair (lower, upper) of numbers or of arrays
            (d,), or a mapping of names to pairs. Of a table, None for those of its limits.
        seed: of the noise, for tests alone: whoever knows it can take the noise off. None draws it from the system.
    """
    for name, value, fine in (("epsilon", epsilon, epsilon > 0), ("delta", delta, 0 < delta < 1)):
        if not (fine and np.isfinite(value)):
            raise OptionError(f"{name}: must be above 0{' and below 1' if name == 'delta' else ''}, got {value!r}.")
    problem = result.problem
    _refuse(problem)
    low, high = _bounds(problem, bounds)
    draw = np.random.default_rng(seed)
    noise = gaussian_noise(epsilon, delta)
    drawn = replace(problem, people=_drawn(problem.people, low, high, noise, draw), keep=None)
    card = collective(drawn).plan.card()
    try:
        plain = audit(result.plan.followed(result.plan.card()))
    except OARError:
        plain = None
    return PrivateCard(card, epsilon, delta, noise, audit(result.plan.followed(card)), plain)


def gaussian_noise(epsilon: float, delta: float, sensitivity: float = SENSITIVITY) -> float:
    """Return the least σ that makes sums (ε, δ)-differentially private, to a relative 1e-9 and never less."""
    from scipy.stats import norm

    def told(sigma: float) -> float:
        a, b = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return float(norm.cdf(a - b) - exp(epsilon + norm.logcdf(-a - b)))

    low = high = sensitivity / epsilon
    while told(high) > delta:
        high *= 2
    while told(low) <= delta:
        low /= 2
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if told(middle) <= delta else (middle, high)
    return high


def statistics(features: Array, shares: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return how many people each class has (k,), and Σ z by class (k, d) and Σ zzᵀ (d, d) of features in the ball."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    scaled = np.clip((features - middle) / half, -1.0, 1.0) / sqrt(len(low))
    return shares.sum(axis=0), shares.T @ scaled, scaled.T @ scaled


def _refuse(problem: Problem) -> None:
    people = problem.people
    reasons = {
        "values are predicted, which have no bounds": problem.regresses,
        "people weigh differently": people.weights is not None,
        "labels are shares of several classes": people.has_label_rows,
        "labels change or members leave": problem.levers is not None,
        "participants or budgets are single people's": not problem.allowance.same_for_everyone,
        "members ask, whose rows are the query's": problem.asked.members is not None,
        "single people have limits of their own": problem.limits is not None and bool(problem.limits.own),
        f"a category has levels that fewer than {FEWEST} people have; merge them": people.encoding is not None
        and any(one.pool.size for one in rare_levels(people)),
    }
    for reason, holds in reasons.items():
        if holds:
            raise DataError(f"result: there is no private card where {reason}.")


def _bounds(problem: Problem, given: Any) -> tuple[Array, Array]:
    """Return what coordinates are clipped to (d,)."""
    people, size = problem.people, problem.people.dimensions
    if people.encoding is None:
        if isinstance(given, Mapping) and people.names is not None:
            given = tuple(np.array([given.get(name, (np.nan, np.nan))[end] for name in people.names]) for end in (0, 1))
        if given is None or isinstance(given, Mapping):
            raise OptionError("bounds: must be (lower, upper), known without the data, got none for all features.")
        low, high = (np.broadcast_to(np.asarray(each, dtype=np.float64), (size,)).copy() for each in given)
    else:
        low, high = _table_bounds(problem, {} if given is None else given)
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        at = int(np.argmin(np.isfinite(low) & np.isfinite(high) & (low < high)))
        name = people.names[at] if people.names is not None else at
        raise OptionError(
            f"bounds: must be finite, the lower below the upper, got {low[at]} and {high[at]} for {name!r}."
        )
    return low, high


def _table_bounds(problem: Problem, given: Mapping[str, tuple[float, float]]) -> tuple[Array, Array]:
    people, limits = problem.people, problem.limits
    assert people.encoding is not None
    assert limits is not None
    low, high = np.zeros(people.dimensions), np.ones(people.dimensions)
    for column in people.encoding.schema:
        place, limit = people.encoding.places[column.name].start, limits.columns.get(column.name)
        if column.kind == "ordinal":
            high[place] = max(len(column.levels) - 1, 1)
        if column.kind not in ("number", "integer"):
            continue
        found = given.get(column.name, (None, None) if limit is None else (limit.lower, limit.upper))
        if None in found:
            raise OptionError(
                f"bounds: must have a least and a largest value of {column.name!r}, known without the data, got none; "
                f"give bounds={{{column.name!r}: (lower, upper)}}, or both in its limits."
            )
        low[place], high[place] = found
        if (limit is None or not limit.immutable) and (limit is None or limit.unit is None):
            raise OptionError(
                f"limits: {column.name!r} must have a unit, because a change is otherwise measured by the standard "
                "deviation of the data; give oar.Limit(unit=…)."
            )
    return low, high


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
