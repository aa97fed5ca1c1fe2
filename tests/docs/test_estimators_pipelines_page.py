"""The page on pipelines: its Python runs as it stands, and prints what it says it prints."""

from support.pages import page, run

PAGE = page("estimators_pipelines")


def test_the_example_runs(capsys):
    names = run(PAGE)
    assert capsys.readouterr().out == "good\n"
    assert names["result"].audit.violations == ()
