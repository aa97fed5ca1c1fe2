"""A disk that is full at any write leaves what was there, or what was to come."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_full_disk_leaves_nothing_half_written():
    memory = Path("/dev/shm")  # where synchronising costs nothing
    place = {"TMPDIR": str(memory)} if memory.is_dir() and os.access(memory, os.W_OK) else {}
    command = [sys.executable, "-m", "tests.campaigns.full_disk", "--number", "140"]
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run(command, cwd=root, env={**os.environ, **place}, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "failed 0" in said.stdout
