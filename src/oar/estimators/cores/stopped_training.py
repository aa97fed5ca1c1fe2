"""An estimator whose own `fit` is the refit: what it ends at is no minimum, so nothing else would end there.

A clone is trained on the moved rows, in the order in which people are listed, and its parameters are read off. That is
what an audit does too. Gradients are those of the implicit function theorem as if training had ended where it is headed
to (see `stopped_curvature`): they point the way, and every step is judged by a refit.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.estimators.cores.protocol import Array, Core
from oar.estimators.cores.stopped_curvature import SMALL, compiled, solved_by_products, solved_densely
from oar.estimators.cores.stopped_model import TrainedModel
from oar.estimators.fitting import EstimatorData, RowConversion, trained
from oar.models.autodiff.training import AutodiffTraining
from oar.models.differentiable import need_jax
from oar.models.training import Fit
from oar.people import Population

KEPT = 16  # refits that are remembered: solvers ask for the same one more tightly, and it cannot be had


class TrainedCore(Core):
    """An estimator that is trained by its own `fit` alone.

    Attributes:
        estimator: unfitted; with a `random_state`, so that training can be repeated.
        objective: what its training is headed to.
        bends: whether its own second derivatives are used where they are positive.
    """

    convex = False
    estimator: Any
    objective: TrainedModel
    bends: bool = True

    def constants(self, people: Population, labels: Any, weights: Array) -> dict[str, Any]:
        """Return settings of the objective that follow from who is there: labels and weights (n,) as handed over."""
        raise NotImplementedError

    def training(self, rows: Array, people: Population) -> TrainedTraining:
        """Bind it to rows."""
        need_jax(self.name)
        return TrainedTraining(self, np.ascontiguousarray(rows, dtype=np.float64), people)

    def own_parameters(self, training: AutodiffTraining, flat: Array) -> Any:
        """Return flat parameters as `read` does."""
        return training.parameters(flat)

    def target_rows(self, targets: Any) -> Any:
        """Return a single output's targets for two classes."""
        return targets[:, 1:] if not self.regresses and targets.shape[1] == 2 else targets


class TrainedTraining(AutodiffTraining):
    """Implements `Training`; `sparse` says whether rows are handed over as a sparse matrix."""

    def __init__(self, core: TrainedCore, rows: Array, people: Population) -> None:
        """Bind the objective; nothing is trained yet."""
        self.core, self.sparse = core, False
        self._damping = 0.0
        weights = people.row_weights
        shares = people.target_rows(core.regresses)
        super().__init__(core.objective, rows, core.target_rows(shares), weights / weights.sum())
        self._take(people)

    def _take(self, people: Population) -> None:
        """Keep what is handed over beside rows, and what follows from it."""
        self._people = people
        self._handing = RowConversion(people, regresses=self.core.regresses)
        self._present, self._labels, self._given = self._handing.told(people)
        weights = np.ones(len(self._labels)) if self._given is None else self._given
        self._constants = self.core.constants(people, self._labels, weights)
        self._fits: OrderedDict[bytes, Fit] = OrderedDict()

    def contributing(self, targets: Array, weights: Array) -> TrainedTraining:
        """Return the same for other targets and weights; of those who are left, weights keep their proportions."""
        other: Any = super().contributing(targets, weights)
        given = self._people.first_row_weights
        left = np.where(weights > 0, given, 0.0)
        if self.core.regresses:
            people = self._people.contributing(left, values=targets)
        else:
            single = targets.shape[1] == 1
            shares = np.column_stack([1 - targets, targets]) if single else targets
            people = self._people.contributing(left, shares=shares)
        other._take(people)
        return other

    def placed(self, rows: Array) -> Any:
        """Return rows in the form in which other methods want them, to the last bit."""
        return self._pack(rows)

    def fit(self, features: Any, start: Array, tolerance: float) -> Fit:
        """Train a clone on these rows, whatever the start; the residual is that of the objective where it stops."""
        rows = np.array(np.asarray(features).reshape(-1, self.dimensions)[: self.size])
        key = hashlib.blake2b(rows.tobytes()).digest()
        if key in self._fits:
            self._fits.move_to_end(key)
            return self._fits[key]
        handed: Any = rows[self._present]
        if self.sparse:
            from scipy.sparse import csr_matrix

            handed = csr_matrix(handed)
        fitted = trained(self.core.estimator, EstimatorData(handed, self._labels, self._given)).estimator
        self.passes += int(np.max(getattr(fitted, "n_iter_", 1)))
        places = None if self.core.regresses else self._handing.class_places(fitted.classes_)
        if places is not None and places.size < len(self._people.classes):
            raise NumericsError("labels: nobody is left in some class, so that the estimator forgets it.")
        parameters = self.flat(self.core.read(fitted, places))
        residual = float(np.linalg.norm(self.risk_gradient(parameters, features)[1]))
        if not np.isfinite(residual):
            raise NumericsError(f"model: {self.core.name} must be trained to finite parameters, got others.")
        self._fits[key] = Fit(parameters, features, residual, True)
        if len(self._fits) > KEPT:
            self._fits.popitem(last=False)
        return self._fits[key]

    @property
    def damping(self) -> float:
        """λ of the last `solve`: how much training was held back by stopping early."""
        return self._damping

    def solve(self, fit: Fit, right: Array, start: Array | None, tolerance: float) -> Array:
        """Return v with (H + λ I) v = right, or with the Gauss–Newton matrix where H is not positive."""
        if not np.isfinite(right).all():
            raise NumericsError("right: must be finite, got entries that are not; the query's gradient has overflowed.")
        if not right.any():
            return np.zeros_like(right)
        theta, features = fit.parameters, fit.features
        self._damping = fit.residual / max(float(np.linalg.norm(theta)), np.finfo(float).tiny)

        def run(kind: str, *directions: Array) -> Array:
            self.passes += 1
            function = compiled(self.model, self.dimensions, self.output_count, kind)
            data = (features, self._targets, self._weights)
            return np.asarray(self._trace("loss", lambda: function(theta, self._constants, *directions, *data)))

        if self.parameter_count <= SMALL:
            matrices = [lambda: run("gauss_newton_matrix")]
            if self.core.bends:
                matrices.insert(0, lambda: self.hessian(theta, features))
            return solved_densely(matrices, right, self._damping)
        products = [lambda direction: run("gauss_newton", direction)]
        if self.core.bends:
            products.insert(0, lambda direction: self.product(theta, features, direction))
        return solved_by_products(products, right, self._damping, tolerance)
