"""What stands before the estimator that predicts: transformers, refitted whenever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.errors import OptionError
from oar.estimators.cores.protocol import Core
from oar.estimators.fitting import RowConversion
from oar.estimators.transformers.binding import (
    SHIFTS,
    STAYS,
    BoundTransformer,
    NodeInput,
    as_numbers,
    bind_all,
    everything,
    kind_of,
)
from oar.estimators.transformers.fields import flow_of
from oar.estimators.transformers.nodes import Chain, Learned, Node
from oar.estimators.transformers.training import FittedFront, FrontTraining
from oar.models.differentiable import need_jax
from oar.models.training import Array
from oar.people import Population

FEW = 5  # rows that show what a frame's columns are


@dataclass(frozen=True, eq=False)
class BoundFront:
    """A front for the columns of some people.

    Attributes:
        node: what it computes of their features.
        sparse: reports whether scikit-learn hands a sparse matrix to the estimator; None where it never does.
        learned: what it has learned, where it was fitted; None where it was not.
    """

    node: Node
    sparse: Callable[[], bool] | None
    learned: Learned | None

    def training(self, features: Array, people: Population, core: Core) -> FrontTraining:
        """Bind front and estimator to people."""
        return FrontTraining(self.node, features, people, core, self.sparse)


@dataclass(frozen=True, eq=False)
class Front:
    """The transformers of a pipeline, however deep; `oar.Problem` makes it of a Pipeline.

    Attributes:
        pipeline: unfitted.
    """

    pipeline: Any

    def __post_init__(self) -> None:
        """Refuse what is not known."""
        everything(self._steps(self.pipeline))

    @staticmethod
    def _steps(pipeline: Any) -> list[Any]:
        """Return everything before the estimator that predicts, of pipelines within pipelines too."""
        found: list[Any] = []
        while hasattr(pipeline, "steps"):
            found += [step for _, step in pipeline.steps[:-1]]
            pipeline = pipeline.steps[-1][1]
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing stands before the estimator."""
        return not everything(self._steps(self.pipeline))

    @property
    def name(self) -> str:
        """What stands there."""
        names = [type(one).__name__ for one in self._steps(self.pipeline) if not (one is None or isinstance(one, str))]
        return ", then ".join(names)

    @property
    def table(self) -> bool:
        """Whether it tells columns apart."""
        return any(kind_of(one).table for one in everything(self._steps(self.pipeline)))

    @property
    def smooth(self) -> bool:
        """Whether nothing in it has kinks."""
        return all(kind_of(one).smooth for one in everything(self._steps(self.pipeline)))

    @property
    def _shift(self) -> int:
        shift = SHIFTS
        for step in self._steps(self.pipeline):
            shift = kind_of(step).shift(step, shift)
        return shift

    @property
    def invariant(self) -> bool:
        """Whether a shift of everybody and the query changes nothing behind it, as behind what centres."""
        return self._shift == STAYS

    @property
    def equivariant(self) -> bool:
        """Whether such a shift is at most a shift behind it."""
        return self._shift <= SHIFTS

    def bound(self, people: Population) -> BoundFront:
        """Bind the transformers to the columns of these people."""
        return self._bound(people, None)

    def read(self, fitted: Any, people: Population) -> FittedFront:
        """Return what the transformers of a fitted pipeline have learned."""
        bound = self._bound(people, fitted)
        assert bound.learned is not None
        return FittedFront(bound.node, bound.learned)

    def _bound(self, people: Population, fitted: Any) -> BoundFront:
        need_jax(self.name)
        features = np.asarray(people.features, dtype=np.float64)
        present = features if people.weights is None else features[people.weights > 0]
        frame = RowConversion(people, table=self.table).rows(present[:FEW])
        steps = self._steps(self.pipeline)
        own = [None] * len(steps) if fitted is None else self._steps(fitted)
        incoming = NodeInput(flow_of(people, self.table, frame), lambda: present)
        bound = bind_all(list(zip(steps, own, strict=True)), incoming)
        last: BoundTransformer = as_numbers(NodeInput(bound.flow, incoming.rows))
        learned = None if bound.learned is None else (bound.learned, last.learned)
        return BoundFront(Chain((bound.node, last.node)), last.flow.sparse, learned)


def front_of(pipeline: Any) -> Front | None:
    """Return what stands before the estimator that predicts; None where nothing does."""
    if not hasattr(pipeline, "steps"):
        return None
    last = pipeline
    while hasattr(last, "steps"):
        last = last.steps[-1][1]
    if last is None or isinstance(last, str):
        raise OptionError(f"model: a Pipeline must end in an estimator that predicts, got {last!r} as its last step.")
    front = Front(pipeline)
    return None if front.empty else front
