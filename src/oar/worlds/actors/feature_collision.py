"""Feature collision (Poison Frogs, Shafahi et al. 2018): members imitate the query's representation.

A few people of the goal class move to points that the deployed model represents like the query, and that are still near
their own features:

    x_p = argmin_x ‖φ(x) − φ(x†)‖² + β ‖x − base‖²,        ‖x − base‖_p ≤ budget.

φ is the last hidden layer of a network, the embedding of a prototype network, and the features themselves of linear
models, nearest centroid and naive Bayes, where the answer is (x† + β base)/(1 + β), projected onto the ball around base
(the objective is a multiple of the squared distance to that point, so projecting is exact).

Other models use forward-backward splitting, as in the paper: a gradient step on the first term, and then the proximal
step of the second, which for a step of size λ is the projection of (x̂ + 2λβ base)/(1 + 2λβ). λ is halved if the step
is longer than the first term's curvature allows; the objective never rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from oar.checks import with_near_names
from oar.errors import OptionError
from oar.models import MLP, Centroids, GaussianNaiveBayes, PrototypeNetwork, Scaled
from oar.models.autodiff.mlp import apply_layers
from oar.progress import is_late
from oar.typing import Label
from oar.worlds.actors.common import Movers, code_of, fitting
from oar.worlds.people.random_streams import drawn_count
from oar.worlds.protocol import Array, Crowd, Deed, Rows, View

Represent = Callable[[Array, Array], tuple[Array, Array]]
"""From rows (m, d) and the query (d,) to ‖φ(x) − φ(x†)‖² (m,) and its gradients (m, d)."""


@with_near_names
@dataclass(frozen=True, eq=False)
class FeatureCollision(Movers):
    """Feature collision: people of one class move onto the query in the deployed model's representation.

    The world sets the labels: with labels="keep" this is the paper's attack.

    Args:
        query: x† (d,), with the goal `base_class`.
        base_class: the class of these people, and the goal of the query.
        count: the number of them in a round: the people of that class with the lowest random numbers.
        budget: how far each may move.
        norm: 1, 2 or numpy.inf.
        weight: β, the weight of staying near.
        steps: the number of steps of forward-backward splitting, for models without a closed form.
        name: their name in records.
    """

    query: Any
    base_class: Label
    count: int
    budget: float
    norm: Any = 2
    weight: float = 0.1
    steps: int = 200
    name: str = "feature collision"

    def members(self, crowd: Crowd, number: int, rng: np.random.Generator) -> Rows:
        """Draw `count` people of the class; all of them where there are fewer."""
        code = code_of(self.base_class, crowd.classes, "base_class")
        return drawn_count(self.count, np.flatnonzero(crowd.codes == code), crowd, rng)

    def act(self, view: View) -> Deed:
        """Move onto the query in the representation."""
        query, bases = fitting(self.query, view), view.crowd.features[view.mine]
        if not len(bases):
            return Deed()
        represent = representation(view.operator.model, view.deployed.parameters)
        if represent is None:
            points = self._near(bases, (query + self.weight * bases) / (1 + self.weight))
            squares = ((points - query) ** 2).sum(axis=1)
        else:
            points = collided(represent, query, bases, self.weight, self._near, self.steps)
            squares = represent(points, query)[0]
        return Deed(moves=points - bases, note={"apart": float(np.sqrt(squares).mean())})

    def _near(self, bases: Array, points: Array) -> Array:
        """Return points, projected onto the balls of the budget around their bases."""
        return bases + self.norm.project(points - bases, np.full(len(bases), self.budget))


def collided(
    represent: Represent, query: Array, bases: Array, weight: float, near: Callable[[Array, Array], Array], steps: int
) -> Array:
    """Return the ends (m, d) of forward-backward splitting; `near` (bases, points) projects onto allowed points."""
    points, sizes = bases.copy(), np.full(len(bases), 1.0)
    values, slopes = represent(points, query)
    for _ in range(steps):
        if is_late():
            break
        forward = points - sizes[:, None] * slopes
        pull = (2 * sizes * weight)[:, None]
        trial = near(bases, (forward + pull * bases) / (1 + pull))
        step = trial - points
        trial_values, trial_slopes = represent(trial, query)
        # Where f(x + s) ≤ f(x) + ∇f·s + ‖s‖²/2λ, the whole objective falls.
        square = (step**2).sum(axis=1)
        allowed = values + (slopes * step).sum(axis=1) + square / (2 * sizes)
        fits = trial_values <= allowed + 1e-12 * np.abs(values)
        points[fits], values[fits], slopes[fits] = trial[fits], trial_values[fits], trial_slopes[fits]
        sizes = np.where(fits, 1.2 * sizes, 0.5 * sizes)
        if (fits & (square <= 1e-24 * (1 + (points**2).sum(axis=1)))).all():
            break
    return points


def representation(model: Any, parameters: Any) -> Represent | None:
    """Return how a deployed model represents people; None where features represent themselves."""
    match model, parameters:
        case (_, Centroids()) | (GaussianNaiveBayes() | PrototypeNetwork(embedding=None) | MLP(hidden=()), _):
            return None
    if getattr(model, "linear", False):
        return None
    inner = getattr(model, "unscaled", model)
    if not isinstance(inner, MLP | PrototypeNetwork):
        raise OptionError(
            "model: feature collision needs a model whose representation is known: nearest centroid, a linear model, "
            f"naive Bayes, oar.models.MLP or PrototypeNetwork; got {type(inner).__name__}."
        )
    run = _compiled(model)

    def represent(rows: Array, query: Array) -> tuple[Array, Array]:
        import jax

        with jax.enable_x64(True):
            values, slopes = run(parameters, rows, query)
        return np.array(values), np.array(slopes)

    return represent


@lru_cache(maxsize=32)
def _compiled(model: Any) -> Callable[..., Any]:
    import jax

    def seen(parameters: Any, features: Any) -> Any:
        if isinstance(model, Scaled):
            return _hidden(model.model, parameters.model, parameters.scaled(features))
        return _hidden(model, parameters, features)

    def apart(features: Any, parameters: Any, query: Any) -> Any:
        return ((seen(parameters, features) - seen(parameters, query)) ** 2).sum()

    return jax.jit(
        lambda parameters, rows, query: jax.vmap(lambda row: jax.value_and_grad(apart)(row, parameters, query))(rows)
    )


def _hidden(model: Any, parameters: Any, features: Any) -> Any:
    """Return φ for one person: the embedding, or what stands before a network's last layer."""
    if isinstance(model, PrototypeNetwork):
        return model.embed(parameters, features)
    if not model.hidden:
        return features
    import jax

    activate = getattr(jax.numpy if model.activation == "tanh" else jax.nn, model.activation)
    return activate(apply_layers(parameters[:-1], features, model.activation))
