"""Read-only data: a world's views and records cannot be changed.

An array is copied once, into memory that nobody can make writable again (Python's `bytes`; a flag alone could be set
back). Sealed arrays are not copied again. Arrays of objects cannot be sealed, and are copied every time.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oar.people import Population

Kind = TypeVar("Kind")


def sealed(value: Kind) -> Kind:
    """Return the same data without any array or container that could be changed in place.

    It looks into populations, dataclasses, tuples, lists and dicts; everything else is returned as it is.

    >>> sealed([np.ones(2)])[0].flags.writeable
    False
    """
    return _sealed(value)


def _sealed(value: Any) -> Any:
    match value:
        case type():
            return value
        case np.ndarray():
            return value if _cannot_change(value) else _kept(value)
        case Population():
            return value.with_arrays(sealed)
        case dict():
            entries = copy.copy(value)
            entries.update({key: sealed(each) for key, each in value.items()})
            return entries
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*map(sealed, value))
        case tuple() | list() if type(value) in (tuple, list):
            return type(value)(map(sealed, value))
        case _ if dataclasses.is_dataclass(value):
            other = copy.copy(value)
            for part in dataclasses.fields(value):
                object.__setattr__(other, part.name, sealed(getattr(value, part.name)))
            return other
    return value


def _kept(values: NDArray[Any]) -> Any:
    if values.dtype.hasobject:
        found = np.array(values)
        found.flags.writeable = False
        return found
    return np.ndarray(values.shape, values.dtype, buffer=values.tobytes())


def _cannot_change(values: NDArray[Any]) -> bool:
    """Report whether the memory is that of `bytes`."""
    memory: Any = values
    while isinstance(memory, np.ndarray):
        memory = memory.base
    return isinstance(memory, bytes)
