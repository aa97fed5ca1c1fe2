"""Small tables with rules, and an oracle that reads a rule as the Python that it is: no code of the package."""

from __future__ import annotations

import numpy as np
import pandas

import oar
from oar.people.tables.schema import Column, Schema

GRADES = ("low", "middle", "high")
SCHEMA = Schema(
    (
        Column("age", "integer"),
        Column("income", "number"),
        Column("owns", "boolean"),
        Column("grade", "ordinal", GRADES),
        Column("job", "category", ("none", "part", "full")),
    )
)
RULES = (
    "if job == 'none' then income <= 18",
    "if owns then age >= 22",
    "if not owns and grade > 'low' then job != 'full'",
    "if age > 23 then grade >= 'middle'",
    "if income >= 21 then owns",
    "if job != 'part' then income >= 10 + 0.2 * age",
)


def frame_of(size=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 26, size),
            "income": rng.normal(20, 5, size),
            "owns": rng.random(size) < 0.5,
            "grade": pandas.Categorical.from_codes(rng.integers(3, size=size), list(GRADES), ordered=True),
            "job": rng.choice(["none", "part", "full"], size),
        }
    )
    score = frame["income"] / 5 + frame["owns"] + frame["grade"].cat.codes - 0.3 * frame["age"]
    score = score + frame["job"].map({"none": 0.0, "part": 0.7, "full": 1.5}) + rng.normal(0, 0.5, size)
    frame["label"] = np.where(score > score.median(), "yes", "no")
    return frame


def people_of(frame):
    return oar.Population.from_frame(frame, "label", schema=SCHEMA)


class Grade(str):
    """A level that knows its order, as a reader would compare it."""

    def _rank(self, other):
        return GRADES.index(str(self)) - GRADES.index(str(other))

    def __lt__(self, other):
        return self._rank(other) < 0

    def __le__(self, other):
        return self._rank(other) <= 0

    def __gt__(self, other):
        return self._rank(other) > 0

    def __ge__(self, other):
        return self._rank(other) >= 0


def keeps(text, before, after, slack=0.0):
    """Report whether a row of values keeps a rule; what `slack` may have decided counts as kept."""
    condition, consequence = text.removeprefix("if ").split(" then ")
    names = [name for name in after if name in text]
    if all(before[name] == after[name] for name in names):
        return True
    wiggles = (0.0,) if not slack else (0.0, slack, -slack)
    for wiggle in wiggles:
        row = {**after, "grade": Grade(after["grade"]), "income": after["income"] + wiggle}
        row["change"] = lambda value: value.change
        values = {}
        for name, value in row.items():
            values[name] = value
            if isinstance(value, float | int | np.number) and not isinstance(value, bool | np.bool_):
                values[name] = type("Value", (float,), {})(value)
                values[name].change = value - before[name]
        if not eval(condition, {}, values) or eval(consequence, {}, values):
            return True
    return False


def rows_of(frame):
    return frame.drop(columns="label", errors="ignore").to_dict("records")
