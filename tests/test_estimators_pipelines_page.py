"""The page on pipelines: its Python runs as it stands, and prints what it says it prints."""

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "estimators_pipelines.md").read_text()


def test_the_example_runs(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(block, names)
    assert capsys.readouterr().out == "good\n"
    assert names["result"].audit.violations == ()
