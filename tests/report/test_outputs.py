"""A folder of results is whole, or as it was."""

import os
import signal

import pytest

from oar.errors import StorageError
from oar.report.outputs import staged


def fill(folder, names=("a.png", "results.json", "z.md")):
    for name in names:
        (folder / name).write_text(f"new {name}")


def fill_and_fail(out, trouble):
    with staged(out, last="results.json") as folder:
        fill(folder)
        raise trouble


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_when_all_is_done(tmp_path):
    out = tmp_path / "deep" / "out"
    with staged(out, last="results.json") as folder:
        fill(folder)
        assert not [name for name in names(out) if not name.startswith(".")]
    assert names(out) == ["a.png", "results.json", "z.md"]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ValueError])
def test_after_trouble_nothing_is_left(tmp_path, trouble):
    with pytest.raises(trouble):
        fill_and_fail(tmp_path / "deep" / "out", trouble)
    assert names(tmp_path) == []


def test_after_trouble_an_older_result_is_untouched(tmp_path):
    (tmp_path / "results.json").write_text("old")
    (tmp_path / "own.txt").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        fill_and_fail(tmp_path, KeyboardInterrupt)
    assert names(tmp_path) == ["own.txt", "results.json"]
    assert (tmp_path / "results.json").read_text() == "old"


def test_an_older_result_is_replaced_and_other_files_stay(tmp_path):
    (tmp_path / "results.json").write_text("old")
    (tmp_path / "own.txt").write_text("mine")
    with staged(tmp_path, last="results.json") as folder:
        fill(folder)
    assert (tmp_path / "results.json").read_text() == "new results.json"
    assert (tmp_path / "own.txt").read_text() == "mine"


def test_what_an_older_run_drew_and_this_one_does_not_goes_with_its_results(tmp_path):
    for name in ("results.json", "extended.png", "own.txt"):
        (tmp_path / name).write_text("old")
    with staged(tmp_path, last="results.json", others=["extended.png", "extended.svg", "a.png"]) as folder:
        fill(folder)
        assert (tmp_path / "extended.png").exists()
    assert names(tmp_path) == ["a.png", "own.txt", "results.json", "z.md"]
    assert (tmp_path / "a.png").read_text() == "new a.png"


def test_without_older_results_nothing_is_taken_for_ours(tmp_path):
    (tmp_path / "extended.png").write_text("mine")
    with staged(tmp_path, last="results.json", others=["extended.png"]) as folder:
        fill(folder)
    assert (tmp_path / "extended.png").read_text() == "mine"


def test_older_drawings_come_back_if_the_new_results_cannot_be_placed(tmp_path, monkeypatch):
    for name in ("results.json", "extended.png"):
        (tmp_path / name).write_text("old")
    plain = os.replace

    def refuse(source, target):
        if source.read_text().startswith("new z"):
            raise OSError(28, "No space left on device")
        plain(source, target)

    monkeypatch.setattr("oar.report.outputs.os.replace", refuse)
    with (
        pytest.raises(StorageError, match="No space left"),
        staged(tmp_path, last="results.json", others=["extended.png"]) as folder,
    ):
        fill(folder)
    assert names(tmp_path) == ["extended.png", "results.json"]
    assert (tmp_path / "results.json").read_text() == "old"


def test_the_last_file_comes_last(tmp_path, monkeypatch):
    moved = []

    def replace(source, target):
        moved.append(target.name)
        source.rename(target)

    monkeypatch.setattr("oar.report.outputs.os.replace", replace)
    with staged(tmp_path, last="results.json") as folder:
        fill(folder)
    assert moved == ["a.png", "z.md", "results.json"]


def test_a_file_in_the_way_is_named_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    began = False
    with (
        pytest.raises(StorageError, match=r"out: .*file/out.*[Cc]hoose another"),
        staged(tmp_path / "file" / "out", "r"),
    ):
        began = True
    assert not began


def test_a_full_disk_at_the_end_is_told_and_leaves_no_results(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("oar.report.outputs.os.replace", refuse)
    with pytest.raises(StorageError, match="No space left"), staged(tmp_path / "out", last="results.json") as folder:
        fill(folder)
    assert names(tmp_path) == []


def test_ctrl_c_works_again_afterwards(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with staged(tmp_path / "out", last="results.json") as folder:
        fill(folder)
    assert signal.getsignal(signal.SIGINT) is before
