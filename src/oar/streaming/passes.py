"""What is done with one part of the people, wherever it is: the map of every map-reduce for linear models.

    measure    where features lie and how far they spread, and a few people to begin with
    total      a sum that a refit or a Hessian solve needs (`passes`), where people have moved to
    advance    one more step of the walk; the slope of the way there, and the risk where it leads
    compare    gradients at a walk's end: the gap, and what they are along the way from the walk before

Each is a function of the part, the walk and a few parameters, so that any worker may do it, and again. What the last
pass has kept (`scratch`) is used where it is there.

People are worked on in blocks of chunks of one size, the last one filled up with people of no weight, and their number
is a power of two: XLA compiles for few shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import Allowance
from oar.actions.sets.norms import Norm
from oar.models.linear.losses import Linear
from oar.people import Chunk
from oar.people.labels import LabelCoding
from oar.people.parts.part import Part, Rows, sliced
from oar.people.parts.population import chunks_of, encoded
from oar.streaming.kernels import compiled
from oar.streaming.scratch import ReadOnlyScratch, Scratch
from oar.streaming.signal_path import SignalPath, Stride, stepped

Array = NDArray[np.float64]
ROWS = 1_000  # of a chunk: as much as fits in the cache, as for people in memory
BLOCK = 128 * ROWS  # people whose arrays are in memory at a time, on each thread
CACHED = 4_096  # people at a time in NumPy
SAMPLE = 20_000  # people to begin with


@dataclass(frozen=True, eq=False)
class Spec:
    """What every worker must know: the model, everybody's limits, the units, and where to keep things.

    Attributes:
        model: a linear model.
        outputs: o.
        coding: from labels to classes; None where labels are values.
        classes: how many.
        norm, allowance: everybody's limits.
        total: everybody's weight. weighted: whether weights differ.
        run: a name for what is kept on disk.
        centre, scale: (d,) the training's units.
    """

    model: Linear
    outputs: int
    coding: LabelCoding | None
    classes: int
    allowance: Allowance
    total: float
    weighted: bool
    run: str
    centre: Array
    scale: Array
    sent_once: ClassVar[bool] = True

    @property
    def norm(self) -> Norm:
        """The norm of the budgets."""
        return self.allowance.norm

    @cached_property
    def rows(self) -> Array:
        """What outputs are compared with, for each class (k, o); of values a single 0."""
        if self.coding is None:
            return np.zeros((1, 1))
        return np.ascontiguousarray(self.model.target_rows(np.eye(self.classes)))

    def targets(self, codes: Any, values: Any) -> Array:
        """Return what outputs are compared with (n, o)."""
        return np.array(values) if self.coding is None else self.rows[codes]


class Block:
    """Some consecutive people of a part, with what has been computed of them; data are read only where they are needed.

    Everything that XLA is given is in chunks of ROWS people, the last ones filled up with people of no weight.
    """

    def __init__(self, spec: Spec, reader: Reader | RowsInMemory, start: int, first: int, last: int) -> None:
        """`start` is the position of the part's first person; `first` and `last` are within the part."""
        self.spec, self._reader, self._first, self._last = spec, reader, first, last
        self._from = start + first
        self.size = last - first
        self.scratch = (
            Scratch(spec.run, self._from) if isinstance(reader, Reader) else ReadOnlyScratch(spec.run, self._from)
        )

    @property
    def dimensions(self) -> int:
        """How many features each person has."""
        return self.spec.centre.size

    @cached_property
    def features(self) -> Array:
        """(n, d), as given."""
        return self._reader.rows.slice(self._first, self._last)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """In chunks: codes (c, r), or values (c, r, 1)."""
        found = self.scratch.held("labels", "")
        if found is None:
            by_class = self.spec.coding is not None
            filled = np.zeros(self._filled, dtype=np.int32 if by_class else np.float64)
            filled[: self.size] = self._reader.labels(self.spec.coding)[self._first : self._last]
            found = filled.reshape(-1, ROWS) if by_class else filled.reshape(-1, ROWS, 1)
            self.scratch.hold("labels", "", found)
        return found

    @cached_property
    def weights(self) -> Array:
        """(n,), as shares of everybody's."""
        if not self.spec.weighted:
            return np.full(self.size, 1 / self.spec.total)
        found = self.scratch.held("weights", "")
        if found is None:
            given = self._reader.rows.weights
            assert given is not None
            found = given[self._first : self._last] / self.spec.total
            self.scratch.hold("weights", "", found)
        return found

    @cached_property
    def radii(self) -> Array:
        """(n,): nobody moves in vain."""
        allowed = self.spec.allowance.of(self._from, self._from + self.size)
        return np.where(self.weights > 0, allowed, 0.0) if self.spec.weighted else allowed

    # What a walk makes of them

    def moves(self, walk: SignalPath) -> Array:
        """Return everyone's moves at the end of a walk: kept ones, or else by walking from the last that were kept."""
        ahead, at, found = [], walk, self._kept(walk)
        while found is None and at.strides:
            ahead.append(at.strides[-1])
            at = at.before
            found = self._kept(at)
        if not ahead and found is not None:
            return found
        moves = walk.begin(self.spec.norm, self.radii, self.dimensions) if found is None else found
        for stride in reversed(ahead):
            moves, _ = stepped(stride, self.spec.norm, self.radii, moves, self._scored(self._pack(moves), stride))
        self.scratch.write("moves", walk.key, moves)
        return moves

    def _kept(self, walk: SignalPath) -> Array | None:
        return self.scratch.read("moves", walk.key, (self.size, self.dimensions))

    def ahead(self, walk: SignalPath, stride: Stride) -> Array:
        """Return ∇_x s (n, d) at the end of a walk, by a stride's signal."""
        return self._scored(self.packed(walk), stride)

    def _scored(self, packed: Array, stride: Stride) -> Array:
        at, along, some = stride.parameters, stride.signal, slice(self.dimensions)
        scores = self._passed("scores", packed, at, along, at[:, some], along[:, some])
        return scores.reshape(-1, self.dimensions)[: self.size] / self.spec.scale

    def packed(self, walk: SignalPath) -> Array:
        """Return moved features in chunks (c, r, d), in the training's units."""
        found = self.scratch.held("moved", walk.key)
        if found is None:
            found = self._pack(self.moves(walk))
            self.scratch.hold("moved", walk.key, found)
        return found

    def _pack(self, moves: Array) -> Array:
        packed = np.zeros((self._filled, self.dimensions))
        rows = packed[: self.size]
        np.add(self.features, moves, out=rows)
        rows -= self.spec.centre
        rows /= self.spec.scale
        return packed.reshape(-1, ROWS, self.dimensions)

    def run(self, kind: str, walk: SignalPath, *arguments: Array) -> Any:
        """Run one compiled pass where a walk led to; one result for all chunks."""
        return self._passed(kind, self.packed(walk), *arguments)

    def _passed(self, kind: str, packed: Array, *arguments: Array) -> Any:
        import jax

        weights = np.zeros(self._filled)
        weights[: self.size] = self.weights
        pass_ = compiled(self.spec.model, kind, self.spec.coding is not None)
        with jax.enable_x64(True):
            found = pass_(packed, self.labels, weights.reshape(-1, ROWS), self.spec.rows, *arguments)
            return jax.tree.map(np.asarray, found)

    @property
    def _filled(self) -> int:
        chunks = -(-self.size // ROWS)
        return ROWS << (chunks - 1).bit_length()


class Reader:
    """Reads a part when it is first asked for."""

    def __init__(self, part: Part) -> None:
        self._part = part

    @cached_property
    def rows(self) -> Rows:
        """Everything."""
        return self._part.read()

    def labels(self, coding: LabelCoding | None) -> NDArray[Any]:
        """Return labels as codes, or without a coding as values."""
        return np.asarray(self.rows.labels, dtype=np.float64) if coding is None else encoded(coding, self.rows)


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """People who are in memory: their data as a part would read them, with labels that are codes, or values."""

    rows: Rows

    def labels(self, coding: LabelCoding | None) -> NDArray[Any]:
        """Return labels as they are."""
        return self.rows.labels


def in_memory(chunk: Chunk, spec: Spec) -> Block:
    """Return people who are in memory as a block; what was kept of it is used, and nothing more is kept."""
    labels: NDArray[Any] = chunk.codes
    if spec.coding is None:
        assert chunk.values is not None
        labels = chunk.values[:, 0]
    rows = Rows(chunk.features, labels, chunk.weights, f"people from {chunk.start:,} on")
    return Block(spec, RowsInMemory(rows), chunk.start, 0, len(labels))


def blocks_of(part: Part, start: int, spec: Spec) -> Iterator[Block]:
    """Walk over a part's people a block at a time."""
    reader = Reader(part)
    for first, last in sliced(part.size, BLOCK):
        yield Block(spec, reader, start, first, last)


def total(part: Part, start: int, spec: Spec, walk: SignalPath, kind: str, *arguments: Array) -> Any:
    """Return a part's share of a sum that a refit or a solve needs."""
    import jax

    found: Any = None
    for block in blocks_of(part, start, spec):
        one = block.run(kind, walk, *arguments)
        found = one if found is None else jax.tree.map(np.add, found, one)
    return found


def advance(part: Part, start: int, spec: Spec, walk: SignalPath, stride: Stride) -> tuple[float, float, Array]:
    """Take one more step; return the slope of the way to its aim, and risk and gradient at its θ where it leads."""
    slope, risk, gradient = 0.0, 0.0, np.zeros_like(stride.parameters)
    after = walk.then(stride)
    for block in blocks_of(part, start, spec):
        moves, ahead = block.moves(walk), block.ahead(walk, stride)
        new = np.empty_like(ahead)
        for some in _in_cache(block.size):
            new[some], aims = stepped(stride, spec.norm, block.radii[some], moves[some], ahead[some])
            slope -= _inner(block.weights[some], ahead[some], aims - moves[some])
        block.scratch.write("moves", after.key, new, beside=walk.key)
        value, rise = block.run("risk", after, stride.parameters)
        risk, gradient = risk + float(value), gradient + rise
    return slope, risk, gradient


def _in_cache(size: int) -> Iterator[slice]:
    """Walk over people a few at a time, so that what is only passed on stays in the cache."""
    for first, last in sliced(size, CACHED):
        yield slice(first, last)


def _inner(weights: Array, left: Array, right: Array) -> float:
    """Return Σ w̄_i ⟨a_i, b_i⟩."""
    return float(weights @ np.einsum("nd,nd->n", left, right))


@dataclass(frozen=True)
class PathSums:
    """Sums over people at a walk's end, and since the walk before.

    Attributes:
        squared: ⟨s, s⟩, with s the change of moves.
        along: ⟨s, g⟩, with g the gradients now.
        gap: the Frank–Wolfe gap. steepest: the largest entry of a gradient of somebody who may move.
    """

    squared: float = 0.0
    along: float = 0.0
    gap: float = 0.0
    steepest: float = 0.0

    def __add__(self, other: PathSums) -> PathSums:
        return PathSums(
            self.squared + other.squared,
            self.along + other.along,
            self.gap + other.gap,
            max(self.steepest, other.steepest),
        )


def compare(part: Part, start: int, spec: Spec, walk: SignalPath, signal: Stride, last: SignalPath | None) -> PathSums:
    """Look at gradients at a walk's end, by a signal there, along the way from the last walk's end."""
    found = PathSums()
    for block in blocks_of(part, start, spec):
        moves, ahead = block.moves(walk), block.ahead(walk, signal)
        before = None if last is None else block.moves(last)
        for some in _in_cache(block.size):
            here, uphill, weights, radii = moves[some], ahead[some], block.weights[some], block.radii[some]
            squared = along = 0.0
            if before is not None:
                change = here - before[some]
                squared, along = _inner(weights, change, change), -_inner(weights, change, uphill)
            each = radii * spec.norm.dual.length(uphill) - np.einsum("nd,nd->n", uphill, here)
            steepest = float((np.abs(uphill).max(axis=1) * (radii > 0)).max())
            found = found + PathSums(squared, along, float(weights @ np.maximum(each, 0.0)), steepest)
    return found


@dataclass(frozen=True, eq=False)
class PartStatistics:
    """Some people: their weight, mean and squared distances from it (d,), whether features differ, and a few of them.

    Attributes:
        totals: (k,) the weight of each class; a single 0 where values are regressed.
        low, high: (d,) the least and largest features of people who weigh something.
        rows, targets, weights: of the few.
    """

    weight: float
    mean: Array
    squares: Array
    totals: Array
    low: Array
    high: Array
    rows: Array
    targets: Array
    weights: Array

    def __add__(self, other: PartStatistics) -> PartStatistics:
        """Put two groups together (Chan, Golub & LeVeque 1979), without losing digits to large means."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        apart = other.mean - self.mean
        return PartStatistics(
            weight,
            self.mean + share * apart,
            self.squares + other.squares + self.weight * share * apart**2,
            self.totals + other.totals,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )


def measure(part: Part, start: int, spec: Spec, size: int) -> PartStatistics:
    """Measure a part's people; `size` is how many there are in all parts."""
    found: PartStatistics | None = None
    for chunk in chunks_of(part.read(), start, spec.coding):
        rows = chunk.features
        weights = np.ones(len(rows)) if chunk.weights is None else chunk.weights
        weight = float(weights.sum())
        mean = weights @ rows / weight if weight > 0 else np.zeros(rows.shape[1])
        some = rows[weights > 0]
        one_in = max(1, size // SAMPLE)
        few = slice(-chunk.start % one_in, None, one_in)  # by position, so that it is the same people in any parts
        targets = spec.targets(chunk.codes[few], None if chunk.values is None else chunk.values[few])
        one = PartStatistics(
            weight,
            mean,
            weights @ (rows - mean) ** 2,
            np.zeros(1) if spec.coding is None else np.bincount(chunk.codes, weights, spec.classes).astype(np.float64),
            some.min(axis=0, initial=np.inf),
            some.max(axis=0, initial=-np.inf),
            rows[few].copy(),
            targets,
            weights[few],
        )
        found = one if found is None else found + one
    assert found is not None
    return found
