"""Passes over one part of the people, wherever it is: the map of every map-reduce for linear models.

    measure    where features lie and how far they spread, and a few people to begin with
    total      a sum that a refit or a Hessian solve needs (`passes`), where people have moved to
    advance    one more step of a signal path; the slope of the way there, and the risk where it leads
    compare    gradients at a path's end: the gap, and what they are along the way from the path before

Each is a function of the part, the path and a few parameters, so that any worker may do it, and again. What the last
pass has kept (`scratch`) is used where it is there.

**A signal path** is where everybody has moved to. A projected step of length α from moves δ, with the signal (θ, v),
leads everyone to

    aim_i = P_i(δ_i + α ∇_x s(x_i + δ_i)),        and by a share λ of the way there        δ_i ← δ_i + λ (aim_i − δ_i)

in which P_i is the projection into the person's own ball. The path is the list of these (θ, v, α, λ): a few kilobytes
from which everyone's move follows, without anybody else's data. So moves need not be kept by anybody; whoever keeps
them only saves the time of walking again, and a worker that is lost takes nothing with it.

People are worked on in blocks of chunks of one size, the last one filled up with people of no weight, and their number
is a power of two: XLA compiles for few shapes. Labels come as codes: the row of targets of each class, as large as
features, is looked up inside the compiled pass and never leaves the cache.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Allowance, Norm
from oar.models.linear.losses import KINDS, Linear
from oar.models.training import Array
from oar.people import Chunk
from oar.people.labels import LabelCoding
from oar.people.parts.part import Part, Rows, sliced
from oar.people.parts.population import chunks_of, encoded
from oar.people.parts.rows import AT_A_TIME, Formula
from oar.streaming.scratch import ReadOnlyScratch, Scratch


@dataclass(frozen=True, eq=False)
class Units:
    """The units in which a training sees features: e = (x − centre)/scale."""

    centre: Array
    scale: Array

    @property
    def signature(self) -> bytes:
        """What they are told apart by."""
        return b"".join(part.tobytes() for part in vars(self).values())

    def pulled(self, slopes: Array, seen: Array) -> Array:
        """Return ∇_x s (n, d) from the model's own ∇_e s there."""
        return slopes / self.scale


@dataclass(frozen=True, eq=False)
class ScalerUnits(Units):
    """Units that are a scaler's, which members' moves shift: their score has −Σ e (shift + widening e) in it, too."""

    shift: Array
    widening: Array

    def pulled(self, slopes: Array, seen: Array) -> Array:
        """Return ∇_x s (n, d)."""
        return (slopes - self.shift - 2 * self.widening * seen) / self.scale


@dataclass(frozen=True, eq=False)
class Stride:
    """One step: the signal θ and v (o, d + 1), in units of its own or the training's; how long; what share of it."""

    parameters: Array
    signal: Array
    length: float
    share: float = 1.0
    units: Units | None = None

    @property
    def signature(self) -> bytes:
        """What it is told apart by."""
        numbers = np.concatenate([self.parameters.ravel(), self.signal.ravel(), [self.length, self.share]])
        return numbers.tobytes() + (self.units.signature if self.units else b"")

    def seen(self, walk: MovesMade) -> Seen:
        """Return a walk as the signal sees it."""
        return SeenThrough(walk, self.units) if self.units else walk


@dataclass(frozen=True, eq=False)
class SignalPath:
    """Steps, one after the other, from where people stand or from a common shift (d,) of all who may move."""

    strides: tuple[Stride, ...] = ()
    shift: Array | None = None
    names: tuple[str, ...] = ()
    """What it was called before its first step, and after each, by everything that it consisted of then."""

    def __post_init__(self) -> None:
        """Name its beginning, and what came after."""
        if not self.names:
            names = [_named(b"" if self.shift is None else self.shift.tobytes())]
            for stride in self.strides:
                names.append(_named(names[-1].encode() + stride.signature))
            object.__setattr__(self, "names", tuple(names))

    @property
    def key(self) -> str:
        """What it is called."""
        return self.names[-1]

    def then(self, stride: Stride) -> SignalPath:
        """Return this walk with one more step."""
        name = _named(self.key.encode() + stride.signature)
        return SignalPath((*self.strides, stride), self.shift, (*self.names, name))

    @property
    def before(self) -> SignalPath:
        """The same without its last step."""
        return SignalPath(self.strides[:-1], self.shift, self.names[:-1])

    def units_in(self, spec: Spec) -> Units:
        """Return those of a training."""
        return spec.units

    def rows(self, given: Array) -> Array:
        """Return unmoved people (m, d) as a training is given them."""
        return given

    def moves_in(self, block: Block) -> Array:
        """Return the moves (n, d) of a block's people."""
        return block.walked(self)

    def begin(self, norm: Norm, radii: Array, dimensions: int) -> Array:
        """Return everyone's moves (n, d) before the first step."""
        if self.shift is None:
            return np.zeros((radii.size, dimensions))
        return norm.project(np.tile(self.shift, (radii.size, 1)), radii)


@dataclass(frozen=True, eq=False)
class GivenMoves:
    """Moves that are handed out by a formula of each person's data, and the name by which they are told apart."""

    formula: Formula
    key: str
    strides: ClassVar[tuple[Stride, ...]] = ()

    def units_in(self, spec: Spec) -> Units:
        """Return those of a training."""
        return spec.units

    def rows(self, given: Array) -> Array:
        """Return unmoved people (m, d) as a training is given them."""
        return given

    def moves_in(self, block: Block) -> Array:
        """Return the moves (n, d) of a block's people."""
        return self.formula.of_chunk(block.chunk)


MovesMade = SignalPath | GivenMoves


@dataclass(frozen=True, eq=False)
class SeenThrough:
    """Where everybody has moved to, in the units of a scaler."""

    walk: MovesMade
    units: Units

    @cached_property
    def key(self) -> str:
        """What it is called."""
        return _named(self.walk.key.encode() + self.units.signature)

    @property
    def strides(self) -> tuple[Stride, ...]:
        """The steps."""
        return self.walk.strides

    def units_in(self, spec: Spec) -> Units:
        """Return the scaler's."""
        return self.units

    def moves_in(self, block: Block) -> Array:
        """Return the moves (n, d) of a block's people."""
        return self.walk.moves_in(block)

    def rows(self, given: Array) -> Array:
        """Return unmoved people (m, d) as they are seen."""
        return (given - self.units.centre) / self.units.scale


Seen = SignalPath | GivenMoves | SeenThrough


def stepped(stride: Stride, norm: Norm, radii: Array, moves: Array, ahead: Array) -> tuple[Array, Array]:
    """Return everyone's moves after a step, and the aims; `ahead` are ∇_x s (n, d)."""
    aims = norm.project(moves + stride.length * ahead, radii)
    if stride.share == 1:
        return aims, aims
    # Between two points of a ball one can leave it by rounding only, but must not.
    return norm.project(moves + stride.share * (aims - moves), radii), aims


def _named(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=10).hexdigest()


@lru_cache(maxsize=64)
def compiled(model: Linear, kind: str, by_class: bool) -> Callable[..., Any]:
    """Compile one kind of pass over chunks (chunks, rows, …); compiled once for each shape, and kept.

    It is called with features (c, r, d), labels (c, r) that are codes or (c, r, o) that are values, weights (c, r), the
    classes' targets (k, o), and what the pass itself needs.
    """
    import jax

    one = KINDS[kind]

    def each(chunk: Any, targets: Any, arguments: Any) -> Any:
        features, labels, weights = chunk
        return one(model, (features, targets[labels] if by_class else labels, weights), *arguments)

    def mapped(features: Any, labels: Any, weights: Any, targets: Any, *arguments: Any) -> Any:
        return jax.lax.map(lambda chunk: each(chunk, targets, arguments), (features, labels, weights))

    def summed(features: Any, labels: Any, weights: Any, targets: Any, *arguments: Any) -> Any:
        chunks = features, labels, weights

        def step(sums: Any, chunk: Any) -> tuple[Any, None]:
            return jax.tree.map(lambda left, right: left + right, sums, each(chunk, targets, arguments)), None

        first = jax.tree.map(lambda array: array[0], chunks)
        shapes = jax.eval_shape(lambda chunk: each(chunk, targets, arguments), first)
        zero = jax.tree.map(lambda shape: jax.numpy.zeros(shape.shape, shape.dtype), shapes)
        return jax.lax.scan(step, zero, chunks)[0]

    return jax.jit(mapped if kind == "scores" else summed)


ROWS = 1_000  # of a chunk: as much as fits in the cache, as for people in memory
BLOCK = AT_A_TIME
CACHED = 4_096  # people at a time in NumPy
SAMPLE = 20_000  # people to begin with


@dataclass(frozen=True, eq=False)
class Spec:
    """The specification for every worker: the model, everybody's limits, the units, and where to keep files.

    Attributes:
        model: a linear model.
        outputs: o.
        coding: from labels to classes; None where labels are values.
        classes: how many.
        norm, allowance: everybody's limits.
        total: everybody's weight. weighted: whether weights differ.
        run: a name for what is kept on disk.
        centre, scale: (d,) the training's units.
        given: what outputs are compared with, where somebody hands in another label; (n, o).
        shares: (n,) everybody's weight as a share of all, where somebody hands in another; None where nobody does.
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
    given: Formula | None = None
    shares: Array | None = None
    sent_once: ClassVar[bool] = True

    @property
    def by_class(self) -> bool:
        """Whether targets are those of one class a person."""
        return self.coding is not None and self.given is None

    @property
    def norm(self) -> Norm:
        """The norm of the budgets."""
        return self.allowance.norm

    @cached_property
    def units(self) -> Units:
        """The training's units."""
        return Units(self.centre, self.scale)

    @cached_property
    def rows(self) -> Array:
        """What outputs are compared with, for each class (k, o); of values a single 0."""
        if not self.by_class:
            return np.zeros((1, 1))
        return np.ascontiguousarray(self.model.target_rows(np.eye(self.classes)))

    def targets(self, codes: Any, values: Any) -> Array:
        """Return what outputs are compared with (n, o)."""
        return self.rows[codes] if self.by_class else np.array(values)


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

        def filled() -> NDArray[Any]:
            by_class, given = self.spec.by_class, self.spec.given
            if given is not None:
                rows = given.of_chunk(self.chunk)
                packed = np.zeros((self._filled, rows.shape[1]))
                packed[: self.size] = rows
                return packed.reshape(-1, ROWS, rows.shape[1])
            found = np.zeros(self._filled, dtype=np.int32 if by_class else np.float64)
            found[: self.size] = self._reader.labels(self.spec.coding)[self._first : self._last]
            return found.reshape(-1, ROWS) if by_class else found.reshape(-1, ROWS, 1)

        return self.scratch.kept("labels", "", filled)

    @property
    def chunk(self) -> Chunk:
        """The people, as whoever hands out moves knows them."""
        some, coding = slice(self._first, self._last), self.spec.coding
        labels = self._reader.labels(coding)[some]
        codes = np.zeros(self.size, dtype=np.int32) if coding is None else labels
        weights = self._reader.rows.weights_of(self._first, self._last)
        return Chunk(self._from, self.features, codes, weights, labels[:, None] if coding is None else None)

    @cached_property
    def weights(self) -> Array:
        """(n,), as shares of everybody's."""
        if self.spec.shares is not None:
            return self.spec.shares[self._from : self._from + self.size]
        if not self.spec.weighted:
            return np.full(self.size, 1 / self.spec.total)
        some = self._first, self._last
        return self.scratch.kept("weights", "", lambda: self._reader.rows.row_weights_of(*some) / self.spec.total)

    @cached_property
    def radii(self) -> Array:
        """(n,): nobody moves in vain."""
        allowed = self.spec.allowance.of(self._from, self._from + self.size)
        return np.where(self.weights > 0, allowed, 0.0) if self.spec.weighted else allowed

    # What a walk makes of them

    def moves(self, walk: Seen) -> Array:
        """Return everyone's moves at the end of a walk, or as they are given."""
        return walk.moves_in(self)

    def walked(self, walk: SignalPath) -> Array:
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
            units = stride.units or self.spec.units
            moves, _ = stepped(
                stride, self.spec.norm, self.radii, moves, self._scored(self._pack(moves, units), stride)
            )
        self.scratch.write("moves", walk.key, moves)
        return moves

    def _kept(self, walk: SignalPath) -> Array | None:
        return self.scratch.read("moves", walk.key, (self.size, self.dimensions))

    def ahead(self, walk: MovesMade, stride: Stride) -> Array:
        """Return ∇_x s (n, d) at the end of a walk, by a stride's signal."""
        return self._scored(self.packed(stride.seen(walk)), stride)

    def _scored(self, packed: Array, stride: Stride) -> Array:
        seen = packed.reshape(-1, self.dimensions)[: self.size]
        return (stride.units or self.spec.units).pulled(self.slopes(packed, stride), seen)

    def slopes(self, packed: Array, stride: Stride) -> Array:
        """Return the model's own ∇_e s (n, d) of people in chunks."""
        at, along, some = stride.parameters, stride.signal, slice(self.dimensions)
        scores = self._passed("scores", packed, at, along, at[:, some], along[:, some])
        return scores.reshape(-1, self.dimensions)[: self.size]

    def packed(self, walk: Seen) -> Array:
        """Return moved features in chunks (c, r, d), in the training's units, or a scaler's."""
        return self.scratch.kept("moved", walk.key, lambda: self._pack(self.moves(walk), walk.units_in(self.spec)))

    def _pack(self, moves: Array, units: Units) -> Array:
        packed = np.zeros((self._filled, self.dimensions))
        rows = packed[: self.size]
        np.add(self.features, moves, out=rows)
        rows -= units.centre
        rows /= units.scale
        return packed.reshape(-1, ROWS, self.dimensions)

    def run(self, kind: str, walk: Seen, *arguments: Array) -> Any:
        """Run one compiled pass where a walk led to; one result for all chunks."""
        return self._passed(kind, self.packed(walk), *arguments)

    def _passed(self, kind: str, packed: Array, *arguments: Array) -> Any:
        import jax

        weights = np.zeros(self._filled)
        weights[: self.size] = self.weights
        pass_ = compiled(self.spec.model, kind, self.spec.by_class)
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


@dataclass(frozen=True, eq=False)
class Ahead:
    """Everybody's ∇_x s (n, d) at the end of a walk, by a stride's signal."""

    spec: Spec
    walk: MovesMade
    stride: Stride

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return some people's."""
        return in_memory(chunk, self.spec).ahead(self.walk, self.stride)


def blocks_of(part: Part, start: int, spec: Spec) -> Iterator[Block]:
    """Walk over a part's people a block at a time."""
    reader = Reader(part)
    for first, last in sliced(part.size, BLOCK):
        yield Block(spec, reader, start, first, last)


def total(part: Part, start: int, spec: Spec, walk: Seen, kind: str, *arguments: Array) -> Any:
    """Return a part's share of a sum that a refit or a solve needs."""
    return reduce(added_leaves, (block.run(kind, walk, *arguments) for block in blocks_of(part, start, spec)))


def moments(part: Part, start: int, spec: Spec, walk: MovesMade, units: Units) -> Array:
    """Return everybody's weighted sums of features and their squares (2, d), where a walk leads to, in some units."""
    found = np.zeros((2, spec.centre.size))
    for block in blocks_of(part, start, spec):
        moves = block.moves(walk)
        for some in _in_cache(block.size):
            rows = (block.features[some] + moves[some] - units.centre) / units.scale
            found += block.weights[some] @ rows, block.weights[some] @ rows**2
    return found


def felt(part: Part, start: int, spec: Spec, walk: Seen, signal: Stride) -> Array:
    """Return everybody's weighted sums of ∇_e s, and of ∇_e s times e (2, d), as a scaler sees them."""
    found = np.zeros((2, spec.centre.size))
    for block in blocks_of(part, start, spec):
        packed = block.packed(walk)
        slopes = block.slopes(packed, signal)
        seen = packed.reshape(-1, block.dimensions)[: block.size]
        found += block.weights @ slopes, block.weights @ (slopes * seen)
    return found


def added_leaves(one: Any, other: Any) -> Any:
    """Return the sum of two trees of arrays, leaf by leaf."""
    import jax

    return jax.tree.map(np.add, one, other)


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


def gains(part: Part, start: int, spec: Spec, walk: SignalPath, stride: Stride) -> Array:
    """Return what everyone's full move from where a walk leads would gain, to first order (n,)."""
    found = [
        block.weights * block.radii * spec.norm.dual.length(block.ahead(walk, stride))
        for block in blocks_of(part, start, spec)
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _in_cache(size: int) -> Iterator[slice]:
    """Walk over people a few at a time, so that what is only passed on stays in the cache."""
    for first, last in sliced(size, CACHED):
        yield slice(first, last)


def _inner(weights: Array, left: Array, right: Array) -> float:
    """Return Σ w̄_i ⟨a_i, b_i⟩."""
    return float(weights @ np.einsum("nd,nd->n", left, right))


@dataclass(frozen=True)
class PathSums:
    """Sums over people at a walk's end, and since the walk before: ⟨s, s⟩ and ⟨s, g⟩, with s the change of moves.

    g are the gradients now; the steepest is the largest entry of one of somebody who may move.
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
        before = moves if last is None else block.moves(last)
        for some in _in_cache(block.size):
            here, uphill, weights, radii = moves[some], ahead[some], block.weights[some], block.radii[some]
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

    def measured(chunk: Chunk) -> PartStatistics:
        rows, weights = chunk.features, chunk.row_weights
        weight = float(weights.sum())
        mean = weights @ rows / weight if weight > 0 else np.zeros(rows.shape[1])
        some = rows[weights > 0]
        one_in = max(1, size // SAMPLE)
        few = slice(-chunk.start % one_in, None, one_in)  # by position, so that it is the same people in any parts
        targets = spec.targets(chunk.codes[few], None if chunk.values is None else chunk.values[few])
        return PartStatistics(
            weight,
            mean,
            weights @ (rows - mean) ** 2,
            np.bincount(chunk.codes, weights, spec.classes).astype(np.float64) if spec.by_class else np.zeros(1),
            some.min(axis=0, initial=np.inf),
            some.max(axis=0, initial=-np.inf),
            rows[few].copy(),
            targets,
            weights[few],
        )

    return reduce(operator.add, map(measured, chunks_of(part.read(), start, spec.coding)))
