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

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, StorageError
from oar.files import read_npz, replace_atomically

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


@dataclass
class TrainingState:
    """Where a run stands: enough to go on from, and nothing else."""

    parameters: Parameters
    velocity: Parameters
    epoch: int = 0
    losses: list[float] = field(default_factory=list)


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


def encode(parameters: Parameters, images: NDArray[np.uint8], chunk: int = 10_000) -> NDArray[np.float32]:
    """Return the encoder's means, one row an image."""
    latent = parameters["encoder_b2"].size // 2
    means = np.empty((len(images), latent), dtype=np.float32)
    for start in range(0, len(images), chunk):
        grey = images[start : start + chunk].reshape(-1, PIXELS).astype(np.float32) / 255.0
        means[start : start + chunk] = _dense_stack(parameters, "encoder", grey, np.maximum)[:, :latent]
    return means


def decode(parameters: Parameters, codes: NDArray[np.floating]) -> NDArray[np.float32]:
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


def _epoch_step(settings: VAESettings):
    """Compile one epoch: SGD with heavy-ball momentum, scanned over the epoch's batches."""
    import jax
    import jax.numpy as jnp

    def run(parameters, velocity, images, order, key):
        def one_batch(carry, step):
            parameters, velocity = carry
            number, rows = step
            grey = images[rows].astype(jnp.float32) / 255.0
            noise = jax.random.normal(jax.random.fold_in(key, number), (rows.size, settings.latent))
            loss, gradient = jax.value_and_grad(negative_elbo)(parameters, grey, noise)
            velocity = jax.tree.map(lambda v, g: settings.momentum * v + g, velocity, gradient)
            parameters = jax.tree.map(lambda p, v: p - settings.learning_rate * v, parameters, velocity)
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

    `on_epoch(epoch, loss)` is called after every epoch with its number (from 1) and mean loss.
    """
    import jax
    import jax.numpy as jnp

    if len(images) < settings.batch_size:
        raise DataError(f"images: need at least one batch of {settings.batch_size} images, got {len(images)}.")
    state = initial_state(settings)
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, settings)

    pixels = jnp.asarray(images.reshape(-1, PIXELS))
    batches = len(images) // settings.batch_size
    run_epoch = _epoch_step(settings)
    parameters = jax.tree.map(jnp.asarray, state.parameters)
    velocity = jax.tree.map(jnp.asarray, state.velocity)
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
            state.parameters = {name: np.asarray(value) for name, value in parameters.items()}
            state.velocity = {name: np.asarray(value) for name, value in velocity.items()}
            if checkpoint is not None:
                save_checkpoint(checkpoint, state, settings)
        if on_epoch is not None:
            on_epoch(state.epoch, loss)
    return state


def save_checkpoint(path: Path, state: TrainingState, settings: VAESettings) -> None:
    """Write the state so that the file is always a whole one, even if killed while writing."""
    arrays = {f"parameter_{name}": value for name, value in state.parameters.items()}
    arrays |= {f"velocity_{name}": value for name, value in state.velocity.items()}
    arrays["losses"] = np.asarray(state.losses)
    # The number of epochs may be raised on resuming, so it is not part of what must agree.
    arrays["settings"] = np.asarray(json.dumps(_resumable(settings)))
    with replace_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]


def load_checkpoint(path: Path, settings: VAESettings) -> TrainingState:
    """Read a state written by `save_checkpoint`; refuse one of a run with other settings."""
    arrays = read_npz(path)
    stored = json.loads(str(arrays["settings"]))
    wanted = _resumable(settings)
    if stored != wanted:
        different = sorted(name for name in wanted if stored.get(name) != wanted[name])
        raise StorageError(
            f"checkpoint: {path} was written with other settings ({', '.join(different)}). "
            "Use the same settings, or give another checkpoint file."
        )
    parameters, velocity = initial_state(settings).parameters, {}
    for name in list(parameters):
        parameters[name] = arrays[f"parameter_{name}"]
        velocity[name] = arrays[f"velocity_{name}"]
    losses = arrays["losses"].tolist()
    return TrainingState(parameters, velocity, epoch=len(losses), losses=losses)


def _resumable(settings: VAESettings) -> dict[str, float]:
    values = asdict(settings)
    del values["epochs"]
    return values
