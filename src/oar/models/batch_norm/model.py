"""A fixed network whose batch statistics are recomputed at test time (a footnote of the paper).

Nothing is trained, and yet the members of a test batch act on the query: each normalised layer subtracts their mean and
divides by their spread. With weights w of the people, of which the query has 1 where it is counted, and m the momentum,

    μ = (1 − m) μ_running + m Σ w̄ h,      σ² = (1 − m) σ²_running + m (Σ w̄ h² − (Σ w̄ h)²),

where the variance is the plain one of the batch (divided by n, as networks normalise by). m = 1 forgets the running
statistics, and m = 0 keeps them frozen: then nobody can do anything for anybody else.

"Refitting" is averaging (`batch_statistics`). Labels play no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oar.checks import check_flag, check_that, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.models.batch_norm.layers import (
    ACTIVATIONS,
    BatchNorm,
    Dense,
    Plain,
    activated,
    as_plain,
    checked_layers,
    through,
)
from oar.models.differentiable import Differentiable
from oar.models.protocol import asked_of_rows, class_code
from oar.models.training import Array
from oar.people import Population
from oar.people.labels import LabelCoding, label_array
from oar.typing import Features, Label, Labels


class Batch(NamedTuple):
    """The people of a test batch: features (n, d), and weights (n,)."""

    features: Array
    weights: Array

    def outputs(self, model: TestTimeBatchNorm, rows: Array) -> Array:
        """Return the logits (m, k) of people (m, d), each in a batch with these members."""
        own = model.query_share(float(self.weights.sum()))
        shares = np.append((1 - own) * self.weights / self.weights.sum(), own)
        return np.array([model.batch_outputs(np.vstack([self.features, row]), shares)[-1] for row in rows])


@with_near_names
@dataclass(frozen=True, eq=False, repr=False)
class TestTimeBatchNorm(Differentiable):
    """A fixed network that normalises by the test batch.

    The people of a problem are the other members of the query's test batch. Their labels do not matter. Each of several
    queries is predicted in a batch of its own with all members.

    Args:
        layers: `Dense`, `BatchNorm` and activations ("relu", "tanh", "sigmoid", "softplus"), in any order; at least one
            `BatchNorm`, and a `Dense` at the end, with an output for each class.
        classes: the labels of the outputs; None means 0, 1, 2, …. They are kept in sorted order, outputs with them.
        epsilon: ϵ, added to every variance.
        momentum: m, from 0 to 1: how much the batch's own statistics weigh, against the running ones.
        query_in_batch: whether the query is counted in the statistics, beside the members. Where those who ask are
            members (`oar.Members`), they are in the batch already, and this must be False.

    >>> model = TestTimeBatchNorm([BatchNorm([1.0]), Dense([[-1.0], [1.0]])], classes=["no", "yes"])
    >>> model
    TestTimeBatchNorm(BatchNorm(1) → Dense(1 → 2), classes 'no', 'yes')
    """

    __test__ = False  # not a test, whatever pytest makes of its name

    layers: Any
    classes: Any = None
    epsilon: float = 1e-5
    momentum: float = 1.0
    query_in_batch: bool = True

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            layers: Sequence[Dense | BatchNorm | str],
            classes: Sequence[Label] | None = None,
            epsilon: float = 1e-05,
            momentum: float = 1.0,
            query_in_batch: bool = True,
        ) -> None: ...

    name = "test-time-batch-norm"
    convex = True  # averaging has one result
    labels_matter = False  # and needs nobody of any class
    fixed = True
    scales_itself = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", checked_layers(self.layers))
        epsilon, momentum = self.epsilon, self.momentum
        check_that(is_number(epsilon) and 0 < epsilon < np.inf, "epsilon", "a number above 0", epsilon)
        check_that(is_number(momentum) and 0 <= momentum <= 1, "momentum", "a number from 0 to 1", momentum)
        check_flag("query_in_batch", self.query_in_batch)
        if self.momentum < 1 and any(layer.mean is None for layer in self.norms):
            raise DataError(
                f"BatchNorm mean and variance: must be given where running statistics still count, as with momentum "
                f"{self.momentum:g}, got none; give them, or momentum=1."
            )
        self._sort_classes()

    def _sort_classes(self) -> None:
        """Keep classes, and the last layer's outputs with them, in the order in which populations have them."""
        last = self.layers[-1]
        outputs = len(last.weights)
        labels = label_array(list(range(outputs)) if self.classes is None else self.classes, "classes")
        coding = LabelCoding(labels)
        if outputs < 2 or len(labels) != outputs or len(coding.classes) != outputs:
            raise DataError(
                f"classes: must be a different label for each of the last layer's outputs, of which there must be two "
                f"or more, got {len(coding.classes)} for {outputs}."
            )
        order = np.argsort(coding.encode(labels))
        object.__setattr__(self, "layers", (*self.layers[:-1], Dense(last.weights[order], last.biases[order])))
        object.__setattr__(self, "classes", coding.classes)

    @classmethod
    def trained(
        cls, features: Features, labels: Labels, hidden: tuple[int, ...] = (8,), **settings: Any
    ) -> TestTimeBatchNorm:
        """Train a small network with batch norm on data, and return it with its running statistics.

        Every hidden layer is dense, normalised and activated; without any, the features themselves are normalised. The
        settings are those of `oar.models.batch_norm.training.train`: activation, l2, steps, rate and seed; and those of
        this class: epsilon, momentum and query_in_batch.
        """
        from oar.models.batch_norm.training import train

        own = {name: settings.pop(name) for name in ("momentum", "query_in_batch") if name in settings}
        layers, classes = train(features, labels, hidden, **settings)
        epsilon = {"epsilon": settings["epsilon"]} if "epsilon" in settings else {}
        return cls(layers, classes, **epsilon, **own)

    @cached_property
    def norms(self) -> tuple[BatchNorm, ...]:
        """The normalised layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, BatchNorm))

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether there are no kinks."""
        return "relu" not in self.layers

    @property
    def equivariant(self) -> bool:  # type: ignore[override]
        """Whether a shift of everybody cancels: where all is recomputed and nothing is curved before the first norm."""
        first = self.layers.index(self.norms[0])
        return self.momentum == 1 and not any(layer in ACTIVATIONS for layer in self.layers[:first])

    def query_share(self, total: float) -> float:
        """Return how much of the statistics is the query's own, beside members of this total weight."""
        return 1.0 / (1.0 + total) if self.query_in_batch else 0.0

    @cached_property
    def plain(self) -> Plain:
        """The layers as bare arrays."""
        return as_plain(self.layers)

    def batch_outputs(self, rows: Array, shares: Array) -> Array:
        """Return everybody's logits (n, k), for people (n, d) whose shares (n,) in the statistics sum to 1."""
        return np.asarray(through(self.plain, rows, shares, self.momentum, self.epsilon))

    def outputs(self, parameters: Any, features: Any) -> Any:
        """Return the logits (k,) of one person, in a batch with these members."""
        return self._all_outputs(parameters, np.asarray(features)[None])[0]

    def _all_outputs(self, parameters: Any, features: Any) -> Array:
        people = np.asarray(features, dtype=np.float64)
        found = parameters.outputs(self, people.reshape(-1, people.shape[-1]))
        return np.asarray(found.reshape(*people.shape[:-1], len(self.classes)))

    @asked_of_rows
    def goal_loss(self, parameters: Any, features: Any, goal: Any) -> Array:
        """Return the cross-entropy (...) at a class code."""
        found = self._all_outputs(parameters, features)
        return np.logaddexp.reduce(found, axis=-1) - found[..., class_code(goal, found.shape[-1])]

    @with_near_names
    def fit(self, people: Population) -> Batch:
        """Return the batch, which is all that the model depends on."""
        self.check(people)
        return Batch(np.asarray(people.features, dtype=np.float64), people.row_weights)

    def training(self, people: Population) -> Any:
        """Bind the network to a batch: by hand where one layer is normalised, else by automatic differentiation."""
        from oar.models.batch_norm.batch_statistics import DeepTraining, MomentTraining

        kind = MomentTraining if len(self.norms) == 1 else DeepTraining
        return kind(self, np.asarray(people.features, dtype=np.float64), people.row_weights)

    def check(self, people: Population) -> None:
        """Raise where these people's features are not the network's inputs."""
        first = self.layers[0]
        taken = next(layer.inputs for layer in self.layers if layer not in ACTIVATIONS)
        if people.dimensions != taken:
            raise DataError(f"people: must have the {taken} features that {first!r} takes, got {people.dimensions}.")
        if not people.row_weights.sum() > 0:
            raise DataError("weights: somebody in the batch must weigh something, got a total of 0.")

    def prepared(self, people: Population) -> Population:
        """Return the same people, with the network's classes known.

        Whoever's label is none of them is called what the network makes of it in the batch as it stands.
        """
        self.check(people)
        weights = people.row_weights
        found = self.batch_outputs(np.asarray(people.features, dtype=np.float64), weights / weights.sum())
        return people.of_classes(self.classes, found.argmax(axis=1))

    def check_question(self, members_ask: bool, other_levers: bool) -> None:
        """Raise an OptionError where the problem makes no sense for a network that is not trained."""
        if members_ask and self.query_in_batch:
            raise OptionError(
                "query_in_batch: must be False where members ask (oar.Members), who are in the batch already, got True."
            )
        if other_levers:
            raise OptionError(
                f"action: must be an oar.Perturb(…) alone for {self.name}: labels play no part in it, and the network "
                "has been trained."
            )

    def __repr__(self) -> str:
        layers = " → ".join(map(str, self.layers))
        parts = [layers, "classes " + ", ".join(map(repr, self.classes))]
        parts += [f"momentum {self.momentum:g}"] if self.momentum != 1 else []
        parts += [] if self.query_in_batch else ["query not in batch"]
        return f"TestTimeBatchNorm({', '.join(parts)})"


class Sides(NamedTuple):
    """A network with one batch norm in two halves, affine but for activations right behind the norm."""

    weights: Array  # weights, biases: of the affine map before the norm, (u, d) and (u,)
    biases: Array
    norm: BatchNorm  # norm, activations: what follows
    activations: tuple[str, ...]
    head: Array  # head, head_biases: of the affine map to the logits, (k, u) and (k,)
    head_biases: Array

    def seen(self, values: Array) -> Array:
        """Return f(γ u + β)."""
        values = self.norm.scale * values + self.norm.shift
        for activation in self.activations:
            values = activated(activation, values)
        return values


def sides_of(model: TestTimeBatchNorm) -> Sides | None:
    """Return the network in two halves; None where these are not affine but for activations right after the norm."""
    if len(model.norms) != 1:
        return None
    place = model.layers.index(model.norms[0])
    before, after = list(model.layers[:place]), list(model.layers[place + 1 :])
    activations: list[str] = []
    while after[0] in ACTIVATIONS:
        activations.append(after.pop(0))
    if any(layer in ACTIVATIONS for layer in (*before, *after)):
        return None
    norm = model.norms[0]
    return Sides(*_affine(before, norm.scale.size), norm, tuple(activations), *_affine(after, norm.scale.size))


def _affine(layers: list[Dense], width: int) -> tuple[Array, Array]:
    """Return dense layers as one; the identity of this width where there are none."""
    width = layers[0].weights.shape[1] if layers else width
    weights, biases = np.eye(width), np.zeros(width)
    for layer in layers:
        weights, biases = layer.weights @ weights, layer.weights @ biases + layer.biases
    return weights, biases
