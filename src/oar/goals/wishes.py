"""Goals as losses of what a fitted model says about the queries.

**Classes.** With L_c the model's loss for class c and G the classes that will do, g ∈ G leads all that will not by

    L_g,out = −log e^{−L_g} / (e^{−L_g} + Σ_{c∉G} e^{−L_c})

which for a cross-entropy is what L_g would be if the rest of G were not there. The query gets what it wants as soon as
one of G leads, so its loss is the least of them; for G = {g} it is L_g itself. A target probability is another thing:
it is P(G), whose loss is −log Σ_{c∈G} e^{−L_c}. Both are differences of loss sums L_S = −log Σ_{c∈S} e^{−L_c}, with

    ∇L_S = Σ_{c∈S} ω_c ∇L_c,   ω_c = e^{−L_c} / Σ_S e^{−L}

**Values.** With B the box that is aimed at, L = min_{t∈B} ℓ(z, t), whose gradient is that of ℓ(z, t) at the nearest t.

**Several queries'** losses become one, with how much each of them counts, ∂(one)/∂L_j:

    mean     (1/q) Σ L_j
    worst    τ log (1/q) Σ e^{L_j/τ}, below the largest by at most τ log q; τ is a share of the losses at first
    share    (1/q) Σ σ((L_j − ℓ_j)/τ_j), about the share that does not get its goal: who is far from the edge ℓ_j, on
             either side, counts little

Audits judge by the mean, by the largest, and by the share itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oar.goals.words import AnyBut, Between
from oar.models.training import Array, Training
from oar.people.labels import plain
from oar.pictures.numbers import number

Aggregate = Callable[[Array], tuple[float, Array]]
"""Several queries' losses (q,) as one, and ∂(one)/∂L_j (q,)."""
KINDS = ("mean", "worst", "share")
SOFT = 0.05  # of the largest loss at first: τ of the worst case
WIDE = 0.5  # of a query's edge: τ of a share
HALF = 0.5
TIE = 1e-9  # leads in outputs below this share of them are ties: refits are uncertain in about the ninth digit


@dataclass(frozen=True, eq=False)
class ClassWish:
    """A goal of classification: some classes that will do."""

    codes: tuple[int, ...]  # their codes
    rivals: tuple[int, ...]  # the codes of those that will not do
    every: tuple[Array, ...]  # the model's target (o,) for each class there is
    probability: float | None = None  # how probable they must be together; None where being predicted is enough
    plain: bool = field(init=False)  # whether it is one class

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", len(self.codes) == 1)

    @property
    def identity(self) -> tuple:
        """The values that tell it from other goals of the same people, to the last bit, whatever the model."""
        return self.codes, self.probability

    @property
    def target(self) -> Array:
        """The target of the only class; of the first one where there are several."""
        return self.every[self.codes[0]]

    @property
    def edge(self) -> float:
        """The loss at which a probabilistic model's query gets what it wants: −log of the probability it takes."""
        return -float(np.log(self.probability or HALF))

    def by(self, code: int) -> ClassWish:
        """Return the wish that this one of the classes be the one that leads those that will not do."""
        return replace(self, codes=(code,))

    def judged(self, training: Training, parameters: Array, point: Array) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L and ∇_x L at one person."""
        if self.plain and len(self.rivals) == len(self.every) - 1:
            return training.goal(parameters, point, self.target)
        each = {code: training.goal(parameters, point, self.every[code]) for code in (*self.codes, *self.rivals)}
        first = min(self.codes, key=lambda code: each[code][0])
        among = _added([each[first], *(each[code] for code in self.rivals)])
        loss, pull, slope = each[first]
        return loss - among[0], pull - among[1], slope - among[2]

    def loss(self, logits: Array) -> float:
        """Return the loss of logits (k,) of a probabilistic model."""
        good, bad = list(self.codes), list(self.rivals)
        return float(np.logaddexp.reduce([0.0, *(logits[bad] - logits[good].max())]))

    def lead(self, outputs: Array) -> float:
        """Return by how much outputs (o,) are on the goal's side; above 0 it is reached."""
        logits = _logits(outputs)
        return float(logits[list(self.codes)].max() - logits[list(self.rivals)].max())

    def reached(self, outputs: Array) -> bool:
        """Report whether outputs (o,) of a model that is trained give the goal, and not by a tie."""
        return self.lead(outputs) > TIE * (1 + float(np.abs(outputs).max()))

    def reached_as(self, outputs: Array, code: Any) -> bool:
        """Report whether outputs (o,) of who is predicted the class `code` give the goal; a tie does not."""
        tied = abs(self.lead(outputs)) <= TIE * (1 + float(np.abs(outputs).max()))
        return bool(code in self.codes and not tied)


@dataclass(frozen=True, eq=False)
class ProbableWish(ClassWish):
    """The same classes where they must together be so probable."""

    probability: float = HALF

    def judged(self, training: Training, parameters: Array, point: Array) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L and ∇_x L at one person."""
        if self.plain and len(self.rivals) == len(self.every) - 1:
            return training.goal(parameters, point, self.target)
        return _added([training.goal(parameters, point, self.every[code]) for code in self.codes])

    def loss(self, logits: Array) -> float:
        """Return the loss of logits (k,): −log P."""
        return float(np.logaddexp.reduce(logits) - np.logaddexp.reduce(logits[list(self.codes)]))

    def lead(self, outputs: Array) -> float:
        """Return by how much log P is above what it must be; above 0 it is reached."""
        logits = _logits(outputs)
        good = np.logaddexp.reduce(logits[list(self.codes)])
        return float(good - np.logaddexp.reduce(logits) - np.log(self.probability))

    def reached(self, outputs: Array) -> bool:
        """Report whether outputs (o,) make the goal as probable."""
        return self.lead(outputs) >= -TIE

    def reached_as(self, outputs: Array, code: Any) -> bool:
        """Report the same, whatever is predicted."""
        return self.reached(outputs)


def _logits(outputs: Array) -> Array:
    return np.array([0.0, outputs[0]]) if outputs.size == 1 else outputs


def _added(each: list[tuple[float, Array, Array]]) -> tuple[float, Array, Array]:
    """Return L_S = −log Σ e^{−L} and its gradients, from each class's own."""
    losses = np.array([loss for loss, _, _ in each])
    least = losses.min()
    kept = np.exp(least - losses)
    shares = kept / kept.sum()
    pull, slope = (sum(share * one[part] for share, one in zip(shares, each, strict=True)) for part in (1, 2))
    return float(least - np.log(kept.sum())), np.asarray(pull), np.asarray(slope)


@dataclass(frozen=True, eq=False)
class ValueWish:
    """A value, or a range of values."""

    low: Array  # low, high: (o,), what counts as reached
    high: Array
    nearest: Array  # nearest, farthest: (o,), the box that is aimed at
    farthest: Array

    @property
    def plain(self) -> bool:
        """Whether it is one value, and how near to it is near enough."""
        return np.array_equal(self.nearest, self.farthest) and float(np.ptp(self.high - self.low)) == 0.0

    @property
    def identity(self) -> tuple:
        """The values that tell it from other goals of the same people, to the last bit."""
        return self.low, self.high, self.nearest, self.farthest

    @property
    def target(self) -> Array:
        """The value that is aimed at, or an end of the box."""
        return np.where(np.isfinite(self.nearest), self.nearest, self.farthest)

    @property
    def edge(self) -> float:
        """The squared loss at the nearest end of what counts."""
        gaps = np.minimum(np.abs(self.target - self.low), np.abs(self.high - self.target))
        return 0.5 * float((gaps**2).sum())

    def judged(self, training: Training, parameters: Array, point: Array) -> tuple[float, Array, Array]:
        """Return the loss, ∇_θ L and ∇_x L at one person."""
        target = self.target
        if not np.array_equal(self.nearest, self.farthest):
            target = np.clip(training.outputs(parameters, point), self.nearest, self.farthest)
        return training.goal(parameters, point, target)

    def loss(self, outputs: Array) -> float:
        """Return half the squared distance of outputs (o,) from the box that is aimed at."""
        return 0.5 * float(((outputs - np.clip(outputs, self.nearest, self.farthest)) ** 2).sum())

    def lead(self, outputs: Array) -> float:
        """Return how far inside the range outputs (o,) are; from 0 on it is reached."""
        return float(np.minimum(outputs - self.low, self.high - outputs).min())

    def reached(self, outputs: Array) -> bool:
        """Report whether outputs (o,) are in the range; its ends are."""
        return self.lead(outputs) >= -float(np.finfo(float).eps) * (1 + float(np.abs(outputs).max()))

    def reached_as(self, outputs: Array, prediction: Any) -> bool:
        """Report the same; what is predicted are the outputs."""
        return self.reached(outputs)


Wish = ClassWish | ValueWish


def mean(losses: Array) -> tuple[float, Array]:
    """Return the mean."""
    return float(losses.mean()), np.full(losses.size, 1 / losses.size)


def worst(at_first: Array) -> Aggregate:
    """Return a smooth largest, for losses that are these (q,) before anybody moves."""
    width = SOFT * max(float(np.abs(at_first).max()), np.finfo(float).tiny)

    def largest(losses: Array) -> tuple[float, Array]:
        top = losses.max()
        kept = np.exp((losses - top) / width)
        return float(top + width * np.log(kept.mean())), kept / kept.sum()

    return largest


def failing(edges: Array) -> Aggregate:
    """Return a smooth share of the queries whose losses are above their edges (q,)."""
    from scipy.special import expit

    widths = WIDE * edges

    def share(losses: Array) -> tuple[float, Array]:
        high = expit((losses - edges) / widths)
        return float(high.mean()), high * (1 - high) / widths / losses.size

    return share


def wish_words(goal: Any) -> str:
    """Return a goal in a few words.

    >>> wish_words({"yes", "perhaps"}), wish_words(AnyBut("no")), wish_words(249.99999999999997)
    ("'perhaps' or 'yes'", "anything but 'no'", '250')
    >>> wish_words(Between(low=300)), wish_words(Between(high=2.5)), wish_words(Between(220, 260))
    ('at least 300', 'at most 2.5', 'between 220 and 260')
    """
    match goal:
        case set() | frozenset():
            return " or ".join(wish_words(label) for label in sorted(goal, key=repr))
        case AnyBut():
            return f"anything but {' or '.join(map(wish_words, goal.labels))}"
        case Between(high=None):
            return f"at least {_end(goal.low)}"
        case Between(low=None):
            return f"at most {_end(goal.high)}"
        case Between():
            return f"between {_end(goal.low)} and {_end(goal.high)}"
        case list() | np.ndarray():  # one for each who asks, or for each output
            return ", ".join(map(wish_words, goal))
        case float() | np.floating():
            return number(goal)
    return repr(plain(goal))


def _end(value: Any) -> str:
    """Return an end of a range, which may have one for each output."""
    return number(float(value)) if np.ndim(value) == 0 else f"({', '.join(number(float(each)) for each in value)})"
