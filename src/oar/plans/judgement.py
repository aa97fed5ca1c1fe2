"""The judgement of a result: what the audit found, beside what the solver claims and proves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from oar.errors import Status
from oar.plans.proof import Proof

SAME = 1e-9  # share of a loss by which it must change to have changed
ROUNDING = 1e-6, 1e-9  # the share of a loss, and the loss, by which a refit may be below a bound
FELT = 1e-12  # a loss below which another is not told apart: it is a difference of larger numbers
MET = 1e-7  # share of a loss within which it meets a bound that is on the safe side of rounding
MUCH = 1e-3, 1e-6  # and by which it may differ from what the solver expects


class AuditedProposal:
    """A proposal by a solver, and an audit of it, which alone says what is so."""

    proposal: Any
    audit: Any
    proof: Proof

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
        if getattr(self.proposal, "estimated", False) or self.audit.violations:
            return False
        return bool(abs(self.loss - expected) > self._slack(expected, *MUCH))

    @cached_property
    def stopped_early(self) -> str:
        """A sentence where an estimator stopped so far from its minimum that its goal loss is another, or "".

        The plan is made for the minimum. The estimator's own fit counts, and contradicts nothing: with a smaller `tol`
        it finds what the solver expects.
        """
        model, expected = self.proposal.plan.problem.model, self.proposal.claimed_loss
        tolerance = getattr(model, "tolerance", None)  # of an estimator that others wrote
        if tolerance is None or not (np.isfinite(self.loss) and np.isfinite(expected)) or not self._unexpected:
            return ""
        from oar.plans.explain.early_stopping import settled_loss  # which reads plans, as results do

        settled = settled_loss(self.proposal.plan)
        if not abs(settled - expected) <= self._slack(expected, *MUCH):
            return ""
        return (
            f"The plan is made for the exact minimum, where the goal loss is {settled:.6g}, and {model.name} stops "
            f"before it, at tol={tolerance:g}, where it is {self.loss:.6g}: give it a smaller tol, and as large a "
            "max_iter as that takes."
        )

    @property
    def _advice(self) -> str:
        model = self.proposal.plan.problem.model
        if "warned that it had not converged" in getattr(self.audit, "witness", ""):
            return f"{model.name} warned that it had not converged: give it a larger max_iter, or scale its features."
        return "Try another solver, or standardised features and a larger penalty, which make refits agree."

    def _slack(self, claimed: float, share: float, least: float) -> float:
        """Return how far an audited loss may be from a claimed one: outputs that tie cannot be told apart either."""
        return share * max(abs(claimed), abs(self.loss)) + least + 2 * abs(self.audit.tie)

    @property
    def exact(self) -> bool:
        """Whether the plan is proved to be globally optimal: the audited loss meets `bound`, to seven digits."""
        loss, bound = self.loss, self.proof.bound
        if not self.proposal.exact or self.disagreement or not np.isfinite(loss):
            return False
        return bool(loss - bound <= MET * abs(loss) + FELT)

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
