"""The guide's Python runs as it stands, from top to bottom, and its tables are complete."""

import pytest
from support.pages import page, run

import oar

GUIDE = page("guide")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Everything that the guide's examples leave behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("guide"))
        return run(GUIDE)


def test_the_examples_say_what_they_are_about(names):
    assert names["alone"].status is oar.results.Status.IMPOSSIBLE
    assert names["together"].success
    assert names["problem"].model == oar.NearestCentroid()
    assert oar.audit(names["problem"], names["theirs"]).success
    assert oar.audit(names["problem"], 2 * names["theirs"]).violations
    assert names["softmax"].problem.model == oar.SoftmaxRegression(l2=1e-2)
    assert names["softmax"].loss < names["softmax"].loss_before
    assert names["moves_in_raw_units"].shape == names["X"].shape
    assert names["table"].losses.shape == (3, 50, 100)


def rows(heading):
    """Return the first cells of the table that begins with a heading."""
    lines = GUIDE[GUIDE.index(f"| {heading} |") :].splitlines()[2:]
    return [line.split("|")[1].strip() for line in lines[: lines.index("")]]


def test_every_status_and_every_model_is_there():
    assert rows("status") == [f"`{status.value}`" for status in oar.results.Status]
    said = " ".join(rows("model"))
    for name in oar.models.__all__:
        if name not in ("Differentiable", "Model", "Centroids", "Dense", "BatchNorm"):  # no models, but parts of them
            assert f"`{name}(" in said


def test_the_example_of_signals_runs_and_its_round_goes_downhill():
    from oar.signals import refit

    text = page("signals")
    found = run(text)
    step, moves = found["step"], -0.1 * found["step"].gradient
    data = found["training"], moves, found["query"], found["target"], found["memory"]
    assert refit(*data, tolerance=1e-8).loss < step.loss
