"""The power curve: what comes of a plan if fewer of its members take part, or each may go less far.

Nothing is planned anew. Fewer members are a random part of the plan's movers. With a smaller budget each keeps to its
planned move as far as the budget goes, or answers a signal (θ, v) once, within its limits: the plan's own, or the one
before any move, which knows more of small budgets; all do whichever does best for all. Every cell is a true refit. So a
cell shows what can be done; the best plan for it may do better.

Over rounds members keep to their planned moves as far as the budget goes, and every cell is an audited replay.

For nearest centroid on plain features every cell is the exact optimum of those members at that budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import members_in_share, random_order
from oar.actions.perturb import check_budget
from oar.checks import check_seed, with_near_names
from oar.errors import DataError, NumericsError
from oar.online import OnlineProblem
from oar.pictures.notebook import ShownAsText
from oar.plans import ClassPlan, MemberPlan, Plan, Result
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem
from oar.questions.least.trials import (
    after,
    halve,
    has_closed_form,
    moves_of,
    own_scale,
    scaled,
    unit_budgets,
    with_members,
)
from oar.referee import audit
from oar.signals.base import Outcome
from oar.solvers.centroids.exact import Reach, reach_of
from oar.solvers.descent.one_response import OneResponse
from oar.solvers.rounds.descent import limits_of
from oar.tolerances import CONVERGED, ROUNDING

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Cell = tuple[float, bool]
SHARES = (0.25, 0.5, 0.75, 1.0)
PARTS = (0.25, 0.5, 0.75, 1.0)  # of the plan's own budget
REFINED = 2  # tries for the smallest share that suffices; half as many for the smallest budget


@dataclass(frozen=True, eq=False)
class Power(ShownAsText):
    """The outcome of a plan with fewer members and smaller budgets; rows are budgets, columns are shares.

    Attributes:
        shares: (s,), of the plan's movers, drawn at random, a larger share containing a smaller one; rising.
        budgets: (b,), common budgets; factors on everyone's own where those differ; rising.
        losses: (b, s), the goal loss of a true refit; NaN where it did not converge.
        success: (b, s), whether the query has the goal there.
        at_most_budget: the smallest budget that was found to suffice with all movers; None if none was.
        at_most_share: the smallest share that was found to suffice at the plan's own budget; None if none was.
        note: what was done, and what it shows.
    """

    shares: Array
    budgets: Array
    losses: Array
    success: NDArray[np.bool_]
    at_most_budget: float | None
    at_most_share: float | None
    note: str
    _plan_of: Callable[[float, float], Plan] = field(repr=False)

    def __str__(self) -> str:
        """Show the goal losses as a table; a tick is a success."""
        rows = [("", *(f"{share:.0%}" for share in self.shares))]
        for budget, losses, reached in zip(self.budgets, self.losses, self.success, strict=True):
            cells = (f"{'✓' if good else '✗'} {loss:.4g}" for loss, good in zip(losses, reached, strict=True))
            rows.append((f"{budget:.4g}", *cells))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(["goal loss by budget (rows) and share of the movers (columns)", *lines, "", self.note])

    def plan(self, budget: float, share: float) -> Plan:
        """Return the plan of one cell, for `oar.audit`."""
        return self._plan_of(budget, share)


@with_near_names
def power(
    result: Result, shares: Sequence[float] | None = None, budgets: Sequence[float] | None = None, seed: int = 0
) -> Power:
    """Return success and goal loss of a plan against participation and budget.

    It takes one refit a cell, and a few more: some 25 with the usual cells. Each cell is a lower bound on what the best
    plan of those members at that budget achieves (for nearest centroid on plain features, it is the best).

    Args:
        result: a result of `oar.collective` or `oar.joint` in which members move.
        shares: shares of the plan's movers; a quarter, half, three quarters and all if left out.
        budgets: common budgets, or factors where everyone has its own; a quarter, half, three quarters and all of the
            plan's if left out.
        seed: of the draw of members.
    """
    problem = result.problem
    problem.only_moves("a power curve")
    movers = moves_of(result).any(axis=1)
    if not movers.any():
        raise DataError("result: must be one in which members move, got one in which none does; use oar.collective.")
    check_seed(seed)
    own = own_scale(problem)
    parts = _checked(SHARES if shares is None else shares, "shares", 1.0)
    scales = _checked([part * own for part in PARTS] if budgets is None else budgets, "budgets", np.inf)
    kind = ExactCells if has_closed_form(problem) else ReplayedCells if problem.over_rounds else RefitCells
    return _swept(kind(result, np.flatnonzero(movers), int(seed)), parts, scales, own)


def _checked(values: Any, argument: str, most: float) -> Array:
    try:
        found = np.array([check_budget(value, argument) for value in values])
    except TypeError:
        raise DataError(f"{argument}: must be a list of numbers, got {values!r}.") from None
    if not found.size or found.max() > most:
        raise DataError(f"{argument}: must be at least one number between 0 and {most:g}, got {list(values)!r}.")
    return np.unique(found)


class Cells:
    """Judges cells of a power curve; `note` says how."""

    note: str

    def __init__(self, result: Result, movers: NDArray[np.intp], seed: int) -> None:
        self.result, self.problem = result, result.problem
        self.order = movers[random_order(movers.size, seed)]
        self._known: dict[tuple[float, int], Cell] = {}

    def members(self, share: float) -> Mask:
        """Return a share of the plan's movers; shares are nested."""
        mask = np.zeros(self.problem.people.size, dtype=bool)
        mask[self.order[: members_in_share(self.order.size, share)]] = True
        return mask

    def at(self, scale: float, share: float) -> Cell:
        """Return the goal loss and whether the query has the goal; looks once."""
        key = scale, members_in_share(self.order.size, share)
        if key not in self._known:
            self._known[key] = self.judged(scale, share)
        return self._known[key]

    def judged(self, scale: float, share: float) -> Cell:
        """Return the goal loss and whether the query has the goal."""
        raise NotImplementedError

    def plan(self, scale: float, share: float) -> Plan:
        """Return the plan that was judged there."""
        raise NotImplementedError

    def few(self, scale: float, share: float) -> Problem:
        """Return the problem with those members and that budget alone; the query may move as far as before."""
        query = self.problem.query
        if query.budget is None and self.problem.allowance.single:
            query = replace(query, budget=self.problem.query_budget)
        smaller = scaled(replace(self.problem, query=query), scale)
        return with_members(smaller, self.members(share))


class ExactCells(Cells):
    """Nearest centroid on plain features: every cell's optimum has a closed form."""

    note = "Every cell is the least loss that these members can reach at that budget, in closed form."

    def judged(self, scale: float, share: float) -> Cell:
        """Look at how far the classes can move."""
        reach = self._reach(scale, share)
        return float(reach.loss(reach.radii)), bool(reach.lead(reach.radii) > 0)

    def plan(self, scale: float, share: float) -> Plan:
        """Move every class in its best direction."""
        return ClassPlan(self.few(scale, share), self.result.plan.query_move, self._reach(scale, share).directions())

    def _reach(self, scale: float, share: float) -> Reach:
        """Look from where the query is after its own move."""
        reach = reach_of(self.few(scale, share))
        return replace(reach, offsets=reach.offsets - self.result.plan.query_move)


class ReplayedCells(Cells):
    """Over rounds: members keep to their moves as far as a budget goes, and every cell is audited."""

    note = (
        "Every cell is an audited replay of all rounds. Members keep to their planned moves as far as the budget goes. "
        "Nothing was planned anew, so the best plans for a cell may do better."
    )

    def judged(self, scale: float, share: float) -> Cell:
        """Replay all rounds with some members' moves at a budget."""
        found = audit(self.plan(scale, share))
        return found.loss, found.success

    def plan(self, scale: float, share: float) -> Plan:
        """Return the moves within those members' limits that are nearest to what is planned."""
        few = self.few(scale, share)
        assert isinstance(few, OnlineProblem)
        return member_plan(few, self.result.plan.query_move, limits_of(few).project(moves_of(self.result)))


class RefitCells(Cells):
    """Other models: the plan's signal is answered at other budgets, and every cell is refitted."""

    note = (
        "Every cell is a true refit. Members keep to their planned moves as far as the budget goes, or answer the "
        "plan's signal, or the one before any move, once at that budget. Nothing was planned anew, so the best plans "
        "for a cell may do better."
    )

    def __init__(self, result: Result, movers: NDArray[np.intp], seed: int) -> None:
        super().__init__(result, movers, seed)
        query_move = result.plan.query_move
        self._query_move = query_move
        self._answering = OneResponse.of(result.problem, query=bool(query_move.any()))
        self._planned = self._answering.in_cost(moves_of(result))
        self._units = unit_budgets(result.problem)
        self._own = own_scale(result.problem)
        self._full = self._answering.refit(self._planned, self._query_move)
        self._still = self._answering.refit(None, self._query_move)
        self._slopes: list[Array] = []
        for outcome in (self._still, self._full):
            with suppress(NumericsError):  # where there is no signal, nothing can be answered
                self._slopes.append(self._answering.slopes(outcome, outcome.moves))
        self._rows: dict[float, tuple[Array, Outcome | None]] = {self._own: (self._planned, self._full)}

    def judged(self, scale: float, share: float) -> Cell:
        """Refit with some members' moves at a budget."""
        everyone = members_in_share(self.order.size, share) == self.order.size
        if everyone and scale == self._own:
            return self.result.loss, self.result.success
        moves, outcome = self._row(scale)
        if not everyone:
            outcome = self._refitted(np.where(self.members(share)[:, None], moves, 0.0))
        return (np.nan, False) if outcome is None else self._answering.judged(outcome, self._query_move)

    def plan(self, scale: float, share: float) -> Plan:
        """Return the moves as they were refitted."""
        moves = self._answering.in_features(np.where(self.members(share)[:, None], self._row(scale)[0], 0.0))
        return MemberPlan(self.few(scale, share), self.result.plan.query_move, moves)

    def _row(self, scale: float) -> tuple[Array, Outcome | None]:
        """Return all movers' moves at a budget, and what a refit says of them."""
        if scale not in self._rows:
            tries: list[tuple[Array, Outcome | None]] = [(np.zeros_like(self._planned), self._still)]
            tries += [(moves, self._refitted(moves)) for moves in self._answers(scale * self._units)]
            self._rows[scale] = min(tries, key=lambda one: np.inf if one[1] is None else one[1].loss)
        return self._rows[scale]

    def _answers(self, budgets: Array) -> list[Array]:
        """Return moves that keep to the plan as far as budgets (n,) go, and answers to the signals."""
        answering, planned = self._answering, self._planned
        moving = np.zeros((len(planned), 1), dtype=bool)
        moving[self.order] = True
        answers = [np.where(moving, answering.respond(slopes, budgets), 0.0) for slopes in self._slopes]
        if self.problem.limits is None:
            return [self.problem.allowance.norm.project(planned, budgets), *answers]
        fits = answering.lengths(planned) <= budgets * (1 + ROUNDING)
        instead = answers[0] if answers else np.zeros_like(planned)
        return [np.where(fits[:, None], planned, instead), *answers]

    def _refitted(self, moves: Array) -> Outcome | None:
        with suppress(NumericsError):
            outcome = self._answering.refit(moves, self._query_move, self._full)
            if outcome.fit.converged or outcome.fit.residual <= CONVERGED:
                return outcome
        return None


def _swept(cells: Cells, shares: Array, scales: Array, own: float) -> Power:
    found = [[cells.at(float(scale), float(share)) for share in shares] for scale in scales]
    by_budget = {float(scale): cells.at(float(scale), 1.0)[1] for scale in scales if 1.0 in shares}
    by_share = {float(share): cells.at(own, float(share))[1] for share in shares if own in scales}
    return Power(
        shares,
        scales,
        np.array([[loss for loss, _ in row] for row in found]),
        np.array([[reached for _, reached in row] for row in found], dtype=bool),
        _least(by_budget, lambda scale: cells.at(scale, 1.0)[1], REFINED // 2),
        _least(by_share, lambda share: cells.at(own, share)[1], REFINED),
        f"Fewer members are a random share of the plan's {cells.order.size:,} movers. {cells.note}",
        cells.plan,
    )


def _least(known: dict[float, bool], reaches: Callable[[float], bool], tries: int) -> float | None:
    """Return the smallest value that was found to do, between the known ones by a few more tries."""
    good = [value for value, does in known.items() if does]
    if not good:
        return None
    high = min(good)
    low = max((value for value in known if value < high), default=0.0)
    return halve(low, high, lambda value: value if reaches(value) else None, after(tries))[1]
