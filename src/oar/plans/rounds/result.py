"""Results over rounds: an audit that replays all of them, and the result that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oar.online.problem import OnlineProblem
from oar.people.wording import counted, lined_up
from oar.plans.result import Audit, Result, RoundOutcome, yes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class OnlineAudit(Audit):
    """The outcome of a replay of all rounds on the moved data; made by `oar.audit` alone.

    What is said of a single refit holds here of the rounds that the goal is for: losses are their mean, a margin is the
    least, and success is in all of them. Predictions are those of the last round's model.

    Attributes:
        rounds: what is found after each round.
        goal_for: whether the goal is for the "last" round or for "every".
        movers: how many rows move in all rounds together. effort: the sum of all moves' norms.
        residual: the largest norm of a training gradient that a refit left, where told.
        queries: what is found about each of those who ask, put together in the same way.
    """

    rounds: tuple[RoundOutcome, ...] = ()
    goal_for: str = "last"

    def __str__(self) -> str:
        reached, of = [one.number for one in self.rounds if one.success], len(self.rounds)
        first = f"{', '.join(map(str, reached[:8]))}{', …' if len(reached) > 8 else ''}"
        after = {0: "none", of: "all of them"}.get(len(reached), f"{len(reached)} of {of} ({first})")
        rows = [
            ("success", f"{yes(self.success)} (without the plan: {yes(self.success_before)})"),
            ("prediction", f"{_told(self.prediction_before)} → {_told(self.prediction)} after the last round"),
            ("goal", f"for {goal_words(self.goal_for)}; reached after {after}"),
            ("goal loss", f"{self.loss_before:.4g} → {self.loss:.4g}"),
            ("acts", f"{counted(self.movers, 'row moves', 'rows move')} (effort {self.effort:.4g})"),
            ("limits", "; ".join(self.violations) or "all kept"),
            ("retrained by", self.witness if self.converged else f"{self.witness}, which did not come to an end"),
            ("that is", self.independence.value),
        ]
        return lined_up(rows)


@dataclass(frozen=True, eq=False, repr=False)
class OnlineResult(Result):
    """The answer to `collective` for a problem over rounds: proposed by a solver, judged by a replay of all rounds."""

    problem: OnlineProblem
    audit: OnlineAudit

    @property
    def _advice(self) -> str:
        return "Check a rule of your own with oar.testing.check_rule; elsewhere try another solver or a larger penalty."

    @property
    def _asked(self) -> str:
        every = self.problem.goal_for == "every"
        return "The goal is for every round; what is lowered is the mean loss." if every else ""

    def plot(self) -> Figure:
        """Return a picture as a matplotlib figure: the goal loss by round with and without the plan, and when it acts.

        Below the losses are effort and leverage by round. `figure.savefig("plan.png")` keeps it.
        """
        from oar.plans.plots import rounds_picture

        return rounds_picture(self)

    def _repr_html_(self) -> str:
        from oar.plans.plots import rounds_table

        return rounds_table(self)

    def __repr__(self) -> str:
        rounds = counted(len(self.audit.rounds), "round", "rounds")
        return (
            f"OnlineResult({self.status} over {rounds}: predicts {_told(self.prediction)}, goal "
            f"{self.problem.goal_words} for {goal_words(self.problem.goal_for)}; goal loss "
            f"{self.loss_before:.4g} → {self.loss:.4g}; solver {self.proposal.solver}"
            f"{' (proved optimal)' if self.exact else ''}, {self.certificate}"
            f"{'; the audit contradicts the solver' if self.disagreement else ''})"
        )


def _told(prediction: Any) -> str:
    """Return a prediction in words; of several who ask, one after the other.

    >>> _told("yes"), _told((0,)), _told((0, 1))
    ("'yes'", '0', '0, 1')
    """
    return ", ".join(map(repr, prediction)) if isinstance(prediction, tuple) else repr(prediction)


def goal_words(goal_for: str) -> str:
    """Return which rounds a goal is for, in words."""
    return "every round" if goal_for == "every" else "the last round"
