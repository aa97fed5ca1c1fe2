"""Small files of people, the command run on them, and its numbers computed again without the package."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from oar.cli import app

NUMBERS, FLAGS, WORDS = ("income", "age"), ("owner",), ("purpose",)
LEVELS = ("car", "home", "school")
L2 = 1e-2  # the default penalty of softmax and ridge regression

TOLD = 1e-3  # share by which numbers of two refits may be off


def people(size=90, seed=0):
    """A table of applicants, of whom those with a higher income are approved more often."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(2500, 600, size).round(2),
            "age": rng.integers(20, 70, size),
            "owner": rng.random(size) < 0.4,
            "purpose": rng.choice(LEVELS, size),
            "town": rng.choice(["Aarau", "Basel", "Chur"], size, p=[0.6, 0.3, 0.1]),
        }
    )
    score = (frame["income"] - 2500) / 600 + 0.8 * frame["owner"] + 0.6 * (frame["purpose"] == "school")
    frame["approved"] = np.where(score + rng.normal(0, 0.7, size) > 0.4, "yes", "no")
    return frame


def numbers(size=60, seed=1):
    """Plain numbers in two columns, in two clouds."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], size // 2)
    points = rng.normal(0, 1, (size, 2)) + 2.5 * labels[:, None]
    return pd.DataFrame({"x": points[:, 0].round(3), "y": points[:, 1].round(3), "kind": labels})


def values(size=60, seed=2):
    """A price to be regressed."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"rooms": rng.integers(1, 8, size), "metres": rng.normal(80, 20, size).round(1)})
    frame["price"] = (3 * frame["rooms"] + 0.5 * frame["metres"] + rng.normal(0, 2, size)).round(2)
    return frame


def run(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def done(*arguments):
    """Run the command, which must succeed; return what it prints."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output + result.stderr + repr(result.exception)
    return result.output


def failed(*arguments):
    """Run the command, which must end with one line and exit code 1; return the line."""
    result = run(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("oar: ")
    return result.stderr


def audited(folder):
    """Return what audit.json holds; NaN and infinity are refused."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads((folder / "audit.json").read_text(), parse_constant=refuse)


def found_in(folder):
    """Return what private.json keeps for the organiser: what audit.json tells, with all digits."""
    return json.loads((folder / "private.json").read_text())["found"]


def applied(frame, folder):
    """Return the table after the changes of moves.csv."""
    after = frame.copy().astype({name: float for name in frame.columns if frame[name].dtype.kind in "if"})
    after = after.astype(dict.fromkeys([name for name in FLAGS if name in frame], object))
    for change in pd.read_csv(folder / "moves.csv").itertuples():
        value = {"True": True, "False": False}.get(change.after, change.after)
        after.loc[change.person, change.column] = float(value) if frame[change.column].dtype.kind in "if" else value
    return after


def coordinates(frame):
    """Return numbers, flags and one-hot words, as a model of the table sees them."""
    parts = [frame[list(NUMBERS)].to_numpy(float), frame[list(FLAGS)].astype(float).to_numpy()]
    parts += [np.stack([(frame["purpose"] == level).to_numpy(float) for level in LEVELS], axis=1)]
    return np.hstack(parts)


def approval(frame, person):
    """Return the probability of "yes" for a row of `frame`, by scikit-learn's own refit on it."""
    from sklearn.linear_model import LogisticRegression

    rows = coordinates(frame)
    scaled = rows.copy()
    scaled[:, :2] = (rows[:, :2] - rows[:, :2].mean(axis=0)) / rows[:, :2].std(axis=0)
    model = LogisticRegression(C=1 / (L2 * len(rows)), tol=1e-10, max_iter=10_000).fit(scaled, frame["approved"])
    return float(model.predict_proba(scaled[[person]])[0, list(model.classes_).index("yes")])
