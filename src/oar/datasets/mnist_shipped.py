"""MNIST as the paper uses it: ten-dimensional means of a variational autoencoder, with the decoder beside them.

Three files belong together, in the package's own `data` folder or in any folder that `oar embed-mnist` filled:
the embedding, the decoder, and a provenance file with the checksums of the other two. Nothing is returned from
files that do not match those checksums.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.datasets.dataset import Dataset
from oar.errors import StorageError
from oar.opening import read_json, read_npz, regular

EMBEDDING_FILE = "mnist_embedding.npz"
DECODER_FILE = "mnist_decoder.npz"
PROVENANCE_FILE = "mnist_provenance.json"
PROVENANCE_FORMAT = 1

SHIPPED = Path(__file__).parent / "data"
REMEDY = "Reinstall the package, or make the three files again with `oar embed-mnist`."


@with_near_names
def mnist_embedding(folder: str | Path | None = None) -> Dataset:
    """Return the embedded training images: 60,000 × 10, labelled with their digits.

    The means are stored as float32, so every float64 returned is exactly the stored number.

    Args:
        folder: where `oar embed-mnist` wrote; None means the embedding that ships with the package.

    >>> mnist_embedding()
    Dataset('mnist', 60,000 × 10, 10 classes)
    """
    place = _place(folder)
    provenance = mnist_provenance(place)
    arrays = _read_checked(place / EMBEDDING_FILE, provenance, ("means", "labels"))
    means = arrays["means"]
    return Dataset(
        name="mnist",
        features=np.ascontiguousarray(means, dtype=np.float64),
        labels=arrays["labels"].astype(np.int64),
        feature_names=tuple(f"latent {number}" for number in range(means.shape[1])),
        class_names=tuple(str(digit) for digit in range(10)),
        source=f"{provenance['citation']}; licence {provenance['licence']}; embedded by `{provenance['command']}`",
    )


@with_near_names
def mnist_decoder(folder: str | Path | None = None) -> dict[str, NDArray[np.float32]]:
    """Return the decoder's weights and biases by name, for `oar_paper.embedding.vae.decode`.

    Args:
        folder: where `oar embed-mnist` wrote; None means the decoder that ships with the package.

    >>> sorted(mnist_decoder())
    ['decoder_b0', 'decoder_b1', 'decoder_b2', 'decoder_w0', 'decoder_w1', 'decoder_w2']
    """
    place = _place(folder)
    names = tuple(f"decoder_{kind}{number}" for number in range(3) for kind in "wb")
    return _read_checked(place / DECODER_FILE, mnist_provenance(place), names)


@with_near_names
def mnist_provenance(folder: str | Path | None = None) -> dict[str, Any]:
    """Return how the embedding was made: command, settings, choices, losses, accuracies, versions, checksums.

    Args:
        folder: where `oar embed-mnist` wrote; None means the embedding that ships with the package.

    >>> mnist_provenance()["settings"]["epochs"]
    500
    """
    path = _place(folder) / PROVENANCE_FILE
    try:
        provenance = read_json(path)
    except StorageError as error:
        raise StorageError(f"{error} {REMEDY}") from None
    got = provenance.get("format") if isinstance(provenance, dict) else None
    if got != PROVENANCE_FORMAT:
        raise StorageError(f"{path} must be a provenance file of format {PROVENANCE_FORMAT}, got {got!r}. {REMEDY}")
    return provenance


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(folder: str | Path | None) -> Path:
    return SHIPPED if folder is None else Path(folder)


def _read_checked(path: Path, provenance: dict[str, Any], names: tuple[str, ...]) -> dict[str, NDArray]:
    outputs = provenance.get("outputs")
    expected = outputs.get(path.name) if isinstance(outputs, dict) else None
    try:
        got = file_sha256(regular(path))
    except StorageError as error:
        raise StorageError(f"{error} {REMEDY}") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}. {REMEDY}") from error
    if got != expected:
        raise StorageError(f"{path} was damaged or changed: its sha256 must be {expected}, got {got}. {REMEDY}")
    arrays = read_npz(path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise StorageError(f"{path} has no array {missing[0]!r}. {REMEDY}")
    return {name: arrays[name] for name in names}
