"""The page on people in parts: its Python runs as it stands, what needs a cluster compiles, and numbers are true."""

import re

import pytest
from support.pages import blocks, page

from oar.people.parts.arrays import PART_ROWS
from oar.streaming import scratch
from oar.streaming.passes import BLOCK

PAGE = page("scale")


def test_the_example_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(PAGE)
    names: dict = {}
    exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"^print\(.*\) +# (.+)$", block, flags=re.MULTILINE)
    assert len(printed) == len(promised) == 2
    for line, start in zip(printed, promised, strict=True):
        assert line.startswith(start)
    assert len(names["files"]) == 8
    assert names["result"].success
    assert names["result"].passes > 10


@pytest.mark.parametrize("block", blocks(PAGE, "py"))
def test_what_needs_a_cluster_is_python(block):
    compile(block, "docs/scale.md", "exec")


def test_numbers_on_the_page_are_those_of_the_code():
    assert f"a part for each {PART_ROWS:,} rows" in PAGE
    assert f"arrays of {BLOCK:,} people" in PAGE
    assert f"fits into {scratch.MEMORY // 10**6} MB" in PAGE
    assert f"{8 * scratch.VERSIONS} bytes for each feature" in PAGE
