"""The shape of the library: figures that tell how far a reader walks, each with what it is and what it is to become.

    python tools/shape.py            figures of the text; fails where one is above its ceiling
    python tools/shape.py --walks    also the files that one `oar.collective` walks through, and what `import oar` takes
    python tools/shape.py --page     all of them, written into the table of docs/architecture.md

A ceiling is what was reached last: whoever gets below it lowers it here, and nobody raises one, but for what a new
feature takes, in the commit that brings it.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1] / "src" / "oar"
PAGE = ROOT.parents[1] / "docs" / "architecture.md"
TABLE = "<!-- python tools/shape.py --page -->\n\n"
BEFORE = {  # the house was rebuilt
    "files in the fullest folder": "71",
    "lines": "74,900",
    "`is (not) None` per 1,000 lines": "27.5",
    "`isinstance(` per 1,000 lines": "12.9",
    "`isinstance(…, NearestCentroid)`": "38",
    "public class names with more than one meaning": "47",
    "files with a spectral step of their own": "7",
    "files walked: centroid": "24",
    "files walked: softmax": "43",
    "files walked: table": "51",
    "files walked: parquet": "42",
    "files walked: pipeline": "56",
    "files walked: black box": "67",
    "files walked: rounds": "45",
    "`import numpy, oar` beside `import numpy`": "12",
}
NEAREST = re.compile(r"isinstance\([^()]*(?:\([^()]*\))?[^()]*NearestCentroid")
WALKS = """
import os, sys, tempfile, threading, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, oar
from oar.online import FullRefit, OnlineProblem, Stream
case = sys.argv[1]
iris = oar.datasets.iris()
X, y = iris.features, iris.labels
query = oar.Query(0.25 * X[y == 2].mean(axis=0) + 0.75 * X[y == 1].mean(axis=0), goal=2)
people, action, settings = oar.Population(X, y), oar.Perturb(0.3), {}
softmax, short = oar.SoftmaxRegression(l2=1e-2), oar.solvers.ProjectedGradient(max_steps=10, restarts=0)
if case == "centroid":
    problem = oar.Problem(people, oar.NearestCentroid(), query, action)
elif case == "softmax":
    problem, settings = oar.Problem(people, softmax, query, action), {"solver": short}
elif case == "table":
    loans = oar.datasets.german_credit()
    frame = loans.frame.sample(120, random_state=0)
    refused = frame[frame.credit == "bad"].drop(columns="credit").iloc[0]
    problem = oar.Problem(oar.Population.from_frame(frame, target="credit"), oar.models.Scaled(softmax),
                          oar.Query(refused, goal="good"), oar.Perturb(0.5, norm=1, limits=loans.limits))
elif case == "parquet":
    folder = tempfile.mkdtemp()
    pd.DataFrame(X, columns=list("abcd")).assign(t=y).to_parquet(folder + "/x.parquet")
    problem = oar.Problem(oar.Population.from_parquet(folder, target="t"), softmax, query, action)
elif case == "pipeline":
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    model = make_pipeline(StandardScaler(), LogisticRegression())
    problem, settings = oar.Problem(people, model, query, action), {"solver": short}
elif case == "black box":
    from sklearn.tree import DecisionTreeClassifier
    problem = oar.Problem(people, oar.BlackBox(DecisionTreeClassifier(max_depth=3, random_state=0)), query, action)
else:
    stream = Stream.of_batches([(X[i::3], y[i::3]) for i in range(3)], history=(X, y))
    problem = OnlineProblem(stream, softmax, FullRefit(), query, action)
seen, here = set(), os.path.dirname(oar.__file__)
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(here):
        seen.add(frame.f_code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
oar.collective(problem, **settings)
sys.setprofile(None)
print(len(seen))
"""


class Figure(NamedTuple):
    """One figure: its name, what it is, its ceiling, and what it is to become."""

    name: str
    now: float
    ceiling: float
    aim: float


def of_text() -> list[Figure]:
    """Return the figures that are read off the source files."""
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    lines = sum(text.count("\n") for text in texts.values())

    def count(pattern: str | re.Pattern[str]) -> int:
        return sum(len(re.findall(pattern, text)) for text in texts.values())

    classes = Counter(
        node.name
        for text in texts.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    own_steps = sum(bool(re.search(r"bend > 0|curvature > 0", text)) for text in texts.values())
    fullest = max(Counter(path.parent for path in texts).values())
    return [
        Figure("files in the fullest folder", fullest, 12, 12),
        Figure("lines", lines, 75_300, 69_900),
        Figure("`is (not) None` per 1,000 lines", 1000 * count(r"\bis (?:not )?None\b") / lines, 17.0, 18),
        Figure("`isinstance(` per 1,000 lines", 1000 * count(r"\bisinstance\(") / lines, 7.9, 8),
        Figure("`isinstance(…, NearestCentroid)`", count(NEAREST), 2, 6),
        Figure("public class names with more than one meaning", sum(n > 1 for n in classes.values()), 4, 8),
        Figure("files with a spectral step of their own", own_steps, 1, 1),
    ]


def of_walks() -> list[Figure]:
    """Return the files that a call walks through, and how long the import takes beside NumPy's."""
    ceilings = {
        "centroid": (16, 16),
        "softmax": (26, 28),
        "table": (34, 34),
        "parquet": (30, 30),
        "pipeline": (33, 36),
        "black box": (36, 36),
        "rounds": (30, 30),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "walk.py"
        script.write_text(WALKS, encoding="utf-8")
        found = [
            Figure(f"files walked: {case}", float(_said([str(script), case])), *limits)
            for case, limits in ceilings.items()
        ]
    ratio = _time_of("numpy, oar") / _time_of("numpy")
    return [*found, Figure("`import numpy, oar` beside `import numpy`", ratio, 1.5, 1.5)]


def _time_of(what: str) -> float:
    code = f"import time; t = time.perf_counter(); import {what}; print(time.perf_counter() - t)"
    return min(float(_said(["-c", code])) for _ in range(5))


def _said(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def _write_table(figures: list[Figure]) -> None:
    rows = "".join(f"| {one.name} | {BEFORE[one.name]} | {_short(one.now)} | {one.aim:,g} |\n" for one in figures)
    table = f"{TABLE}| figure | before | now | aim |\n| --- | ---: | ---: | ---: |\n{rows}"
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(rf"{TABLE}(\|.*\n)*", lambda _: table, text), encoding="utf-8")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def main() -> int:
    """Print the figures, and return 1 where one is above its ceiling."""
    parsing = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parsing.add_argument("--walks", action="store_true", help="also trace seven calls")
    parsing.add_argument("--page", action="store_true", help="trace them, and write the table of docs/architecture.md")
    asked = parsing.parse_args()
    figures = of_text() + (of_walks() if asked.walks or asked.page else [])
    for one in figures:
        print(f"{one.name:<48}{one.now:>10,.4g}   ceiling {one.ceiling:,g}, aim {one.aim:,g}")
    if asked.page:
        _write_table(figures)
    above = [one.name for one in figures if one.now > one.ceiling]
    if above:
        print(f"above their ceilings: {', '.join(above)}", file=sys.stderr)
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
