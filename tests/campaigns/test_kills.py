"""A kill before any step on the disk leaves the old plan or the new one."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_kill_before_any_step_leaves_the_old_plan_or_the_new_one():
    memory = Path("/dev/shm")  # where synchronising costs nothing
    place = {"TMPDIR": str(memory)} if memory.is_dir() and os.access(memory, os.W_OK) else {}
    command = [sys.executable, "-m", "tests.campaigns.kills", "--number", "0"]
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run(command, cwd=root, env={**os.environ, **place}, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "failed 0" in said.stdout
