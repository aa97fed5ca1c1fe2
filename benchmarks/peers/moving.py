"""What goes between the leaderboard and a contender's process: files in a folder, readable by any version of NumPy.

task.json         where the problem is, and how long the contender may take
<problem>.npz     features (n, d), labels 0 … k − 1, query (d,), goal, l2, budget (p = 2). The operator: scikit-learn's
                  LogisticRegression(C=1/(n·l2)), which for two classes has a single logit
started.json      versions, and when the clock was started
<problem>/        the same of more people: people/*.parquet with columns x0, x1, … and label, and problem.json
0007.npy          moves (n, d) at some moment; whoever runs out of time is judged by the last of them;
                  a folder 0007 of Parquet files where the people are in such a folder
journal.jsonl     one line for each of these: seconds, passes, peak memory. A file without its line does not count
ended.json        why it ended, and what the contender says of itself

The clock runs from the moment that data and imports are in memory: compiling counts, starting Python does not. It
stands still while moves are written. Passes count how often everybody's rows were gone through: for a value, a
gradient or a product with the Hessian; a value with its gradient is one.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np


class Task:
    """What a contender is asked, and where it writes what it finds."""

    def __init__(self, folder, *packages):
        """Read the problem, and start the clock; `packages` are those whose versions are worth knowing."""
        self.folder = Path(folder)
        settings = json.loads((self.folder / "task.json").read_text(encoding="utf-8"))
        self.allowed, self.spacing = settings["seconds"], settings["spacing"]
        self.source = settings["problem"]
        if self.source.endswith(".npz"):
            with np.load(self.source) as problem:
                self.features, self.labels, self.query = (problem[name] for name in ("features", "labels", "query"))
                self.goal, self.single_l2, self.budget = (problem[name].item() for name in ("goal", "l2", "budget"))
            self.classes = int(self.labels.max()) + 1
            # Two rows ±w/2 have half the squared length of the single logit w that the operator fits to two classes.
            self.l2 = self.single_l2 * (2.0 if self.classes == 2 else 1.0)
        else:
            asked = json.loads((Path(self.source) / "problem.json").read_text(encoding="utf-8"))
            self.query, self.goal = np.array(asked["query"]), asked["goal"]
            self.single_l2, self.budget = asked["l2"], asked["budget"]
        self.passes, self.count, self.first, self.last = 0, 0, None, 0.0
        versions = {"python": sys.version.split()[0], **{name: version(name) for name in packages}}
        self._write("started.json", {"versions": versions})
        self.paused, self.began = 0.0, time.perf_counter()

    @property
    def elapsed(self):
        """Seconds since the start, without what it took to write moves."""
        return time.perf_counter() - self.began - self.paused

    @property
    def over(self):
        """Whether the time is used up."""
        return self.elapsed >= self.allowed

    def record(self, moves, always=False):
        """Keep these moves, unless others were kept a moment ago: `moves` may be a function that returns them.

        Moments are spaced evenly in the logarithm of the time since the first of them, which may have had to wait for
        a compiler: so a long run keeps few, and the first steps are not missed.
        """
        seconds = self.elapsed
        self.first = seconds if self.first is None else self.first
        if not always and seconds - self.first < self.spacing * (self.last - self.first):
            return
        began = time.perf_counter()
        name = f"{self.count:04d}.npy"
        np.save(self.folder / name, np.asarray(moves() if callable(moves) else moves))
        self._note(seconds, name)
        self.paused += time.perf_counter() - began

    def record_folder(self, write):
        """Keep moves that are not in memory: `write(folder)` writes them as Parquet, in the order of the people."""
        seconds, began, name = self.elapsed, time.perf_counter(), f"{self.count:04d}"
        write(self.folder / name)
        self._note(seconds, name)
        self.paused += time.perf_counter() - began

    def _note(self, seconds, name):
        line = {"seconds": seconds, "passes": self.passes, "peak": peak_resident(), "file": name}
        with open(self.folder / "journal.jsonl", "a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")
        self.count, self.last = self.count + 1, seconds

    def fastest(self, choices, call):
        """Return the choice with which `call(choice)` takes least; a probe, so off the clock and no passes.

        It is for numbers of threads: which is best depends on sizes, and on how busy the machine is.
        """
        began, passes, seconds = time.perf_counter(), self.passes, {}
        for choice in [*choices, *choices] if self.features.size < 100_000 else choices:
            start = time.perf_counter()
            call(choice)
            seconds[choice] = min(time.perf_counter() - start, seconds.get(choice, np.inf))
        self.paused, self.passes = self.paused + time.perf_counter() - began, passes
        return min(seconds, key=seconds.__getitem__)

    def finish(self, moves, ended="", **facts):
        """Keep the answer. `ended` says why there is no more to come; "" means that the time was over."""
        self.record(moves, always=True)
        self.end(ended, **facts)

    def end(self, ended, **facts):
        """Say why there is no more to come, after the last moves were kept."""
        self._write("ended.json", {"ended": ended, **facts})

    def _write(self, name, content):
        (self.folder / name).write_text(json.dumps(content), encoding="utf-8")


class Patience:
    """When to stop: the best loss has fallen by less than a millionth of itself over ten steps."""

    def __init__(self, steps=10, share=1e-6):
        """Keep the settings."""
        self.steps, self.share, self.losses = steps, share, []

    def lost(self, loss):
        """Report whether it is time to stop, after a step that led to this loss."""
        self.losses.append(min(loss, self.losses[-1] if self.losses else np.inf))
        if len(self.losses) <= self.steps:
            return False
        return self.losses[-1 - self.steps] - self.losses[-1] <= self.share * abs(self.losses[-1])


def peak_resident():
    """Return the most memory that this process ever held, in bytes; None where the system does not say.

    On Linux `ru_maxrss` of a child starts from what its parent held, so the kernel's own mark goes first.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
