"""Ways to damage a file: its bytes, what it holds, the sizes that it claims, and what stands in its place."""

from __future__ import annotations

import bz2
import copy
import datetime
import gzip
import io
import json
import lzma
import math
import os
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Damage = tuple[str, Callable[[Path], None]]  # what it is, and what puts it in a file's place
HUGE = 10**400  # beyond any float
DEEP = 100_000
LEAVES: tuple[Any, ...] = (
    None, "", "x", "nan", [], {}, [[]], [None], [1, "a"], {"tuple": []}, {"a": 1}, True, -1, 0, 0.5, 1e308, -1e308,
    1e-320, math.nan, math.inf, -math.inf, HUGE, -HUGE, 2**63, 10**9, "\x00", "é" * 3, "9" * 400, [1e308] * 3,
    [[1, 2], [3]], datetime.date(1979, 5, 27),
)  # fmt: skip


def written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def bytes_damaged(content: bytes, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    """Flip, cut, repeat, insert and overwrite bytes."""
    for what, damaged in texts_damaged(content, rng, number):
        yield what, written(damaged)


def texts_damaged(content: bytes, rng: np.random.Generator, number: int) -> Iterator[tuple[str, bytes]]:
    """Return damaged bytes, and what was done to them."""
    size = len(content)
    fixed = {
        "empty": b"",
        "a NUL": b"\0",
        "NULs": bytes(size),
        "noise": rng.bytes(512),
        "UTF-8 mark": b"\xef\xbb\xbf" + content,
        "UTF-16": content.decode("latin-1").encode("utf-16"),
        "CRLF": content.replace(b"\n", b"\r\n"),
        "CR": content.replace(b"\n", b"\r"),
        "Latin-1": content + b"\xe9\xff",
        "a NUL within": content[: size // 2] + b"\0" + content[size // 2 :],
        "twice": content + content,
        "brackets": b"[" * DEEP,
        "braces": b'{"a":' * DEEP,
        "a deep TOML": b"a = " + b"[" * DEEP,
        "deep keys": b"[" + b"a." * 5_000 + b"a]\n",
        "many digits": b"a = " + b"9" * 10_000,
        "digits": b"9" * 10_000,
        "a quote": content + b'"',
        "null": b"null",
        "a list": b"[]",
        "a number": b"1e999",
    }
    yield from fixed.items()
    for _ in range(number):
        kind = rng.integers(5)
        at = int(rng.integers(max(size, 1)))
        damaged = bytearray(content)
        if kind == 0:
            for place in rng.integers(max(size, 1), size=int(rng.integers(1, 6))):
                damaged[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del damaged[at:]
        elif kind == 2:
            del damaged[at : at + int(rng.integers(1, 40))]
        elif kind == 3:
            damaged[at:at] = rng.bytes(int(rng.integers(1, 9)))
        else:
            damaged[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7, b"99999999"])
        yield (
            f"bytes {('flipped', 'cut', 'left out', 'inserted', 'overwritten')[kind]} at {at}",
            bytes(damaged),
        )


def places(document: Any, at: tuple = ()) -> Iterator[tuple]:
    """Return the way to everything in a document; of long lists the first two and the last."""
    if at:
        yield at
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*at, key))
    elif isinstance(document, list):
        for place in sorted({0, 1, len(document) - 1} & set(range(len(document)))):
            yield from places(document[place], (*at, place))


def documents_damaged(
    document: Any, write: Callable[[Any], str], rng: np.random.Generator, number: int
) -> Iterator[Damage]:
    """Put something else in a place, take it away, add to it, or double it."""
    ways = list(places(document))
    for _ in range(number):
        way = ways[rng.integers(len(ways))]
        damaged = copy.deepcopy(document)
        parent = damaged
        for key in way[:-1]:
            parent = parent[key]
        kind = rng.integers(8)
        if kind == 0:
            done = "taken away"
            parent.pop(way[-1])
        elif kind == 1 and isinstance(parent, dict):
            done = "renamed"
            parent[f"{way[-1]} "] = parent.pop(way[-1])
        elif kind == 2 and isinstance(parent, list):
            done = "doubled"
            parent.append(copy.deepcopy(parent[way[-1]]))
        else:
            value = LEAVES[rng.integers(len(LEAVES))]
            done = f"= {str(value)[:12]!r}"
            parent[way[-1]] = copy.deepcopy(value)
        try:
            text = write(damaged)
        except (TypeError, ValueError):  # what the format cannot say
            continue
        yield f"{'.'.join(map(str, way))} {done}", written(text.encode("utf-8", "surrogatepass"))


def as_json(document: Any) -> str:
    return json.dumps(document, default=str)


def doubled_keys(document: dict[str, Any]) -> Iterator[Damage]:
    """Say something twice, the second time otherwise, which JSON's readers let pass."""
    for key in document:
        text = as_json(document)[:-1] + f", {json.dumps(key)}: 7}}"
        yield f"{key} twice", written(text.encode())


def as_toml(document: dict[str, Any]) -> str:
    """Return TOML, with tables within a line: enough for what is damaged."""
    return "".join(f"{json.dumps(str(key))} = {_toml(value)}\n" for key, value in document.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | datetime.date):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True).replace("\\u0000", "\\u0000")
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(str(key))} = {_toml(each)}' for key, each in value.items())}}}"
    raise TypeError(value)


def in_its_place() -> Iterator[Damage]:
    """Put something in a file's place that is no file."""
    yield "nothing", lambda path: None
    yield "a folder", Path.mkdir
    yield "a FIFO", os.mkfifo
    yield "a loop", lambda path: path.symlink_to(path)
    yield "a broken link", lambda path: path.symlink_to(path.parent / "nobody")
    yield "/dev/zero", lambda path: path.symlink_to("/dev/zero")
    yield "/dev/null", lambda path: path.symlink_to("/dev/null")
    yield "a socket", _socket


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def zipped(content: bytes, ending: str) -> bytes:
    if ending == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", content)
        return buffer.getvalue()
    return {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending](content)


def bombs(ending: str, megabytes: int = 1_000) -> Iterator[Damage]:
    """Pack gigabytes into a few megabytes at most: one cell that never ends, and no end of short rows."""
    for name, block in (("a cell", b"a,b\n" + b"0" * (1 << 20)), ("NULs", bytes(1 << 20))):
        if ending == ".gz":
            once = gzip.compress(block * 64)
            yield f"{megabytes} MB of {name}", written(once * (megabytes // 64))
        elif ending == ".bz2":
            yield f"{megabytes} MB of {name}", written(bz2.compress(block * 64) * (megabytes // 64))


def npy(shape: Any, kind: str = "<f8", data: bytes = b"", order: str = "False") -> bytes:
    """Return an array's file that claims a shape."""
    head = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npz_claims(names: list[str], whole: dict[str, Any]) -> Iterator[Damage]:
    """Claim arrays that are not there: huge, negative, of objects, of texts without end, of no shape."""
    claims = {
        "huge": npy("(1000000000000,)"),
        "a gigabyte": npy("(200000000,)"),
        "beyond 64 bits": npy(f"({2**62}, {2**62})"),
        "negative": npy("(-1,)"),
        "no shape": npy("3.5"),
        "True": npy("(True,)"),
        "objects": npy("(1,)", "|O", b"cos\nsystem\n."),
        "long texts": npy("(1,)", "<U1000000000"),
        "no such kind": npy("(1,)", "<q9"),
        "a call": npy("(1,)", "__import__('os')"),
        "no head": b"\x93NUMPY\x01\x00\xff\xff",
        "long head": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f",
        "version 9": b"\x93NUMPY\x09\x00\x00\x00",
        "no array": b"hello",
        "short": npy("(1000,)", data=bytes(16)),
        "NaN": npy("()", data=struct.pack("<d", math.nan)),
        "a number": npy("()", "<f8", struct.pack("<d", 1.5)),
        "empty": npy("(0,)"),
        "complex": npy("(1,)", "<c16", bytes(16)),
        "texts": npy("(1,)", "<U3", "abc".encode("utf-32-le")),
        "records": npy("(1,)", "|V8", bytes(8)),
    }
    for name in names:
        for claim, content in claims.items():
            yield f"{name} {claim}", written(packed(whole, name, content))


def packed(arrays: dict[str, Any], name: str, content: bytes | None) -> bytes:
    """Return an npz file in which one member is other bytes, or left out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            if key != name:
                member = io.BytesIO()
                np.save(member, array, allow_pickle=False)
                archive.writestr(f"{key}.npy", member.getvalue())
        if content is not None:
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npz_bomb(name: str) -> bytes:
    """Return a small npz file whose array takes gigabytes, which the archive really holds."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy("(125000000,)"))
        for _ in range(1_000):
            member.write(bytes(1_000_000))
    return buffer.getvalue()


def idx_claims(dimensions: int) -> Iterator[Damage]:
    """Claim sizes that are not there."""
    for sizes in ((2**32 - 1,) * dimensions, (0,) * dimensions, (1,) * dimensions, (2**31,) + (1,) * (dimensions - 1)):
        yield f"sizes {sizes}", written(struct.pack(f">4B{dimensions}I", 0, 0, 8, dimensions, *sizes) + b"\1")
    for kind in (0, 9, 11, 14, 255):
        yield (
            f"type {kind}",
            written(struct.pack(f">4B{dimensions}I", 0, 0, kind, dimensions, *(1,) * dimensions) + b"\1"),
        )
    for other in (0, 1, 2, 3, 4, 255):
        yield f"{other} dimensions", written(bytes((0, 0, 8, other)) + bytes(4 * other))
