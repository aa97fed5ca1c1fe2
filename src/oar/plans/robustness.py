"""The robustness of a plan where people do not do quite what it says: they defect, are inexact, or come and go.

Each draw changes what people do, refits the model and looks at the query; `Robustness` is the distribution of what came
of it. A draw's random numbers depend on the seed and its own number alone, so more draws add to the same ones, and in
one draw whoever defects at a low rate does at a higher one.

The refits are by the model's own training (`oar.retraining`), not by the audit. Limits are not checked: what somebody
does by mistake may cost more than its budget, and break a link or a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.cost_region import spreads_of
from oar.checks import check_not_negative, check_seed, check_whole
from oar.errors import DataError, OptionError
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans.moves.changes_table import columns_of
from oar.plans.plan import Plan
from oar.plans.refits import Refits
from oar.progress import Progress, step_line
from oar.retraining.contribution import Contribution

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
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

    @property
    def draws(self) -> int:
        """How many draws there were."""
        return self.losses.size

    @property
    def success_rate(self) -> float:
        """The share of draws in which the query had the goal."""
        return float(self.successes.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval (Clopper–Pearson) of the success rate of endlessly many draws."""
        from scipy.stats import binomtest

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
        if self.failed:
            rows.append(("no refit", f"in {counted(self.failed, 'draw', 'draws')}, counted as no success"))
        return lined_up(rows)

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Robustness(success {self.success_rate:.0%} [{low:.0%}, {high:.0%}] in {self.draws:,} draws)"


def robustness(
    plan: Plan, defection: float, noise: float, stale: float, draws: int, seed: int, progress: Progress
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
    refits = Refits(plan)
    actors, persons = np.flatnonzero(refits.actors), plan.problem.persons
    several, person = np.unique(persons[actors], return_inverse=True)  # who defects does so in all of its rounds
    if not actors.size and defection > 0:
        raise OptionError("defection: nobody does anything in this plan, so nobody can defect; leave it out.")
    if not refits.moves.any() and noise > 0:
        raise OptionError("noise: no member moves in this plan, so no move can be inexact; leave it out.")
    planned = refits.verdict(refits.planned)
    before = refits.verdict(refits.before, query_moves=False)
    inexact = InexactMoves(plan, refits, noise) if noise > 0 else None
    losses, successes = np.empty(draws), np.empty(draws, dtype=bool)
    acted, replaced = np.empty(draws, dtype=np.intp), np.empty(draws, dtype=np.intp)
    size = len(refits.features)
    with step_line("robustness", progress) as on_step:
        for draw in range(draws):
            rng = np.random.default_rng((seed, draw))
            acting = refits.actors.copy()
            acting[actors] = (rng.random(several.size) >= defection)[person.reshape(-1)]
            gone, donors = rng.random(size) < stale, rng.integers(size, size=size)
            acting &= ~gone
            given = refits.if_only(acting)
            if inexact is not None:
                given = given.with_moves(inexact.moves(given.parts[0], rng))
            losses[draw], successes[draw] = refits.verdict(_replaced(refits, given, gone, donors))
            acted[draw], replaced[draw] = np.unique(persons[acting]).size, gone.sum()
            on_step(draw + 1, float(losses[draw]), np.inf)
    asked = float(defection), float(noise), float(stale), int(seed)
    found = losses, successes, acted, replaced, several.size
    return Robustness(*found, planned.loss, planned.success, before.loss, *asked)


def _replaced(refits: Refits, given: Contribution, gone: Mask, donors: NDArray[np.intp]) -> Contribution:
    """Return what is given where those who are gone have made room for copies of others, as those were before."""
    if not gone.any():
        return given
    moves, targets, weights = (part.copy() for part in given.over(refits.before))
    others, before = donors[gone], refits.before.parts
    moves[gone] = refits.features[others] - refits.features[gone]
    targets[gone], weights[gone] = before[1][others], before[2][others]
    return Contribution(moves, targets, weights)


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
