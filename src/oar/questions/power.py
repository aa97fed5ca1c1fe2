"""The power curve: what comes of a plan if fewer of its members take part, or each may go less far.

Nothing is planned anew. Fewer members are a random part of those who act in the plan: who move, are relabelled or
leave. With a smaller budget each keeps to its planned move as far as the budget goes, or answers a signal (θ, v) once,
within its limits: the plan's own, or the one before any move, which knows more of small budgets; all do whichever does
best for all. Every cell is a true refit. So a cell shows what can be done; the best plan for it may do better.

Over rounds, of black boxes, and where labels change or members leave, members keep to what is planned as far as the
budget goes, and every cell is audited. People in parts walk the plan's signal path within smaller balls, or stay.

For nearest centroid on plain features every cell is the exact optimum of those members at that budget.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.actions.participation import members_in_share, random_order
from oar.actions.perturb import check_budget
from oar.checks import check_seed, check_whole, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.estimators.black_box import Rate
from oar.people.wording import counted
from oar.pictures.notebook import ShownAsText
from oar.plans import ClassPlan, MemberPlan, Plan, Result
from oar.plans.plan import LeverPlan, SignalPathPlan
from oar.plans.result import Audit
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem
from oar.progress import OnStep, Progress, is_late, silent
from oar.questions.least.trials import (
    after,
    halve,
    has_closed_form,
    lengths_of,
    moves_of,
    own_scale,
    scaled,
    unit_budgets,
    with_members,
)
from oar.referee import audit
from oar.retraining.black_box import AUDIT, BlackBoxTraining
from oar.retraining.contribution import Contribution
from oar.signals.base import Outcome
from oar.solvers.centroids.exact import Reach, reach_of
from oar.solvers.descent.one_response import OneResponse
from oar.solvers.registry import bounded
from oar.solvers.rounds.descent import limits_of
from oar.tolerances import CONVERGED, ROUNDING

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
SHARES = (0.25, 0.5, 0.75, 1.0)
PARTS = (0.25, 0.5, 0.75, 1.0)  # of the plan's own budget
REFINED = 2  # tries for the smallest share that suffices; half as many for the smallest budget
USUAL = 5  # trainings of a black box for a cell
AS_PLANNED = 1.0  # the only budget where nobody moves


class PowerCell(NamedTuple):
    """A cell: the goal loss, whether the query has the goal, and where training is random the interval of its rate."""

    loss: float = np.nan
    success: bool = False
    interval: tuple[float, float] = (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class Power(ShownAsText):
    """The outcome of a plan with fewer members and smaller budgets; rows are budgets, columns are shares.

    Attributes:
        shares: (s,), of those who act in the plan, drawn at random, a larger share containing a smaller one; rising.
        budgets: (b,), common budgets; factors on everyone's own where those differ; rising. Where nobody moves there
            is one row, 1, which is the plan as it is.
        losses: (b, s), the goal loss of a true refit; NaN where it did not converge, or was not looked at in time.
        success: (b, s), whether the query has the goal there.
        at_most_budget: the smallest budget that was found to suffice with all who act; None if none was.
        at_most_share: the smallest share that was found to suffice at the plan's own budget; None if none was.
        note: what was done, and what it shows.
        acting: (s,), how many act.
        intervals: (b, s, 2), the confidence interval of the rate of success where training is random; elsewhere NaN.
    """

    shares: Array
    budgets: Array
    losses: Array
    success: NDArray[np.bool_]
    at_most_budget: float | None
    at_most_share: float | None
    note: str
    acting: NDArray[np.intp]
    intervals: Array
    _plan_of: Callable[[float, float], Plan] = field(repr=False)

    def __str__(self) -> str:
        """Show the goal losses as a table; a tick is a success."""
        rows = [("", *(f"{share:.0%}" for share in self.shares)), ("", *(f"{count:,}" for count in self.acting))]
        for budget, losses, reached in zip(self.budgets, self.losses, self.success, strict=True):
            cells = (f"{'✓' if good else '✗'} {loss:.4g}" for loss, good in zip(losses, reached, strict=True))
            rows.append((f"{budget:.4g}", *cells))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        head = "goal loss by budget (rows) and share and number of those who act (columns)"
        return "\n".join([head, *lines, "", self.note])

    def plan(self, budget: float, share: float) -> Plan:
        """Return the plan of one cell, for `oar.audit`."""
        return self._plan_of(budget, share)


@with_near_names
def power(
    result: Result,
    shares: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    seed: int = 0,
    *,
    trainings: int | None = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Power:
    """Return success and goal loss of a plan against participation and budget.

    It takes one refit a cell, and a few more: some 25 with the usual cells. Where training is random, each cell is
    trained several times, with the first seeds of an audit, and its success is that the interval of the rate is above
    what the black box asks for, as in an audit. Each cell is a lower bound on what the best plan of those members at
    that budget achieves (for nearest centroid on plain features, it is the best).

    Args:
        result: a result of `oar.collective` or `oar.joint` in which members move, change labels or leave.
        shares: shares of those who act in the plan; a quarter, half, three quarters and all if left out.
        budgets: common budgets, or factors where everyone has its own; a quarter, half, three quarters and all of the
            plan's if left out. Where nobody moves there are none.
        seed: of the draw of members.
        trainings: of a black box: the number of trainings for all cells together, at least one for each; if left
            out five for each, or as many as it takes to tell a success. Where training is not random it is one for
            each.
        time_limit: seconds after which no further cell is looked at: what is left is NaN and no success, and the note
            says so. None is no limit.
        progress: whether to show cells on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    problem = result.problem
    check_seed(seed)
    judge = _judge_of(problem, trainings)
    kind = next(kind for fits, kind in KINDS if fits(problem))
    parts = _checked(SHARES if shares is None else shares, "shares", 1.0)
    scales = kind.scales(problem, budgets)
    with bounded("power", progress, None, time_limit) as on_step:
        cells = kind(result, int(seed), judge, on_step)
        judge.expect(parts.size * scales.size)
        return _swept(cells, parts, scales)


def _checked(values: Any, argument: str, most: float) -> Array:
    try:
        found = np.array([check_budget(value, argument) for value in values])
    except TypeError:
        raise DataError(f"{argument}: must be a list of numbers, got {values!r}.") from None
    if not found.size or found.max() > most:
        raise DataError(f"{argument}: must be at least one number between 0 and {most:g}, got {list(values)!r}.")
    return np.unique(found)


class CellJudge:
    """Judges the plans of cells, by audits."""

    note = "Every cell is audited."

    def expect(self, cells: int) -> None:
        """Hear how many cells there are to be."""

    def __call__(self, plan: Plan) -> PowerCell:
        """Audit a plan."""
        return _audited(audit(plan))


class TrainedCellJudge(CellJudge):
    """Judges plans of a black box as an audit does, and with its seeds, by so many trainings for all together."""

    def __init__(self, problem: Problem, most: int | None) -> None:
        self._asking, self._most, self._each = BlackBoxTraining(problem, AUDIT), most, 1
        self._box = self._asking.box

    def expect(self, cells: int) -> None:
        """Share out the trainings; a few are for what is looked at between the cells."""
        if self._asking.is_random():
            numbers = range(1, self._box.refits + 1)
            least = next(one for one in numbers if self._rate(one, one).interval[0] >= self._box.at_least)
            given = max(least, USUAL) if self._most is None else self._most // (cells + 2 * REFINED)
            self._each = max(1, min(self._box.refits, given))

    def _rate(self, reached: int, of: int) -> Rate:
        return Rate(reached, of, self._box.confidence)

    @property
    def note(self) -> str:  # type: ignore[override]  # it is known once there is a number of cells
        """How cells are judged."""
        told = f"Every cell is judged by {counted(self._each, 'true training', 'true trainings')}."
        if self._asking.is_random() and self._rate(self._each, self._each).interval[0] < self._box.at_least:
            return f"{told} That is too few to tell a success; allow more with trainings."
        return told

    def __call__(self, plan: Plan) -> PowerCell:
        """Train as often as there are trainings for a cell."""
        refits = (self._asking.seeded(plan.contribution(), number) for number in range(self._each))
        losses, reached = zip(*(self._asking.said(refit, plan.query_move) for refit in refits), strict=True)
        if not self._asking.is_random():
            return PowerCell(losses[0], reached[0])
        rate = self._rate(sum(reached), self._each)
        return PowerCell(float(np.mean(losses)), rate.interval[0] >= self._box.at_least, rate.interval)


def _judge_of(problem: Problem, trainings: int | None) -> CellJudge:
    if trainings is not None:
        check_whole("trainings", trainings)
    if problem.model.only_asked:
        return TrainedCellJudge(problem, trainings)
    if trainings is not None:
        raise OptionError(f"trainings: is for an oar.BlackBox, and here cells are refitted once, got {trainings!r}.")
    return CellJudge()


class Cells:
    """Judges cells of a power curve; `note` says how, and where it has braces by whom."""

    note: str

    def __init__(self, result: Result, seed: int, judge: CellJudge, on_step: OnStep = silent) -> None:
        self.result, self.problem, self._judge, self._on_step = result, result.problem, judge, on_step
        actors = np.flatnonzero(self.actors())
        if not actors.size:
            raise DataError(
                "result: must be one in which members move, change labels or leave, got one in which none does; use "
                "oar.collective."
            )
        self.order = actors[random_order(actors.size, seed)]
        self.own = self.own_scale(self.problem)
        self._known = {(self.own, actors.size): self.as_planned()}
        self.skipped: set[tuple[float, int]] = set()

    @property
    def judged_by(self) -> str:
        """Who judges the plans of cells, in a sentence."""
        return self._judge.note

    @staticmethod
    def own_scale(problem: Problem) -> float:
        """Return the scale of the plan as it is."""
        return own_scale(problem)

    @classmethod
    def scales(cls, problem: Problem, budgets: Any) -> Array:
        """Return the scales that are asked for."""
        own = cls.own_scale(problem)
        return _checked([part * own for part in PARTS] if budgets is None else budgets, "budgets", np.inf)

    def actors(self) -> Mask:
        """Return who does something in the plan, part by part."""
        plan, people = self.result.plan, self.problem.people
        acts = np.zeros(people.size, dtype=bool)
        for chunk in people.chunks():
            acts[chunk.start : chunk.stop] = plan.of_chunk(chunk).any(axis=1)
        return acts

    def as_planned(self) -> PowerCell:
        """Return the cell of the plan itself."""
        return _audited(self.result.audit)

    def acting(self, share: float) -> int:
        """Return how many act."""
        return members_in_share(self.order.size, share)

    def members(self, share: float) -> Mask:
        """Return a share of those who act in the plan; shares are nested."""
        mask = np.zeros(self.problem.people.size, dtype=bool)
        mask[self.order[: self.acting(share)]] = True
        return mask

    def at(self, scale: float, share: float) -> PowerCell:
        """Return a cell, which is looked at once; after the time is over, one that says nothing."""
        key = scale, self.acting(share)
        if key not in self._known:
            if is_late():
                self.skipped.add(key)
                return PowerCell()
            self._known[key] = self.judged(scale, share)
            self._on_step(len(self._known), self._known[key].loss, np.inf)
        return self._known[key]

    def judged(self, scale: float, share: float) -> PowerCell:
        """Return the cell, by what is said of its plan."""
        return self._judge(self.plan(scale, share))

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


def _audited(found: Audit) -> PowerCell:
    rate = found.rate
    return PowerCell(found.loss, found.success, (np.nan, np.nan) if rate is None else rate.interval)


class ExactCells(Cells):
    """Nearest centroid on plain features: every cell's optimum has a closed form."""

    note = "Every cell is the least loss that these members can reach at that budget, in closed form."

    def as_planned(self) -> PowerCell:
        """Look at it like at the others: a plan that stops short of the optimum is not what these members can do."""
        return self.judged(self.own, 1.0)

    def judged(self, scale: float, share: float) -> PowerCell:
        """Look at how far the classes can move."""
        reach = self._reach(scale, share)
        return PowerCell(float(reach.loss(reach.radii)), bool(reach.lead(reach.radii) > 0))

    def plan(self, scale: float, share: float) -> Plan:
        """Move every class in its best direction."""
        return ClassPlan(self.few(scale, share), self.result.plan.query_move, self._reach(scale, share).directions())

    def _reach(self, scale: float, share: float) -> Reach:
        """Look from where the query is after its own move."""
        reach = reach_of(self.few(scale, share))
        return replace(reach, offsets=reach.offsets - self.result.plan.query_move)


class KeptCells(Cells):
    """Over rounds, and of black boxes: members keep to their moves as far as a budget goes."""

    note = (
        "{} Members keep to their planned moves as far as the budget goes. Nothing was planned "
        "anew, so the best plans for a cell may do better."
    )

    def plan(self, scale: float, share: float) -> Plan:
        """Return the moves within those members' limits that are nearest to what is planned."""
        few = self.few(scale, share)
        return member_plan(few, self.result.plan.query_move, _within(few, moves_of(self.result)))


def _within(problem: Problem, moves: Array) -> Array:
    """Return moves (n, d) as far as a problem allows; of a table's, which are whole, those alone that fit."""
    if problem.over_rounds:
        return limits_of(problem).project(moves)  # type: ignore[arg-type]
    if problem.limits is not None:
        room = problem.allowance.everyones(problem.people.size) * (1 + ROUNDING)
        return np.where((lengths_of(problem, moves) <= room)[:, None], moves, 0.0)
    return problem.allowance.norm.project(moves, problem.allowance.everyones(problem.people.size))


class LeverCells(Cells):
    """Labels and leavers: some of those who act do as planned, and moves go as far as a budget."""

    note = (
        "{} Those who act are relabelled or leave as planned, and keep to their planned moves as "
        "far as the budget goes. Nothing was planned anew, so the best plans for a cell may do better."
    )

    def __init__(self, result: Result, seed: int, judge: CellJudge, on_step: OnStep = silent) -> None:
        self._before = Contribution.of(result.problem.people, result.problem.regresses)
        self._planned = result.plan.contribution()
        super().__init__(result, seed, judge, on_step)

    @staticmethod
    def own_scale(problem: Problem) -> float:
        """Return the scale of the plan as it is."""
        return own_scale(problem) if problem.moves else AS_PLANNED

    @classmethod
    def scales(cls, problem: Problem, budgets: Any) -> Array:
        """Return the scales that are asked for; where nobody moves there is one."""
        if problem.moves:
            return super().scales(problem, budgets)
        if budgets is not None:
            raise OptionError(
                f"budgets: are for members who move, and here they do not, got {budgets!r}; leave it out."
            )
        return np.array([AS_PLANNED])

    def actors(self) -> Mask:
        """Return who moves, is relabelled or leaves."""
        return self._planned.acts(self._before)

    def few(self, scale: float, share: float) -> Problem:
        """Return the problem with that budget; whoever does not act may still be relabelled or leave."""
        return super().few(scale, share) if self.problem.moves else self.problem

    def plan(self, scale: float, share: float) -> Plan:
        """Return what is planned for those members."""
        few = self.few(scale, share)
        moves, targets, weights = self._planned.if_only(self.members(share), self._before).over(self._before)
        away = (weights == 0) & (self._before.parts[2] > 0)
        return LeverPlan(few, self.result.plan.query_move, _within(few, moves), targets=targets, away=away)


class RefitCells(Cells):
    """Other models: the plan's signal is answered at other budgets, and every cell is refitted."""

    note = (
        "Every cell is a true refit. Members keep to their planned moves as far as the budget goes, or answer the "
        "plan's signal, or the one before any move, once at that budget. Nothing was planned anew, so the best plans "
        "for a cell may do better."
    )

    def __init__(self, result: Result, seed: int, judge: CellJudge, on_step: OnStep = silent) -> None:
        super().__init__(result, seed, judge, on_step)
        self._query_move = result.plan.query_move
        self._units = unit_budgets(result.problem)
        self._rows: dict[float, tuple[Array, Outcome | None]] = {}

    @cached_property
    def _answering(self) -> OneResponse:
        return OneResponse.of(self.problem, query=bool(self._query_move.any()))

    @cached_property
    def _planned(self) -> Array:
        return self._answering.in_cost(moves_of(self.result))

    @cached_property
    def _full(self) -> Outcome:
        return self._answering.refit(self._planned, self._query_move)

    @cached_property
    def _still(self) -> Outcome:
        return self._answering.refit(None, self._query_move)

    @cached_property
    def _slopes(self) -> list[Array]:
        found = []
        for outcome in (self._still, self._full):
            with suppress(NumericsError):  # where there is no signal, nothing can be answered
                found.append(self._answering.slopes(outcome, outcome.moves))
        return found

    def judged(self, scale: float, share: float) -> PowerCell:
        """Refit with some members' moves at a budget."""
        moves, outcome = self._row(scale)
        if self.acting(share) < self.order.size:
            outcome = self._refitted(np.where(self.members(share)[:, None], moves, 0.0))
        return PowerCell() if outcome is None else PowerCell(*self._answering.judged(outcome, self._query_move))

    def plan(self, scale: float, share: float) -> Plan:
        """Return the moves as they were refitted."""
        moves = self._answering.in_features(np.where(self.members(share)[:, None], self._row(scale)[0], 0.0))
        return MemberPlan(self.few(scale, share), self.result.plan.query_move, moves)

    def _row(self, scale: float) -> tuple[Array, Outcome | None]:
        """Return all movers' moves at a budget, and what a refit says of them."""
        if scale == self.own:
            return self._planned, self._full
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


class SignalPathCells(Cells):
    """People in parts: the plan's signal path is walked within smaller balls, and who does not act stays."""

    note = (
        "{} Members walk the plan's signal path within what their budget allows. Nothing was "
        "planned anew, so the best plans for a cell may do better."
    )

    def plan(self, scale: float, share: float) -> Plan:
        """Return the same walk, within those members' limits."""
        few, plan = self.few(scale, share), self.result.plan
        if not isinstance(plan, SignalPathPlan):  # a direction for each class, which budgets scale
            return replace(plan, problem=few)
        spec = replace(plan.spec, allowance=few.allowance, run=secrets.token_hex(6))  # kept moves are the plan's own
        return replace(plan, problem=few, spec=spec, training=None)


KINDS: tuple[tuple[Callable[[Problem], bool], type[Cells]], ...] = (
    (lambda problem: problem.levers.given, LeverCells),
    (has_closed_form, ExactCells),
    (lambda problem: problem.people.streamed, SignalPathCells),
    (lambda problem: problem.over_rounds or problem.model.only_asked, KeptCells),
    (lambda problem: True, RefitCells),
)


def _swept(cells: Cells, shares: Array, scales: Array) -> Power:
    """Look at the plan's own budget first, then at all members with other budgets, then at the rest."""
    own = cells.own
    places = [(float(scale), float(share)) for scale in scales for share in shares]
    found = {place: cells.at(*place) for place in sorted(places, key=lambda at: (at[0] != own, at[1] != 1.0))}
    grid = [[found[float(scale), float(share)] for share in shares] for scale in scales]
    by_budget = {scale: cell.success for (scale, share), cell in found.items() if share == 1.0}
    by_share = {share: cell.success for (scale, share), cell in found.items() if scale == own}
    late = sum((scale, cells.acting(share)) in cells.skipped for scale, share in places)
    least_budget = _least(by_budget, lambda scale: cells.at(scale, 1.0).success, REFINED // 2)
    least_share = _least(by_share, lambda share: cells.at(own, share).success, REFINED)
    missing = f" The time was over before {late:,} of {len(places):,} cells were looked at." if late else ""
    return Power(
        shares,
        scales,
        np.array([[cell.loss for cell in row] for row in grid]),
        np.array([[cell.success for cell in row] for row in grid], dtype=bool),
        least_budget,
        least_share,
        f"Fewer members are a random share of the plan's {counted(cells.order.size, 'actor', 'actors')}. "
        f"{cells.note.format(cells.judged_by)}{missing}",
        np.array([cells.acting(float(share)) for share in shares]),
        np.array([[cell.interval for cell in row] for row in grid]),
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
