"""Whose doing is it? Each member's share in the fall of the goal loss.

To first order (Aumann & Shapley, 1974): walk along the straight path from nobody's move to the plan, and add up
what each member's next little step does there,

    credit_i = −∫₀¹ ⟨∂L/∂δ_i (t δ), δ_i⟩ dt,        Σ_i credit_i = L(0) − L(δ)

with the derivative through a true refit at every point of a Gauss–Legendre rule. A table's rows on the way are not
whole, which the model does not mind.

Or by refits without some members (Shapley, 1953): members come one after the other, in every order alike, and each is
credited with what its coming changes. By all 2^m coalitions where there are few, else by random orders, each with its
reverse; always by true refits. Credits add up to what all together change, in every single order. Where more act than a
stated number of refits allows, groups come one after the other, and the members of a group share its credit alike.

What the query's own move does is credited to the query. What the method, or another refit than the audit's, leaves over
is `unexplained`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_seed, check_whole, choose, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.people.groups import grouped
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.explain.effort import Efforts, unique_words
from oar.plans.moves.changes_table import QUERY
from oar.plans.refits import Refits
from oar.progress import OnStep, Progress
from oar.questions.sharing.first_order import first_order, refusal
from oar.questions.sharing.shapley import Game, PlayerCredits, affordable, shapley
from oar.solvers.registry import EffortLike, bounded, current_effort
from oar.typing import Groups

Array = NDArray[np.float64]
METHODS = ("first-order", "shapley")
TOP = 10  # members that are shown
REFITS = 600  # by which members are shared out, unless it is said how many
TRAININGS = 200  # of a black box, in their place
FEWEST_REFITS = 4  # for one player, in two pairs of orders
GROUPS = 8  # at the most, where more act than refits allow
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Credit(ShownAsText):
    """Each actor's share in a result.

    Attributes:
        result: the result whose fall in goal loss is shared.
        method: "first-order" or "shapley".
        members: (m,) positions of those who act, in their order.
        credits: (m,) by how much each lowers the goal loss.
        errors: (m,) standard errors: 0 where all coalitions were tried, NaN for first order, which draws nothing, ∞
            where they are not known.
        query: the credit of the query's own move.
        refits: how many refits it took.
        groups: a DataFrame of groups with their actors, credit and error, where these came one after the other and
            members share alike within them; None where each member came by itself.
        draws: how many pairs of orders were drawn.
        note: why this method, and how far it came, in words.
    """

    result: Result
    method: str
    members: NDArray[np.intp]
    credits: Array
    errors: Array
    query: float
    query_error: float
    refits: int
    groups: Any = None
    draws: int = 0
    note: str = ""

    @property
    def fall(self) -> float:
        """By how much the goal loss falls (audited)."""
        return self.result.loss_before - self.result.loss

    @property
    def unexplained(self) -> float:
        """The part of the fall credited to nobody: the rule's error, and the difference between two refits."""
        return self.fall - float(self.credits.sum()) - self.query

    @property
    def intervals(self) -> Array:
        """The 95 % confidence intervals (m, 2) of the credits, by Student's t; NaN for first order."""
        from scipy.stats import t

        half = np.where(self.errors > 0, self.errors * t.ppf(0.5 + CONFIDENCE / 2, max(self.draws - 1, 1)), self.errors)
        return np.column_stack([self.credits - half, self.credits + half])

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
        """Show the most useful members, or the groups."""
        head = [
            ("method", f"{self.method}, {counted(self.refits, 'refit', 'refits')}"),
            ("goal loss", f"{self.result.loss_before:.4g} → {self.result.loss:.4g}"),
            ("unexplained", f"{self.unexplained:.2g}"),
        ]
        found = self.frame() if self.groups is None else self._by_player()
        rows = []
        for person, credit, share, error in found.head(TOP).itertuples(index=False):
            give = f" ± {error:.2g}" if error > 0 else ""
            rows.append((f"{person}", f"{credit:.4g}{give} ({share:.1%})"))
        rest = len(found) - len(rows)
        rows += [(f"… {rest:,} more", f"{found['credit'].iloc[TOP:].sum():.4g}")] if rest else []
        return f"{lined_up(head)}\n\n{lined_up(rows)}" + (f"\n\n{self.note}" if self.note else "")

    def _by_player(self) -> Any:
        """Return what `frame` does, with groups in place of persons."""
        found = self.groups.sort_values("credit", ascending=False, kind="stable").reset_index(names="person")
        if self.result.plan.query_move.any():
            found.loc[len(found)] = {"person": QUERY, "actors": 0, "credit": self.query, "error": self.query_error}
        found["share"] = found["credit"] / self.fall if self.fall else np.nan
        return found[["person", "credit", "share", "error"]]

    def __repr__(self) -> str:
        """Show the sums in one line."""
        actors = counted(self.members.size, "member", "members")
        return f"Credit({self.method}: {actors}, fall {self.fall:.4g}, unexplained {self.unexplained:.1e})"


@with_near_names
def credit(
    result: Result,
    method: str | None = None,
    draws: int | None = None,
    seed: int = 0,
    *,
    groups: Groups | None = None,
    refits: int | None = None,
    effort: EffortLike = None,
    time_limit: float | None = None,
    progress: Progress = None,
) -> Credit:
    """Return each member's credit: its share in a result's fall of the goal loss.

    Args:
        result: of `oar.collective` or `oar.joint`.
        method: "first-order" (along the straight path from nobody's move to the plan, by a few refits) or "shapley" (by
            refits without some members; exact up to 8 who act, by random orders of more). None is first order where
            moves alone are planned for a smooth loss that has gradients, and Shapley otherwise; `note` says why.
        draws: for "shapley": how many orders in which members come are drawn, at least 4 and in pairs; None means all
            coalitions where at most 8 act, else as many orders as `refits` allow, or fewer where the
            largest error has come below a hundredth of the fall.
        seed: of these orders.
        groups: for "shapley": who comes together: a column's name, several names, or one value for each person. The
            members of a group share its credit alike. None is each for itself, as far as `refits` allow two pairs of
            orders, and otherwise up to 8 groups by class and by length of the move.
        refits: for "shapley": how many refits there may be; None is about 600, and 200 trainings of a black box.
        effort: as in `oar.collective`; here the number of refits, where that is None.
        time_limit: seconds after which no further refit begins, and the credits are as good as they are by then; None
            is no limit.
        progress: whether to show refits on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    check_seed(seed)
    for name, value, least in (("draws", draws, 4), ("refits", refits, FEWEST_REFITS)):
        if value is not None:
            check_whole(name, value, least)
    if not result.audit.converged:
        raise NumericsError("result: a refit of its audit did not converge, so there is no fall of the loss to share.")
    part = Refits(result.plan)
    members = np.flatnonzero(part.actors)
    if not members.size:
        raise DataError("result: no member does anything in its plan, so there is no credit to share.")
    chosen, why = _method(method, part, draws, groups, refits)
    with bounded("credit", progress, effort, time_limit) as on_step:
        if chosen == "first-order":
            everyones, count = first_order(part, result.loss_before - result.loss, on_step)
            own = float(everyones[-1]), np.nan
            return Credit(result, chosen, members, everyones[members], np.full(members.size, np.nan), *own, count)
        return _by_shapley(_Asked(result, part, members, draws, seed, groups, refits, on_step), why)


def _method(method: str | None, part: Refits, draws: int | None, groups: Any, refits: int | None) -> tuple[str, str]:
    """Return the method that is asked for, or else the one that suits; and why it is not the first, in a sentence."""
    given = [name for name, value in (("draws", draws), ("groups", groups), ("refits", refits)) if value is not None]
    if method is not None:
        choose("method", method, METHODS)
        if given and method != "shapley":
            raise OptionError(f"{given[0]}: is for method='shapley'; the first order draws nothing; leave it out.")
        return method, ""
    if given:
        return "shapley", ""
    why = refusal(part)
    return ("shapley", f"Shapley's value, because first order is not for this plan. {why}") if why else (METHODS[0], "")


class _Asked(NamedTuple):
    """What is asked, of which plan."""

    result: Result
    part: Refits
    members: NDArray[np.intp]
    draws: int | None
    seed: int
    groups: Any
    refits: int | None
    on_step: OnStep

    @property
    def most(self) -> int:
        """How many refits there may be."""
        usual = TRAININGS if self.part.problem.model.only_asked else REFITS
        return max(FEWEST_REFITS, round(usual * current_effort().refits)) if self.refits is None else self.refits

    def together(self) -> tuple[list[str], NDArray[np.intp], str]:
        """Return groups by name, each member's own (m,), and why there are any; no names where each is for itself."""
        own = bool(self.part.query_move.any())
        if self.groups is not None:
            names, found = unique_words(grouped(self.part.problem.people, self.groups)[self.members])
            present, codes = np.unique(found, return_inverse=True)
            return [names[code] for code in present], codes.reshape(-1), ""
        few = affordable(self.most) - own
        if self.draws is not None or self.members.size <= few:
            return [], np.arange(self.members.size), ""
        names, codes = _alike(self.part, self.members, max(1, min(GROUPS - own, few)))
        said = f"More act than {self.most:,} refits tell apart, so groups come together, whose members share alike."
        return names, codes, said


def _by_shapley(asked: _Asked, why: str) -> Credit:
    """Share out among players, which are members or groups, and the query where it moves."""
    result, part, members = asked.result, asked.part, asked.members
    names, codes, grouping = asked.together()
    count, own = int(codes.max()) + 1, int(part.query_move.any())
    value = _Coalitions(part, members, codes, asked.on_step)
    game = Game(value, count + own, part.retraining.is_random())
    found = shapley(game, result.loss_before - result.loss, asked.most, asked.draws, asked.seed)
    sizes = np.bincount(codes, minlength=count)
    table = _table(names, sizes, found) if names else None
    query = (float(found.credits[-1]), float(found.errors[-1])) if own else (0.0, 0.0)
    each, errors = (part[:count][codes] / sizes[codes] for part in (found.credits, found.errors))
    note = " ".join(said for said in (why, grouping, found.note) if said)
    return Credit(result, "shapley", members, each, errors, *query, found.values, table, found.pairs, note)


def _table(names: list[str], sizes: NDArray[np.intp], found: PlayerCredits) -> Any:
    import pandas

    columns = {"actors": sizes, "credit": found.credits[: len(names)], "error": found.errors[: len(names)]}
    return pandas.DataFrame(columns, index=pandas.Index(names, name="group"))


def _alike(part: Refits, members: NDArray[np.intp], most: int) -> tuple[list[str], NDArray[np.intp]]:
    """Return groups of members by name, and each member's own: by class, and within it by the length of the move."""
    people, targets = part.problem.people, part.before.parts[1]
    kinds = np.zeros(people.size, dtype=np.intp) if part.problem.regresses else targets.argmax(axis=1)
    present = np.unique(kinds[members])
    if present.size > most:
        return ["everybody who acts"], np.zeros(members.size, dtype=np.intp)
    lengths = (part.moves * part.moves).sum(axis=1)[members]
    names: list[str] = []
    codes = np.empty(members.size, dtype=np.intp)
    for kind in present:
        mine = np.flatnonzero(kinds[members] == kind)
        blocks = np.array_split(mine[np.argsort(-lengths[mine], kind="stable")], min(most // present.size, mine.size))
        label = "" if part.problem.regresses else f"class {people.classes[kind]!r}"
        for number, block in enumerate(blocks):
            codes[block] = len(names)
            nth = f"move {number + 1} of {len(blocks)} by length" if len(blocks) > 1 else ""
            names.append(", ".join(word for word in (label, nth) if word) or "everybody who acts")
    return names, codes


class _Coalitions:
    """Values of coalitions: the fall of the loss if only their players act."""

    def __init__(self, part: Refits, members: NDArray[np.intp], codes: NDArray[np.intp], on_step: OnStep) -> None:
        self._part, self._members, self._codes, self._on_step = part, members, codes, on_step
        self._count = 0

    def __call__(self, players: NDArray[np.bool_]) -> float:
        acting = np.zeros_like(self._part.actors)
        acting[self._members] = players[self._codes]
        query = bool(players[int(self._codes.max()) + 1 :].any())
        loss = self._part.verdict(self._part.if_only(acting), query_moves=query).loss
        if not np.isfinite(loss):
            raise NumericsError(
                f"result: the model cannot be refitted where only {int(acting.sum())} of those who act do; it may "
                "need a larger penalty, or nobody is left in a class."
            )
        self._count += 1
        self._on_step(self._count, loss, np.inf)
        return -loss
