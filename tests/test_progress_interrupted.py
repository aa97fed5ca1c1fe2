"""Signals end a command also where somebody swallows what they raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oar

SCRIPT = """
import gc, signal, sys, time
from oar.progress import listen
if sys.argv[2] == "listen":
    listen(("SIGINT", "SIGTERM"))
def meddle(phase, info):  # as JAX has one: what is raised in it is dropped
    if phase == "start":
        gc.callbacks.remove(meddle)
        signal.raise_signal(getattr(signal, sys.argv[1]))
gc.callbacks.append(meddle)
gc.collect()
for _ in range(200):
    time.sleep(0.01)
print("went on")
"""


@pytest.mark.parametrize(
    ("name", "listens", "codes"),
    [("SIGINT", "listen", (-2, 130)), ("SIGTERM", "listen", (143,)), ("SIGINT", "not", (0,))],  # as Python has it
)
def test_a_signal_that_a_callback_swallows_comes_again(name, listens, codes):
    env = os.environ | {"PYTHONPATH": str(Path(oar.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SCRIPT, name, listens], env=env, capture_output=True, text=True)
    assert done.returncode in codes, done.stderr
    assert ("went on" in done.stdout) == (listens == "not")


IMPORTS = """
import os, sys, time
from oar import progress
if len(sys.argv) > 3:
    progress.LONGEST_IMPORT = float(sys.argv[3])
progress.listen(("SIGINT", "SIGTERM", "SIGHUP"))
sys.path.insert(0, sys.argv[1])
import outer
try:
    for _ in range(1000):
        time.sleep(0.01)
    print("went on")
finally:
    time.sleep(0.5)  # for what is cleaned up, without being interrupted once more
    print("cleaned up", flush=True)
"""
COMPILED = """
import os, signal, sys, time
try:  # as a compiled module does from which exceptions cannot come: it imports others, and ends all where that fails
    import inner
except BaseException:
    os.abort()
print("imported", flush=True)
"""
SLOW = """
import os, signal, sys, time
for _ in range(3):  # once is enough, but people press again
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    time.sleep(0.05)
"""
ENDLESS = (
    SLOW
    + """
while True:
    time.sleep(0.01)
"""
)


def importing(tmp_path, outer, inner, name, *longest):
    (tmp_path / "outer.py").write_text(outer)
    (tmp_path / "inner.py").write_text(inner)
    env = os.environ | {"PYTHONPATH": str(Path(oar.__file__).parents[1])}
    command = [sys.executable, "-c", IMPORTS, str(tmp_path), name, *longest]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("name", "codes"), [("SIGINT", (-2, 130)), ("SIGTERM", (143,)), ("SIGHUP", (129,))])
def test_a_signal_waits_for_imports_to_end(tmp_path, name, codes):
    done = importing(tmp_path, COMPILED, SLOW, name)
    assert done.returncode in codes, done.stderr
    assert done.stdout == "imported\ncleaned up\n"


@pytest.mark.parametrize(("name", "codes"), [("SIGINT", (-2, 130)), ("SIGTERM", (143,)), ("SIGHUP", (129,))])
def test_a_signal_does_not_wait_for_imports_that_do_not_end(tmp_path, name, codes):
    done = importing(tmp_path, "import inner", ENDLESS, name, "0.3")
    assert done.returncode in codes, done.stderr


def test_a_script_that_is_imported_itself_is_ended_at_once(tmp_path):
    listening = "from oar.progress import listen\nlisten(('SIGTERM',))\n" + ENDLESS
    done = importing(tmp_path, "import inner", listening, "SIGTERM", "90")
    assert done.returncode == 143, done.stderr


SWALLOWED = """
import contextlib, signal, sys
import oar
from oar.progress import listen
from support.study_problems import problem

def swallowed():  # as by callbacks of compiled code, which drop what is raised in them
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

class Cancelled(oar.solvers.Solver):
    name, auto, serves = "cancelled", False, frozenset(oar.solvers.registry.NEEDS)
    def propose(self, task, settings):
        swallowed()
        raise RuntimeError("INTERNAL: CpuCallback error: KeyboardInterrupt")

listen(("SIGINT",))
if sys.argv[1] == "cell":
    oar.solvers.register(Cancelled)
    oar.study(problem(), solver="cancelled", store="study.db")
swallowed()
if sys.argv[1] == "study":
    oar.study(problem(), store="study.db")
if sys.argv[1] == "softmax":
    oar.collective(problem(oar.SoftmaxRegression()))
if sys.argv[1] == "box":
    from sklearn.tree import DecisionTreeClassifier
    oar.collective(problem(oar.BlackBox(DecisionTreeClassifier())))
print("went on")
"""


def swallowing(tmp_path, what):
    paths = os.pathsep.join([str(Path(oar.__file__).parents[1]), str(Path(__file__).parent)])
    command, env = [sys.executable, "-c", SWALLOWED, what], os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode in (-2, 130), done.stderr
    assert done.stdout == ""
    return done.stderr.rstrip().splitlines()[-1]


@pytest.mark.parametrize("loop", ["softmax", "box", "study"])
def test_long_loops_look_whether_they_were_interrupted(tmp_path, loop):
    told = swallowing(tmp_path, loop)
    assert told.startswith("KeyboardInterrupt")
    if loop == "study":
        assert "0 of 1 cells are kept" in told
        assert oar.results.Study.open(tmp_path / "study.db").counts["pending"] == 1


def test_an_interrupt_fails_no_cell(tmp_path):
    assert swallowing(tmp_path, "cell").startswith("KeyboardInterrupt")
    counts = oar.results.Study.open(tmp_path / "study.db").counts
    assert (counts["pending"], counts["failed"]) == (1, 0)


def test_only_folders_of_ours_are_swept(tmp_path):
    from oar.streaming import scratch

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ours, own = (tmp_path / f"{scratch._owner()}-{gone.pid}-{name}" for name in ("ours", "own"))
    for folder in (ours, own):
        folder.mkdir()
        (folder / "thesis.txt").write_text("mine")
    (ours / scratch.MARK).touch()
    scratch._remove_orphans(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [own.name]


EARLY = """
import os, signal, sys
class Interrupting:  # Ctrl-C while the command's own modules are imported
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
ENTRY = "import sys\nfrom oar.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


def started(tmp_path, at, *how):
    (tmp_path / "sitecustomize.py").write_text(EARLY)
    (tmp_path / "oar").write_text(ENTRY)  # as installers write it
    (tmp_path / "mine.py").write_text("import oar.models\n")
    paths = os.pathsep.join([str(tmp_path), str(Path(oar.__file__).parents[1])])
    env = os.environ | {"PYTHONPATH": paths, "INTERRUPTED_AT": at}
    return subprocess.run([sys.executable, *how], env=env, capture_output=True, text=True, cwd=tmp_path)


@pytest.mark.parametrize("at", ["numpy", "oar.cli", "oar.cli.error_words"])
@pytest.mark.parametrize("how", [["-m", "oar", "--version"], ["oar", "--version"], ["-W", "ignore", "-m", "oar"]])
def test_ctrl_c_while_the_command_starts_is_one_line(tmp_path, how, at):
    done = started(tmp_path, at, *how)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "oar: interrupted; nothing was written.\n")


@pytest.mark.parametrize("how", [["mine.py"], ["-c", "import oar.models"], ["-m", "mine", "-m", "oar"]])
def test_ctrl_c_while_others_import_the_package_is_theirs(tmp_path, how):
    done = started(tmp_path, "numpy", *how)
    assert "KeyboardInterrupt" in done.stderr
    assert "oar: interrupted" not in done.stderr
