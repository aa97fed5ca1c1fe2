"""The protocol of cores: the last step of somebody's estimator, which predicts, as a twin uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.models.protocol import Capabilities
from oar.models.training import Array
from oar.people import Population

NO_PLACES = np.zeros(0, dtype=np.intp)
"""The places of the classes of an estimator that predicts values."""


class Core(Capabilities):
    """The derivatives of one kind of estimator; a subclass for each kind, made by `recognise`.

    "Rows" are what the estimator itself is given: the people's features, or what a front makes of them. Parameters are
    in a form of the core's own, and apply to rows as they are.

    A query is judged by outputs as `loss` says, in one word that the audit knows too: "cross-entropy" (of logits, or of
    a single logit against 0), "squared" (½‖z − y‖²), or "squared-hinge".
    """

    name: str
    convex = True
    loss: str = "cross-entropy"
    training: Callable[[Array, Population], Any]
    """Binds the estimator to rows (n, d'), with the labels and weights of these people: a `Training`.

    Its `contributing` must give what the estimator would be trained to after labels changed and people left:
    scikit-learn's penalties stand against sums over people, and balanced classes count them.
    """
    read: Callable[[Any, NDArray[np.intp]], Any]
    """The parameters of a fitted estimator, with the places of its classes among the people's."""
    outputs: Callable[[Any, Array], Array]
    """Outputs (m, o) of parameters for rows (m, d'), by our own arithmetic."""
    outputs_of: Callable[[Any, Any, NDArray[np.intp]], Array]
    """The same outputs, asked of the fitted estimator, or of the pipeline that it ends, with rows and those places."""

    def check(self, people: Population) -> None:
        """Raise where the estimator cannot be fitted to such people, beyond what every model asks."""

    def target_rows(self, targets: Any) -> Any:
        """Return what outputs are compared with, (n, o), for class shares or values (n, k)."""
        return targets

    def written_down(self, people: Population) -> Any:
        """Return the model of `oar.models` with the same θ and the same loss for these people; None where none is."""
        return None

    def own_parameters(self, training: Any, flat: Array) -> Any:
        """Return flat parameters of this core's training in the core's own form."""
        return training.parameters(flat)

    def probabilities(self, outputs: Array) -> Array | None:
        """Return class probabilities (m, k) of outputs; None where they are their softmax, as of most."""
        return None


def refused(estimator: Any, setting: str, why: str, instead: str) -> OptionError:
    """Return the error for a setting of an estimator, with what to use instead.

    >>> from sklearn.svm import LinearSVC
    >>> for part in str(refused(LinearSVC(), "loss='hinge'", "which has corners", "'squared_hinge'")).split("; "):
    ...     print(part)
    model: LinearSVC has no twin with loss='hinge', which has corners
    use 'squared_hinge', or oar.BlackBox(LinearSVC(…)), which only trains it and asks it.
    """
    name = type(estimator).__name__
    return OptionError(
        f"model: {name} has no twin with {setting}, {why}; use {instead}, or oar.BlackBox({name}(…)), which only "
        "trains it and asks it."
    )
