"""From images to the three files: the same bytes each time, also after a kill, and failures before the work."""

import dataclasses
import json
import sys

import numpy as np
import pytest

from oar.datasets import mnist_decoder, mnist_embedding, mnist_provenance
from oar.datasets.idx import idx_content, idx_sha256
from oar.errors import OptionError, StorageError
from oar_paper.embedding import embed
from oar_paper.embedding.embed import PAPER_SETTINGS, accuracies, embed_mnist
from oar_paper.embedding.vae import VAESettings, decode, encode, load_checkpoint

pytest.importorskip("jax")

TINY = VAESettings(latent=3, hidden=8, epochs=2, batch_size=16, seed=1)
FILES = ("mnist_embedding.npz", "mnist_decoder.npz", "mnist_provenance.json")


@pytest.fixture(scope="module")
def arrays():
    """Four tiny arrays: digits are bright stripes at the height that the digit says, with noise."""
    rng = np.random.default_rng(0)
    made = {}
    for prefix, count in (("train", 60), ("t10k", 20)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        pictures = rng.integers(0, 60, (count, 28, 28), dtype=np.uint8)
        for picture, digit in zip(pictures, labels, strict=True):
            picture[2 * digit : 2 * digit + 4] = 250
        made |= {f"{prefix}-images-idx3-ubyte": pictures, f"{prefix}-labels-idx1-ubyte": labels}
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory, arrays):
    place = tmp_path_factory.mktemp("mnist")
    for name, values in arrays.items():
        (place / name).write_bytes(idx_content(values))
    return place


@pytest.fixture(scope="module")
def done(tmp_path_factory, folder):
    """Return the folder of a finished run, and what it returned."""
    out = tmp_path_factory.mktemp("done") / "new" / "folder"
    return out, embed_mnist(out, folder=folder, settings=TINY, command="oar embed-mnist --out new/folder")


def test_writes_what_the_loaders_read(done, arrays):
    out, provenance = done
    digits = mnist_embedding(out)
    assert digits.features.shape == (60, 3)
    assert np.array_equal(digits.labels, arrays["train-labels-idx1-ubyte"])
    state = load_checkpoint(out / "checkpoint.npz", TINY)
    assert np.array_equal(digits.features, encode(state.parameters, arrays["train-images-idx3-ubyte"]))
    decoder = mnist_decoder(out)
    assert np.array_equal(decode(decoder, digits.features), decode(state.parameters, digits.features))
    assert mnist_provenance(out) == provenance


def test_provenance_is_complete(done, arrays):
    out, provenance = done
    assert provenance["command"] == "oar embed-mnist --out new/folder"
    assert provenance["settings"] == dataclasses.asdict(TINY)
    assert provenance["images"] == {"train": 60, "test": 20}
    assert provenance["inputs"] == {name: idx_sha256(values) for name, values in arrays.items()}
    assert provenance["final_loss"] == load_checkpoint(out / "checkpoint.npz", TINY).losses[-1]
    assert "16 images" in provenance["choices"]["batches"]
    assert set(provenance["versions"]) == {"oar-recourse", "python", "numpy", "jax", "jaxlib"}


def test_images_of_ones_own_are_not_called_mnist(done):
    _, provenance = done
    assert provenance["standard_mnist"] is False
    assert "LeCun" not in provenance["citation"]
    assert "CC" not in provenance["licence"]


def test_accuracies_against_plain_means(done, arrays):
    out, provenance = done
    state = load_checkpoint(out / "checkpoint.npz", TINY)
    means = encode(state.parameters, arrays["train-images-idx3-ubyte"]).astype(float)
    labels = arrays["train-labels-idx1-ubyte"]
    centres = np.array([means[labels == digit].mean(axis=0) for digit in range(10)])
    expected = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        codes = encode(state.parameters, arrays[f"{prefix}-images-idx3-ubyte"]).astype(float)
        nearest = [np.argmin([np.linalg.norm(code - centre) for centre in centres]) for code in codes]
        expected[part] = np.mean(nearest == arrays[f"{prefix}-labels-idx1-ubyte"])
    assert provenance["nearest_centroid_accuracy"] == expected


def test_accuracy_with_digits_missing():
    means = np.array([[0.0], [1.0], [10.0], [11.0]])
    labels = np.array([3, 3, 8, 8], dtype=np.uint8)
    assert accuracies(means, labels, np.array([[2.0], [9.0]]), np.array([3, 5])) == {"train": 1.0, "test": 0.5}


def test_same_checkpoint_same_bytes(tmp_path, folder, done):
    out, provenance = done
    again = embed_mnist(
        tmp_path,
        folder=folder,
        checkpoint=out / "checkpoint.npz",
        settings=TINY,
        on_epoch=lambda *_: pytest.fail("nothing was left to train"),
        command=provenance["command"],
    )
    assert again == provenance
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name
    assert not (tmp_path / "checkpoint.npz").exists()


def test_resumed_run_same_bytes(tmp_path, folder, done):
    out, provenance = done
    embed_mnist(tmp_path, folder=folder, settings=dataclasses.replace(TINY, epochs=1))
    assert (tmp_path / "mnist_embedding.npz").read_bytes() != (out / "mnist_embedding.npz").read_bytes()
    heard = []
    embed_mnist(
        tmp_path,
        folder=folder,
        settings=TINY,
        on_epoch=lambda epoch, loss: heard.append(epoch),
        command=provenance["command"],
    )
    assert heard == [2]
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes(), name


def test_provenance_comes_last(tmp_path, folder, done, monkeypatch):
    """A run that dies between the files leaves something that the loaders refuse."""
    out, _ = done
    embed_mnist(tmp_path, folder=folder, settings=dataclasses.replace(TINY, epochs=1))

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(embed, "accuracies", die)
    with pytest.raises(KeyboardInterrupt):
        embed_mnist(tmp_path, folder=folder, settings=TINY)
    with pytest.raises(StorageError, match="was damaged or changed"):
        mnist_embedding(tmp_path)


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(embed, "train", lambda *_, **__: pytest.fail("training started"))


@pytest.mark.usefixtures("no_training")
class TestFailsBeforeTraining:
    def test_unwritable_out(self, tmp_path, folder):
        (tmp_path / "file").write_text("")
        for out in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(StorageError, match="out: cannot write to .*file.* Choose another folder"):
                embed_mnist(out, folder=folder, settings=TINY)

    def test_images_that_are_not_there(self, tmp_path):
        with pytest.raises(StorageError, match="folder: must be a folder that exists"):
            embed_mnist(tmp_path / "new" / "out", folder=tmp_path / "absent", settings=TINY)
        assert not (tmp_path / "new").exists()

    def test_a_folder_that_was_there_stays(self, tmp_path):
        (tmp_path / "out").mkdir()
        with pytest.raises(StorageError, match="folder: must be a folder that exists"):
            embed_mnist(tmp_path / "out", folder=tmp_path / "absent", settings=TINY)
        assert (tmp_path / "out").exists()

    def test_test_images_that_are_not_there(self, tmp_path, arrays):
        for name, values in arrays.items():
            if name.startswith("train"):
                (tmp_path / name).write_bytes(idx_content(values))
        with pytest.raises(StorageError, match="has no t10k-images-idx3-ubyte"):
            embed_mnist(tmp_path / "out", folder=tmp_path, settings=TINY)

    def test_no_jax(self, tmp_path, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(OptionError, match=r"pip install 'oar-recourse\[jax\]'"):
            embed_mnist(tmp_path / "out", folder=folder, settings=TINY)
        assert not (tmp_path / "out").exists()


def test_checkpoint_of_other_settings_leaves_the_files_alone(tmp_path, folder, done):
    out, _ = done
    before = {name: (out / name).read_bytes() for name in FILES}
    with pytest.raises(StorageError, match="other settings"):
        embed_mnist(out, folder=folder, settings=dataclasses.replace(TINY, seed=9))
    assert {name: (out / name).read_bytes() for name in FILES} == before


def test_default_settings_are_the_papers():
    assert VAESettings() == PAPER_SETTINGS
    assert (PAPER_SETTINGS.latent, PAPER_SETTINGS.hidden, PAPER_SETTINGS.epochs) == (10, 512, 500)
    assert (PAPER_SETTINGS.learning_rate, PAPER_SETTINGS.momentum) == (0.001, 0.9)


def test_provenance_file_is_plain_json(done):
    out, provenance = done
    text = (out / "mnist_provenance.json").read_text(encoding="utf-8")
    assert json.loads(text) == provenance
    assert text.endswith("}\n")
