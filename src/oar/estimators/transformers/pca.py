"""PCA that is refitted: principal components as a function of people's rows.

With A = Σ u (x − μ)(x − μ)ᵀ = V Λ Vᵀ, a change dA turns the components and stretches the eigenvalues by

    dV_k = V (F ∘ Vᵀ dA V_k),   F_ij = 1 / (λ_j − λ_i) for i ≠ j, else 0,        dλ_k = (V_kᵀ dA V_k) diagonal.

So the decomposition is taken as it is and its first-order change is added to it, which is zero in value and right in
slope. Of two kept components with equal eigenvalues any turn will do (F = 0); where the last that is kept and the first
that is not are equal, what is kept is chance, and that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import NumericsError
from oar.estimators.transformers.nodes import Learned, Node
from oar.estimators.transformers.scalers import EPS

EQUAL = 1e-9  # eigenvalues that differ by less, as a share of the largest, may be turned into one another
UNCLEAR = 1e-7  # at the cut


@dataclass(frozen=True)
class Principal(Node):
    """PCA: the first `kept` components; `whiten` divides each by its spread."""

    kept: int
    whiten: bool

    def learned(self, rows: Any, shares: Any) -> Learned:
        """Return the mean, the components (k, d) and their variances (k,)."""
        import jax
        import jax.numpy as jnp

        total, count = shares.sum(), (shares > 0).sum()
        mean = shares @ rows / total
        centred = rows - mean
        moments = (shares[:, None] * centred).T @ centred / total * count / (count - 1)
        fixed = jax.lax.stop_gradient(moments)
        values, vectors = jnp.linalg.eigh(fixed)
        values, vectors = values[::-1], vectors[:, ::-1]
        own, first = values[: self.kept], vectors[:, : self.kept]
        largest = jnp.argmax(jnp.abs(first), axis=0)  # scikit-learn's rule: the largest entry is positive
        first = first * jnp.sign(first[largest, jnp.arange(self.kept)])
        gaps = own[None, :] - values[:, None]
        unclear = jnp.abs(gaps) <= EQUAL * values[0]
        turns = jnp.where(unclear, 0.0, 1.0 / jnp.where(unclear, 1.0, gaps))
        change = moments - fixed  # zero, with a slope
        turned = first + vectors @ (turns * (vectors.T @ change @ first))
        return mean, turned.T, jnp.maximum(own, 0.0) + jnp.einsum("dk,de,ek->k", first, change, first)

    def applied(self, rows: Any, learned: Learned) -> Any:
        """Project, and divide where it whitens."""
        import jax.numpy as jnp

        mean, components, variances = learned
        found = (rows - mean) @ components.T
        if not self.whiten:
            return found
        nothing = variances <= EPS**2
        return found / jnp.where(nothing, EPS, jnp.sqrt(jnp.where(nothing, 1.0, variances)))

    def units(self, learned: Learned) -> Learned:
        """Means are measured by the largest spread, components are of length 1, variances by themselves."""
        mean, components, variances = (np.asarray(part) for part in learned)
        largest = float(variances.max(initial=0.0)) or 1.0
        return np.full_like(mean, np.sqrt(largest)), np.ones_like(components), np.full_like(variances, largest)


def components_kept(wanted: Any, rows: Any, whiten: bool) -> int:
    """Return how many components `n_components` means for rows (n, d); refuse a cut between equal eigenvalues."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows, rowvar=False)))[::-1]
    most = min(rows.shape)
    if wanted is None:
        kept = most
    elif 0 < wanted < 1:
        shares = np.cumsum(values[:most]) / values[:most].sum()
        kept = min(int(np.searchsorted(shares, wanted, side="right")) + 1, most)
    else:
        kept = int(wanted)
    if whiten and values[kept - 1] <= UNCLEAR * values[0]:
        raise NumericsError(
            f"model: PCA(whiten=True) must keep components along which people differ, got a variance of "
            f"{max(values[kept - 1], 0.0):.1e} beside {values[0]:.1e}; keep fewer."
        )
    if kept < values.size and values[kept - 1] - values[kept] <= UNCLEAR * values[0] and values[kept - 1] > EPS:
        raise NumericsError(
            f"model: PCA must keep components that differ from those it drops, got eigenvalues {values[kept - 1]:.6g} "
            f"and {values[kept]:.6g} on either side of the cut after {kept}; keep one more or fewer."
        )
    return kept
