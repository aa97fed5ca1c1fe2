"""Arrays in npz files: what a member claims is compared with what the archive holds before anything is allocated."""

from __future__ import annotations

import math
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from oar.errors import StorageError
from oar.opening.regular import opened
from oar.opening.unpacking import available, check_unpacked


def read_npz(path: Any) -> dict[str, NDArray]:
    """Read every array of an npz file, without pickle; a damaged file is named."""
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_claims(archive, str(path))
                file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return {name: _array(arrays[name], name) for name in arrays.files}
        except StorageError:
            raise
        except MemoryError:
            raise StorageError(f"{path} does not fit into memory.") from None
        except Exception as error:  # what zipfile, zlib and NumPy say of damaged bytes is of a dozen kinds
            raise StorageError(f"{path} is damaged or is not an npz file: {str(error)[:200]}") from error


def _array(value: Any, name: str) -> NDArray:
    if not isinstance(value, np.ndarray):
        raise ValueError(f"its member {name!r} is no array")
    return value


def _check_claims(archive: zipfile.ZipFile, path: str) -> None:
    """Raise unless every member is an array of just the size that it claims."""
    if sum(member.file_size for member in archive.infolist()) > available():
        raise MemoryError
    for member in archive.infolist():
        check_unpacked(path, member.compress_size, member.file_size)
        with archive.open(member) as content:
            shape, kind = _head(content)
            size, held = math.prod(shape) * kind.itemsize, member.file_size - content.tell()
            if kind.hasobject or any(length < 0 for length in shape):
                raise ValueError(f"its member {member.filename!r} is no array of numbers or texts")
            if size != held:
                raise ValueError(f"its member {member.filename!r} claims {size:,} bytes and has {held:,}")


def _head(content: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and the type that an array's file claims."""
    version = npy.read_magic(content)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"arrays of version {version} are not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read(content)
    return shape, kind
