"""The transformers that are known, with their settings, and their binding to the columns that come in.

Beside the table that scikit-learn sees there are our rows of numbers (n, w), in which a column of levels takes a place
for every level. A `Field` is one column of that table and says where it is in the rows; a transformer chooses its
columns by name, mask or slice.

Every transformer is bound to the columns that it is given, and where it is fitted, what it has learned is read off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from oar.errors import DataError, OptionError
from oar.estimators.transformers.columns import chosen, codes, one_hot, plainly
from oar.estimators.transformers.nodes import (
    Beside,
    Chain,
    Encode,
    Learned,
    MaxAbs,
    MinMax,
    Node,
    Principal,
    Robust,
    Standard,
    UnitLength,
    components_kept,
    fitted_and_transformed,
)
from oar.models.training import Array
from oar.people import Population

STAYS, SHIFTS, CHANGES = range(3)  # what becomes of rows if everybody's are shifted alike: nothing, a shift, or else


@dataclass(frozen=True)
class Field:
    """One column."""

    name: Any  # what it is called; None where a transformer before it made an array of it
    # "number", "flag" (0 or 1), "ranks" (0, 1, … of levels in order) or "levels" (a place for each, of which a person's
    # is 1 and all others 0)
    kind: str
    start: int  # its first place in the rows
    levels: tuple[Any, ...] = ()  # of all but numbers, in the order of their ranks or places
    present: tuple[bool, ...] = ()  # which of these levels somebody has

    @property
    def width(self) -> int:
        """How many places it takes."""
        return len(self.levels) if self.kind == "levels" else 1

    @property
    def places(self) -> range:
        """Its places in the rows."""
        return range(self.start, self.start + self.width)

    @property
    def word(self) -> str:
        """The column's name in errors."""
        return "a column" if self.name is None else f"column {self.name!r}"


def dense() -> bool:
    """Report that columns are in no sparse matrix, as of most transformers."""
    return False


@dataclass(frozen=True)
class Flow:
    """The columns that come into a transformer."""

    fields: tuple[Field, ...]
    frame: Any = None  # what they are in, as long as they still are a frame; None for an array
    sparse: Callable[[], bool] = dense  # reports whether scikit-learn keeps them in a sparse matrix

    @property
    def width(self) -> int:
        """How many places all columns take."""
        return sum(field.width for field in self.fields)

    def some(self, which: list[int]) -> tuple[tuple[int, ...], Flow]:
        """Return the places of these columns, and the columns as they are once nothing else is there."""
        places: list[int] = []
        fields = []
        for number in which:
            field = self.fields[number]
            fields.append(replace(field, start=len(places)))
            places += field.places
        frame = None if self.frame is None else self.frame.iloc[:, which]
        return tuple(places), Flow(tuple(fields), frame)


def numbers(width: int, sparse: Callable[[], bool] = dense) -> Flow:
    """Return so many columns of numbers."""
    return Flow(tuple(Field(None, "number", place) for place in range(width)), None, sparse)


def beside(flows: list[Flow], sparse: Callable[[], bool]) -> Flow:
    """Return the columns of several flows, one after the other, as an array without names."""
    fields, start = [], 0
    for flow in flows:
        fields += [replace(field, name=None, start=start + field.start) for field in flow.fields]
        start += flow.width
    return Flow(tuple(fields), None, sparse)


def flow_of(people: Population, table: bool, frame: Any) -> Flow:
    """Return the columns of people as an estimator sees them; `frame` is how they are handed to it."""
    encoding = people.encoding
    if encoding is None or not table:
        names = people.names if encoding is None else None
        fields = [Field(name, "number", place) for place, name in enumerate(names or [None] * people.dimensions)]
        return Flow(tuple(fields), frame if hasattr(frame, "iloc") else None)
    features = np.asarray(people.features, dtype=np.float64)
    rows = features[people.present]
    found = []
    for column in encoding.schema:
        start = encoding.places[column.name].start
        kind = {"boolean": "flag", "ordinal": "ranks", "category": "levels"}.get(column.kind, "number")
        levels = (False, True) if kind == "flag" else column.levels
        if kind == "levels":
            present = np.asarray(rows[:, encoding.places[column.name]].any(axis=0))
        else:
            present = np.isin(np.arange(len(levels)), rows[:, start])
        found.append(Field(column.name, kind, start, levels, tuple(bool(one) for one in present)))
    return Flow(tuple(found), frame)


class BoundTransformer(NamedTuple):
    """A transformer bound to columns."""

    node: Node  # what it computes
    flow: Flow  # what comes out
    learned: Learned = ()  # what it has learned, where it was fitted; meaningless where it was not


class NodeInput(NamedTuple):
    """The input of a transformer: columns, and the rows (n, w) of the people who are present."""

    flow: Flow
    rows: Callable[[], Array]


class TransformerKind(NamedTuple):
    """One kind of transformer."""

    # From the transformer, fitted or not, and what comes in, to what it is there
    bind: Callable[[Any, NodeInput], BoundTransformer]
    # From the transformer and what a common shift has become before it, to what it becomes
    shift: Callable[[Any, int], int]
    smooth: bool = True  # whether it has no kinks
    table: bool = False  # whether it tells columns apart, so that of people with a schema it must be given the table


def kind_of(transformer: Any) -> TransformerKind:
    """Return what is known of a transformer; raise, with what to use instead, where nothing is."""
    kind = type(transformer)
    if passes_on(transformer):
        return KNOWN["FunctionTransformer"]
    if not kind.__module__.startswith("sklearn.") or kind.__name__ not in KNOWN:
        raise refused(kind.__name__, f"is not one of the transformers that are known: {', '.join(KNOWN)}")
    return KNOWN[kind.__name__]


def passes_on(transformer: Any) -> bool:
    """Report whether a word ("passthrough"), or None, stands where a transformer could."""
    return transformer is None or isinstance(transformer, str)


def bind_all(steps: list[Any], incoming: NodeInput) -> BoundTransformer:
    """Bind several transformers, one after the other."""
    bound: list[BoundTransformer] = []
    for transformer in steps:
        bound.append(kind_of(transformer).bind(transformer, incoming))
        incoming = NodeInput(bound[-1].flow, _after(bound[-1].node, incoming.rows))
    return BoundTransformer(Chain(tuple(one.node for one in bound)), incoming.flow, tuple(one.learned for one in bound))


def _after(node: Node, rows: Callable[[], Array]) -> Callable[[], Array]:
    """Return how people stand after a transformer; computed only if somebody asks."""
    return lambda: fitted_and_transformed(node, rows())


def _at(places: tuple[int, ...], rows: Callable[[], Array]) -> Callable[[], Array]:
    """Return how people stand in some places."""
    return lambda: rows()[:, np.array(places)]


def refused(name: str, why: str) -> OptionError:
    """Return an error that says what to use instead."""
    return OptionError(
        f"model: {name} {why}, so that the pipeline cannot be differentiated; use oar.BlackBox(pipeline), which only "
        "trains it and asks it."
    )


def _numeric(incoming: NodeInput, make: Callable[[NodeInput], tuple[Node, Any, int]]) -> BoundTransformer:
    """Bind what is for numbers, after levels that are numbers have become them."""
    flow = incoming.flow
    if all(field.kind == "number" for field in flow.fields):
        node, learned, width = make(incoming)
    else:
        parts, width = plainly(flow)
        first = Encode(parts)
        own, later, width = make(NodeInput(numbers(width, flow.sparse), _after(first, incoming.rows)))
        node, learned = Chain((first, own)), ((), later)
    return BoundTransformer(node, numbers(width, flow.sparse), learned)


def as_numbers(incoming: NodeInput) -> BoundTransformer:
    """Bind what the estimator itself does with columns: it takes them for numbers."""
    return _numeric(incoming, lambda seen: (Node(), (), seen.flow.width))


def _read(transformer: Any, *names: str) -> Learned:
    """Return what a fitted transformer has learned under these names."""
    return tuple(getattr(transformer, name, None) for name in names)


def _centre_and_scale(scaler: Any, centre: str, width: int) -> tuple[Array, Array]:
    """Return what a fitted scaler subtracts, which it keeps by this name, and divides by; 0 and 1 where it does not."""
    centres, scales = _read(scaler, centre, "scale_")
    return np.zeros(width) if centres is None else centres, np.ones(width) if scales is None else scales


def _standard(scaler: Any, incoming: NodeInput) -> BoundTransformer:
    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        mean, scale = _centre_and_scale(scaler, "mean_", seen.flow.width)
        return Standard(bool(scaler.with_mean), bool(scaler.with_std)), (mean, scale**2), seen.flow.width

    return _numeric(incoming, make)


def _min_max(scaler: Any, incoming: NodeInput) -> BoundTransformer:
    if scaler.clip:
        raise refused("MinMaxScaler(clip=True)", "has no slope beyond the ends")
    low, high = (float(end) for end in scaler.feature_range)
    learned = _read(scaler, "data_min_", "data_max_")
    return _numeric(incoming, lambda seen: (MinMax(low, high), learned, seen.flow.width))


def _max_abs(scaler: Any, incoming: NodeInput) -> BoundTransformer:
    if getattr(scaler, "clip", False):
        raise refused("MaxAbsScaler(clip=True)", "has no slope beyond the ends")
    return _numeric(incoming, lambda seen: (MaxAbs(), _read(scaler, "max_abs_"), seen.flow.width))


def _robust(scaler: Any, incoming: NodeInput) -> BoundTransformer:
    from scipy.stats import norm

    low, high = (float(share) / 100 for share in scaler.quantile_range)
    normal = float(norm.ppf(high) - norm.ppf(low)) if scaler.unit_variance else 1.0
    node = Robust(bool(scaler.with_centering), bool(scaler.with_scaling), low, high, normal)

    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        return node, _centre_and_scale(scaler, "center_", seen.flow.width), seen.flow.width

    return _numeric(incoming, make)


def _pca(pca: Any, incoming: NodeInput) -> BoundTransformer:
    wanted = pca.n_components
    if isinstance(wanted, str):
        raise refused(f"PCA(n_components={wanted!r})", "chooses by itself how many components there are")
    if pca.svd_solver in ("randomized", "arpack"):
        raise refused(f"PCA(svd_solver={pca.svd_solver!r})", "approximates ('full' and 'covariance_eigh' are exact)")
    whiten = bool(pca.whiten)

    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        kept = getattr(pca, "n_components_", 0)
        if not kept:
            rows = seen.rows()
            if seen.flow.sparse():
                raise refused(
                    "PCA of a sparse matrix", "approximates (OneHotEncoder(sparse_output=False) makes no such one)"
                )
            _check_pca(pca, rows.shape)
            kept = components_kept(wanted, rows, whiten)
        return Principal(int(kept), whiten), _read(pca, "mean_", "components_", "explained_variance_"), int(kept)

    bound = _numeric(incoming, make)
    return bound._replace(flow=replace(bound.flow, sparse=dense))


def _check_pca(pca: Any, shape: tuple[int, ...]) -> None:
    """Refuse what scikit-learn cannot fit, and what it would approximate without being asked to."""
    wanted, most = pca.n_components or 0, min(shape)
    if wanted > most:
        raise DataError(
            f"model: PCA keeps {wanted} components, and of {shape[0]} people × {shape[1]} columns there are {most}."
        )
    large = max(shape) > 500 and not (shape[1] <= 1_000 and shape[0] >= 10 * shape[1])
    if pca.svd_solver == "auto" and large and 1 <= wanted < 0.8 * most:
        raise refused(
            "PCA(svd_solver='auto')", "approximates tables of this shape ('full' and 'covariance_eigh' are exact)"
        )


def _one_hot(encoder: Any, incoming: NodeInput) -> BoundTransformer:
    _check_pooling(encoder)
    parts, width = one_hot(encoder, incoming.flow)
    return BoundTransformer(Encode(parts), numbers(width, lambda: bool(encoder.sparse_output)))


def _ordinal(encoder: Any, incoming: NodeInput) -> BoundTransformer:
    _check_pooling(encoder)
    parts, width = codes(encoder, incoming.flow)
    return BoundTransformer(Encode(parts), numbers(width))


def _check_pooling(encoder: Any) -> None:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        name = type(encoder).__name__
        raise refused(f"{name}(min_frequency=…, max_categories=…)", "pools levels by how many people have them")


def _imputer(imputer: Any, incoming: NodeInput) -> BoundTransformer:
    """Bind an imputer: nobody here has missing values (a Population has none), so that it changes nothing."""
    missing = imputer.missing_values
    absent = missing is None or type(missing).__name__ == "NAType" or missing != missing
    if not absent:  # anything but NaN, None and NA is a value that people may have
        raise refused(f"{type(imputer).__name__}(missing_values={missing!r})", "changes values that people may have")
    return BoundTransformer(Node(), beside([incoming.flow], incoming.flow.sparse))


def _function(transformer: Any, incoming: NodeInput) -> BoundTransformer:
    if getattr(transformer, "func", None) is not None:
        raise refused("FunctionTransformer(func=…)", "is a function of its own")
    return BoundTransformer(Node(), incoming.flow)


def _columns(transformer: Any, incoming: NodeInput) -> BoundTransformer:
    """Bind a ColumnTransformer: each for its columns, then the remainder."""
    if transformer.transformer_weights:
        raise refused("ColumnTransformer(transformer_weights=…)", "weighs its parts")
    flow, left = incoming.flow, set(range(len(incoming.flow.fields)))
    jobs = []
    for name, part, columns in transformer.transformers:
        which = chosen(columns, flow, f"ColumnTransformer's {name!r}")
        left -= set(which)
        jobs.append((name, part, which))
    jobs.append(("remainder", transformer.remainder, sorted(left)))
    fitted = getattr(transformer, "named_transformers_", {})
    branches: list[tuple[tuple[int, ...], BoundTransformer]] = []
    for name, part, which in jobs:
        if not which or (isinstance(part, str) and part == "drop"):
            continue
        places, own = flow.some(which)
        done = part if passes_on(part) else fitted.get(name, part)
        branches.append((places, kind_of(part).bind(done, NodeInput(own, _at(places, incoming.rows)))))
    if not branches:
        raise OptionError("model: its ColumnTransformer drops every column; there is nothing to train on.")
    sparse = _stacked(transformer.sparse_threshold, branches, incoming)
    return BoundTransformer(
        Beside(tuple((places, bound.node) for places, bound in branches)),
        beside([bound.flow for _, bound in branches], sparse),
        tuple(bound.learned for _, bound in branches),
    )


def _stacked(
    threshold: float, branches: list[tuple[tuple[int, ...], BoundTransformer]], incoming: NodeInput
) -> Callable[[], bool]:
    """Return what reports whether a ColumnTransformer makes a sparse matrix: if few entries are not 0."""

    def sparse() -> bool:
        if not any(bound.flow.sparse() for _, bound in branches):
            return False
        entries = filled = 0
        for places, bound in branches:
            rows = _after(bound.node, _at(places, incoming.rows))()
            entries += rows.size
            filled += int(np.count_nonzero(rows)) if bound.flow.sparse() else rows.size
        return filled < threshold * entries

    return sparse


def _parts(transformer: Any) -> list[Any]:
    """Return the transformers inside a Pipeline or a ColumnTransformer; none of others."""
    if hasattr(transformer, "transformers"):
        return [part for _, part, _ in transformer.transformers] + [transformer.remainder]
    return [step for _, step in transformer.steps] if hasattr(transformer, "steps") else []


def everything(transformers: list[Any]) -> list[Any]:
    """Return these transformers and all inside them; raise where one is not known."""
    found: list[Any] = []
    for one in transformers:
        if not passes_on(one):
            kind_of(one)
            found += [one, *everything(_parts(one))]
    return found


def through(steps: list[Any], shift: int) -> int:
    """Return what becomes of a common shift behind these transformers."""
    for step in steps:
        shift = kind_of(step).shift(step, shift)
    return shift


def _centred(attribute: str) -> Callable[[Any, int], int]:
    return lambda scaler, shift: STAYS if shift <= SHIFTS and getattr(scaler, attribute) else shift


KNOWN: dict[str, TransformerKind] = {
    "Pipeline": TransformerKind(
        lambda own, incoming: bind_all(_parts(own), incoming), lambda own, shift: through(_parts(own), shift)
    ),
    "ColumnTransformer": TransformerKind(
        _columns, lambda all_, shift: max(kind_of(one).shift(one, shift) for one in _parts(all_)), table=True
    ),
    "StandardScaler": TransformerKind(_standard, _centred("with_mean")),
    "MinMaxScaler": TransformerKind(_min_max, lambda _, shift: STAYS if shift <= SHIFTS else shift, smooth=False),
    "MaxAbsScaler": TransformerKind(_max_abs, lambda _, shift: STAYS if shift == STAYS else CHANGES, smooth=False),
    "RobustScaler": TransformerKind(_robust, _centred("with_centering"), smooth=False),
    "Normalizer": TransformerKind(
        lambda own, incoming: _numeric(incoming, lambda seen: (UnitLength(str(own.norm)), (), seen.flow.width)),
        lambda _, shift: STAYS if shift == STAYS else CHANGES,
    ),
    "OneHotEncoder": TransformerKind(_one_hot, lambda _, shift: CHANGES, table=True),
    "OrdinalEncoder": TransformerKind(_ordinal, lambda _, shift: CHANGES, table=True),
    "SimpleImputer": TransformerKind(_imputer, lambda _, shift: shift),
    "KNNImputer": TransformerKind(_imputer, lambda _, shift: shift),
    "PCA": TransformerKind(_pca, lambda _, shift: STAYS if shift <= SHIFTS else shift),
    "FunctionTransformer": TransformerKind(_function, lambda _, shift: shift),
}
