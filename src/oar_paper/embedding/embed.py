"""From MNIST's images to the three files that `oar.datasets.mnist_embedding` reads.

The same checkpoint always gives the same bytes: nothing in the files tells the time, the arrays are stored
uncompressed, and the means are rounded from float64.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.datasets import mnist_images
from oar.datasets.idx import idx_sha256
from oar.datasets.mnist_raw import STANDARD_SHA256, standard_name
from oar.datasets.mnist_shipped import (
    DECODER_FILE,
    EMBEDDING_FILE,
    PROVENANCE_FILE,
    PROVENANCE_FORMAT,
    file_sha256,
)
from oar.errors import StorageError
from oar.files import replace_atomically
from oar.models import NearestCentroid
from oar.people import Population
from oar.report.files.output_folder import leaving_no_empty_folders
from oar.version import __version__
from oar_paper.embedding.vae import VAESettings, encode, require_jax, train

PAPER_SETTINGS = VAESettings()
CITATION = "Y. LeCun, C. Cortes, C. J. C. Burges, The MNIST database of handwritten digits"
LICENCE = "CC BY-SA 3.0"


def embed_mnist(
    out: Path,
    *,
    folder: Path | None = None,
    checkpoint: Path | None = None,
    settings: VAESettings = PAPER_SETTINGS,
    on_epoch: Callable[[int, float], None] | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Train the paper's autoencoder on MNIST (or go on training it) and write embedding, decoder and provenance.

    A run that was killed goes on from its checkpoint when it is started again, and ends with the same bytes.

    Args:
        out: the folder to write to; made if it is not there, and tried before any training. Where nothing comes of
            it, no empty folder is left.
        folder: where MNIST's idx files are; None looks where `oar.datasets.mnist_images` looks.
        checkpoint: the file to go on from and to save to; None means `checkpoint.npz` in `out`.
        settings: of the training; the default is the paper's.
        on_epoch: called as `on_epoch(epoch, loss)` after every epoch.
        command: what the user typed, for the provenance.

    Returns:
        The provenance, as written to `mnist_provenance.json`.
    """
    require_jax()
    with leaving_no_empty_folders(Path(out)):
        return _embed(Path(out), folder, checkpoint, settings, on_epoch, command)


def _embed(
    out: Path,
    folder: Path | None,
    checkpoint: Path | None,
    settings: VAESettings,
    on_epoch: Callable[[int, float], None] | None,
    command: str,
) -> dict[str, Any]:
    _check_writable(out)
    checkpoint = out / "checkpoint.npz" if checkpoint is None else Path(checkpoint)
    train_images, train_labels = mnist_images("train", folder)
    test_images, test_labels = mnist_images("test", folder)

    state = train(train_images, settings, checkpoint, on_epoch=on_epoch)
    means = encode(state.parameters, train_images)
    decoder = {name: value for name, value in state.parameters.items() if name.startswith("decoder")}
    _write_arrays(out / EMBEDDING_FILE, {"means": means, "labels": train_labels})
    _write_arrays(out / DECODER_FILE, decoder)

    inputs = {
        standard_name("train", "images"): idx_sha256(train_images),
        standard_name("train", "labels"): idx_sha256(train_labels),
        standard_name("test", "images"): idx_sha256(test_images),
        standard_name("test", "labels"): idx_sha256(test_labels),
    }
    standard = inputs == STANDARD_SHA256
    provenance = {
        "format": PROVENANCE_FORMAT,
        "command": command,
        "citation": CITATION if standard else "images of the user's own, not the standard MNIST files",
        "licence": LICENCE if standard else "that of the images",
        "standard_mnist": standard,
        "images": {"train": len(train_images), "test": len(test_images)},
        "settings": asdict(settings),
        "choices": choices(settings),
        "final_loss": state.losses[-1],
        "nearest_centroid_accuracy": accuracies(
            means, train_labels, encode(state.parameters, test_images), test_labels
        ),
        "versions": {
            "oar-recourse": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in ("numpy", "jax", "jaxlib")},
        },
        "inputs": inputs,
        "outputs": {name: file_sha256(out / name) for name in (EMBEDDING_FILE, DECODER_FILE)},
    }
    # Last, so that files left behind by a kill in between are met with "damaged or changed", not believed.
    with replace_atomically(out / PROVENANCE_FILE) as file:
        file.write((json.dumps(provenance, indent=2, ensure_ascii=False) + "\n").encode())
    return provenance


def choices(settings: VAESettings) -> dict[str, str]:
    """Return, in words, what the paper leaves open and this training had to choose."""
    return {
        "batches": f"{settings.batch_size} images, reshuffled every epoch, the last incomplete batch dropped",
        "activation": "ReLU between layers",
        "initialisation": "He-normal weights, zero biases",
        "likelihood": "Bernoulli, on grey levels scaled to [0, 1] and not binarised",
        "prior": "standard normal, Kullback-Leibler term with weight 1",
        "loss": "negative evidence lower bound of an image in nats, one noise sample, averaged over the batch",
        "seed": f"{settings.seed}; every draw is a function of seed, epoch and step",
        "storage": "the encoder's means, summed in float64 and rounded to float32",
    }


def accuracies(
    means: NDArray[np.floating],
    labels: NDArray[np.integer],
    test_means: NDArray[np.floating],
    test_labels: NDArray[np.integer],
) -> dict[str, float]:
    """Return the shares of training and of test images whose nearest class mean is their own digit's."""
    model, people = NearestCentroid(), Population(means, labels)
    centroids, classes = model.fit(people), np.asarray(people.classes)

    def share(features: NDArray[np.floating], digits: NDArray[np.integer]) -> float:
        return float(np.mean(classes[model.predict(centroids, features)] == digits))

    return {"train": share(means, labels), "test": share(test_means, test_labels)}


def _check_writable(folder: Path) -> None:
    """Raise now, rather than after hours of training, if nothing can be written here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(f"out: cannot write to {folder}: {error.strerror}. Choose another folder.") from error


def _write_arrays(path: Path, arrays: dict[str, NDArray]) -> None:
    # By name, because a state that was just trained and one that was read back keep their arrays in other orders.
    in_order = {name: arrays[name] for name in sorted(arrays)}
    with replace_atomically(path) as file:
        np.savez(file, allow_pickle=False, **in_order)  # pyright: ignore[reportArgumentType]
