"""A folder of results is whole, or as it was."""

import os
import signal
from pathlib import Path

import pytest

from oar.errors import StorageError
from oar.report.files.output_folder import finish, staged

OURS = ("a.png", "results.json", "z.md", "extended.png", "extended.svg")


def fill(folder, names=("a.png", "results.json", "z.md")):
    for name in names:
        (folder / name).write_text(f"new {name}")


def fill_and_fail(out, trouble):
    with staged(out, last="results.json", ours=OURS) as folder:
        fill(folder)
        raise trouble


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_when_all_is_done(tmp_path):
    out = tmp_path / "deep" / "out"
    with staged(out, last="results.json", ours=OURS) as folder:
        fill(folder)
        assert not out.exists()
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
    with staged(tmp_path, last="results.json", ours=OURS) as folder:
        fill(folder)
    assert (tmp_path / "results.json").read_text() == "new results.json"
    assert (tmp_path / "own.txt").read_text() == "mine"


def test_what_an_older_run_drew_and_this_one_does_not_goes_with_its_results(tmp_path):
    for name in ("results.json", "extended.png", "own.txt"):
        (tmp_path / name).write_text("old")
    with staged(tmp_path, last="results.json", others=["extended.png", "extended.svg", "a.png"], ours=OURS) as folder:
        fill(folder)
        assert (tmp_path / "extended.png").exists()
    assert names(tmp_path) == ["a.png", "own.txt", "results.json", "z.md"]
    assert (tmp_path / "a.png").read_text() == "new a.png"


def test_without_older_results_nothing_is_taken_for_ours(tmp_path):
    (tmp_path / "extended.png").write_text("mine")
    with staged(tmp_path, last="results.json", others=["extended.png"], ours=OURS) as folder:
        fill(folder)
    assert (tmp_path / "extended.png").read_text() == "mine"


def test_what_cannot_be_placed_is_said_and_placed_by_the_next_command(tmp_path, monkeypatch):
    for name in ("results.json", "extended.png", "own.txt"):
        (tmp_path / name).write_text("old")
    plain = os.replace

    def refuse(source, target):
        if target.name == "z.md":
            raise OSError(5, "Input/output error")
        plain(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("oar.report.files.output_folder.os.replace", refuse)
        with (
            pytest.raises(StorageError, match=r"files of two runs.*Input/output error.*next oar command"),
            staged(tmp_path, last="results.json", others=["extended.png"], ours=OURS) as folder,
        ):
            fill(folder)
    assert "results.json" not in names(tmp_path)
    finish(tmp_path, OURS)
    assert names(tmp_path) == ["a.png", "own.txt", "results.json", "z.md"]
    assert (tmp_path / "results.json").read_text() == "new results.json"


def test_beside_files_of_others_the_last_file_comes_last(tmp_path, monkeypatch):
    (tmp_path / "own.txt").write_text("mine")
    moved, plain = [], os.replace

    def replace(source, target):
        moved.append(target.name)
        plain(source, target)

    monkeypatch.setattr("oar.report.files.output_folder.os.replace", replace)
    with staged(tmp_path, last="results.json", ours=OURS) as folder:
        fill(folder)
    assert moved == ["a.png", "z.md", "results.json"]


def test_a_folder_with_nothing_else_is_replaced_as_one_and_keeps_its_mode(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with staged(out, last="results.json", ours=OURS) as folder:
        fill(folder, ("results.json", "extended.png"))
    out.chmod(0o750)
    monkeypatch.setattr("oar.report.files.output_folder.os.replace", None)
    with staged(out, last="results.json", others=["extended.png"], ours=OURS) as folder:
        fill(folder)
    assert names(out) == ["a.png", "results.json", "z.md"]
    assert out.stat().st_mode & 0o777 == 0o750
    assert names(tmp_path) == ["out"]


def test_the_folder_that_one_stands_in_stays_that_folder(tmp_path, monkeypatch):
    (tmp_path / "results.json").write_text("old")
    monkeypatch.chdir(tmp_path)
    before = os.stat(".").st_ino
    with staged(Path("."), last="results.json", ours=OURS) as folder:
        fill(folder)
    assert os.stat(tmp_path).st_ino == before
    assert sorted(os.listdir(".")) == ["a.png", "results.json", "z.md"]


def test_folders_that_are_somebody_elses_stay(tmp_path):
    own = [".unfinished-mine", ".oar-unfinished-mine", ".oar-unfinished-0123456789abcdef0123456789abcdef"]
    for place in (tmp_path, tmp_path / "out"):
        for name in own:
            (place / name).mkdir(parents=True)
            (place / name / "thesis.txt").write_text("mine")
            os.utime(place / name, (0, 0))
    for _ in range(2):
        with staged(tmp_path / "out", last="results.json", ours=OURS) as folder:
            fill(folder)
    for place in (tmp_path, tmp_path / "out"):
        assert all((place / name / "thesis.txt").read_text() == "mine" for name in own)


def test_a_run_that_goes_on_is_not_swept_by_another(tmp_path):
    with staged(tmp_path / "out", last="results.json", ours=OURS) as slow:
        with staged(tmp_path / "out", last="results.json", ours=OURS) as quick:
            fill(quick)
        assert slow.is_dir()
        fill(slow, ("results.json",))
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["a.png", "results.json", "z.md"]  # the quick run's, which nobody named


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_being_told_to_end_waits_while_files_are_placed(tmp_path, monkeypatch, name):
    (tmp_path / "own.txt").write_text("mine")
    plain = os.replace

    def replace(source, target):
        signal.raise_signal(getattr(signal, name))
        plain(source, target)

    monkeypatch.setattr("oar.report.files.output_folder.os.replace", replace)
    with staged(tmp_path, last="results.json", ours=OURS) as folder:
        fill(folder)
    assert names(tmp_path) == ["a.png", "own.txt", "results.json", "z.md"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_being_told_to_end_waits_while_replaced_files_are_removed(tmp_path, monkeypatch, name):
    plain = Path.unlink

    def unlink(path, missing_ok=False):
        signal.raise_signal(getattr(signal, name))
        plain(path, missing_ok)

    with staged(tmp_path / "out", last="results.json", ours=OURS) as folder:
        fill(folder, ("results.json", "extended.png"))
    with staged(tmp_path / "out", last="results.json", others=["extended.png"], ours=OURS) as folder:
        fill(folder)
        monkeypatch.setattr(Path, "unlink", unlink)
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["a.png", "results.json", "z.md"]


@pytest.mark.parametrize("after", range(6))
def test_what_a_kill_left_of_replaced_files_is_swept_by_the_next_run(tmp_path, monkeypatch, after):
    def write():
        with staged(tmp_path / "out", last="results.json", others=["extended.png"], ours=OURS) as folder:
            fill(folder)

    write()
    plain, removed = Path.unlink, []

    def unlink(path, missing_ok=False):
        removed.append(path)
        if len(removed) > after:
            raise SystemExit(137)
        plain(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(SystemExit):
            write()
    assert len(names(tmp_path)) == 2
    write()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["a.png", "results.json", "z.md"]


def test_a_file_in_the_way_is_named_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    began = False
    with (
        pytest.raises(StorageError, match=r"out: .*file/out.*[Cc]hoose another"),
        staged(tmp_path / "file" / "out", "r", ours=OURS),
    ):
        began = True
    assert not began


def test_a_full_disk_at_the_end_is_told_and_leaves_no_results(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("oar.report.files.output_folder.os.fsync", refuse)
    with (
        pytest.raises(StorageError, match="No space left"),
        staged(tmp_path / "out", last="results.json", ours=OURS) as folder,
    ):
        fill(folder)
    assert names(tmp_path) == []


def test_ctrl_c_works_again_afterwards(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with staged(tmp_path / "out", last="results.json", ours=OURS) as folder:
        fill(folder)
    assert signal.getsignal(signal.SIGINT) is before
