"""Results show themselves: a table in a notebook, and the picture that suits them."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import oar
from oar.pictures.markup import Markup, table, tag, text

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def flowers():
    iris = oar.datasets.iris()
    features = pd.DataFrame(iris.features[:, 2:], columns=["length", "width"])
    problem = oar.Problem(
        oar.Population(features, iris.labels), oar.NearestCentroid(), oar.Query([4.8, 1.6], 2), oar.Perturb(0.5)
    )
    return oar.collective(problem)


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({SCRIPT: rng.normal(size=30), "b": rng.choice(["x", SCRIPT], 30)})
    frame["label"] = np.where(frame[SCRIPT] > 0, f"yes{SCRIPT}", "no")
    people = oar.Population.from_frame(frame, "label")
    query = oar.Query({SCRIPT: -0.2, "b": "x"}, f"yes{SCRIPT}")
    model = oar.models.Scaled(oar.SoftmaxRegression())
    return oar.collective(oar.Problem(people, model, query, oar.Perturb(0.5, norm=1)))


def words(figure):
    return [part.get_text() for part in figure.findobj(lambda part: hasattr(part, "get_text"))]


def test_a_map_shows_everyone_and_who_asks(flowers):
    figure = flowers.plot()
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length", "width")
    people = np.vstack([line.get_xydata() for line in axes.lines if line.get_marker() != "*"])
    assert sorted(map(tuple, people)) == sorted(map(tuple, flowers.problem.people.features))
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert star.get_xydata().tolist() == [[4.8, 1.6]]
    arrows = np.vstack([np.c_[part.U, part.V] for part in axes.collections])
    moves = flowers.plan.moves().to_numpy()
    np.testing.assert_allclose(np.sort(arrows, axis=0), np.sort(moves[moves.any(axis=1)], axis=0))


def test_other_results_show_effort_by_column_and_the_probability(hostile):
    figure = hostile.plot()
    left, right = figure.axes
    efforts = sorted(bar.get_width() for bar in left.patches)
    assert sum(efforts) == pytest.approx(hostile.audit.effort)  # norm 1: columns add up to people
    heights = [bar.get_height() for bar in right.patches]
    assert heights == pytest.approx([np.exp(-hostile.loss_before), np.exp(-hostile.loss)])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    assert SCRIPT not in buffer.getvalue().decode()


def test_values_show_their_loss():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 3))
    people = oar.Population(rows, rows @ [1.0, 2.0, 0.0] + rng.normal(size=40))
    result = oar.collective(
        oar.Problem(people, oar.models.Ridge(), oar.Query(rows[0], 3.0, within=0.5), oar.Perturb(0.1))
    )
    _, right = result.plot().axes
    assert right.get_ylabel() == "goal loss"
    assert [bar.get_height() for bar in right.patches] == pytest.approx([result.loss_before, result.loss])


def test_a_notebook_shows_a_table_that_is_escaped(hostile, flowers):
    shown = hostile._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert f"{100 * np.exp(-hostile.loss):.2f}".rstrip("0").rstrip(".") in shown
    assert "goal loss" in flowers._repr_html_()
    assert flowers.plot()._repr_png_().startswith(b"\x89PNG")


def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys, oar, numpy as np; X = np.array([[0., 0.], [1., 1.], [4., 4.]])\n"
        "people, query = oar.Population(X, [0, 0, 1]), oar.Query([1.5, 1], 1)\n"
        "problem = oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(1))\n"
        "oar.collective(problem).plot(); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_is_not_markup_is_text():
    assert text(SCRIPT) == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert text(Markup("<b>")) == "<b>"
    assert tag("a", SCRIPT, title='"><b>') == f'<a title="&quot;&gt;&lt;b&gt;">{text(SCRIPT)}</a>'
    made = table([SCRIPT, SCRIPT, "c", "d"], [(SCRIPT, SCRIPT, 1, 2)], SCRIPT)
    assert "<script" not in made
    assert 'class="stack"' in made
