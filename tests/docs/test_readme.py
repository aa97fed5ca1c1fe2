"""The README's Python runs as it stands, and prints what it says it prints."""

import ast
import contextlib
import io

from support.pages import ROOT
from support.pages import blocks as fenced

README = ROOT / "README.md"


def run(block: str, names: dict) -> list[tuple[list[str], list[str]]]:
    """Execute a block; return (said, seen) for every run of comment lines that follows statements."""
    lines = block.splitlines()
    pairs, seen = [], []
    for node in ast.parse(block).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), "README", "eval"), names)
                if value is not None:
                    seen.append(repr(value))
            else:
                exec(compile(source, "README", "exec"), names)
        seen += printed.getvalue().splitlines()
        said = []
        for line in lines[node.end_lineno :]:
            if not line.startswith("# "):
                break
            said.append(line[2:])
        if said:
            pairs.append((said, seen[-len(said) :]))
    return pairs


def test_the_python_in_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = fenced(README.read_text())
    assert len(blocks) == 9
    compared = [pair for block in blocks for pair in run(block, names)]
    assert len(compared) >= 4
    for said, seen in compared:
        assert said == seen
    assert (tmp_path / "plan.json").stat().st_size < 2_000
    assert names["moves"].shape == (150, 4)
    assert names["mine"].shape == (4,)
    assert names["table"].people.size == 1_000
