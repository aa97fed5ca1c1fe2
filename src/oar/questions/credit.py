"""Whose doing is it? Each member's share in the fall of the goal loss.

To first order (Aumann & Shapley, 1974): walk along the straight path t·δ from nobody's move to the plan, and add up
what each member's next little step does there,

    credit_i = −∫₀¹ ⟨∂L/∂δ_i (t δ), δ_i⟩ dt,        Σ_i credit_i = L(0) − L(δ)

with the derivative through a true refit at every point of a Gauss–Legendre rule. A table's rows on the way are not
whole, which the model does not mind.

Or by refits without some members (Shapley, 1953): members come one after the other, in every order alike, and each is
credited with what its coming changes. By all 2^m coalitions where there are few, else by random orders, each with its
reverse; always by true refits. Credits add up to what all together change, in every single order.

What the query's own move does is credited to the query. What the method, or another refit than the audit's, leaves over
is `unexplained`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_seed, check_whole, choose, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.online import Rollout
from oar.people.groups import grouped
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.plans.moves.changes_table import QUERY
from oar.plans.refits import Refits
from oar.progress import OnStep, Progress, silent, step_line
from oar.retraining.rollout import RolloutTraining
from oar.signals.base import Memory, choose_signal

Array = NDArray[np.float64]
METHODS = ("first-order", "shapley")
TOP = 10  # members that are shown
POINTS = (4, 8, 16, 32)  # of the rule, until little is unexplained
LITTLE = 1e-3  # of the fall
MOST_PLAYERS = 50  # for Shapley
ENUMERATED = 8  # players up to which all coalitions are tried
REFITS = 2_000  # about so many where orders are drawn, unless `draws` says otherwise


@dataclass(frozen=True, eq=False)
class Credit(ShownAsText):
    """Each actor's share in a result.

    Attributes:
        result: the result whose fall in goal loss is shared.
        method: "first-order" or "shapley".
        members: (m,) positions of those who act, in their order.
        credits: (m,) by how much each lowers the goal loss.
        errors: (m,) standard errors: 0 where all coalitions were tried, NaN for first order, which draws nothing.
        query: the credit of the query's own move.
        refits: how many refits it took.
    """

    result: Result
    method: str
    members: NDArray[np.intp]
    credits: Array
    errors: Array
    query: float
    query_error: float
    refits: int

    @property
    def fall(self) -> float:
        """By how much the goal loss falls (audited)."""
        return self.result.loss_before - self.result.loss

    @property
    def unexplained(self) -> float:
        """The part of the fall credited to nobody: the rule's error, and the difference between two refits."""
        return self.fall - float(self.credits.sum()) - self.query

    def frame(self) -> Any:
        """Return a DataFrame of person, credit, share and error; the most useful first, the query last if it moves."""
        import pandas

        order = np.argsort(-self.credits, kind="stable")
        names = list(self.result.problem.people.row_names[self.members[order]])
        credits, errors = self.credits[order], self.errors[order]
        if self.result.plan.query_move.any():
            credits, errors = np.append(credits, self.query), np.append(errors, self.query_error)
            names = [*names, QUERY]
        shares = credits / self.fall if self.fall else np.full_like(credits, np.nan)
        people = pandas.Series(names, dtype=object)
        return pandas.DataFrame({"person": people, "credit": credits, "share": shares, "error": errors})

    def by(self, groups: Any) -> Any:
        """Return a DataFrame of groups: people, actors, effort, credit, and the share of each in all effort and credit.

        Args:
            groups: a column's name (as it was before any move; numbers of many values are cut into quarters), several
                names, or one value for each person.
        """
        people = self.result.problem.people
        group, effort = grouped(people, groups), Efforts.of(self.result.plan).totals
        credit, acts = np.zeros(people.size), np.zeros(people.size, dtype=np.intp)
        credit[self.members], acts[self.members] = self.credits, 1
        import pandas

        frame = pandas.DataFrame({"people": 1, "actors": acts, "effort": effort, "credit": credit})
        found = frame.groupby(group.to_numpy() if group.dtype == object else group, observed=True).sum()
        found.index.name = group.name or "group"
        for name in ("effort", "credit"):
            total = found[name].sum()
            found[f"share of {name}"] = found[name] / total if total else np.nan
        return found

    def __str__(self) -> str:
        """Show the most useful members."""
        found = self.frame()
        head = [
            ("method", f"{self.method}, {counted(self.refits, 'refit', 'refits')}"),
            ("goal loss", f"{self.result.loss_before:.4g} → {self.result.loss:.4g}"),
            ("unexplained", f"{self.unexplained:.2g}"),
        ]
        rows = []
        for person, credit, share, error in found.head(TOP).itertuples(index=False):
            give = f" ± {error:.2g}" if error > 0 else ""
            rows.append((f"{person}", f"{credit:.4g}{give} ({share:.1%})"))
        rest = len(found) - len(rows)
        rows += [(f"… {rest:,} more", f"{found['credit'].iloc[TOP:].sum():.4g}")] if rest else []
        return f"{lined_up(head)}\n\n{lined_up(rows)}"

    def __repr__(self) -> str:
        """Show the sums in one line."""
        actors = counted(self.members.size, "member", "members")
        return f"Credit({self.method}: {actors}, fall {self.fall:.4g}, unexplained {self.unexplained:.1e})"


@with_near_names
def credit(
    result: Result, method: str = "first-order", draws: int | None = None, seed: int = 0, progress: Progress = None
) -> Credit:
    """Return each member's credit: its share in a result's fall of the goal loss.

    Args:
        result: of `oar.collective` or `oar.joint`.
        method: "first-order" (along the straight path from nobody's move to the plan, by a few refits) or "shapley" (by
            refits without some members; exact up to 8 who act, by random orders up to 50).
        draws: for "shapley": how many orders in which members come are drawn, at least 4 and in pairs; None means all
            coalitions where at most 8 act, else as many orders as about 2,000 refits allow.
        seed: of these orders.
        progress: whether to show refits on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    choose("method", method, METHODS)
    check_seed(seed)
    if draws is not None:
        if method != "shapley":
            raise OptionError("draws: is for method='shapley'; the first order draws nothing; leave it out.")
        check_whole("draws", draws, 4)
    if not result.audit.converged:
        raise NumericsError("result: a refit of its audit did not converge, so there is no fall of the loss to share.")
    refits = Refits(result.plan)
    members = np.flatnonzero(refits.actors)
    if not members.size:
        raise DataError("result: no member does anything in its plan, so there is no credit to share.")
    with step_line("credit", progress) as on_step:
        if method == "first-order":
            if result.audit.relabelled or result.audit.leavers:
                raise OptionError(
                    "method: 'first-order' shares out moves alone, and in this plan labels change or members leave; "
                    "use method='shapley', for which each acts wholly or not at all."
                )
            everyones, count = first_order(refits, result.loss_before - result.loss, on_step)
            credits = everyones[np.append(members, -1)]
            errors = np.full(credits.size, np.nan)
        else:
            credits, errors, count = shapley(refits, members, draws, seed, on_step)
    own = float(credits[-1]), float(errors[-1])
    return Credit(result, method, members, credits[:-1], errors[:-1], *own, count)


def first_order(refits: Refits, fall: float, on_step: OnStep = silent) -> tuple[Array, int]:
    """Return everyone's credits (n + 1,) along the path, the query's last, and how many refits that took.

    There are more and more points until little of the fall is unexplained.
    """
    problem = refits.problem
    if problem.query.several != "mean":
        raise OptionError(
            f"method: 'first-order' needs a smooth loss, and the {problem.query.several} of several queries is none; "
            "use 'shapley'."
        )
    slopes = _slopes(refits)
    moves, own = refits.moves, refits.query_move
    count = 0
    for points in POINTS:
        places, parts = np.polynomial.legendre.leggauss(points)
        credits = np.zeros(len(moves) + 1)
        for place, part in zip((places + 1) / 2, parts / 2, strict=True):
            loss, members, query = slopes(float(place))
            credits[:-1] -= part * np.einsum("nd,nd->n", members, moves)
            credits[-1] -= part * query @ own
            count += 1
            on_step(count, loss, np.inf)
        if abs(fall - credits.sum()) <= LITTLE * abs(fall):
            break
    return credits, count


Slopes = Callable[[float], tuple[float, Array, Array]]
"""From a share of the way to the loss there, and its slopes in everyone's move (n, d) and the query's (d,)."""


def _slopes(refits: Refits) -> Slopes:
    """By the implicit function theorem at a true refit (`signals`), or back through all rounds by the rule itself."""
    problem = refits.problem
    if isinstance(refits.retraining, RolloutTraining):
        return partial(_rolled_out, refits.retraining.rollout, refits.moves)
    training = problem.training()
    signal, why = choose_signal(training)
    if not signal.exact:
        raise OptionError(f"method: 'first-order' needs exact gradients, and there are none. {why} Use 'shapley'.")
    memory: Memory | None = None
    warm = problem.model.convex

    def slopes(place: float) -> tuple[float, Array, Array]:
        nonlocal memory
        query = problem.first_query + place * refits.query_move
        step = signal.at(training, place * refits.moves, query, problem.goal_target, memory)
        memory = step.memory if warm else None
        return step.loss, training.weights[:, None] * step.members, step.outcome.query_slope

    return slopes


def _rolled_out(rollout: Rollout, moves: Array, place: float) -> tuple[float, Array, Array]:
    """Return the loss of a rollout a share of the way, and its slopes; over rounds the query itself does not move."""
    here = place * moves
    path = rollout.forward(here, counted=True)
    slopes = rollout.gradient(path, here).gradient
    return float(rollout.problem.weights @ path.losses), slopes, np.zeros(moves.shape[1])


def shapley(
    refits: Refits, members: NDArray[np.intp], draws: int | None, seed: int, on_step: OnStep
) -> tuple[Array, Array, int]:
    """Share out among players: the members who act, and the query where it moves.

    Returns:
        Credits and standard errors (m + 1,), the query's last; and how many refits there were.
    """
    count = members.size + bool(refits.query_move.any())
    if count > MOST_PLAYERS:
        raise OptionError(
            f"result: 'shapley' is for at most {MOST_PLAYERS} who act, got {count:,}; use method='first-order', or "
            "plan with fewer participants."
        )
    value = _Coalitions(refits, members, on_step)
    if draws is None and count <= ENUMERATED:
        credits = _over_coalitions(value, count)
        errors = np.zeros(count)
    else:
        pairs = max(2, REFITS // (2 * count)) if draws is None else -(-draws // 2)
        credits, errors = _over_orders(value, count, pairs, np.random.default_rng(seed))
    if count == members.size:
        credits, errors = np.append(credits, 0.0), np.append(errors, 0.0)
    return credits, errors, value.refits


class _Coalitions:
    """Values of coalitions: the fall of the loss if only their players act. Each is refitted once."""

    def __init__(self, refits: Refits, members: NDArray[np.intp], on_step: OnStep) -> None:
        self._refits, self._members, self._on_step = refits, members, on_step
        self._known: dict[bytes, float] = {}

    @property
    def refits(self) -> int:
        return len(self._known)

    def __call__(self, players: NDArray[np.bool_]) -> float:
        key = players.tobytes()
        if key not in self._known:
            acting = np.zeros_like(self._refits.actors)
            acting[self._members] = players[: self._members.size]
            query = bool(players[self._members.size :].any())
            loss = self._refits.verdict(self._refits.if_only(acting), query_moves=query).loss
            if not np.isfinite(loss):
                raise NumericsError(
                    f"result: the model cannot be refitted where only {int(players.sum())} of those who act do; it may "
                    "need a larger penalty, or nobody is left in a class."
                )
            self._known[key] = loss
            self._on_step(self.refits, loss, np.inf)
        return -self._known[key]


def _over_coalitions(value: _Coalitions, count: int) -> Array:
    """Return Σ_S |S|!(m − |S| − 1)!/m! [v(S + i) − v(S)] over all S without i."""
    credits = np.zeros(count)
    for number in range(2**count):
        players = (number >> np.arange(count)) % 2 == 1
        size = int(players.sum())
        for player in np.flatnonzero(~players):
            joined = players.copy()
            joined[player] = True
            part = factorial(size) * factorial(count - size - 1) / factorial(count)
            credits[player] += part * (value(joined) - value(players))
    return credits


def _over_orders(value: _Coalitions, count: int, pairs: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the means over random orders and their reverses, and the standard errors over these pairs."""
    found = np.zeros((pairs, count))
    for pair in range(pairs):
        order = rng.permutation(count)
        for way in (order, order[::-1]):
            players = np.zeros(count, dtype=bool)
            before = value(players)
            for player in way:
                players[player] = True
                after = value(players)
                found[pair, player] += (after - before) / 2
                before = after
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(pairs)
