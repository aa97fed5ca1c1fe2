"""The transformers that are known, with their settings, and their binding to the columns that come in.

Every transformer is bound to the columns that it is given, and where it is fitted, what it has learned is read off. In
a pipeline, transformers are fitted without weights, and so are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oar.errors import DataError, OptionError
from oar.estimators.transformers.encoders import codes, one_hot, plainly
from oar.estimators.transformers.fields import Array, Flow, beside, chosen, numbers
from oar.estimators.transformers.nodes import Beside, Chain, Encode, Learned, Node, fitted_and_transformed
from oar.estimators.transformers.pca import Principal, components_kept
from oar.estimators.transformers.scalers import MaxAbs, MinMax, Robust, Standard, UnitLength

STAYS, SHIFTS, CHANGES = range(3)  # what becomes of rows if everybody's are shifted alike: nothing, a shift, or else


class BoundTransformer(NamedTuple):
    """A transformer bound to columns.

    Attributes:
        node: what it computes.
        flow: what comes out.
        learned: what it has learned, where it was fitted; None where it was not.
    """

    node: Node
    flow: Flow
    learned: Learned | None


class NodeInput(NamedTuple):
    """The input of a transformer: columns, and the rows (n, w) of the people who are present."""

    flow: Flow
    rows: Callable[[], Array]


class TransformerKind(NamedTuple):
    """One kind of transformer.

    Attributes:
        bind: from (the transformer, its fitted self or None, what comes in) to what it is there.
        shift: from the transformer and what a common shift has become before it, to what it becomes.
        smooth: whether it has no kinks.
        table: whether it tells columns apart, so that of people with a schema it must be given the table.
    """

    bind: Callable[[Any, Any, NodeInput], BoundTransformer]
    shift: Callable[[Any, int], int]
    smooth: bool = True
    table: bool = False


def kind_of(transformer: Any) -> TransformerKind:
    """Return what is known of a transformer; raise, with what to use instead, where nothing is."""
    kind = type(transformer)
    if transformer is None or isinstance(transformer, str):
        return KNOWN["FunctionTransformer"]
    if not kind.__module__.startswith("sklearn.") or kind.__name__ not in KNOWN:
        raise refused(kind.__name__, f"is not one of the transformers that are known: {', '.join(KNOWN)}")
    return KNOWN[kind.__name__]


def bind(transformer: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    """Bind one transformer."""
    return kind_of(transformer).bind(transformer, fitted, incoming)


def bind_all(steps: list[tuple[Any, Any]], incoming: NodeInput) -> BoundTransformer:
    """Bind several, one after the other: pairs of the transformer and its fitted self, or None."""
    nodes: list[Node] = []
    learned: list[Learned] = []
    for transformer, fitted in steps:
        found = bind(transformer, fitted, incoming)
        nodes.append(found.node)
        learned.append(found.learned)
        incoming = NodeInput(found.flow, _after(found, incoming.rows))
    read = tuple(learned) if all(one is not None for one in learned) else None
    return BoundTransformer(Chain(tuple(nodes)), incoming.flow, read)


def _after(bound: BoundTransformer, rows: Callable[[], Array]) -> Callable[[], Array]:
    """Return how people stand after a transformer; computed only if somebody asks."""

    def after() -> Array:
        return fitted_and_transformed(bound.node, rows())

    return after


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
    flow, first = incoming.flow, None
    if any(field.kind != "number" for field in flow.fields):
        parts, width = plainly(flow)
        first = Encode(parts)
        seen = NodeInput(numbers(width, flow.sparse), _after(BoundTransformer(first, flow, ()), incoming.rows))
    else:
        seen = incoming
    node, learned, width = make(seen)
    out = numbers(width, None if isinstance(node, Principal) else flow.sparse)
    if first is None:
        return BoundTransformer(node, out, learned)
    return BoundTransformer(Chain((first, node)), out, None if learned is None else ((), learned))


def as_numbers(incoming: NodeInput) -> BoundTransformer:
    """Bind what the estimator itself does with columns: it takes them for numbers."""
    return _numeric(incoming, lambda seen: (Node(), (), seen.flow.width))


def _standard(scaler: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        width, learned = seen.flow.width, None
        if fitted is not None:
            mean = np.zeros(width) if fitted.mean_ is None else fitted.mean_
            learned = (mean, np.ones(width) if fitted.scale_ is None else fitted.scale_**2)
        return Standard(bool(scaler.with_mean), bool(scaler.with_std)), learned, width

    return _numeric(incoming, make)


def _min_max(scaler: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    if scaler.clip:
        raise refused("MinMaxScaler(clip=True)", "has no slope beyond the ends")
    low, high = (float(end) for end in scaler.feature_range)
    learned = None if fitted is None else (fitted.data_min_, fitted.data_max_)
    return _numeric(incoming, lambda seen: (MinMax(low, high), learned, seen.flow.width))


def _max_abs(scaler: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    if getattr(scaler, "clip", False):
        raise refused("MaxAbsScaler(clip=True)", "has no slope beyond the ends")
    learned = None if fitted is None else (fitted.max_abs_,)
    return _numeric(incoming, lambda seen: (MaxAbs(), learned, seen.flow.width))


def _robust(scaler: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    from scipy.stats import norm

    low, high = (float(share) / 100 for share in scaler.quantile_range)
    normal = float(norm.ppf(high) - norm.ppf(low)) if scaler.unit_variance else 1.0
    node = Robust(bool(scaler.with_centering), bool(scaler.with_scaling), low, high, normal)

    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        width, learned = seen.flow.width, None
        if fitted is not None:
            centre = np.zeros(width) if fitted.center_ is None else fitted.center_
            learned = (centre, np.ones(width) if fitted.scale_ is None else fitted.scale_)
        return node, learned, width

    return _numeric(incoming, make)


def _normalizer(normalizer: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    return _numeric(incoming, lambda seen: (UnitLength(str(normalizer.norm)), (), seen.flow.width))


def _pca(pca: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    wanted = pca.n_components
    if isinstance(wanted, str):
        raise refused(f"PCA(n_components={wanted!r})", "chooses by itself how many components there are")
    if pca.svd_solver in ("randomized", "arpack"):
        raise refused(f"PCA(svd_solver={pca.svd_solver!r})", "approximates ('full' and 'covariance_eigh' are exact)")
    whiten = bool(pca.whiten)

    def make(seen: NodeInput) -> tuple[Node, Any, int]:
        if fitted is not None:
            learned = (fitted.mean_, fitted.components_, fitted.explained_variance_)
            return Principal(int(fitted.n_components_), whiten), learned, int(fitted.n_components_)
        rows = seen.rows()
        if seen.flow.is_sparse:
            raise refused(
                "PCA of a sparse matrix", "approximates (OneHotEncoder(sparse_output=False) makes no such one)"
            )
        _check_pca(pca, rows.shape)
        kept = components_kept(wanted, rows, whiten)
        return Principal(kept, whiten), None, kept

    return _numeric(incoming, make)


def _check_pca(pca: Any, shape: tuple[int, ...]) -> None:
    """Refuse what scikit-learn cannot fit, and what it would approximate without being asked to."""
    wanted, most = pca.n_components, min(shape)
    if wanted is not None and wanted >= 1 and wanted > most:
        raise DataError(
            f"model: PCA keeps {wanted} components, and of {shape[0]} people × {shape[1]} columns there are {most}."
        )
    large = max(shape) > 500 and not (shape[1] <= 1_000 and shape[0] >= 10 * shape[1])
    if pca.svd_solver == "auto" and large and wanted is not None and 1 <= wanted < 0.8 * most:
        raise refused(
            "PCA(svd_solver='auto')", "approximates tables of this shape ('full' and 'covariance_eigh' are exact)"
        )


def _one_hot(encoder: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise refused("OneHotEncoder(min_frequency=…, max_categories=…)", "pools levels by how many people have them")
    parts, width = one_hot(encoder, fitted, incoming.flow)
    return BoundTransformer(Encode(parts), numbers(width, (lambda: True) if encoder.sparse_output else None), ())


def _ordinal(encoder: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise refused("OrdinalEncoder(min_frequency=…, max_categories=…)", "pools levels by how many people have them")
    parts, width = codes(encoder, fitted, incoming.flow)
    return BoundTransformer(Encode(parts), numbers(width), ())


def _imputer(imputer: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    """Bind an imputer: nobody here has missing values (a Population has none), so that it changes nothing."""
    missing = imputer.missing_values
    absent = missing is None or type(missing).__name__ == "NAType" or missing != missing
    if not absent:  # anything but NaN, None and NA is a value that people may have
        raise refused(f"{type(imputer).__name__}(missing_values={missing!r})", "changes values that people may have")
    return BoundTransformer(Node(), incoming.flow.nameless(), ())


def _function(transformer: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    if getattr(transformer, "func", None) is not None:
        raise refused("FunctionTransformer(func=…)", "is a function of its own")
    return BoundTransformer(Node(), incoming.flow, ())


def _pipeline(pipeline: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    own = [None] * len(pipeline.steps) if fitted is None else [step for _, step in fitted.steps]
    return bind_all([(step, done) for (_, step), done in zip(pipeline.steps, own, strict=True)], incoming)


def _columns(transformer: Any, fitted: Any, incoming: NodeInput) -> BoundTransformer:
    """Bind a ColumnTransformer: each for its columns, then the remainder."""
    if transformer.transformer_weights:
        raise refused("ColumnTransformer(transformer_weights=…)", "weighs its parts")
    flow, left = incoming.flow, set(range(len(incoming.flow.fields)))
    branches: list[tuple[tuple[int, ...], BoundTransformer]] = []
    jobs = []
    for name, part, columns in transformer.transformers:
        which = chosen(columns, flow, f"ColumnTransformer's {name!r}")
        left -= set(which)
        jobs.append((name, part, which))
    jobs.append(("remainder", transformer.remainder, sorted(left)))
    for name, part, which in jobs:
        if not which or (isinstance(part, str) and part == "drop"):
            continue
        places, own = flow.some(which)
        done = None if fitted is None or isinstance(part, str) else fitted.named_transformers_[name]
        branches.append((places, bind(part, done, NodeInput(own, _at(places, incoming.rows)))))
    if not branches:
        raise OptionError("model: its ColumnTransformer drops every column; there is nothing to train on.")
    learned = tuple(bound.learned for _, bound in branches)
    node = Beside(tuple((places, bound.node) for places, bound in branches))
    read = learned if all(one is not None for one in learned) else None
    return BoundTransformer(
        node, beside([bound.flow for _, bound in branches], _stacked(transformer, branches, incoming)), read
    )


def _stacked(
    transformer: Any, branches: list[tuple[tuple[int, ...], BoundTransformer]], incoming: NodeInput
) -> Callable[[], bool] | None:
    """Return what reports whether a ColumnTransformer makes a sparse matrix: if few entries are not 0."""
    if all(bound.flow.sparse is None for _, bound in branches):
        return None

    def sparse() -> bool:
        entries = filled = 0
        for places, bound in branches:
            rows = _after(bound, _at(places, incoming.rows))()
            entries += rows.size
            filled += int(np.count_nonzero(rows)) if bound.flow.is_sparse else rows.size
        return any(bound.flow.is_sparse for _, bound in branches) and filled < transformer.sparse_threshold * entries

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
        if isinstance(one, str) or one is None:
            continue
        kind_of(one)
        found += [one, *everything(_parts(one))]
    return found


def _through(pipeline: Any, shift: int) -> int:
    for _, step in pipeline.steps:
        shift = kind_of(step).shift(step, shift)
    return shift


def _centred(attribute: str) -> Callable[[Any, int], int]:
    return lambda scaler, shift: STAYS if shift <= SHIFTS and getattr(scaler, attribute) else shift


KNOWN: dict[str, TransformerKind] = {
    "Pipeline": TransformerKind(_pipeline, _through),
    "ColumnTransformer": TransformerKind(
        _columns, lambda all_, shift: max(kind_of(one).shift(one, shift) for one in _parts(all_)), table=True
    ),
    "StandardScaler": TransformerKind(_standard, _centred("with_mean")),
    "MinMaxScaler": TransformerKind(_min_max, lambda _, shift: STAYS if shift <= SHIFTS else shift, smooth=False),
    "MaxAbsScaler": TransformerKind(_max_abs, lambda _, shift: STAYS if shift == STAYS else CHANGES, smooth=False),
    "RobustScaler": TransformerKind(_robust, _centred("with_centering"), smooth=False),
    "Normalizer": TransformerKind(_normalizer, lambda _, shift: STAYS if shift == STAYS else CHANGES),
    "OneHotEncoder": TransformerKind(_one_hot, lambda _, shift: CHANGES, table=True),
    "OrdinalEncoder": TransformerKind(_ordinal, lambda _, shift: CHANGES, table=True),
    "SimpleImputer": TransformerKind(_imputer, lambda _, shift: shift),
    "KNNImputer": TransformerKind(_imputer, lambda _, shift: shift),
    "PCA": TransformerKind(_pca, lambda _, shift: STAYS if shift <= SHIFTS else shift),
    "FunctionTransformer": TransformerKind(_function, lambda _, shift: shift),
}
