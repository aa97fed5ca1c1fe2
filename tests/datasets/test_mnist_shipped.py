"""The shipped embedding is what its provenance says, and changed files are refused."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from oar.datasets import mnist_decoder, mnist_embedding, mnist_images, mnist_provenance
from oar.datasets.mnist_raw import STANDARD_SHA256
from oar.datasets.mnist_shipped import DECODER_FILE, EMBEDDING_FILE, PROVENANCE_FILE, SHIPPED
from oar.errors import StorageError
from oar_paper.embedding.vae import decode

TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.fixture
def copy(tmp_path):
    """Return a folder with a copy of the three shipped files, to be damaged."""
    for name in (EMBEDDING_FILE, DECODER_FILE, PROVENANCE_FILE):
        shutil.copy(SHIPPED / name, tmp_path / name)
    return tmp_path


class TestEmbedding:
    def test_sizes_types_and_counts(self):
        digits = mnist_embedding()
        assert digits.features.shape == (60_000, 10)
        assert digits.features.dtype == np.float64
        assert digits.features.flags.c_contiguous
        assert digits.labels.dtype == np.int64
        assert np.bincount(digits.labels).tolist() == TRAIN_COUNTS
        assert np.isfinite(digits.features).all()
        assert digits.class_names == tuple("0123456789")
        assert len(digits.feature_names) == 10
        assert "LeCun" in digits.source
        assert "CC BY-SA 3.0" in digits.source

    def test_numbers_are_exactly_the_stored_ones(self):
        features = mnist_embedding().features
        assert np.array_equal(features.astype(np.float32).astype(np.float64), features)

    def test_labels_begin_as_the_training_file_does(self):
        assert mnist_embedding().labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]

    def test_accuracy_is_the_one_in_the_provenance(self):
        digits = mnist_embedding()
        centroids = np.array([digits.features[digits.labels == digit].mean(axis=0) for digit in range(10)])
        # ‖x − μ‖² without the ‖x‖² that all share: another way than the package's own.
        scores = (centroids**2).sum(axis=1) - 2 * digits.features @ centroids.T
        accuracy = np.mean(scores.argmin(axis=1) == digits.labels)
        assert accuracy == mnist_provenance()["nearest_centroid_accuracy"]["train"]
        assert accuracy > 0.83  # what the paper reports

    def test_latent_scale_is_that_of_the_prior(self):
        # The prior pulls the codes towards a standard normal, so means cannot spread much wider than 1.
        spread = mnist_embedding().features.std(axis=0)
        assert (spread > 0.5).all()
        assert (spread < 1.5).all()


class TestDecoder:
    def test_arrays(self):
        shapes = {name: value.shape for name, value in mnist_decoder().items()}
        assert shapes == {
            "decoder_w0": (10, 512),
            "decoder_b0": (512,),
            "decoder_w1": (512, 512),
            "decoder_b1": (512,),
            "decoder_w2": (512, 784),
            "decoder_b2": (784,),
        }
        assert {value.dtype for value in mnist_decoder().values()} == {np.dtype(np.float32)}

    def test_decoding_the_means_gives_the_images_back(self, shared_data):
        images, labels = mnist_images("train", shared_data / "mnist")
        digits = mnist_embedding()
        assert np.array_equal(labels, digits.labels)
        rows = slice(0, 2000)
        drawn = decode(mnist_decoder(), digits.features[rows])
        error = np.mean((drawn - images[rows] / 255.0) ** 2)
        # Ten numbers an image leave about 0.008; drawing the mean image for everyone leaves 0.066.
        assert error < 0.02
        assert error < 0.3 * np.mean((images[rows] / 255.0 - images[rows].mean(axis=0) / 255.0) ** 2)


class TestProvenance:
    def test_says_what_was_done(self):
        provenance = mnist_provenance()
        assert provenance["command"] == "oar embed-mnist --folder mnist --out embedding"
        assert provenance["settings"] == {
            "latent": 10,
            "hidden": 512,
            "epochs": 500,
            "batch_size": 128,
            "learning_rate": 0.001,
            "momentum": 0.9,
            "seed": 0,
        }
        assert provenance["standard_mnist"] is True
        assert provenance["inputs"] == STANDARD_SHA256
        assert provenance["final_loss"] == pytest.approx(93.70, abs=0.01)
        assert provenance["nearest_centroid_accuracy"]["test"] > 0.83
        assert {"numpy", "jax", "jaxlib", "python"} <= set(provenance["versions"])
        assert {"likelihood", "activation", "initialisation", "batches"} <= set(provenance["choices"])

    def test_holds_no_local_path(self):
        assert "/" not in (SHIPPED / PROVENANCE_FILE).read_text()


class TestDamage:
    def flip(self, path, position):
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)

    def test_whole_copy_is_accepted(self, copy):
        assert np.array_equal(mnist_embedding(copy).features, mnist_embedding().features)
        assert mnist_decoder(str(copy)).keys() == mnist_decoder().keys()

    @pytest.mark.parametrize(
        ("name", "load"), [(EMBEDDING_FILE, mnist_embedding), (DECODER_FILE, mnist_decoder)], ids=["means", "decoder"]
    )
    @pytest.mark.parametrize("damage", ["bit", "truncated", "empty", "longer", "missing", "folder"])
    def test_is_refused_and_named(self, copy, name, load, damage):
        path = copy / name
        if damage == "bit":
            self.flip(path, path.stat().st_size // 2)
        elif damage == "longer":
            path.write_bytes(path.read_bytes() + b"\0")
        elif damage in ("missing", "folder"):
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: 1000 if damage == "truncated" else 0])
        if damage == "folder":
            path.mkdir()
        expected = {"missing": "does not exist", "folder": "cannot be read"}.get(damage, "was damaged or changed")
        with pytest.raises(StorageError, match=rf"{name} {expected}.*Reinstall the package, or .*oar embed-mnist"):
            load(copy)

    def test_files_of_two_runs_do_not_mix(self, copy):
        shutil.copy(copy / DECODER_FILE, copy / EMBEDDING_FILE)
        with pytest.raises(StorageError, match="was damaged or changed"):
            mnist_embedding(copy)

    def test_array_that_is_missing_is_named(self, copy):
        np.savez(copy / EMBEDDING_FILE, means=np.zeros((3, 2), np.float32))
        provenance = mnist_provenance(copy)
        provenance["outputs"][EMBEDDING_FILE] = _sha256(copy / EMBEDDING_FILE)
        (copy / PROVENANCE_FILE).write_text(json.dumps(provenance))
        with pytest.raises(StorageError, match="has no array 'labels'"):
            mnist_embedding(copy)

    @pytest.mark.parametrize("load", [mnist_embedding, mnist_decoder, mnist_provenance])
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "is damaged"),
            ("[]", "must be a provenance file of format 1, got None"),
            ('{"format": 2}', "must be a provenance file of format 1, got 2"),
            (None, "does not exist"),
        ],
    )
    def test_provenance_itself(self, copy, load, text, message):
        if text is None:
            (copy / PROVENANCE_FILE).unlink()
        else:
            (copy / PROVENANCE_FILE).write_text(text)
        with pytest.raises(StorageError, match=message):
            load(copy)

    def test_folder_without_the_files(self, tmp_path):
        with pytest.raises(StorageError, match=r"mnist_provenance\.json does not exist"):
            mnist_embedding(tmp_path / "absent")


def _sha256(path):
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_import_is_light_and_makes_no_files(tmp_path):
    program = (
        "import sys, oar.datasets, oar_paper.embedding.embed\n"
        "heavy = {'jax', 'sklearn', 'pooch', 'requests'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""}
    subprocess.run([sys.executable, "-B", "-c", program], check=True, cwd=tmp_path, env=environment, timeout=60)
    assert list(tmp_path.iterdir()) == []
