"""The variational autoencoder that the paper embeds MNIST with, trained so that a kill loses nothing.

The paper's appendix fixes: encoder and decoder are MLPs with two hidden layers of 512, ten latent
dimensions, 500 epochs of SGD at 0.001 with momentum 0.9, and the encoder's mean as the embedding.
What it leaves open is chosen here, and written into the provenance file:

* batches of 128, reshuffled every epoch, the last incomplete batch of an epoch dropped;
* ReLU between layers, He-normal weights, zero biases;
* a Bernoulli likelihood on grey levels scaled to [0, 1] (not binarised), a standard normal prior;
* the loss is the negative evidence lower bound of one image in nats, averaged over the batch:

      L(x) = BCE(x, decoder(mu + sigma * noise)) + 1/2 sum_j (mu_j^2 + sigma_j^2 - 1 - log sigma_j^2)

Every random draw is a function of (seed, epoch, step), so a run that was killed and resumed from its
checkpoint ends with the same bits as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, OptionError, StorageError
from oar.files import replace_atomically
from oar.opening import Fields, read_npz
from oar.opening.documents import parsed_json

Parameters = dict[str, NDArray[np.float32]]
PIXELS = 28 * 28


@dataclass(frozen=True)
class VAESettings:
    """Everything that, with the images, determines the trained weights."""

    latent: int = 10
    hidden: int = 512
    epochs: int = 500
    batch_size: int = 128
    learning_rate: float = 1e-3
    momentum: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with, before anything is read or written."""
        for name in ("latent", "hidden", "epochs", "batch_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise OptionError(f"{name}: must be a whole number of at least 1, got {getattr(self, name)!r}.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise OptionError(f"learning_rate: must be a positive number, got {self.learning_rate}.")
        if not 0 <= self.momentum < 1:
            raise OptionError(f"momentum: must be at least 0 and below 1, got {self.momentum}.")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**31):
            # JAX keeps 32 bits of a seed, so larger ones would silently share their noise.
            raise OptionError(f"seed: must be a whole number from 0 to {2**31 - 1}, got {self.seed!r}.")


@dataclass
class TrainingState:
    """The state of a training run: enough to resume from, and nothing else."""

    parameters: Parameters
    velocity: Parameters
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


def require_jax() -> None:
    """Raise, with the remedy, where JAX is not installed."""
    try:
        import jax  # noqa: F401
    except ImportError as error:
        raise OptionError(
            f"training the autoencoder needs JAX, which cannot be imported ({error}); "
            "install it with: pip install 'oar-recourse[jax]'"
        ) from error


def layer_sizes(settings: VAESettings) -> dict[str, list[tuple[int, int]]]:
    """Return (inputs, outputs) of every dense layer, for the encoder and for the decoder."""
    hidden, latent = settings.hidden, settings.latent
    return {
        "encoder": [(PIXELS, hidden), (hidden, hidden), (hidden, 2 * latent)],
        "decoder": [(latent, hidden), (hidden, hidden), (hidden, PIXELS)],
    }


def initial_state(settings: VAESettings) -> TrainingState:
    """He-normal weights and zero biases, drawn from the seed."""
    generator = np.random.default_rng(settings.seed)
    parameters: Parameters = {}
    for part, sizes in layer_sizes(settings).items():
        for number, (inputs, outputs) in enumerate(sizes):
            weights = generator.normal(0.0, np.sqrt(2.0 / inputs), (inputs, outputs))
            parameters[f"{part}_w{number}"] = weights.astype(np.float32)
            parameters[f"{part}_b{number}"] = np.zeros(outputs, dtype=np.float32)
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    return TrainingState(parameters, velocity)


def _dense_stack(parameters, part: str, inputs, maximum):
    """Three dense layers with ReLU between; `maximum` is numpy's or jax.numpy's."""
    first = maximum(inputs @ parameters[f"{part}_w0"] + parameters[f"{part}_b0"], 0.0)
    second = maximum(first @ parameters[f"{part}_w1"] + parameters[f"{part}_b1"], 0.0)
    return second @ parameters[f"{part}_w2"] + parameters[f"{part}_b2"]


def encode(parameters: Parameters, images: NDArray[np.uint8], chunk: int = 5_000) -> NDArray[np.float32]:
    """Return the encoder's means, one row an image."""
    # Summed in float64 and rounded at the end: in float32 the last digits would depend on the machine's
    # matrix product, and the same weights would give other files elsewhere.
    wide = {name: value.astype(np.float64) for name, value in parameters.items() if name.startswith("encoder")}
    latent = wide["encoder_b2"].size // 2
    means = np.empty((len(images), latent), dtype=np.float32)
    for start in range(0, len(images), chunk):
        grey = images[start : start + chunk].reshape(-1, PIXELS) / 255.0
        means[start : start + chunk] = _dense_stack(wide, "encoder", grey, np.maximum)[:, :latent]
    return means


def decode(parameters: Mapping[str, NDArray[np.float32]], codes: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return grey levels in [0, 1], shape (n, 28, 28), for latent codes of shape (n, latent)."""
    logits = _dense_stack(parameters, "decoder", np.asarray(codes, dtype=np.float32), np.maximum)
    # 1/(1 + exp(-t)) = (1 + tanh(t/2))/2, which cannot overflow.
    return (0.5 * (1.0 + np.tanh(0.5 * logits))).reshape(-1, 28, 28)


def negative_elbo(parameters, grey, noise):
    """Mean negative evidence lower bound of a batch, in nats an image (JAX arrays)."""
    import jax.numpy as jnp

    encoded = _dense_stack(parameters, "encoder", grey, jnp.maximum)
    mean, log_variance = jnp.split(encoded, 2, axis=1)
    logits = _dense_stack(parameters, "decoder", mean + jnp.exp(0.5 * log_variance) * noise, jnp.maximum)
    # Bernoulli cross-entropy from logits t: softplus(t) - x t.
    reconstruction = jnp.sum(jnp.logaddexp(logits, 0.0) - grey * logits, axis=1)
    divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1.0 - log_variance, axis=1)
    return jnp.mean(reconstruction + divergence)


@lru_cache(maxsize=4)
def _epoch_step(latent: int, learning_rate: float, momentum: float):
    """Compile one epoch: SGD with heavy-ball momentum, scanned over the epoch's batches.

    Remembered, because a second training with the same settings should not be compiled again.
    """
    import jax
    import jax.numpy as jnp

    def run(parameters, velocity, images, order, key):
        def one_batch(carry, step):
            parameters, velocity = carry
            number, rows = step
            grey = images[rows].astype(jnp.float32) / 255.0
            # The type is named so that a caller who switched JAX to 64 bits gets the same bits.
            noise = jax.random.normal(jax.random.fold_in(key, number), (rows.size, latent), jnp.float32)
            loss, gradient = jax.value_and_grad(negative_elbo)(parameters, grey, noise)
            velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradient)
            parameters = jax.tree.map(lambda p, v: p - learning_rate * v, parameters, velocity)
            return (parameters, velocity), loss

        steps = (jnp.arange(order.shape[0]), order)
        (parameters, velocity), losses = jax.lax.scan(one_batch, (parameters, velocity), steps)
        return parameters, velocity, jnp.mean(losses)

    return jax.jit(run, donate_argnums=(0, 1))


def train(
    images: NDArray[np.uint8],
    settings: VAESettings,
    checkpoint: Path | None = None,
    checkpoint_every: int = 5,
    on_epoch: Callable[[int, float], None] | None = None,
) -> TrainingState:
    """Train to `settings.epochs`, going on from `checkpoint` where that file exists.

    Args:
        images: (n, 28, 28) or (n, 784) grey levels from 0 to 255, as unsigned bytes.
        settings: see `VAESettings`; those of a checkpoint must agree, but for `epochs`, which may be raised.
        checkpoint: the file to go on from and to save to; None saves nothing.
        checkpoint_every: how many epochs a kill may cost.
        on_epoch: called as `on_epoch(epoch, loss)` after every epoch, with its number (from 1) and mean loss.
    """
    require_jax()
    import jax
    import jax.numpy as jnp

    _check_images(images, settings)
    digest = hashlib.sha256(images.tobytes()).hexdigest()
    state = initial_state(settings)
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, settings, digest)
    if checkpoint is not None and state.epoch < settings.epochs:
        # Saved before the first epoch too: a place that cannot be written to is better known now.
        save_checkpoint(checkpoint, state, settings, digest)

    pixels = jnp.asarray(images.reshape(-1, PIXELS))
    batches = len(images) // settings.batch_size
    run_epoch = _epoch_step(settings.latent, settings.learning_rate, settings.momentum)
    # Copies on the way in and out, because the compiled epoch overwrites its arguments.
    parameters = jax.tree.map(jnp.array, state.parameters)
    velocity = jax.tree.map(jnp.array, state.velocity)
    root_key = jax.random.key(settings.seed)

    for epoch in range(state.epoch, settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(len(images))
        order = order[: batches * settings.batch_size].reshape(batches, settings.batch_size)
        parameters, velocity, loss = run_epoch(
            parameters, velocity, pixels, jnp.asarray(order), jax.random.fold_in(root_key, epoch)
        )
        loss = float(loss)
        if not np.isfinite(loss):
            raise DataError(
                f"learning_rate: training diverged in epoch {epoch + 1} (loss {loss}) at "
                f"{settings.learning_rate}; use a smaller one."
            )
        state.losses.append(loss)
        state.epoch = epoch + 1
        last = state.epoch == settings.epochs
        if last or (checkpoint is not None and state.epoch % checkpoint_every == 0):
            state.parameters = {name: np.array(value) for name, value in parameters.items()}
            state.velocity = {name: np.array(value) for name, value in velocity.items()}
            if checkpoint is not None:
                save_checkpoint(checkpoint, state, settings, digest)
        if on_epoch is not None:
            on_epoch(state.epoch, loss)
    return state


def _check_images(images: NDArray[np.uint8], settings: VAESettings) -> None:
    if images.dtype != np.uint8 or images.shape[1:] not in {(28, 28), (PIXELS,)}:
        raise DataError(
            "images: must be unsigned bytes of shape (n, 28, 28) or (n, 784), "
            f"got {images.dtype} of shape {images.shape}."
        )
    if len(images) < settings.batch_size:
        raise DataError(f"images: need at least one batch of {settings.batch_size} images, got {len(images)}.")


def save_checkpoint(path: Path, state: TrainingState, settings: VAESettings, images_sha256: str = "") -> None:
    """Write the state so that the file is always a whole one, even if killed while writing."""
    arrays = {f"parameter_{name}": value for name, value in state.parameters.items()}
    arrays |= {f"velocity_{name}": value for name, value in state.velocity.items()}
    arrays["losses"] = np.asarray(state.losses)
    # The number of epochs may be raised on resuming, so it is not part of what must agree.
    arrays["settings"] = np.asarray(json.dumps(_resumable(settings)))
    arrays["images_sha256"] = np.asarray(images_sha256)
    with replace_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]


def load_checkpoint(path: Path, settings: VAESettings, images_sha256: str = "") -> TrainingState:
    """Read a state written by `save_checkpoint`; refuse one of another run.

    The images are compared where both the file and the caller know their sha256.
    """
    arrays = read_npz(path)
    try:
        stored = Fields(parsed_json(str(arrays["settings"])))
        losses = _numbers(arrays, "losses", (arrays["losses"].size,)).tolist()
        expected = initial_state(settings).parameters
        _refuse_other_settings(path, stored, _resumable(settings))
        parameters = {name: _numbers(arrays, f"parameter_{name}", value.shape) for name, value in expected.items()}
        velocity = {name: _numbers(arrays, f"velocity_{name}", value.shape) for name, value in expected.items()}
    except (KeyError, ValueError) as error:
        raise StorageError(f"checkpoint: {path} is not a checkpoint of this training ({error}).") from error
    known = str(arrays.get("images_sha256", ""))
    if known and images_sha256 and known != images_sha256:
        raise StorageError(f"checkpoint: {path} was trained on other images; give another checkpoint file.")
    if len(losses) > settings.epochs:
        raise StorageError(
            f"checkpoint: {path} has already had {len(losses)} epochs, more than the {settings.epochs} asked for. "
            f"Ask for at least {len(losses)}, or give another checkpoint file."
        )
    return TrainingState(parameters, velocity, epoch=len(losses), losses=losses)


def _numbers(arrays: dict[str, NDArray], name: str, shape: tuple[int, ...]) -> NDArray:
    """Return an array of a checkpoint; raise a ValueError where it is not of this shape, or not of finite numbers."""
    found = arrays[name]
    if found.shape != shape or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite numbers of shape {shape}, got {found.dtype} of shape {found.shape}")
    return found


def _refuse_other_settings(path: Path, stored: Fields, wanted: dict[str, float]) -> None:
    different = [name for name in wanted if stored.get(name) != wanted[name]]
    if different:
        changes = ", ".join(f"{name} {stored.get(name)}, now {wanted[name]}" for name in sorted(different))
        raise StorageError(
            f"checkpoint: {path} was written with other settings ({changes}). "
            "Use the same settings, or give another checkpoint file."
        )


def _resumable(settings: VAESettings) -> dict[str, float]:
    values = asdict(settings)
    del values["epochs"]
    return values
