"""The hypernetwork signal: learn where refits go, and differentiate what was learned.

The moves are summed up in a few numbers u (the mean move of each group, k·d of them). Around the present u some true
refits are made, in pairs at u ± r e for random orthonormal directions e, and a small map θ̂_φ(u) is fitted to them. Then

    dL/du = (∂θ̂_φ/∂u)ᵀ g,          (dL/dδ_i) / w̄_i = (1/W_c) dL/du_c   for i in group c.

That is the exact gradient averaged over each group: who in a group should move most is not seen. Nothing but refits is
asked of the training, so it works where training cannot be differentiated at all. Every later refit of the outer loop
first tests the map (how well was it foretold?) and then joins the samples; a map that foretells badly is learned anew.

Lorraine & Duvenaud (2018), Stochastic hyperparameter optimization through hypernetworks. They train θ̂_φ on the training
risk itself; refits are cheap here, so it is fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.errors import DataError, NumericsError
from oar.models.training import Array, Training
from oar.signals.base import Memory, Outcome, Signal, Step, caution, check_count, check_given, check_positive

MOST_PAIRS = 64
RENEW = 0.1  # a foretold refit this far off, as a share of the samples' spread, asks for a new map
SMOOTH = 0.5  # a pair that curves by more than this share of what it moves has jumped to another minimum
SHARE = 0.1  # of the distance over which the query's loss would fall to zero at its present slope
MOST_DISTINCT = 20  # more different targets than this are numbers, not classes
RIDGE = 1e-8  # of the largest singular value: enough to choose the shortest of equally good fits


class Groups:
    """A partition of people into groups, whose mean moves u sum up everyone's: u_c = Σ_{i∈c} w̄_i δ_i / W_c.

    W_c is Σ_{i∈c} w̄_i. A change of u moves all of a group alike. `codes` (n,) are whole numbers from 0 on.
    """

    def __init__(self, codes: NDArray[np.intp], weights: Array) -> None:
        self.codes, self.weights = codes, weights
        self.totals = np.bincount(codes, weights)
        self._inverse = np.divide(1.0, self.totals, out=np.zeros_like(self.totals), where=self.totals > 0)

    def means(self, moves: Array | None, dimensions: int) -> Array:
        """Return u (k, d)."""
        sums = np.zeros((self.totals.size, dimensions))
        if moves is not None:
            np.add.at(sums, self.codes, self.weights[:, None] * moves)
        return sums * self._inverse[:, None]

    def pull_back(self, slopes: Array) -> Array:
        """Return (dL/dδ_i) / w̄_i (n, d) for dL/du (k, d)."""
        return (slopes * self._inverse[:, None])[self.codes]


def target_codes(targets: Array) -> NDArray[np.intp]:
    """Return the classes as groups; where targets are numbers, those above and those not above the median of the first.

    >>> target_codes(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([1, 0, 1])
    """
    distinct, codes = np.unique(targets, axis=0, return_inverse=True)
    if len(distinct) > MOST_DISTINCT:
        return (targets[:, 0] > np.median(targets[:, 0])).astype(np.intp)
    return codes.reshape(-1).astype(np.intp)


@dataclass(frozen=True, eq=False)
class ResponseMap:
    """A learned map from the summary of the moves (q,) to the refitted parameters (p,): θ̂_φ.

    With z = (u − centre) / scale,

        θ̂(u) = A z + b + C tanh(W z + c),        W, c drawn at random and kept; A, b, C by least squares.

    Only the outer layer is fitted, so fitting is one linear solve and has no learning rate. Without hidden units the
    map is affine, and with as many samples as directions its slope is a finite-difference Jacobian of θ*.

    `inner` is W (h, q), `shift` c (h,), and `outer` A, C and b, stacked: (q + h + 1, p).
    """

    centre: Array
    scale: float
    inner: Array
    shift: Array
    outer: Array

    def __call__(self, summary: Array) -> Array:
        """Return θ̂(u)."""
        return _features((summary - self.centre) / self.scale, self.inner, self.shift) @ self.outer

    def pull_back(self, summary: Array, slope: Array) -> Array:
        """Return (∂θ̂/∂u)ᵀ slope, (q,)."""
        size = summary.size
        by_feature = self.outer @ slope
        hidden = np.tanh(self.inner @ ((summary - self.centre) / self.scale) + self.shift)
        through = self.inner.T @ ((1 - hidden**2) * by_feature[size:-1])
        return (by_feature[:size] + through) / self.scale


def fit_response_map(
    summaries: Array, parameters: Array, centre: Array, scale: float, hidden: int, seed: int
) -> ResponseMap:
    """Fit θ̂ to pairs of summaries (m, q) and true refits (m, p)."""
    random = np.random.default_rng(seed)
    inner = random.standard_normal((hidden, centre.size)) * np.sqrt(2.0 / centre.size)
    shift = random.standard_normal(hidden)
    features = _features((summaries - centre) / scale, inner, shift)
    left, sizes, right = np.linalg.svd(features, full_matrices=False)
    shrunk = sizes / (sizes**2 + (RIDGE * sizes[0]) ** 2)
    return ResponseMap(centre, scale, inner, shift, right.T @ (shrunk[:, None] * (left.T @ parameters)))


def _features(places: Array, inner: Array, shift: Array) -> Array:
    """Return (z, tanh(W z + c), 1), for one place (q,) or several (m, q)."""
    ones = np.ones((*places.shape[:-1], 1))
    return np.concatenate([places, np.tanh(places @ inner.T + shift), ones], axis=-1)


@dataclass(frozen=True, eq=False)
class Samples:
    """True refits: the place around which they were made, how far from it, summaries (m, q), parameters (m, p)."""

    centre: Array
    radius: float
    summaries: Array
    parameters: Array


@with_near_names
@dataclass(frozen=True, eq=False)
class Hypernetwork(Signal):
    """A learned map from group-wise mean moves to refits.

    Args:
        groups: n labels that say who is summed up together; None takes the classes.
        pairs: refits are made at u ± r e for so many directions e; None takes as many as u has numbers, up to 64.
        radius: r, in the units of the features; None takes a tenth of L/‖∇_x† L‖.
        hidden: random tanh units beside the affine part; 0 is affine. Give it pairs and a wide radius to learn from.
        tolerance: of the samples' refits.
        seed: the seed of the directions and the hidden units.
    """

    groups: Any = None
    pairs: int | None = None
    radius: float | None = None
    hidden: int = 0
    tolerance: float = 1e-8
    seed: int = 0
    name: ClassVar[str] = "hypernetwork"
    needs: ClassVar[tuple[str, ...]] = ("moved", "fit", "goal")

    def __post_init__(self) -> None:
        check_given(check_count, "pairs", self.pairs)
        check_given(check_positive, "radius", self.radius)
        check_count("hidden", self.hidden, least=0)
        check_positive("tolerance", self.tolerance)
        check_count("seed", self.seed, least=0)

    def refusal(self, training: Training) -> str | None:
        """Groups must come from somewhere."""
        if self.groups is None and not hasattr(training, "targets"):
            return f"{type(training).__name__} does not say its people's targets, so Hypernetwork needs `groups`"
        return super().refusal(training)

    def differentiate(self, training: Training, outcome: Outcome, memory: Memory | None) -> Step:
        """Test the map on this refit, learn it anew where it fails, and differentiate it."""
        groups, fit = self._groups(training), outcome.fit
        summary = groups.means(outcome.moves, training.dimensions).ravel()
        samples: Any = self.own(memory)
        surprise = np.inf if samples is None else self._surprise(samples, summary, fit.parameters)
        if surprise > RENEW:
            samples = self._sample(training, groups, outcome, summary)
        else:
            known = np.vstack([samples.summaries, summary]), np.vstack([samples.parameters, fit.parameters])
            samples = Samples(samples.centre, samples.radius, *known)
        learned = self._fit(samples)
        own_loss = training.goal(learned(summary), outcome.query, outcome.target)[0]
        slopes = learned.pull_back(summary, outcome.pull).reshape(-1, training.dimensions)
        foretold = "" if np.isinf(surprise) else f" The last map foretold this refit to {surprise:.1e} of their spread."
        note = f"Hypernetwork: a map of {summary.size} numbers learned from {len(samples.summaries)} refits.{foretold}"
        kept = Memory(fit.parameters, None, samples, self.name)
        return Step(outcome, groups.pull_back(slopes), None, kept, own_loss, note + caution(fit))

    def _groups(self, training: Training) -> Groups:
        if self.groups is None:
            return Groups(target_codes(training.targets), training.weights)  # type: ignore[attr-defined]
        labels, size = np.asarray(self.groups), training.size
        if labels.shape != (size,):
            raise DataError(
                f"groups: must be one label for each of the {size} people, got an array of shape {labels.shape}."
            )
        return Groups(np.unique(labels, return_inverse=True)[1].astype(np.intp), training.weights)

    def _fit(self, samples: Samples) -> Any:
        return fit_response_map(
            samples.summaries, samples.parameters, samples.centre, samples.radius, self.hidden, self.seed
        )

    def _surprise(self, samples: Samples, summary: Array, parameters: Array) -> float:
        """Return how far off the map was, as a share of how far the samples' refits lie apart."""
        spread = float(np.linalg.norm(samples.parameters - samples.parameters.mean(axis=0), axis=1).max())
        return float(np.linalg.norm(self._fit(samples)(summary) - parameters)) / max(spread, np.finfo(float).tiny)

    def _sample(self, training: Training, groups: Groups, outcome: Outcome, summary: Array) -> Samples:
        """Refit at pairs of places around the summary; a pair that jumps to other minima is tried again closer by."""
        random, slope = np.random.default_rng(self.seed), float(np.linalg.norm(outcome.query_slope))
        radius = self.radius or (SHARE * outcome.loss / slope if slope > 0 and outcome.loss > 0 else SHARE)
        moves = np.zeros((training.size, training.dimensions)) if outcome.moves is None else outcome.moves
        here = outcome.fit.parameters

        def refitted(shift: Array) -> Array:
            of_each = shift.reshape(-1, training.dimensions)[groups.codes]  # everyone moves as their group does
            return training.fit(training.moved(moves + of_each), here, self.tolerance).parameters

        places, refits = [summary], [here]
        for direction in _directions(random, self.pairs or min(summary.size, MOST_PAIRS), summary.size):
            # Only a map that can curve gains from places at several distances.
            length = radius * (random.uniform(0.3, 1.0) if self.hidden else 1.0)
            for shift in (length * direction, 0.25 * length * direction, 0.0625 * length * direction):
                ahead, behind = refitted(shift), refitted(-shift)
                if np.linalg.norm(ahead + behind - 2 * here) <= SMOOTH * np.linalg.norm(ahead - behind):
                    places += [summary + shift, summary - shift]
                    refits += [ahead, behind]
                    break
        if len(places) == 1:
            raise NumericsError(
                f"radius: must be small enough for refits to follow the moves smoothly, got {radius:.3g}, around which "
                "they jump from minimum to minimum in all directions: give a smaller radius, or a stronger penalty."
            )
        return Samples(summary, radius, np.array(places), np.array(refits))


def _directions(random: np.random.Generator, count: int, size: int) -> Array:
    """Return unit vectors (count, size), orthogonal to each other as far as there is room."""
    rounds = [np.linalg.qr(random.standard_normal((size, size)))[0].T for _ in range(-(-count // size))]
    return np.concatenate(rounds)[:count]
