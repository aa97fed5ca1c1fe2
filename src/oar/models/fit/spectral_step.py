"""The spectral step length of Barzilai and Borwein (1988).

After a step s = x₊ − x along which the gradient of a function f changed by y = ∇f(x₊) − ∇f(x), the Hessian averaged
over the step, B = ∫₀¹ ∇²f(x + t s) dt, satisfies y = B s. The multiple 1/α of the identity that replaces B best on what
was seen,

    min over 1/α of ‖s/α − y‖²        at        1/α = sᵀy / ‖s‖²,

is the Rayleigh quotient of B along s, which lies between the extreme eigenvalues of B: hence "spectral". The gradient
step −α∇f is then a quasi-Newton step that stores one number. Where the curvature sᵀy is not positive, the model has no
minimum along the gradient, and the longest step that is allowed is taken.

Barzilai and Borwein (1988), Two-point step size gradient methods. Birgin, Martínez and Raydan (2000), Nonmonotone
spectral projected gradient methods on convex sets.
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@overload
def spectral_length(squared: float, curvature: float, longest: float) -> float: ...


@overload
def spectral_length(squared: Array, curvature: Array, longest: Array) -> Array: ...


def spectral_length(squared: float | Array, curvature: float | Array, longest: float | Array) -> float | Array:
    """Return min(‖s‖² / sᵀy, longest), or longest where sᵀy ≤ 0; of arrays, for each entry.

    Args:
        squared: ‖s‖², the squared length of the last step.
        curvature: sᵀy, the change of the gradient along it; of a function that is maximised, −sᵀy.
        longest: the longest step that is allowed.
    """
    if np.ndim(curvature) == 0:
        return min(squared / curvature, longest) if curvature > 0 else longest
    curved = np.asarray(curvature > 0)
    return np.where(curved, np.minimum(squared / np.where(curved, curvature, 1.0), longest), longest)
