"""The world's own checks: a deed that exceeds its actor's limits is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from oar.actions.sets.norms import Norm
from oar.checks import check_kind
from oar.errors import DataError
from oar.worlds.protocol import Array, Caps, Deed, View
from oar.worlds.rounds.read_only import sealed

ROUNDING = 1e-9  # share of a budget by which moves may exceed it


class DType(NamedTuple):
    """Accepted kinds of numbers, by NumPy's letters, with the type for storage and the name in messages."""

    given: str
    kept: Any
    told: str


FLOATS, CODES, FLAGS = DType("fiu", np.float64, "numbers"), DType("iu", np.intp, "codes"), DType("b", np.bool_, "flags")


def allowed(name: str, caps: Caps, deed: Deed, view: View) -> tuple[Deed, Array]:
    """Return the world's own copy of a deed, and how far each moves, (m,).

    Raise where it is no deed, or exceeds the actor's limits.
    """
    who = f"{name!r} in round {view.number}"
    deed = _read(who, deed, view)
    deed = _without_rounding(deed, caps, view)
    lengths = np.zeros(view.mine.size) if deed.moves is None else Norm.of(caps.norm).length(deed.moves)
    _check_far(who, "moves at most", lengths, caps.budget, view, "shorten the moves, or allow a larger budget")
    if caps.total < np.inf:
        spent = together(lengths, view) + view.spent
        left = "view.spent says what each has moved before"
        if np.unique(view.crowd.persons[view.mine]).size < view.mine.size:
            left += ", and whoever is there several times in a round moves by all of its rows together"
        far = np.where(lengths > 0, spent, 0.0)
        _check_far(who, "moves in all rounds together at most", far, caps.total, view, f"shorten the moves ({left})")
    counts = deed.counts(view.crowd.codes[view.mine]).values()
    allowed_ = {"other labels": caps.labels, "leavers": caps.leavers, "added points": caps.added}
    for (what, most), count in zip(allowed_.items(), counts, strict=True):
        if count > most:
            raise DataError(
                f"{who}: may have at most {most} {what}, got {count}; the world refuses it: do less, or allow more."
            )
    return deed, lengths


def _without_rounding(deed: Deed, caps: Caps, view: View) -> Deed:
    """Return a deed in which nobody moves by what rounding left of a total, or by less than any feature changes."""
    if deed.moves is None:
        return deed
    stood = view.crowd.features[view.mine]
    still = (stood + deed.moves == stood).all(axis=1)
    if caps.total < np.inf:
        least = ROUNDING * caps.total
        still |= (caps.total - view.spent <= least) & (Norm.of(caps.norm).length(deed.moves) <= least)
    return replace(deed, moves=sealed(np.where(still[:, None], 0.0, deed.moves))) if still.any() else deed


def together(values: Array, view: View) -> Array:
    """Return, for each of an actor's people, the sum over all rows (m,) of the same person in this round."""
    _, places = np.unique(view.crowd.persons[view.mine], return_inverse=True)
    return np.asarray(np.bincount(places, weights=values)[places], dtype=np.float64) if places.size else values


def _check_far(who: str, what: str, lengths: Array, most: float, view: View, advice: str) -> None:
    over = lengths > most * (1 + ROUNDING) + np.finfo(float).tiny
    if over.any():
        worst = int(np.argmax(np.where(over, lengths, 0.0)))
        raise DataError(
            f"{who}: each {what} {most:g}, got {lengths[worst]:.6g} for member {worst} (person "
            f"{view.crowd.persons[view.mine[worst]]}), and {int(over.sum())} too far in all; the world "
            f"refuses it: {advice}."
        )


def _read(who: str, deed: Deed, view: View) -> Deed:
    """Return a deed of sealed arrays; raise where one of them is invalid."""
    check_kind(who, deed, Deed, "answered with an oar.worlds.Deed(…)")
    size, dimensions, classes = view.mine.size, view.crowd.features.shape[1], len(view.crowd.classes)
    if not isinstance(deed.note, Mapping):
        raise DataError(f"{who}: note must be a dict, got an object of type {type(deed.note).__name__}.")
    own: dict[str, Any] = {}
    for what, pair, rows, least in (("added", deed.added, None, 0), ("advice", deed.advice, size, -1)):
        if pair is None:
            continue
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"{who}: {what} must be a pair (features, codes), got {pair!r}.")
        count = np.shape(pair[1])[0] if rows is None and np.ndim(pair[1]) else rows or 0
        own[what] = (
            _array(who, f"{what} features", pair[0], (count, dimensions), FLOATS),
            _array(who, f"{what} codes", pair[1], (count,), CODES, classes, least),
        )
    kinds = {"moves": ((size, dimensions), FLOATS), "codes": ((size,), CODES, classes), "leaves": ((size,), FLAGS)}
    given = {what: (getattr(deed, what), *kind) for what, kind in kinds.items() if getattr(deed, what) is not None}
    own |= {what: _array(who, what, *values) for what, values in given.items()}
    return Deed(**own, note=sealed(dict(deed.note)))


def _array(
    who: str, what: str, values: Any, shape: tuple[int, ...], kind: DType, classes: int | None = None, least: int = 0
) -> Any:
    """Return an array of its own memory, which was copied before anything was checked."""
    try:
        given = np.array(values)
    except ValueError:  # rows of different lengths
        raise DataError(f"{who}: {what} must be of shape {shape}, got {values!r}.") from None
    if given.shape != shape or (given.size and given.dtype.kind not in kind.given):
        raise DataError(
            f"{who}: {what} must be {kind.told} of shape {shape}, got {given.dtype} of shape {given.shape}."
        )
    if kind is FLOATS and not np.isfinite(given).all():
        raise DataError(f"{who}: {what} must be finite numbers, got some that are not.")
    if classes is not None and given.size and (given.min() < least or given.max() >= classes):
        raise DataError(
            f"{who}: {what} must be class codes {least} to {classes - 1}, got {given.min()} to {given.max()}."
        )
    return sealed(given.astype(kind.kept, copy=False))
