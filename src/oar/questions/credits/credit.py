"""Whose doing is it? Each member's share in the fall of the goal loss.

To first order, along the path from nobody's move to the plan (`first_order`), or by refits without some members
(`shapley`). What the query's own move does is credited to the query. What the method, or another refit than the
audit's, leaves over is `unexplained`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_kind, check_whole
from oar.errors import DataError, NumericsError, OptionError, choose, with_near_names
from oar.models.settings import check_seed
from oar.people.groups import grouped
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.explain.effort import Efforts
from oar.plans.moves.table_out import QUERY
from oar.plans.refits import Refits
from oar.progress import Progress, step_line
from oar.questions.credits.aumann_shapley import first_order
from oar.questions.credits.shapley import shapley
from oar.questions.row_names import row_names

Array = NDArray[np.float64]
METHODS = ("first-order", "shapley")
TOP = 10  # members that are shown


@dataclass(frozen=True, eq=False)
class Credit(ShownAsText):
    """Each actor's share in a result.

    Attributes:
        result: what is shared out.
        method: "first-order" or "shapley".
        members: (m,) positions of those who act, in their order.
        credits: (m,) by how much each lowers the goal loss.
        errors: (m,) standard errors: 0 where all coalitions were tried, NaN for first order, which draws nothing.
        query: what the query's own move does.
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
        names = list(row_names(self.result.problem.people, self.members[order]))
        credits, errors = self.credits[order], self.errors[order]
        if self.result.plan.query_move.any():
            names, credits, errors = (
                [*names, QUERY],
                np.append(credits, self.query),
                np.append(errors, self.query_error),
            )
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
    """Return each member's share in a result: in the fall of the goal loss.

    Args:
        result: of `oar.collective` or `oar.joint`.
        method: "first-order" (along the straight path from nobody's move to the plan, by a few refits) or "shapley" (by
            refits without some members; exact up to 8 who act, by random orders up to 50).
        draws: for "shapley": how many orders in which members come are drawn, at least 4 and in pairs; None means all
            coalitions where at most 8 act, else as many orders as about 2,000 refits allow.
        seed: of these orders.
        progress: whether to show refits on stderr; None means "on a terminal". Or a function of step, loss and gap.
    """
    check_kind("result", result, Result, "what oar.collective returns")
    choose("method", method, METHODS)
    check_seed(seed)
    _check_draws(draws, method)
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


def _check_draws(draws: Any, method: str) -> None:
    if draws is None:
        return
    if method != "shapley":
        raise OptionError("draws: is for method='shapley'; the first order draws nothing; leave it out.")
    check_whole("draws", draws, 4)
