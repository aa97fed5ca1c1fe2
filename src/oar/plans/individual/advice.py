"""Advice for one person: the cheapest change that gets them the goal, what it costs, and what is proved about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oar.errors import Status
from oar.people.labels import plain
from oar.people.tables.encoding import Row
from oar.plans.individual.certificate import Certificate


@dataclass(frozen=True, eq=False)
class Advice:
    """The cheapest change for one person, proposed by a solver and checked by the audit.

    Attributes:
        before, after: the person as they are, and afterwards as audited; unchanged where no change was found.
        costs: what each column that changes costs. They add up to `cost` for "l1" and "l0"; for "l2" `cost` is the
            root of the sum of their squares.
        cost: the cost of the change; infinite where none was found.
        bound: a proved lower bound on the cost of every change that reaches the goal; infinite where it is proved that
            there is none.
        proved: whether it is proved that nothing is cheaper by more than 1e-6 of the cost, or that no change reaches
            the goal.
        status: how it stands; `status.advice` says what that means.
        success: whether a fresh refit strictly predicts the goal for `row`, and every limit is kept (audited).
        prediction: what the refit predicts for `row`.
        margin: by how much the goal leads there, or how far inside the wanted range the prediction is (audited).
        witness: the implementation that refitted.
        because: where it is impossible: a minimal set of limits that together are proved to rule it out.
        violations: every broken limit, in words; always empty unless something is wrong with this package.
        note: a sentence on how it was found.
        certificate: the proof of `bound`; `certificate.bound` computes it again without the solver. None where nothing
            is proved, or where nothing needs to change.
    """

    before: Row
    after: Row
    costs: Mapping[str, float]
    cost: float
    bound: float
    proved: bool
    status: Status
    success: bool
    prediction: Any
    margin: float
    witness: str
    because: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    note: str = ""
    certificate: Certificate | None = None

    @property
    def row(self) -> Any:
        """The person afterwards, a frame of one row in the caller's dtypes; as before where there is no way."""
        return self.after.frame

    @cached_property
    def changes(self) -> Any:
        """A frame with a row for each column that changes: column, from, to and its own cost."""
        import pandas

        old, new = self.before.values, self.after.values
        return pandas.DataFrame(
            {
                "column": list(self.costs),
                "from": pandas.Series([plain(old[name]) for name in self.costs], dtype=object),
                "to": pandas.Series([plain(new[name]) for name in self.costs], dtype=object),
                "cost": np.array(list(self.costs.values()), dtype=np.float64),
            }
        )

    @property
    def explanation(self) -> str:
        """How it stands, and why, in a few sentences."""
        if self.violations:
            return f"{self.status.advice} Broken: {'; '.join(self.violations)}."
        if self.status is Status.IMPOSSIBLE:
            why = f"What rules it out: {'; '.join(self.because)}" if self.because else "No limit of yours rules it out"
            return f"Proved: no change within these limits reaches the goal. {why}."
        return f"{_SAYS.get(self.status, self.status.advice)} {self.note}".strip()

    def __repr__(self) -> str:
        what = f"changes {', '.join(self.costs)}" if self.costs else "changes nothing"
        proof = "proved cheapest" if self.proved and self.success else f"bound {self.bound:.4g}"
        return f"Advice({self.status}: {what}; cost {self.cost:.4g}, {proof})"


_SAYS = {
    Status.ACHIEVED: "A fresh refit predicts the goal for the changed row.",
    Status.ALREADY: "The person has the goal as they are; nothing needs to change.",
    Status.STOPPED_EARLY: "No way to the goal was found, and nothing proves that there is none; loosen some limits.",
}
