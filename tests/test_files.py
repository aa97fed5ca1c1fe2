"""Files are whole or not there, have the mode that they should, and leave nothing behind."""

import os
import stat
import threading

import pytest
from support.disks import onto_a_full_disk

from oar.errors import StorageError
from oar.files import replace_atomically, unfinished_name


def write(path, content=b"new"):
    with replace_atomically(path) as file:
        file.write(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_no_file_has_another_mode_while_many_threads_write(tmp_path, monkeypatch):
    # Nobody may touch the umask, which is the whole process's: others' files would have another mode meanwhile.
    monkeypatch.setattr(os, "umask", None)
    (tmp_path / "plain").touch()
    threads = [
        threading.Thread(target=lambda hand=hand: [write(tmp_path / f"{hand}-{number}") for number in range(20)])
        for hand in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 161
    assert {mode(path) for path in tmp_path.iterdir()} == {mode(tmp_path / "plain")}


def test_a_file_that_is_private_stays_so(tmp_path):
    (tmp_path / "mine").touch()
    (tmp_path / "mine").chmod(0o600)
    write(tmp_path / "mine")
    assert mode(tmp_path / "mine") == 0o600


def test_a_private_file_is_its_owners_from_its_first_byte_on(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", None)
    with replace_atomically(tmp_path / "mine", private=True) as file:
        assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
        file.write(b"new")
    assert mode(tmp_path / "mine") == 0o600
    (tmp_path / "mine").chmod(0o640)  # its owner lets others read it
    with replace_atomically(tmp_path / "mine", private=True) as file:
        file.write(b"newer")
    assert mode(tmp_path / "mine") == 0o640


def test_two_may_write_the_same_file_at_once(tmp_path):
    with replace_atomically(tmp_path / "file") as slow:
        slow.write(b"slow")
        write(tmp_path / "file", b"quick")
        assert (tmp_path / "file").read_bytes() == b"quick"
    assert (tmp_path / "file").read_bytes() == b"slow"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_run_left_is_removed_and_what_is_somebody_elses_is_not(tmp_path):
    left, own = tmp_path / unfinished_name("file", 0), tmp_path / ".file.0123456789abcdef"
    for path in (left, own):
        path.write_bytes(b"half")
    write(tmp_path / "file")
    assert sorted(os.listdir(tmp_path)) == [own.name, "file"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("length", [10, 1 << 20])
def test_on_a_full_disk_the_older_file_stays(tmp_path, length):
    def written():
        with replace_atomically(tmp_path / "file") as file:
            onto_a_full_disk(file)
            file.write(b"x" * length)

    write(tmp_path / "file", b"old")
    with pytest.raises(StorageError, match="No space left"):
        written()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
