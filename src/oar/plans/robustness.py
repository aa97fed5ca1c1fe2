"""The robustness of a plan where people do not do quite what it says: they defect, are inexact, or come and go.

Each draw changes what people do, refits the model and looks at the query; `Robustness` is the distribution of what came
of it. A draw's random numbers depend on the seed and its own number alone, so more draws add to the same ones, and in
one draw whoever defects at a low rate does at a higher one.

The refits are by the model's own training (`oar.retraining`), not by the audit. Limits are not checked: what somebody
does by mistake may cost more than its budget, and break a link or a rule.

Of people in parts who acts, who has gone and who has come are a few numbers for each person, and errors are drawn when
people are read, block by block, from the seed, the draw and the block alone, so that they are the same in any parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import spreads_of
from oar.checks import check_not_negative, check_seed, check_whole
from oar.errors import DataError, OptionError
from oar.people import Chunk
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans.moves.changes_table import columns_of
from oar.plans.plan import Plan
from oar.plans.refits import Refits
from oar.progress import Progress, is_late, limited_time, step_line
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import FAILED

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
POOL = 20_000  # of more people in parts, how many those who come in one draw are copies of
BLOCK = 1_024  # people whose errors are drawn at once
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Robustness(ShownAsText):
    """The outcomes of a plan, draw by draw.

    Attributes:
        losses: (draws,) the query's goal loss; NaN where the model could not be refitted.
        successes: (draws,) whether the query had the goal without a tie; False where the refit failed.
        acted: (draws,) how many of the actors did something. replaced: (draws,) how many people were replaced.
        actors: how many the plan asks to do something.
        planned_loss, planned_success: where everyone does as planned, by the same refits.
        loss_before: where nobody does anything.
        defection, noise, stale, seed: the settings.
        asked: how many draws were asked for; fewer were made where the time was over.
    """

    losses: Array
    successes: Mask
    acted: NDArray[np.intp]
    replaced: NDArray[np.intp]
    actors: int
    planned_loss: float
    planned_success: bool
    loss_before: float
    defection: float
    noise: float
    stale: float
    seed: int
    asked: int

    @property
    def draws(self) -> int:
        """How many draws there were."""
        return self.losses.size

    @property
    def note(self) -> str:
        """A sentence where the time was over before all draws were made, else nothing."""
        left = f"The time was over after {self.draws:,} of {self.asked:,} draws."
        return left if self.draws < self.asked else ""

    @property
    def success_rate(self) -> float:
        """The share of draws in which the query had the goal; NaN where there was none."""
        return float(self.successes.mean()) if self.draws else np.nan

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval (Clopper–Pearson) of the success rate of endlessly many draws."""
        from scipy.stats import binomtest

        if not self.draws:
            return 0.0, 1.0
        found = binomtest(int(self.successes.sum()), self.draws).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)

    @property
    def failed(self) -> int:
        """The number of draws in which the model could not be refitted: a class had nobody, or there was no minimum."""
        return int(np.isnan(self.losses).sum())

    @property
    def quantiles(self) -> dict[float, float]:
        """Quantiles of the goal loss, over the draws with a refit: 5, 25, 50, 75 and 95 %."""
        found = self.losses[~np.isnan(self.losses)]
        if not found.size:
            return dict.fromkeys(QUANTILES, np.nan)
        return dict(zip(QUANTILES, np.quantile(found, QUANTILES).tolist(), strict=True))

    def frame(self) -> Any:
        """Return a DataFrame with one row a draw: loss, success, how many acted, how many were replaced."""
        import pandas

        return pandas.DataFrame(
            {"loss": self.losses, "success": self.successes, "acted": self.acted, "replaced": self.replaced},
            index=pandas.RangeIndex(self.draws, name="draw"),
        )

    def __str__(self) -> str:
        low, high = self.interval
        asked = [
            (self.defection, f"each of {counted(self.actors, 'actor', 'actors')} stays out at {self.defection:g}"),
            (self.noise, f"moves are off by {self.noise:g} standard deviations"),
            (self.stale, f"each person is replaced by another at {self.stale:g}"),
        ]
        rows = [
            ("what if", "; ".join(words for given, words in asked if given)),
            ("success", f"{self.success_rate:.0%} of {self.draws:,} draws (95 % interval {low:.0%} to {high:.0%})"),
            ("as planned", f"{'success' if self.planned_success else 'no success'}, goal loss {self.planned_loss:.4g}"),
            ("goal loss", ", ".join(f"{share:.0%}: {loss:.4g}" for share, loss in self.quantiles.items())),
            ("nobody acts", f"goal loss {self.loss_before:.4g}"),
        ]
        if self.note:
            rows.append(("time", self.note))
        if self.failed:
            rows.append(("no refit", f"in {counted(self.failed, 'draw', 'draws')}, counted as no success"))
        return lined_up(rows)

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Robustness(success {self.success_rate:.0%} [{low:.0%}, {high:.0%}] in {self.draws:,} draws)"


def robustness(
    plan: Plan,
    defection: float,
    noise: float,
    stale: float,
    draws: int,
    seed: int,
    progress: Progress,
    time_limit: float | None = None,
) -> Robustness:
    """Return what comes of a plan, draw by draw; see `Plan.robustness`."""
    for argument, value in (("defection", defection), ("noise", noise), ("stale", stale)):
        check_not_negative(argument, value)
        if argument != "noise" and value > 1:
            raise DataError(f"{argument}: must be a probability between 0 and 1, got {value!r}.")
    if not (defection or noise or stale):
        raise OptionError("defection, noise, stale: at least one must be above 0, got none; say what may go wrong.")
    check_whole("draws", draws)
    check_seed(seed)
    if stale > 0:
        plan.problem.only_one_refit("who has gone by the time of the refit (stale)")
    with limited_time(time_limit), step_line("robustness", progress) as on_step:
        refits = Refits(plan)
        _check_somebody(refits, defection, noise)
        whims = Whims(plan, refits, float(defection), float(noise), float(stale), int(seed))
        planned, before = FAILED, FAILED
        if not is_late():
            planned, before = refits.verdict(refits.planned), refits.verdict(refits.before, query_moves=False)
        found: list[tuple[float, bool, int, int]] = []
        while len(found) < draws and not is_late():
            found.append(whims.draw(len(found)))
            on_step(len(found), found[-1][0], np.inf)
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    losses, successes = np.array(columns[0], dtype=np.float64), np.array(columns[1], dtype=bool)
    acted, replaced = (np.array(column, dtype=np.intp) for column in columns[2:])
    settings = whims.defection, whims.noise, whims.stale, whims.seed, int(draws)
    outcomes = losses, successes, acted, replaced, whims.several
    return Robustness(*outcomes, planned.loss, planned.success, before.loss, *settings)


def _check_somebody(refits: Refits, defection: float, noise: float) -> None:
    """Raise where nobody can defect, or miss its aim."""
    if not refits.actors.any() and defection > 0:
        raise OptionError("defection: nobody does anything in this plan, so nobody can defect; leave it out.")
    if noise > 0 and not refits.moves.any():
        raise OptionError("noise: no member moves in this plan, so no move can be inexact; leave it out.")


class Whims:
    """What becomes of a plan in each draw; `several` is how many persons act in it."""

    def __init__(self, plan: Plan, refits: Refits, defection: float, noise: float, stale: float, seed: int) -> None:
        self.defection, self.noise, self.stale, self.seed = defection, noise, stale, seed
        self._refits, self._persons, self._actors = refits, plan.problem.persons, np.flatnonzero(refits.actors)
        several, person = np.unique(self._persons[self._actors], return_inverse=True)  # who is in several rounds
        self.several, self._person = several.size, person.reshape(-1)
        kind = ErrorsInParts if plan.problem.people.streamed else InexactMoves
        self._inexact = kind(plan, refits, noise) if noise > 0 else None

    def draw(self, number: int) -> tuple[float, bool, int, int]:
        """Return loss and success of a draw, how many persons acted, and how many people were replaced."""
        refits, size = self._refits, len(self._refits.actors)
        rng = np.random.default_rng((self.seed, number))
        acting = refits.actors.copy()
        acting[self._actors] = (rng.random(self.several) >= self.defection)[self._person]
        gone, donors = rng.random(size) < self.stale, rng.integers(size, size=size)
        acting &= ~gone
        given = refits.if_only(acting)
        if self._inexact is not None:
            given = given.with_moves(self._inexact.moves(given.parts[0], rng))
        loss, success = refits.verdict(_replaced(refits, given, gone, donors))
        return loss, success, np.unique(self._persons[acting]).size, int(gone.sum())


def _replaced(refits: Refits, given: Contribution, gone: Mask, donors: NDArray[np.intp]) -> Contribution:
    """Return what is given where those who are gone have made room for copies of others, as those were before."""
    if not gone.any():
        return given
    moves, targets, weights = given.over(refits.before)
    before, features, size = refits.before, refits.features, len(gone)
    streamed = refits.problem.people.streamed
    pool = np.unique(donors[:POOL]) if streamed and size > POOL else np.arange(size)
    place = donors % pool.size  # who has come, among those whose rows are kept
    others, kept = features[pool], before.parts[1][pool]
    moves = np.where(gone[:, None], _rows_of(features, others, place) - features, moves)
    targets = np.where(gone[:, None], _rows_of(features, kept, place), targets)
    return Contribution(moves, targets, np.where(gone, before.parts[2][pool[place]], weights))


def _rows_of(features: Any, rows: Array, place: NDArray[np.intp]) -> Any:
    """Return one of some rows (m, r) for each person; of people in parts, as rows in parts."""
    if isinstance(features, np.ndarray):
        return rows[place]
    return features.made(partial(_picked, rows=rows), place[:, None], width=rows.shape[1])


def _picked(features: Array, place: NDArray[np.intp], rows: Array) -> Array:
    return rows[place[:, 0]]


class ErrorsInParts:
    """Inexact moves of people in parts: every number misses its aim by a Gaussian error, drawn when it is read."""

    def __init__(self, plan: Plan, refits: Refits, noise: float) -> None:
        weights = refits.before.parts[2] / refits.before.parts[2].sum()
        features = refits.features
        mean = weights @ features
        self._widths = noise * np.sqrt(weights @ (features - mean) ** 2)

    def moves(self, planned: Any, rng: np.random.Generator) -> Any:
        """Return what comes of moves: only what moves at all is inexact."""
        key = tuple(int(one) for one in rng.integers(1 << 32, size=2))
        return planned.made(partial(_missed, widths=self._widths), DrawnErrors(key, self._widths.size))


@dataclass(frozen=True)
class DrawnErrors:
    """Standard normal numbers for everyone, block by block of positions."""

    key: tuple[int, ...]
    width: int

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return some people's."""
        blocks = range(chunk.start // BLOCK, (chunk.stop - 1) // BLOCK + 1)
        drawn = [np.random.default_rng((*self.key, one)).standard_normal((BLOCK, self.width)) for one in blocks]
        first = blocks.start * BLOCK
        return np.concatenate(drawn)[chunk.start - first : chunk.stop - first]


def _missed(aims: Array, errors: Array, widths: Array) -> Array:
    return np.where(aims != 0, aims + widths * errors, 0.0)


class InexactMoves:
    """Moves that are carried out inexactly: numbers miss their aim by a Gaussian error; see `Plan.robustness`."""

    def __init__(self, plan: Plan, refits: Refits, noise: float) -> None:
        problem, columns, weights = plan.problem, columns_of(plan.problem.people), plan.problem.people.row_weights
        self._noise = noise
        widths = noise * spreads_of(refits.features, weights / weights.sum())
        switched = (column.name for column in columns.schema if column.kind in ("category", "boolean"))
        self._switches = [columns.places[name] for name in switched]
        for switch in self._switches:
            widths[switch] = 0.0
        self._numbers = np.flatnonzero((widths > 0) & refits.moves.any(axis=0))
        self._widths = widths[self._numbers]
        self._lower, self._upper, self._steps = -np.inf, np.inf, np.zeros(self._numbers.size)  # type: Any, Any, Array
        if problem.limits is None:
            return
        measured = problem.measured(False)  # everyone's room in each number that moves, as changes, and its steps
        _, own, place = np.intersect1d(self._numbers, measured.columns, return_indices=True)
        shape = len(weights), self._numbers.size
        self._lower, self._upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        self._lower[:, own] = (measured.unruled.lower / measured.costs)[:-1, place]  # the query is last
        self._upper[:, own] = (measured.unruled.upper / measured.costs)[:-1, place]
        self._steps[own] = measured.steps[place]

    def moves(self, planned: Array, rng: np.random.Generator) -> Array:
        """Return what comes of moves (n, d): only what moves at all is inexact."""
        found = planned.copy()
        aims = planned[:, self._numbers]
        ends = np.clip(aims + self._widths * rng.standard_normal(aims.shape), self._lower, self._upper)
        stepped = self._steps > 0
        if stepped.any():
            steps = self._steps[stepped]
            # Bounds that are no whole number of steps lie between two; the slack is for rounding in their division.
            least = np.ceil(self._lower[:, stepped] / steps - 1e-9)
            most = np.floor(self._upper[:, stepped] / steps + 1e-9)
            ends[:, stepped] = np.clip(np.rint(ends[:, stepped] / steps), least, most) * steps
        found[:, self._numbers] = np.where(aims != 0, ends, 0.0)
        for place in self._switches:
            found[rng.random(len(planned)) < self._noise, place] = 0.0
        return found
