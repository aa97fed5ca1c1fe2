"""The page on defences runs as it stands, and its table is complete."""

import re

import numpy as np
import pytest
from support.pages import page, run

from oar import defences

PAGE = page("defences")


def test_the_examples_run_and_say_what_they_are_about():
    pytest.importorskip("jax")
    names = run(PAGE)
    assert names["found"].total > 0
    assert names["worth"].plan_before.loss == pytest.approx(names["plan"].loss)
    rows = re.findall(r"^\| .*?\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
    trimmed, clipped = names["worth"], names["clipped"]
    assert [tuple(map(float, row)) for row in rows] == [
        tuple(np.round(numbers, 2))
        for numbers in (
            (trimmed.before.total, trimmed.score_before, trimmed.plan_before.loss),
            (trimmed.after.total, trimmed.score_after, trimmed.plan_after.loss),
            (clipped.after.total, clipped.score_after, clipped.plan_after.loss),
        )
    ]
    assert trimmed.plan_after.success
    assert clipped.plan_after.success
    assert names["prepared"].loss <= names["worth"].plan_after.loss + 1e-9
    assert names["state"].memory.accuracy > names["state"].memory.plain
    assert all(one.state.memory.converged and one.state.memory.steps > 1 for one in names["rounds"])
    assert len(names["rounds"]) == 2


def test_every_defence_is_in_the_table():
    for name in defences.__all__:
        kind = getattr(defences, name)
        if (
            isinstance(kind, type)
            and issubclass(kind, defences.Defence)
            and kind not in (defences.Defence, defences.Together)
        ):
            assert f"| `{name}(" in PAGE
