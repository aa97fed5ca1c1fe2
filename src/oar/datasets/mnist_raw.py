"""MNIST's handwritten digits as images, from the reader's own files or from the public mirrors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oar.checks import choose, with_near_names
from oar.datasets.idx import parse_idx, read_content
from oar.datasets.mirrors import BY_HAND, STANDARD_SHA256, cache_folder, find_file, standard_content
from oar.errors import StorageError

PREFIXES = {"train": "train", "test": "t10k"}
SIDE = 28


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
