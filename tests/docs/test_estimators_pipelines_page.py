"""The page on pipelines: its Python runs as it stands, and prints what it says it prints."""

import re

from support.pages import page

PAGE = page("estimators_pipelines")


def test_the_example_runs(capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(block, names)
    assert capsys.readouterr().out == "good\n"
    assert names["result"].audit.violations == ()
