"""MNIST's handwritten digits as images, from the reader's own files or from the public mirrors.

The standard files are known by the sha256 of what they hold, kept in a cache, fetched from mirrors. The checksums are
those of the unzipped files. Zipped copies of the same images differ from place to place (level, time stamp), so a
checksum of the .gz would refuse good files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oar.checks import choose, with_near_names
from oar.datasets.idx import GZIP_MAGIC, parse_idx, read_content, unzip
from oar.errors import StorageError
from oar.files import replace_atomically

PREFIXES = {"train": "train", "test": "t10k"}
SIDE = 28
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
STANDARD_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
BY_HAND = (
    "Put MNIST's four files (train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
    "t10k-labels-idx1-ubyte.gz; unzipped ones do as well) into one folder and pass it as folder=, or set OAR_DATA "
    "to the folder that holds it under the name mnist."
)


@with_near_names
def mnist_images(
    part: str = "train", folder: str | Path | None = None, download: bool = True
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images (n, 28, 28) with grey levels 0–255, and their digits (n,).

    The files are looked for in `folder`; without one in the folder mnist of the folder that the environment
    variable OAR_DATA names, if that is set and has one; otherwise in the user's cache, which is filled from public
    mirrors if `download` allows. Files in a folder of your own are read as they are; cached and downloaded ones
    must be the standard files, by their sha256.

    Args:
        part: "train" (60,000 images) or "test" (10,000).
        folder: where the idx files are, zipped or not.
        download: whether the network may be used when they are nowhere.
    """
    part = choose("part", part, PREFIXES)
    own = _own_folder(folder)
    images, images_origin = _load(standard_name(part, "images"), 3, own, download)
    labels, labels_origin = _load(standard_name(part, "labels"), 1, own, download)
    if images.shape[1:] != (SIDE, SIDE):
        rows, columns = images.shape[1:]
        raise StorageError(f"{images_origin} must hold images of {SIDE} × {SIDE} pixels, got {rows} × {columns}.")
    if len(images) != len(labels):
        raise StorageError(
            f"{labels_origin} must have one label for each of the {len(images)} images of {images_origin}, "
            f"got {len(labels)}; the two files do not belong together."
        )
    if labels.size == 0:
        raise StorageError(f"{images_origin} must hold at least one image, got none.")
    if labels.max() > 9:
        raise StorageError(f"{labels_origin} must hold digits 0–9, got {labels.max()}.")
    return images, labels


def standard_name(part: str, kind: str) -> str:
    """Return a standard file's name; `kind` is "images" or "labels".

    >>> standard_name("test", "labels")
    't10k-labels-idx1-ubyte'
    """
    return f"{PREFIXES[part]}-{kind}-idx{3 if kind == 'images' else 1}-ubyte"


def _own_folder(folder: str | Path | None) -> Path | None:
    if folder is not None:
        if not Path(folder).is_dir():
            raise StorageError(f"folder: must be a folder that exists, got {folder}. {BY_HAND}")
        return Path(folder)
    data = os.environ.get("OAR_DATA")
    if not data:
        return None
    if not Path(data).is_dir():
        raise StorageError(f"OAR_DATA: must name a folder that exists, got {data}; correct it or unset it.")
    # A data folder without MNIST may be there for other data sets, so the cache still gets its turn.
    return Path(data) / "mnist" if (Path(data) / "mnist").is_dir() else None


def _load(name: str, dimensions: int, own: Path | None, download: bool) -> tuple[NDArray[np.uint8], str]:
    if own is None:
        content, origin = standard_content(name, STANDARD_SHA256[name], cache_folder(), download=download), name
    else:
        path = find_file(own, name)
        if path is None:
            raise StorageError(f"folder: {own} has no {name}, neither zipped (.gz) nor unzipped. {BY_HAND}")
        content, origin = read_content(path), str(path)
    return parse_idx(content, dimensions, origin), origin


def cache_folder() -> Path:
    """Return where downloads are kept (nothing is created)."""
    import pooch

    return Path(pooch.os_cache("oar")) / "mnist"


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, zipped or not, in either spelling that is in use."""
    dotted = name.replace("-idx", ".idx")
    for spelling in (f"{name}.gz", name, f"{dotted}.gz", dotted):
        if (folder / spelling).is_file():
            return folder / spelling
    return None


def standard_content(
    name: str,
    sha256: str,
    cache: Path,
    *,
    download: bool = True,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 30.0,
) -> bytes:
    """Return the unzipped content of a standard file: from the cache, or else from the first mirror that has it.

    `name` is without .gz, `sha256` that of the unzipped content: anything else is refused, from the cache as from a
    mirror, which may stay silent for `timeout` seconds.
    """
    trouble = [f"{cache} does not have it"]
    kept = find_file(cache, name)
    if kept is not None:
        try:
            return _checked(read_content(kept), sha256, str(kept))
        except StorageError as error:
            trouble = [str(error)]
    if not download:
        raise StorageError(
            f"{name} is not at hand and download=False forbids to fetch it ({'; '.join(trouble)}). {BY_HAND}"
        )
    import pooch

    for mirror in mirrors:
        address = f"{mirror}{name}.gz"
        try:
            stream = BytesIO()
            pooch.HTTPDownloader(chunk_size=1 << 16, timeout=timeout)(address, stream, None)
            received = stream.getvalue()
            content = _checked(unzip(received, address), sha256, address)
        except (OSError, ValueError) as error:
            trouble.append(f"{address}: {error}")
            continue
        # A server may undo the gzip on the way, so the name follows what arrived.
        ending = ".gz" if received.startswith(GZIP_MAGIC) else ""
        with replace_atomically(cache / f"{name}{ending}") as file:
            file.write(received)
        return content
    raise StorageError(f"{name} could not be downloaded ({'; '.join(trouble)}). {BY_HAND}")


def _checked(content: bytes, sha256: str, origin: str) -> bytes:
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise StorageError(f"{origin} is not the standard file: its content must have the sha256 {sha256}, got {got}")
    return content
