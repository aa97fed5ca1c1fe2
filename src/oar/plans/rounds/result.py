"""Over time: what a solver proposes, what the replay found round by round, and the result that puts both together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import Status
from oar.online.problem import OnlineProblem
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans.explain.independence import Independence
from oar.plans.judgement import AuditedProposal
from oar.plans.proof import Proof
from oar.plans.result import QueryOutcome
from oar.plans.rounds.plan import OnlinePlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OnlineProposal:
    """A solver's answer: a plan, and claims about it that the audit will check.

    Attributes:
        plan: the moves.
        solver: who made it.
        claimed_loss: what the solver expects: the goal loss after the last round, or the mean over rounds.
        gap: first-order certificate (Frank–Wolfe gap), ≥ 0 and zero at a stationary plan.
        exact: whether the solver takes this for the global optimum. What is proved is the referee's to say.
        finished: False where the solver ended before its certificate closed.
        leverage: (T,), the steepest fall of the loss per unit of move among each round's members, before any move.
        leverage_left: (T,), the same once the plan is followed.
        steps: iterations taken. walks: how often all rounds were walked, forwards and backwards.
        passes: how often all the data were read.
        why: a sentence on when the plan acts, and why then.
        suffices, ended, note: sentences on what would be enough, on why the solver ended, on how gradients were made;
            or "".
    """

    plan: OnlinePlan
    solver: str
    claimed_loss: float
    gap: float
    exact: bool
    finished: bool
    leverage: Array
    leverage_left: Array
    steps: int
    walks: int
    passes: int
    why: str = ""
    suffices: str = ""
    ended: str = ""
    note: str = ""


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of the replay after one round, without and with the plan.

    Attributes:
        number: the round, 0, 1, ….
        loss_before, loss: the goal loss at the model of that round. prediction_before, prediction: what it predicts.
        margin: how far the query is on the goal's side. tie: how little of that is a tie.
        success_before, success: whether the goal is reached.
        movers: how many members of that round move. effort: the sum of their moves' norms.
        queries: what it says about each of those who ask.
    """

    number: int
    loss_before: float
    loss: float
    prediction_before: Any
    prediction: Any
    margin: float
    tie: float
    success_before: bool
    success: bool
    movers: int
    effort: float
    queries: tuple[QueryOutcome, ...] = ()


@dataclass(frozen=True)
class OnlineAudit(ShownAsText):
    """The outcome of a replay of all rounds on the moved data; made by `oar.audit` alone.

    Attributes:
        rounds: what is found after each round.
        goal_for: whether the goal is for the "last" round or for "every".
        violations: every broken limit, in words.
        witness: what retrained. residual: the largest norm of a training gradient that a refit left, where told.
        converged: whether every refit came to an end.
        independence: how little the replay shares with the solver; of several refits, the least.
    """

    rounds: tuple[RoundOutcome, ...]
    goal_for: str
    violations: tuple[str, ...]
    witness: str
    residual: float = 0.0
    converged: bool = True
    independence: Independence = Independence.REPEATED

    @property
    def _counted(self) -> tuple[RoundOutcome, ...]:
        return self.rounds[-1:] if self.goal_for == "last" else self.rounds

    @property
    def loss_before(self) -> float:
        """The goal loss without the plan: after the last round, or its mean over rounds."""
        return float(np.mean([one.loss_before for one in self._counted]))

    @property
    def loss(self) -> float:
        """The goal loss with the plan: after the last round, or its mean over rounds."""
        return float(np.mean([one.loss for one in self._counted]))

    @property
    def prediction_before(self) -> Any:
        """The prediction of the last round's model without the plan."""
        return self.rounds[-1].prediction_before

    @property
    def prediction(self) -> Any:
        """The prediction of the last round's model."""
        return self.rounds[-1].prediction

    @property
    def margin(self) -> float:
        """How far the query is on the goal's side: after the last round, or the least of all rounds."""
        return min(one.margin for one in self._counted)

    @property
    def tie(self) -> float:
        """How little of a margin is a tie: after the last round, or the most of all rounds."""
        return max(abs(one.tie) for one in self._counted)

    @property
    def success_before(self) -> bool:
        """Whether the goal would have been reached without the plan: after the last round, or after every one."""
        return all(one.success_before for one in self._counted)

    @property
    def success(self) -> bool:
        """Whether the goal is reached, after the last round or after every one, and every limit was kept."""
        return not self.violations and all(one.success for one in self._counted)

    @property
    def movers(self) -> int:
        """How many rows move in all rounds together."""
        return sum(one.movers for one in self.rounds)

    @property
    def effort(self) -> float:
        """The sum of all moves' norms."""
        return sum(one.effort for one in self.rounds)

    def __str__(self) -> str:
        """Show a table of what the replay found."""
        reached = [one.number for one in self.rounds if one.success]
        rows = [
            ("success", f"{_yes(self.success)} (without the plan: {_yes(self.success_before)})"),
            ("prediction", f"{_told(self.prediction_before)} → {_told(self.prediction)} after the last round"),
            ("goal", f"for {goal_words(self.goal_for)}; reached after {_listed(reached, len(self.rounds))}"),
            ("goal loss", f"{self.loss_before:.4g} → {self.loss:.4g}"),
            ("acts", f"{counted(self.movers, 'row moves', 'rows move')} (effort {self.effort:.4g})"),
            ("limits", "; ".join(self.violations) if self.violations else "all kept"),
            ("retrained by", self.witness if self.converged else f"{self.witness}, which did not come to an end"),
            ("that is", self.independence.value),
        ]
        return lined_up(rows)


@dataclass(frozen=True, eq=False)
class OnlineResult(AuditedProposal):
    """The answer to `collective` for a problem over time: proposed by a solver, judged by a replay of all rounds.

    Attributes:
        problem: what was asked.
        proposal: what a solver proposes.
        audit: what a replay of all rounds says of it.
        proof: what the referee proves of all moves within the limits.
    """

    problem: OnlineProblem
    proposal: OnlineProposal
    audit: OnlineAudit
    proof: Proof = Proof()

    @property
    def _advice(self) -> str:
        return "Check a rule of your own with oar.testing.check_rule; elsewhere try another solver or a larger penalty."

    @property
    def plan(self) -> OnlinePlan:
        """Everyone's moves."""
        return self.proposal.plan

    @property
    def explanation(self) -> str:
        """An explanation: what happened, when the plan acts and why then, what binds and what would suffice."""
        if self.audit.violations:
            return f"{self.status.advice} Broken: {'; '.join(self.audit.violations)}."
        proposal, already = self.proposal, self.status is Status.ALREADY
        asked = (
            "" if self.problem.goal_for == "last" else "The goal is for every round; what is lowered is the mean loss."
        )
        ended = proposal.ended if self.status is Status.STOPPED_EARLY else ""
        suffices = "" if already or self.disagreement else proposal.suffices
        sentences = (
            self.status.advice,
            self.disagreement,
            asked,
            self.lowered_all_the_same,
            ended,
            proposal.why if self.audit.movers else "",
            suffices,
        )
        return " ".join(sentence for sentence in sentences if sentence)

    @property
    def rounds(self) -> Any:
        """A DataFrame with one row a round.

        Its columns: round, loss_before, loss, prediction_before, prediction, margin, success_before, success, movers,
        effort; `leverage`, the steepest fall of the goal loss per unit of move among that round's members before any
        move, which is why the plan acts when it acts; and `leverage_left`, the same once the plan is followed.
        """
        import pandas

        columns = (
            "loss_before", "loss", "prediction_before", "prediction", "margin", "success_before", "success", "movers",
            "effort",
        )  # fmt: skip
        told = [{"round": one.number} | {name: getattr(one, name) for name in columns} for one in self.audit.rounds]
        found = pandas.DataFrame(told)
        return found.assign(leverage=self.proposal.leverage, leverage_left=self.proposal.leverage_left)

    def plot(self) -> Figure:
        """Return a picture as a matplotlib figure: the goal loss by round with and without the plan, and when it acts.

        Below the losses are effort and leverage by round. `figure.savefig("plan.png")` keeps it.
        """
        from oar.plans.rounds.plots import picture_of

        return picture_of(self)

    def _repr_html_(self) -> str:
        """Show itself in a notebook: what the replay found, round by round."""
        from oar.plans.rounds.plots import summary_table

        return summary_table(self)

    def __repr__(self) -> str:
        """Show the outcome in one line."""
        rounds = counted(len(self.audit.rounds), "round", "rounds")
        return (
            f"OnlineResult({self.status} over {rounds}: predicts {_told(self.prediction)}, goal "
            f"{self.problem.everyone.goal_words} for {goal_words(self.problem.goal_for)}; goal loss "
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


def _yes(said: bool) -> str:
    return "yes" if said else "no"


def _listed(rounds: list[int], of: int) -> str:
    if not rounds or len(rounds) == of:
        return "none" if not rounds else "all of them"
    return f"{len(rounds)} of {of} ({', '.join(map(str, rounds[:8]))}{', …' if len(rounds) > 8 else ''})"
