"""The page on planning over time runs as it stands, from top to bottom."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "online.md").read_text(encoding="utf-8")


def test_the_examples_say_what_they_are_about(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE[PAGE.index("## Planning over time") :], flags=re.DOTALL):
        exec(block, names)
    result = names["result"]
    assert result.success
    assert result.exact
    assert result.rounds["effort"].idxmax() == result.rounds["leverage"].idxmax() == 4
    assert names["again"].loss <= names["once"].loss + 1e-9
    assert names["once"].plan.each.any()
    assert names["again"].loss == pytest.approx(names["again"].audit.loss)
