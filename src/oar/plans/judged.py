"""What every result says of itself: as the audit found it, beside what the solver claims and proves."""

from __future__ import annotations

from typing import Any

from oar.errors import Status

SAME = 1e-9  # share of a loss by which it must change to have changed


class Judged:
    """A proposal by a solver, and an audit of it, which alone says what is so."""

    proposal: Any
    audit: Any

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
    def exact(self) -> bool:
        """Whether the plan is proved to be globally optimal."""
        return self.proposal.exact

    @property
    def gap(self) -> float:
        """First-order certificate: how much loss a linear model thinks could still be gained."""
        return self.proposal.gap

    @property
    def bound(self) -> float:
        """Proved lower bound on the goal loss of any moves within the limits."""
        return self.proposal.bound

    @property
    def passes(self) -> int:
        """How often the solver read all the data (the audit adds its own)."""
        return self.proposal.passes

    @property
    def status(self) -> Status:
        """How the result stands; `status.advice` says what to do."""
        if self.audit.violations:
            return Status.REFUSED
        if not self.audit.converged:
            return Status.NOT_CONVERGED
        if self.audit.success:
            return Status.ALREADY if self.audit.success_before else Status.ACHIEVED
        if self.proposal.impossible:
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
