"""The idx format of the MNIST files: read exactly, or refused with the reason.

A file is two zero bytes, a type code (8 for unsigned bytes), the number of dimensions, each dimension's size as a
big-endian 32-bit integer, and then the values, the last dimension fastest. Nothing may follow.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from io import BufferedReader, BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oar.errors import StorageError
from oar.opening import BoundedReader, opened

UNSIGNED_BYTES = 0x08
TYPE_NAMES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
GZIP_MAGIC = b"\x1f\x8b"


def read_content(path: Path) -> bytes:
    """Return a file's bytes, unzipped where they are zipped (by what they are, not by the file's name)."""
    with opened(path) as file:
        return unzip(file.read(), str(path))


def unzip(content: bytes, origin: str) -> bytes:
    """Undo gzip if there is any; `origin` names the file in errors."""
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        with gzip.open(BytesIO(content)) as file, BufferedReader(BoundedReader(file, origin, len(content))) as unpacked:
            return unpacked.read()
    except StorageError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{origin} is a damaged gzip file ({error}); get it anew.") from error


def parse_idx(content: bytes, dimensions: int, origin: str) -> NDArray[np.uint8]:
    """Return the array that an idx file holds; it must be unsigned bytes in so many dimensions.

    >>> parse_idx(idx_content(np.array([[1, 2], [3, 4]], dtype=np.uint8)), 2, "four numbers")
    array([[1, 2],
           [3, 4]], dtype=uint8)
    """
    start = 4 + 4 * dimensions
    if len(content) < 4 or content[:2] != b"\0\0":
        raise StorageError(
            f"{origin} is not an idx file: it must begin with two zero bytes, a type and a number of dimensions, "
            f"got {content[:4].hex(' ') or 'nothing'}."
        )
    kind, declared = content[2], content[3]
    if kind != UNSIGNED_BYTES:
        got = TYPE_NAMES.get(kind, "an unknown type")
        raise StorageError(f"{origin} must hold unsigned bytes (type code 0x08), got {got} (0x{kind:02x}).")
    if declared != dimensions:
        raise StorageError(
            f"{origin} must have {dimensions} dimension{'s' if dimensions > 1 else ''}, got {declared}; "
            "images have 3 and labels 1, so perhaps two files were swapped."
        )
    if len(content) < start:
        raise StorageError(f"{origin} is truncated: its header takes {start} bytes, got {len(content)}; get it anew.")
    sizes = struct.unpack(f">{dimensions}I", content[4:start])
    expected, got_bytes = math.prod(sizes), len(content) - start
    if got_bytes != expected:
        shape = " × ".join(str(size) for size in sizes)
        trouble = "is truncated" if got_bytes < expected else "has trailing bytes"
        raise StorageError(
            f"{origin} {trouble}: its header promises {shape} = {expected} values, got {got_bytes}; get it anew."
        )
    # Copied, because an array on top of a bytes object could not be written to.
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes).copy()


def idx_content(values: NDArray[np.uint8]) -> bytes:
    """Return the unzipped idx file that holds these values: the inverse of `parse_idx`."""
    header = struct.pack(f">4B{values.ndim}I", 0, 0, UNSIGNED_BYTES, values.ndim, *values.shape)
    return header + values.tobytes()


def idx_sha256(values: NDArray[np.uint8]) -> str:
    """Return the sha256 of the unzipped idx file that holds these values, however it was zipped."""
    return hashlib.sha256(idx_content(values)).hexdigest()
