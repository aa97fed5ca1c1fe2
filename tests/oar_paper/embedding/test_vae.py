"""The autoencoder: its loss against independent formulas, and training that a kill cannot change."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import xlogy

from oar.errors import DataError, OptionError, StorageError
from oar_paper.embedding import vae
from oar_paper.embedding.vae import PIXELS, VAESettings, decode, encode, initial_state, negative_elbo, train

jax = pytest.importorskip("jax")

TINY = VAESettings(latent=2, hidden=6, epochs=3, batch_size=16, seed=5)


def images(count: int = 50, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 28, 28), dtype=np.uint8)


def wide_parameters(settings=TINY, seed=1):
    """Return parameters in float64 with biases that are not zero, so that every term matters."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.1, value.shape) for name, value in initial_state(settings).parameters.items()}


@contextlib.contextmanager
def double_precision():
    """Let JAX compute in float64 for the length of the block, in new and in older versions."""
    if hasattr(jax, "enable_x64"):
        with jax.enable_x64(True):
            yield
    else:
        from jax.experimental import enable_x64

        with enable_x64():
            yield


def by_hand(parameters, part, rows):
    """The network again, row by row and unit by unit where it is cheap: shares no code with the package."""
    outputs = []
    for row in rows:
        for number in range(3):
            row = np.einsum("i,ij->j", row, parameters[f"{part}_w{number}"]) + parameters[f"{part}_b{number}"]
            if number < 2:
                row = np.where(row > 0, row, 0.0)
        outputs.append(row)
    return np.array(outputs)


class TestLoss:
    @pytest.fixture
    def batch(self):
        rng = np.random.default_rng(2)
        return rng.random((4, PIXELS)), rng.normal(size=(4, TINY.latent))

    def test_whole_loss_against_quadrature_and_bernoulli_likelihood(self, batch):
        grey, noise = batch
        parameters = wide_parameters()
        with double_precision():
            got = float(negative_elbo(parameters, grey, noise))
        encoded = by_hand(parameters, "encoder", grey)
        mean, deviation = encoded[:, :2], np.exp(encoded[:, 2:] / 2)
        probability = 1 / (1 + np.exp(-by_hand(parameters, "decoder", mean + deviation * noise)))
        likelihood = xlogy(grey, probability) + xlogy(1 - grey, 1 - probability)
        expected = -likelihood.sum() / 4 + sum(map(divergence, mean.ravel(), deviation.ravel())) / 4
        assert got == pytest.approx(expected, rel=1e-9)

    def test_divergence_alone(self, batch):
        grey, noise = batch
        parameters = wide_parameters()
        for name in parameters:
            if name.startswith("decoder"):
                parameters[name] = np.zeros_like(parameters[name])
        # Strong weights, so that means and variances are far from the prior's.
        parameters["encoder_w2"] *= 50
        with double_precision():
            got = float(negative_elbo(parameters, grey, noise))
        encoded = by_hand(parameters, "encoder", grey)
        mean, deviation = encoded[:, :2].ravel(), np.exp(encoded[:, 2:] / 2).ravel()
        assert np.abs(mean).max() > 1
        # A decoder of zeros says 1/2 for every pixel, which costs log 2 whatever the image.
        assert got - PIXELS * np.log(2) == pytest.approx(sum(map(divergence, mean, deviation)) / 4, rel=1e-8)

    def test_gradient_against_finite_differences(self, batch):
        grey, noise = batch
        parameters = wide_parameters()
        with double_precision():
            gradient = jax.jit(jax.grad(negative_elbo))(parameters, grey, noise)
            loss = jax.jit(negative_elbo)
            rng = np.random.default_rng(3)
            for name, value in parameters.items():
                assert gradient[name].dtype == np.float64
                direction = rng.normal(size=value.shape)
                step = 1e-5 * direction / np.linalg.norm(direction)
                ahead = float(loss(parameters | {name: value + step}, grey, noise))
                behind = float(loss(parameters | {name: value - step}, grey, noise))
                slope = float(np.sum(np.asarray(gradient[name]) * step))
                assert (ahead - behind) / 2 == pytest.approx(slope, rel=1e-5, abs=1e-13), name

    def test_extreme_logits_stay_finite(self, batch):
        grey, noise = batch
        parameters = {name: value.astype(np.float32) for name, value in wide_parameters().items()}
        parameters["decoder_b2"] = np.full(PIXELS, 1e4, dtype=np.float32)
        value, gradient = jax.jit(jax.value_and_grad(negative_elbo))(parameters, grey.astype(np.float32), noise)
        assert np.isfinite(value)
        assert all(np.isfinite(part).all() for part in gradient.values())


def divergence(mean: float, deviation: float) -> float:
    """Kullback-Leibler divergence of N(mean, deviation²) from N(0, 1), by quadrature."""
    own, prior = stats.norm(mean, deviation), stats.norm()
    value, _ = integrate.quad(
        lambda x: own.pdf(x) * (own.logpdf(x) - prior.logpdf(x)),
        mean - 12 * deviation,
        mean + 12 * deviation,
        epsabs=1e-12,
        epsrel=1e-11,
        limit=200,
    )
    return value


class TestEncodeAndDecode:
    def test_encode_is_the_mean_half_in_any_chunks(self):
        parameters = {name: value.astype(np.float32) for name, value in wide_parameters().items()}
        pictures = images(9)
        expected = by_hand(parameters, "encoder", pictures.reshape(9, -1) / 255.0)[:, :2]
        for chunk in (1, 4, 9, 100):
            means = encode(parameters, pictures, chunk)
            assert means.dtype == np.float32
            np.testing.assert_allclose(means, expected, rtol=1e-6)

    def test_decode_is_the_logistic_function_of_the_logits(self):
        parameters = {name: value.astype(np.float32) for name, value in wide_parameters().items()}
        codes = np.random.default_rng(4).normal(size=(5, 2))
        drawn = decode(parameters, codes)
        assert drawn.shape == (5, 28, 28)
        assert drawn.dtype == np.float32
        expected = 1 / (1 + np.exp(-by_hand(parameters, "decoder", codes)))
        np.testing.assert_allclose(drawn.reshape(5, -1), expected, rtol=1e-5)

    def test_decode_stays_within_zero_and_one_far_away(self):
        parameters = {name: value.astype(np.float32) for name, value in wide_parameters().items()}
        drawn = decode(parameters, np.array([[1e6, -1e6], [-1e6, 1e6], [0.0, 0.0]]))
        assert np.isfinite(drawn).all()
        assert drawn.min() >= 0
        assert drawn.max() <= 1
        assert drawn[:2].max() == 1 or drawn[:2].min() == 0

    def test_initial_weights_are_he_normal(self):
        state = initial_state(VAESettings(hidden=300))
        for name, value in state.parameters.items():
            assert value.dtype == np.float32
            if "_b" in name:
                assert not value.any()
            else:
                assert value.std() == pytest.approx(np.sqrt(2 / value.shape[0]), rel=0.06)
        assert not any(value.any() for value in state.velocity.values())


def same_bits(one, other) -> bool:
    return (
        one.losses == other.losses
        and one.epoch == other.epoch
        and all(np.array_equal(one.parameters[name], other.parameters[name]) for name in one.parameters)
        and all(np.array_equal(one.velocity[name], other.velocity[name]) for name in one.velocity)
    )


@pytest.fixture(scope="module")
def in_one_go():
    return train(images(), TINY)


class TestTraining:
    def test_one_epoch_is_the_plain_loop_with_momentum(self):
        """The compiled epoch against SGD written out step by step, with the same order and noise."""
        settings = dataclasses.replace(TINY, epochs=1, momentum=0.5)
        pictures = images()
        got = train(pictures, settings)
        state = initial_state(settings)
        parameters, velocity = state.parameters, state.velocity
        order = np.random.default_rng([settings.seed, 0]).permutation(50)[:48].reshape(3, 16)
        key = jax.random.fold_in(jax.random.key(settings.seed), 0)
        losses, differentiate = [], jax.jit(jax.value_and_grad(negative_elbo))
        for number, rows in enumerate(order):
            noise = jax.random.normal(jax.random.fold_in(key, number), (16, 2))
            grey = pictures[rows].reshape(16, -1).astype(np.float32) / np.float32(255)
            loss, gradient = differentiate(parameters, grey, noise)
            losses.append(float(loss))
            velocity = {name: 0.5 * velocity[name] + np.asarray(gradient[name]) for name in velocity}
            parameters = {name: parameters[name] - np.float32(1e-3) * velocity[name] for name in parameters}
        assert got.losses == [pytest.approx(np.mean(losses), rel=1e-5)]
        for name in parameters:
            np.testing.assert_allclose(got.parameters[name], parameters[name], rtol=1e-4, atol=1e-5, err_msg=name)

    def test_loss_falls(self, in_one_go):
        # 784 log 2 = 543.4 nats is what saying 1/2 everywhere costs.
        assert in_one_go.losses[0] > in_one_go.losses[-1]
        assert in_one_go.epoch == len(in_one_go.losses) == 3

    def test_same_seed_same_bits_and_another_seed_others(self, in_one_go):
        assert same_bits(train(images(), TINY), in_one_go)
        assert not same_bits(train(images(), dataclasses.replace(TINY, seed=6)), in_one_go)

    def test_flat_images_are_the_same_images(self, in_one_go):
        assert same_bits(train(images().reshape(50, PIXELS), TINY), in_one_go)

    def test_double_precision_switched_on_changes_nothing(self, in_one_go):
        with double_precision():
            assert same_bits(train(images(), TINY), in_one_go)

    def test_on_epoch_hears_every_epoch(self, in_one_go):
        heard = []
        train(images(), TINY, on_epoch=lambda epoch, loss: heard.append((epoch, loss)))
        assert heard == list(enumerate(in_one_go.losses, start=1))

    def test_stopped_and_resumed_is_the_same(self, tmp_path, in_one_go):
        checkpoint = tmp_path / "checkpoint.npz"
        first = train(images(), dataclasses.replace(TINY, epochs=1), checkpoint)
        assert first.epoch == 1
        heard = []
        resumed = train(images(), TINY, checkpoint, on_epoch=lambda epoch, loss: heard.append(epoch))
        assert heard == [2, 3]
        assert same_bits(resumed, in_one_go)

    def test_finished_checkpoint_is_returned_untouched(self, tmp_path, in_one_go):
        checkpoint = tmp_path / "checkpoint.npz"
        train(images(), TINY, checkpoint)
        before = checkpoint.read_bytes()
        checkpoint.chmod(0o444)
        again = train(images(), TINY, checkpoint, on_epoch=lambda *_: pytest.fail("trained again"))
        assert same_bits(again, in_one_go)
        assert checkpoint.read_bytes() == before

    def test_exception_in_between_loses_nothing(self, tmp_path, in_one_go):
        checkpoint = tmp_path / "checkpoint.npz"

        def interrupt(epoch, loss):
            if epoch == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(images(), TINY, checkpoint, checkpoint_every=1, on_epoch=interrupt)
        assert same_bits(train(images(), TINY, checkpoint), in_one_go)


PROGRAM = """
import sys, time
from pathlib import Path
import numpy as np
from oar_paper.embedding.vae import VAESettings, train

def wait_for_the_kill():
    print("ready", flush=True)
    time.sleep(120)

moment = sys.argv[2]
if moment == "while writing":
    save = np.savez
    count = 0
    def half_a_file(file, **arrays):
        global count
        count += 1
        if count == 3:  # before training, after epoch 1, now after epoch 2
            file.write(b"PK half a checkpoint")
            file.flush()
            wait_for_the_kill()
        save(file, **arrays)
    np.savez = half_a_file

def on_epoch(epoch, loss):
    if moment == "after epoch 1" and epoch == 1:
        wait_for_the_kill()

images = np.random.default_rng(0).integers(0, 256, (50, 28, 28), dtype=np.uint8)
settings = VAESettings(latent=2, hidden=6, epochs=3, batch_size=16, seed=5)
train(images, settings, Path(sys.argv[1]), checkpoint_every=1, on_epoch=on_epoch)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(("moment", "epochs"), [("after epoch 1", 1), ("while writing", 1)])
def test_killed_and_resumed_ends_with_the_same_bits(tmp_path, in_one_go, moment, epochs):
    checkpoint = tmp_path / "checkpoint.npz"
    command = [sys.executable, "-c", PROGRAM, str(checkpoint), moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(timeout=30) == -signal.SIGKILL
    assert vae.load_checkpoint(checkpoint, TINY).epoch == epochs
    heard = []
    resumed = train(images(), TINY, checkpoint, on_epoch=lambda epoch, loss: heard.append(epoch))
    assert heard == [2, 3]
    assert same_bits(resumed, in_one_go)


class TestRefusals:
    @pytest.mark.parametrize(
        "change", [{"seed": 6}, {"hidden": 7}, {"latent": 3}, {"learning_rate": 0.01}, {"momentum": 0.0}]
    )
    def test_checkpoint_of_other_settings(self, tmp_path, change):
        vae.save_checkpoint(tmp_path / "c.npz", initial_state(TINY), TINY)
        name = next(iter(change))
        with pytest.raises(
            StorageError, match=rf"c\.npz was written with other settings \({name} .*another checkpoint"
        ):
            train(images(), dataclasses.replace(TINY, **change), tmp_path / "c.npz")

    def test_checkpoint_of_other_images(self, tmp_path):
        train(images(), dataclasses.replace(TINY, epochs=1), tmp_path / "c.npz")
        with pytest.raises(StorageError, match="trained on other images"):
            train(images(seed=1), TINY, tmp_path / "c.npz")

    def test_checkpoint_that_does_not_know_its_images_is_accepted(self, tmp_path, in_one_go):
        """Checkpoints did not always name their images."""
        path = tmp_path / "c.npz"
        train(images(), dataclasses.replace(TINY, epochs=1), path)
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "images_sha256"}
        np.savez(path, **arrays)
        assert same_bits(train(images(), TINY, path), in_one_go)

    def test_checkpoint_further_on_than_asked_for(self, tmp_path):
        train(images(), dataclasses.replace(TINY, epochs=2), tmp_path / "c.npz")
        with pytest.raises(StorageError, match="already had 2 epochs, more than the 1 asked for. Ask for at least 2"):
            train(images(), dataclasses.replace(TINY, epochs=1), tmp_path / "c.npz")

    # NumPy leaves half a zip file to the garbage collector instead of closing it.
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", b"something else"])
    def test_damaged_checkpoint(self, tmp_path, content):
        (tmp_path / "c.npz").write_bytes(content)
        with pytest.raises(StorageError, match=r"c\.npz is damaged"):
            train(images(), TINY, tmp_path / "c.npz")

    def test_file_that_is_no_checkpoint(self, tmp_path):
        np.savez(tmp_path / "c.npz", means=np.zeros(3))
        with pytest.raises(StorageError, match="is not a checkpoint of this training"):
            train(images(), TINY, tmp_path / "c.npz")

    def test_unwritable_checkpoint_before_the_first_epoch(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="cannot write to"):
            train(images(), TINY, tmp_path / "file" / "c.npz", on_epoch=lambda *_: pytest.fail("trained first"))

    def test_divergence_is_named(self):
        with pytest.raises(DataError, match="learning_rate: training diverged in epoch 1 .* use a smaller one"):
            train(images(), dataclasses.replace(TINY, learning_rate=1e6))

    def test_too_few_images(self):
        with pytest.raises(DataError, match="images: need at least one batch of 16 images, got 15"):
            train(images(15), TINY)

    @pytest.mark.parametrize("pictures", [images().astype(float), images()[:, :27], images()[0, 0]])
    def test_images_of_another_kind(self, pictures):
        with pytest.raises(DataError, match="images: must be unsigned bytes of shape"):
            train(pictures, TINY)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("latent", 0),
            ("hidden", 0),
            ("epochs", 0),
            ("epochs", 1.5),
            ("batch_size", -1),
            ("learning_rate", 0.0),
            ("learning_rate", float("nan")),
            ("momentum", 1.0),
            ("momentum", -0.1),
            ("seed", -1),
            ("seed", 2**31),
        ],
    )
    def test_settings(self, name, value):
        with pytest.raises(OptionError, match=f"{name}: must be"):
            VAESettings(**{name: value})

    def test_no_jax(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(OptionError, match=r"pip install 'oar-recourse\[jax\]'"):
            train(images(), TINY)
