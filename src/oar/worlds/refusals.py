"""The world's own checks: a deed that exceeds what its actor may do is refused, by whoever it was thought up."""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.actions.norms import Norm
from oar.errors import DataError
from oar.worlds.parts import Array, Caps, Deed, View

ROUNDING = 1e-9  # share of a budget by which moves may exceed it


def refuse(name: str, caps: Caps, deed: Deed, view: View) -> Array:
    """Raise where a deed is not one, or exceeds the actor's limits; return how far each moves, (m,)."""
    who = f"{name!r} in round {view.number}"
    _check_shapes(who, deed, view)
    lengths = np.zeros(view.mine.size) if deed.moves is None else Norm.of(caps.norm).length(deed.moves)
    _check_far(who, "moves at most", lengths, caps.budget, view)
    if caps.total is not None:
        spent = together(lengths, view) + (0.0 if view.spent is None else view.spent)
        _check_far(who, "moves in all rounds together at most", np.where(lengths > 0, spent, 0.0), caps.total, view)
    for what, most, count in (
        (
            "other labels",
            caps.labels,
            0 if deed.codes is None else int((deed.codes != view.crowd.codes[view.mine]).sum()),
        ),
        ("leavers", caps.leavers, 0 if deed.leaves is None else int(deed.leaves.sum())),
        ("added points", caps.added, 0 if deed.added is None else len(deed.added[0])),
    ):
        if count > most:
            raise DataError(f"{who}: may have at most {most} {what}, got {count}; the world refuses it.")
    return lengths


def together(values: Array, view: View) -> Array:
    """Return, for each of an actor's people, the sum over all rows (m,) that are the same person in this round."""
    _, places = np.unique(view.crowd.persons[view.mine], return_inverse=True)
    return np.asarray(np.bincount(places, weights=values)[places], dtype=np.float64) if places.size else values


def _check_far(who: str, what: str, lengths: Array, most: float, view: View) -> None:
    over = lengths > most * (1 + ROUNDING) + np.finfo(float).tiny
    if over.any():
        worst = int(np.argmax(np.where(over, lengths, 0.0)))
        raise DataError(
            f"{who}: each {what} {most:g}, got {lengths[worst]:.6g} for member {worst} (person "
            f"{view.crowd.persons[view.mine[worst]]}), and {int(over.sum())} too far in all; the world refuses it."
        )


def _check_shapes(who: str, deed: Deed, view: View) -> None:
    size, dimensions, classes = view.mine.size, view.crowd.features.shape[1], len(view.crowd.classes)
    _check(who, "moves", deed.moves, (size, dimensions), "f")
    _check(who, "codes", deed.codes, (size,), "i", classes)
    _check(who, "leaves", deed.leaves, (size,), "b")
    for what, pair, rows, least in (("added", deed.added, None, 0), ("advice", deed.advice, size, -1)):
        if pair is not None:
            count = len(pair[0]) if rows is None else rows
            _check(who, f"{what} features", pair[0], (count, dimensions), "f")
            _check(who, f"{what} codes", pair[1], (count,), "i", classes, least)


def _check(
    who: str, what: str, values: Any, shape: tuple[int, ...], kind: str, classes: int | None = None, least: int = 0
) -> None:
    if values is None:
        return
    given = np.asarray(values)
    kinds = {"f": "fiu", "i": "iu", "b": "b"}[kind]
    if given.shape != shape or given.dtype.kind not in kinds:
        raise DataError(f"{who}: {what} must be of shape {shape}, got {given.dtype} of shape {given.shape}.")
    if kind == "f" and not np.isfinite(given).all():
        raise DataError(f"{who}: {what} must be finite numbers, got some that are not.")
    if classes is not None and given.size and (given.min() < least or given.max() >= classes):
        raise DataError(
            f"{who}: {what} must be class codes {least} to {classes - 1}, got {given.min()} to {given.max()}."
        )
