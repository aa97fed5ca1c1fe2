"""Raw MNIST: where files are found, what is refused, and downloads over the loopback interface."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import threading

import numpy as np
import pooch
import pytest

import oar.datasets.mnist_raw
from oar.datasets import mnist_images
from oar.datasets.idx import idx_content
from oar.datasets.mnist_raw import MIRRORS, STANDARD_SHA256, cache_folder, find_file, standard_content
from oar.errors import OptionError, StorageError

REAL_DOWNLOADER = pooch.HTTPDownloader
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
# As published with the database; index is the digit.
TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def small_mnist(count: int = 12, seed: int = 0) -> dict[str, bytes]:
    """Return files of a tiny set of images with MNIST's names, as unzipped content."""
    rng = np.random.default_rng(seed)
    return {
        IMAGES: idx_content(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)),
        LABELS: idx_content(np.arange(count, dtype=np.uint8) % 10),
    }


def fill(folder, files=None, zipped=True, separator="-"):
    """Write the files into a folder under one of the spellings in use, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (files or small_mnist()).items():
        path = folder / (name.replace("-idx", f"{separator}idx") + (".gz" if zipped else ""))
        path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch, tmp_path):
    """Keep every test away from the real cache, the real network and the user's own setting."""
    monkeypatch.delenv("OAR_DATA", raising=False)
    monkeypatch.setattr(oar.datasets.mnist_raw, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(pooch, "HTTPDownloader", _no_network)


def _no_network(**settings):
    raise OSError("no network in tests")


class TestFolders:
    @pytest.mark.parametrize("zipped", [True, False])
    @pytest.mark.parametrize("separator", ["-", "."])
    def test_every_spelling_is_found(self, tmp_path, zipped, separator):
        images, labels = mnist_images("train", fill(tmp_path / "own", zipped=zipped, separator=separator))
        assert images.shape == (12, 28, 28)
        assert images.dtype == labels.dtype == np.uint8
        assert idx_content(images) == small_mnist()[IMAGES]
        assert labels.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]

    def test_a_folder_may_be_a_string(self, tmp_path):
        assert len(mnist_images("train", str(fill(tmp_path / "own")))[0]) == 12

    def test_data_variable_is_used(self, tmp_path, monkeypatch):
        fill(tmp_path / "data" / "mnist")
        monkeypatch.setenv("OAR_DATA", str(tmp_path / "data"))
        assert len(mnist_images()[1]) == 12

    def test_explicit_folder_comes_before_the_variable(self, tmp_path, monkeypatch):
        fill(tmp_path / "data" / "mnist")
        monkeypatch.setenv("OAR_DATA", str(tmp_path / "data"))
        assert len(mnist_images(folder=fill(tmp_path / "own", small_mnist(20)))[1]) == 20

    def test_data_folder_without_mnist_leaves_the_cache_its_turn(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OAR_DATA", str(tmp_path))
        monkeypatch.setattr(oar.datasets.mnist_raw, "STANDARD_SHA256", digests(small_mnist()))
        fill(tmp_path / "cache")
        assert len(mnist_images(download=False)[1]) == 12

    def test_wrong_data_variable_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OAR_DATA", str(tmp_path / "typo"))
        with pytest.raises(StorageError, match="OAR_DATA: must name a folder that exists, got .*typo"):
            mnist_images()

    def test_missing_folder_and_missing_file_say_what_to_do(self, tmp_path):
        with pytest.raises(StorageError, match="folder: must be a folder that exists.*t10k-labels-idx1-ubyte.gz"):
            mnist_images(folder=tmp_path / "absent")
        fill(tmp_path / "own")
        with pytest.raises(StorageError, match="has no t10k-images-idx3-ubyte, neither zipped .* Put MNIST's"):
            mnist_images("test", tmp_path / "own")

    def test_unknown_part_is_refused(self):
        with pytest.raises(OptionError, match="part: must be one of 'train', 'test', got 'tset'. Did you mean 'test'"):
            mnist_images("tset")


class TestContents:
    def refused(self, tmp_path, message, **changes):
        folder = fill(tmp_path / "own", small_mnist() | changes, zipped=False)
        with pytest.raises(StorageError, match=message):
            mnist_images("train", folder)

    def test_labels_of_other_images(self, tmp_path):
        labels = idx_content(np.zeros(11, dtype=np.uint8))
        self.refused(tmp_path, "one label for each of the 12 images .* got 11", **{LABELS: labels})

    def test_label_beyond_nine(self, tmp_path):
        labels = idx_content(np.arange(12, dtype=np.uint8))
        self.refused(tmp_path, "digits 0–9, got 11", **{LABELS: labels})

    def test_other_image_size(self, tmp_path):
        images = idx_content(np.zeros((12, 28, 27), dtype=np.uint8))
        self.refused(tmp_path, "28 × 28 pixels, got 28 × 27", **{IMAGES: images})

    def test_no_images(self, tmp_path):
        files = {IMAGES: idx_content(np.zeros((0, 28, 28), np.uint8)), LABELS: idx_content(np.zeros(0, np.uint8))}
        self.refused(tmp_path, "at least one image", **files)

    def test_images_and_labels_swapped(self, tmp_path):
        files = small_mnist()
        self.refused(tmp_path, "must have 3 dimensions, got 1.*swapped", **{IMAGES: files[LABELS]})


def digests(files):
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


class CountingHandler(http.server.SimpleHTTPRequestHandler):
    """Serve a folder quietly, and note every path that was asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving(folder):
    """Serve a folder on a free loopback port until the block ends."""
    handler = functools.partial(CountingHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", server.asked
        finally:
            server.shutdown()
            thread.join(timeout=10)


class TestDownload:
    @pytest.fixture(autouse=True)
    def _loopback(self, monkeypatch, nowhere_else):
        # Undo the block on the network: these tests name their own mirrors, all on 127.0.0.1.
        monkeypatch.setattr(pooch, "HTTPDownloader", REAL_DOWNLOADER)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    @pytest.fixture
    def get(self, tmp_path):
        """Return a call with the crafted file's name, checksum and cache filled in."""
        content = small_mnist()[LABELS]
        return functools.partial(
            standard_content, LABELS, hashlib.sha256(content).hexdigest(), tmp_path / "cache", timeout=5
        )

    def test_cache_serves_once_the_server_is_gone(self, tmp_path, get):
        with serving(fill(tmp_path / "www")) as (address, asked):
            first = get(mirrors=[address])
            assert get(mirrors=[address]) == first
            assert asked == [f"/{LABELS}.gz"]
        assert get(mirrors=[address]) == first == small_mnist()[LABELS]
        assert get(download=False) == first
        assert [path.name for path in (tmp_path / "cache").iterdir()] == [f"{LABELS}.gz"]

    def test_second_mirror_is_tried_when_the_first_has_no_file(self, tmp_path, get):
        (tmp_path / "empty").mkdir()
        with (
            serving(tmp_path / "empty") as (empty, asked_empty),
            serving(fill(tmp_path / "www")) as (whole, asked_whole),
        ):
            assert get(mirrors=[empty, whole]) == small_mnist()[LABELS]
        assert asked_empty == asked_whole == [f"/{LABELS}.gz"]

    def test_second_mirror_is_tried_when_the_first_is_down(self, tmp_path, get):
        with serving(tmp_path) as (down, _):
            pass
        with serving(fill(tmp_path / "www")) as (whole, _):
            assert get(mirrors=[down, whole]) == small_mnist()[LABELS]

    @pytest.mark.parametrize(
        "damage",
        [lambda content: gzip.compress(content[:-1] + b"\7"), lambda content: gzip.compress(content)[:-5]],
        ids=["changed", "truncated"],
    )
    def test_second_mirror_is_tried_when_the_first_serves_damage(self, tmp_path, get, damage):
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / f"{LABELS}.gz").write_bytes(damage(small_mnist()[LABELS]))
        with (
            serving(tmp_path / "bad") as (bad, asked_bad),
            serving(fill(tmp_path / "www")) as (whole, _),
        ):
            assert get(mirrors=[bad, whole]) == small_mnist()[LABELS]
            assert len(asked_bad) == 1

    def test_recompressed_mirror_is_as_good(self, tmp_path, get):
        (tmp_path / "www").mkdir()
        (tmp_path / "www" / f"{LABELS}.gz").write_bytes(gzip.compress(small_mnist()[LABELS], 1, mtime=123))
        with serving(tmp_path / "www") as (address, _):
            assert get(mirrors=[address]) == small_mnist()[LABELS]

    def test_file_that_arrives_unzipped_is_kept_under_that_name(self, tmp_path, get):
        (tmp_path / "www").mkdir()
        (tmp_path / "www" / f"{LABELS}.gz").write_bytes(small_mnist()[LABELS])
        with serving(tmp_path / "www") as (address, _):
            get(mirrors=[address])
        assert get(download=False) == small_mnist()[LABELS]
        assert (tmp_path / "cache" / LABELS).is_file()

    def test_damaged_cache_is_replaced(self, tmp_path, get):
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / f"{LABELS}.gz").write_bytes(b"\x1f\x8b not really")
        with pytest.raises(StorageError, match="download=False forbids .* damaged gzip file"):
            get(download=False)
        with serving(fill(tmp_path / "www")) as (address, _):
            get(mirrors=[address])
        assert get(download=False) == small_mnist()[LABELS]

    def test_failure_names_every_mirror_and_what_to_do(self, tmp_path, get):
        with serving(tmp_path) as (down, _):
            pass
        with serving(tmp_path) as (empty, _), pytest.raises(StorageError) as caught:
            get(mirrors=[down, empty])
        message = str(caught.value)
        assert f"{LABELS} could not be downloaded" in message
        assert down in message
        assert empty in message
        assert "404" in message
        for part in ("train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "folder=", "OAR_DATA"):
            assert part in message
        assert not (tmp_path / "cache").exists()

    def test_unwritable_cache_is_named(self, tmp_path, get):
        (tmp_path / "cache").write_text("a file where the folder should be")
        with (
            serving(fill(tmp_path / "www")) as (address, _),
            pytest.raises(StorageError, match="cannot write to .*cache"),
        ):
            get(mirrors=[address])

    def test_public_function_downloads_both_files(self, tmp_path, monkeypatch):
        monkeypatch.setattr(oar.datasets.mnist_raw, "STANDARD_SHA256", digests(small_mnist()))
        with serving(fill(tmp_path / "www")) as (address, asked):
            monkeypatch.setattr(
                oar.datasets.mnist_raw, "standard_content", functools.partial(standard_content, mirrors=[address])
            )
            images, labels = mnist_images("train")
        assert sorted(asked) == [f"/{IMAGES}.gz", f"/{LABELS}.gz"]
        assert idx_content(images) == small_mnist()[IMAGES]
        assert len(mnist_images("train", download=False)[1]) == len(labels)


def test_download_may_be_forbidden():
    with pytest.raises(StorageError, match="train-images-idx3-ubyte is not at hand and download=False .* Put MNIST's"):
        mnist_images(download=False)


def test_cache_folder_follows_the_platform_and_creates_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder().name == "mnist"
    assert not (tmp_path / "caches").exists()


def test_mirrors_are_encrypted_addresses_of_folders():
    assert len(MIRRORS) == 2
    for address in MIRRORS:
        assert address.startswith("https://")
        assert address.endswith("/mnist/")


def test_find_file_prefers_nothing_that_is_a_folder(tmp_path):
    (tmp_path / f"{LABELS}.gz").mkdir()
    assert find_file(tmp_path, LABELS) is None


class TestRealFiles:
    @pytest.mark.parametrize(("part", "counts"), [("train", TRAIN_COUNTS), ("test", TEST_COUNTS)])
    def test_images_and_class_counts(self, shared_data, part, counts):
        images, labels = mnist_images(part, shared_data / "mnist")
        assert images.shape == (sum(counts), 28, 28)
        assert np.bincount(labels).tolist() == counts
        # The mean grey level that everybody normalises MNIST with, 0.1307, is that of the training images.
        assert images.mean() / 255 == pytest.approx({"train": 0.1307, "test": 0.1325}[part], abs=5e-5)

    @pytest.mark.parametrize("name", STANDARD_SHA256)
    def test_checksums_are_those_of_the_real_files(self, shared_data, name):
        content = standard_content(name, STANDARD_SHA256[name], shared_data / "mnist", download=False)
        assert len(content) == {"images": 16, "labels": 8}[name.split("-")[1]] + (
            (60_000 if name.startswith("train") else 10_000) * (784 if "images" in name else 1)
        )
