"""Proposals of solvers, audits, and the result that puts both before the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import Status
from oar.estimators.black_box import BlackBox, Calls, Rate
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans.plan import Plan
from oar.plans.proof import Hints, Proof
from oar.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-9  # share of a loss by which it must change to have changed
ROUNDING = 1e-6, 1e-9  # the share of a loss, and the loss, by which a refit may be below a bound
FELT = 1e-12  # a loss below which another is not told apart: it is a difference of larger numbers
MET = 1e-7  # share of a loss within which it meets a bound that is on the safe side of rounding
MUCH = 1e-3, 1e-6  # and by which it may differ from what the solver expects
UNPROMISED = "Here a collective is not promised to do as well as an individual: compare oar.individual."


@dataclass(frozen=True, eq=False)
class Proposal:
    """A solver's answer: a plan, and claims about it that the audit will check.

    Attributes:
        plan: the moves.
        claimed_loss: the goal loss that the solver expects after the refit.
        gap: first-order certificate (Frank–Wolfe gap), ≥ 0 and zero at a stationary plan.
        exact: whether the solver takes this for the global optimum. What is proved is the referee's to say.
        finished: False where the solver ran out of steps before its certificate closed.
        steps: iterations taken. passes: times that all the data were read.
        suffices: a sentence on what would be enough, or "".
        ended: a sentence on why the solver ended before it was finished and what would help, or "".
        note: a sentence on how gradients were made, or "".
        residual: the norm of the training gradient at the solver's last refit.
        promised: whether nothing speaks against a collective's doing at least as well as an individual, as limits do.
        calls: what planning asked of a black box; None for models that are known.
        estimated: whether the claimed loss is an estimate, by surrogates or over few seeds, that need not come true.
        reachable: whether it is known that some moves within the limits reach the goal, though those of least loss may
            not be among them; `suffices` says which.
        claimed_success: whether surrogates say that the goal is reached; None where nothing claims that.
        hints: what makes proofs short; the referee believes nothing of it.
        chosen: a sentence on which members were chosen, or "".
        leverage, leverage_left: over rounds (T,), the steepest fall of the loss per unit of move among each round's
            members, before any move and once the plan is followed; None where that was not asked.
        walks: how often all rounds were walked, forwards and backwards.
        why: a sentence on when the plan acts, and why then, or "".
    """

    plan: Plan
    solver: str
    claimed_loss: float
    gap: float
    exact: bool
    finished: bool
    steps: int
    passes: int
    suffices: str = ""
    ended: str = ""
    note: str = ""
    residual: float = 0.0
    promised: bool = True
    calls: Calls | None = None
    estimated: bool = False
    reachable: bool = False
    claimed_success: bool | None = None
    hints: Hints = Hints()
    chosen: str = ""
    leverage: NDArray[np.float64] | None = None
    leverage_left: NDArray[np.float64] | None = None
    walks: int = 0
    why: str = ""


@dataclass(frozen=True)
class QueryOutcome:
    """The outcome of a fresh refit for one query; what is not named here is as in `Audit`.

    Attributes:
        probability_before, probability: of the goal, by a softmax of the outputs; None where values are predicted.
    """

    prediction_before: Any
    prediction: Any
    loss_before: float
    loss: float
    margin: float
    tie: float
    success_before: bool
    success: bool
    probability_before: float | None
    probability: float | None


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of the replay after one round, 0, 1, …, without and with the plan; a single refit is one round.

    All else is as in `Audit`, of the model of that round and of the members who move in it.
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


class Independence(StrEnum):
    """The independence of an audit's refit from the solver's own code; `meaning` says what was and was not shared.

    >>> Independence.IMPLEMENTATION.value
    'another implementation'
    """

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Independence:
        """Give a member its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    IMPLEMENTATION = (
        "another implementation",
        "The refit shares no code with the solver: risk and training are written elsewhere.",
    )
    OPTIMISER = (
        "another optimiser on the same risk",
        "The refit is the model's own, and an optimiser of another library (SciPy), which is given the model's own "
        "risk, finds the same minimum, or none lower around it.",
    )
    REPEATED = (
        "the model's own training, repeated",
        "The refit runs the model's own training once more, from its start and on the moved data: training is what "
        "defines this model, and nobody else's code confirms where it ends.",
    )

    @classmethod
    def weakest(cls, several: list[Independence]) -> Independence:
        """Return the least independent of several."""
        return max(several, key=list(cls).index)


def yes(said: bool) -> str:
    """Return a truth in words."""
    return "yes" if said else "no"


@dataclass(frozen=True)
class Audit(ShownAsText):
    """The outcome of a fresh refit on the moved data; made by `oar.audit` alone.

    Attributes:
        loss_before, loss: goal loss at the query, before any move and after all moves. For several queries, their mean,
            the worst, or the share that does not reach its goal, as set by the query.
        prediction_before, prediction: the predicted label; where the goal only ties for nearest, another one. A tuple
            for several queries.
        margin: how much nearer the goal's centroid is than the nearest other; for models that are trained, by how much
            the goal leads in outputs, how far inside the wanted range the prediction is, or by how much the goal is
            more probable than it must be; of several queries, the least.
        tie: the widest difference that counts as a tie in any duel of the goal with another class.
        success_before: whether the query had the goal before any move.
        success: goal predicted, not by a tie, and no limit broken; of several queries, for as many as must.
        movers: how many members move. effort: the sum of their moves' norms.
        violations: every broken limit, in words.
        witness: the implementation that refitted.
        residual: the norm of the training gradient after the refit, where the witness reports it (0 for closed forms).
        converged: whether both refits converged; where one did not, its loss is NaN and its prediction None.
        relabelled: the number of members whose labels change. leavers: the number of members who withhold their data.
        queries: the outcome for each query.
        independence: how little the refit shares with the solver: an `oar.plans.Independence`, whose `meaning` is a
            sentence. Of several refits, the least.
        measured_by: the name of the user-defined action whose own code checked the moves; "" where the audit measures
            moves by its own code.
        rate_before, rate: where training is random, how often the goal is reached over refits; None where it is not.
            Then losses are means over refits, and `success` is that the rate's interval is above what it must be.
    """

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
    violations: tuple[str, ...]
    witness: str
    residual: float
    converged: bool = True
    relabelled: int = 0
    leavers: int = 0
    queries: tuple[QueryOutcome, ...] = ()
    rate_before: Rate | None = None
    rate: Rate | None = None
    independence: Independence = Independence.REPEATED
    measured_by: str = ""

    @property
    def rounds(self) -> tuple[RoundOutcome, ...]:
        """What is found after each round of retraining, of which there is one."""
        parts = {name: getattr(self, name) for name in RoundOutcome.__dataclass_fields__ if name != "number"}
        return (RoundOutcome(number=0, **parts),)

    @property
    def share_before(self) -> float:
        """The share of those who ask that had their goal before any move."""
        return sum(one.success_before for one in self.queries) / max(1, len(self.queries))

    @property
    def share(self) -> float:
        """The share of those who ask that get their goal."""
        return sum(one.success for one in self.queries) / max(1, len(self.queries))

    def __str__(self) -> str:
        acts = [f"{counted(self.movers, 'member moves', 'members move')} (effort {self.effort:.4g})"]
        acts += [counted(self.relabelled, "label changes", "labels change")] if self.relabelled else []
        acts += [counted(self.leavers, "member leaves", "members leave")] if self.leavers else []
        by_whom = f" (what {self.measured_by!r} allows is its author's code)" if self.measured_by else ""
        rows = [
            ("success", f"{yes(self.success)} (before any move: {yes(self.success_before)})"),
            ("prediction", f"{self._predictions()}, margin {self.margin:.4g}"),
            ("goal loss", f"{self.loss_before:.4g} → {self.loss:.4g}"),
            ("acts", ", ".join(acts)),
            ("limits", f"{'; '.join(self.violations) or 'all kept'}{by_whom}"),
            ("refitted by", self.witness if self.converged else f"{self.witness}, which did not come to an end"),
            ("that is", self.independence.value),
        ]
        if self.rate is not None:
            rows.insert(1, ("refits", f"{self.rate} (before any move: {self.rate_before})"))
        return lined_up(rows)

    def _predictions(self) -> str:
        """Return what is predicted, before and after; of several queries, how many have their goal."""
        if len(self.queries) < 2:
            return f"{self.prediction_before!r} → {self.prediction!r}"
        before, after = (sum(getattr(one, name) for one in self.queries) for name in ("success_before", "success"))
        return f"the goal for {before:,} → {after:,} of {len(self.queries):,} queries"


@dataclass(frozen=True, eq=False)
class Result:
    """The result of `individual`, `collective` or `joint`: proposed by a solver, checked by the audit.

    Attributes:
        problem: the problem that was solved.
        proposal: the solver's proposal.
        audit: the outcome of a fresh refit.
        audit_calls: the audit's calls of a black box; None for other models.
        proof: what the referee proves about all moves within the limits.
        evidence: the audit's own centroids of unmoved people, for further proofs; None for other models.
    """

    problem: Problem
    proposal: Proposal
    audit: Audit
    audit_calls: Calls | None = None
    proof: Proof = Proof()
    evidence: Any = None

    @property
    def loss_before(self) -> float:
        """The goal loss before any move (audited)."""
        return self.audit.loss_before

    @property
    def loss(self) -> float:
        """The goal loss after the refit, or over rounds as the goal counts them (audited)."""
        return self.audit.loss

    @property
    def prediction(self) -> Any:
        """The query's label after the refit, or after the last of many (audited)."""
        return self.audit.prediction

    @property
    def success(self) -> bool:
        """Whether the retrained model strictly prefers the goal and every limit was kept (audited)."""
        return self.audit.success

    @property
    def disagreement(self) -> str:
        """A sentence where the audit contradicts what the solver proves or expects, or "".

        Then nothing that the solver proved is repeated: it reasoned about another model than the one that was refitted,
        as where a user's own update rule says of itself what is not so.
        """
        loss, expected, bound = self.loss, self.proposal.claimed_loss, self.proof.bound
        if self.audit.violations or not (np.isfinite(loss) and np.isfinite(expected)):
            return ""
        told = ""
        if self.proof.impossible and self.audit.success:
            told = "The refit gives the query its goal, which is taken for proved to be impossible"
        elif bound - loss > self._slack(bound, *ROUNDING):
            told = f"The refit's goal loss of {loss:.6g} is below {bound:.6g}, which is taken for a proved bound"
        elif self._unexpected and not self.stopped_early:
            told = f"The refit's goal loss is {loss:.6g}, and the solver expects {expected:.6g}"
        return told and f"{told}: the audit counts, and nothing that was proved. {self._advice}"

    @property
    def _unexpected(self) -> bool:
        """Whether the refit's goal loss is another than the solver claims."""
        expected = self.proposal.claimed_loss
        if self.proposal.estimated or self.audit.violations:
            return False
        return bool(abs(self.loss - expected) > self._slack(expected, *MUCH))

    @cached_property
    def stopped_early(self) -> str:
        """A sentence where an estimator stopped so far from its minimum that its goal loss is another, or "".

        The plan is made for the minimum. The estimator's own fit counts, and contradicts nothing: with a smaller `tol`
        it finds what the solver expects.
        """
        model, expected = self.problem.model, self.proposal.claimed_loss
        tolerance = getattr(model, "tolerance", None)  # of an estimator that others wrote
        if tolerance is None or not (np.isfinite(self.loss) and np.isfinite(expected)) or not self._unexpected:
            return ""
        from oar.plans.explain.cautions import settled_loss  # which reads plans, as results do

        settled = settled_loss(self.plan)
        if not abs(settled - expected) <= self._slack(expected, *MUCH):
            return ""
        return (
            f"The plan is made for the exact minimum, where the goal loss is {settled:.6g}, and {model.name} stops "
            f"before it, at tol={tolerance:g}, where it is {self.loss:.6g}: give it a smaller tol, and as large a "
            "max_iter as that takes."
        )

    @property
    def _advice(self) -> str:
        name = self.problem.model.name
        if "warned that it had not converged" in self.audit.witness:
            return f"{name} warned that it had not converged: give it a larger max_iter, or scale its features."
        return "Try another solver, or standardised features and a larger penalty, which make refits agree."

    def _slack(self, claimed: float, share: float, least: float) -> float:
        """Return how far an audited loss may be from a claimed one: outputs that tie cannot be told apart either."""
        return share * max(abs(claimed), abs(self.loss)) + least + 2 * abs(self.audit.tie)

    @property
    def exact(self) -> bool:
        """Whether the plan is proved to be globally optimal: the audited loss meets `bound`, to seven digits."""
        taken = self.proposal.exact and not self.disagreement and np.isfinite(self.loss)
        return bool(taken and self.loss - self.proof.bound <= MET * abs(self.loss) + FELT)

    @property
    def gap(self) -> float:
        """First-order certificate: how much loss a linear model thinks could still be gained."""
        return self.proposal.gap

    @property
    def bound(self) -> float:
        """Lower bound on the goal loss of any moves within the limits, proved by the referee: see `proof`."""
        if self.disagreement:
            return -float("inf")
        return min(self.proof.bound, self.loss) if np.isfinite(self.loss) else self.proof.bound  # but for rounding

    @property
    def impossible(self) -> bool:
        """Whether it is proved that no moves within the limits reach the goal."""
        return self.proof.impossible and not self.disagreement

    @property
    def passes(self) -> int:
        """The number of times that the solver read all the data (the audit adds its own)."""
        return self.proposal.passes

    @property
    def status(self) -> Status:
        """The status of the result; `status.advice` says what to do."""
        if self.audit.violations:
            return Status.REFUSED
        if not self.audit.converged:
            return Status.NOT_CONVERGED
        if self.audit.success:
            return Status.ALREADY if self.audit.success_before else Status.ACHIEVED
        if self.impossible:
            return Status.IMPOSSIBLE
        if not self.proposal.finished:
            return Status.STOPPED_EARLY
        return Status.IMPROVED if self.loss < self.loss_before else Status.NOT_IMPROVED

    @property
    def lowered_all_the_same(self) -> str:
        """Where the goal was reached before any move: a sentence on whether the loss fell, or ""."""
        if self.status is not Status.ALREADY:
            return ""
        fell = self.loss < self.loss_before - SAME * abs(self.loss_before)
        return f"The goal loss {'was lowered all the same' if fell else 'did not fall'}."

    @property
    def certificate(self) -> str:
        """The gap in words."""
        if self.gap == float("inf"):
            return "no certificate"
        return "gap < 1e-12" if self.gap < 1e-12 else f"gap {self.gap:.1e}"  # below that it is rounding

    @property
    def calls(self) -> Calls | None:
        """The calls that planning and audit made to a black box; None for models that are known."""
        known = [calls for calls in (self.proposal.calls, self.audit_calls) if calls]
        return sum(known, Calls()) if known else None

    @property
    def plan(self) -> Plan:
        """Everyone's moves."""
        return self.proposal.plan

    @property
    def residual(self) -> float:
        """The norm of the training gradient at the solver's last refit: how well it was fitted."""
        return self.proposal.residual

    @property
    def claimed_change(self) -> float:
        """The change of the goal loss that the solver claims; compare `loss - loss_before`, which is audited."""
        return self.proposal.claimed_loss - self.loss_before

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings before the plan is followed: moves that leave the range of the data by much."""
        from oar.plans.explain.cautions import beyond_range

        return beyond_range(self.plan)

    @property
    def explanation(self) -> str:
        """An explanation in a few sentences: what happened, what binds and what would suffice."""
        if self.audit.violations:
            return f"{self.status.advice} Broken: {'; '.join(self.audit.violations)}."
        ended = self.proposal.ended if self.status is Status.STOPPED_EARLY else ""
        if self.status is Status.ACHIEVED and not self.proposal.finished and self.proposal.ended:
            ended = f"The search for a still lower loss was not finished. {self.proposal.ended}"
        how = "proved to be the best" if self.exact else "the best that were found, not proved to be"
        chosen = f"{self.proposal.chosen}: {how}." if self.proposal.chosen else ""
        sentences = (
            self._advice_now,
            self.disagreement or self.stopped_early,
            self._asked,
            self.lowered_all_the_same,
            ended,
            chosen,
            self.proposal.why if self.audit.movers else "",
            "" if self.status is Status.ALREADY or self.disagreement else self.proposal.suffices,
            "" if self.proposal.promised else UNPROMISED,
            self.problem.caution,
            *self._outside(),
            *self.warnings,
        )
        return " ".join(filter(None, sentences))

    @property
    def _advice_now(self) -> str:
        """The status's advice, which does not ask for larger budgets where the goal is within reach of these."""
        if self.status not in (Status.IMPROVED, Status.NOT_IMPROVED) or not self.proposal.reachable:
            return self.status.advice
        fell = "fell" if self.status is Status.IMPROVED else "did not fall"
        return (
            f"The goal loss {fell}, and the goal was not reached, though a move within this budget does reach it: "
            "least loss and the goal's region are two aims, and this is the move of least loss."
        )

    @property
    def _asked(self) -> str:
        """What is lowered, where that is not what was asked for itself."""
        return ""

    def _outside(self) -> list[str]:
        """Return what there is to say of a black box: how it was planned for, what was asked of it, and noticed."""
        box, planning, audit = self.problem.model, self.proposal.calls, self.audit_calls
        if not isinstance(box, BlackBox):
            return []
        fits = [f"{calls.fits:,} to {what}" for calls, what in ((planning, "plan"), (audit, "audit")) if calls]
        said = [self.proposal.note] if self.proposal.note else []
        if self.audit.rate is not None:
            rate, (low, high) = self.audit.rate, self.audit.rate.interval
            said.append(
                f"Training is random: the goal is reached in {rate.successes} of {rate.refits} refits, which makes a "
                f"share from {low:.2g} to {high:.2g} likely, and it must be {box.at_least:g} at least."
            )
            if low < box.at_least <= high:
                said.append("More refits would tell that more surely: BlackBox(refits=…).")
        return [*said, *([f"Trainings of {box.name}: {', '.join(fits)}."] if fits else []), *box.notes]

    @property
    def rounds(self) -> Any:
        """A DataFrame with one row a round of retraining.

        Its columns: round, loss_before, loss, prediction_before, prediction, margin, success_before, success, movers,
        effort. Over rounds also `leverage`, the steepest fall of the goal loss per unit of move among that round's
        members before any move, which is why the plan acts when it acts; and `leverage_left`, the same once the plan
        is followed.
        """
        import pandas

        names = [name for name in RoundOutcome.__dataclass_fields__ if name not in ("tie", "queries")]
        told = [{name: getattr(one, name) for name in names} for one in self.audit.rounds]
        levers = {name: getattr(self.proposal, name) for name in ("leverage", "leverage_left")}
        known = {name: one for name, one in levers.items() if one is not None}
        return pandas.DataFrame(told).rename(columns={"number": "round"}).assign(**known)

    def plot(self) -> Figure:
        """Return a picture as a matplotlib figure: a map of moves for two plain features, else effort by column.

        Beside effort are the goal's probability, or its loss, before and after. `figure.savefig("plan.png")` keeps it.
        """
        from oar.plans.plots import picture_of

        return picture_of(self)

    def _repr_html_(self) -> str:
        from oar.plans.plots import summary_table

        return summary_table(self)

    def _predicts(self) -> str:
        goal, queries, rate = self.problem.goal_words, self.audit.queries, self.audit.rate
        if self.problem.several:
            got = sum(one.success for one in queries)
            return f"{got:,} of {counted(len(queries), 'query gets', 'queries get')} {goal}"
        if rate is not None:
            return f"reaches {goal} in {rate.successes} of {rate.refits} refits"
        return f"predicts {self.prediction!r}, goal {goal}"

    def __repr__(self) -> str:
        levers, audit = self.problem.levers, self.audit
        changes = "; " + counted(audit.relabelled, "label changes", "labels change") if levers.relabel.given else ""
        changes += "; " + counted(audit.leavers, "member leaves", "members leave") if levers.withhold.given else ""
        return (
            f"Result({self.status}: {self._predicts()}; goal loss "
            f"{self.loss_before:.4g} → {self.loss:.4g}{changes}; solver {self.proposal.solver}"
            f"{' (proved optimal)' if self.exact else ''}, {self.certificate}"
            f"{'; the audit contradicts the solver' if self.disagreement else ''}"
            f"{'' if self.proposal.promised else '; an individual may do better'})"
        )
