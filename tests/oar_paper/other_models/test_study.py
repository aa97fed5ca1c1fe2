"""Figure 2 for other models: every point is audited, and the theorem holds where it should."""

import dataclasses
import json
import re

import pytest

pytest.importorskip("jax")

from support.figure_looks import assert_no_text_covers_another, assert_nothing_is_cut_off

from oar.solvers import ProjectedGradient
from oar_paper.other_models.cases import Contender, extended_settings, standardised_iris
from oar_paper.other_models.drawing import draw_extended
from oar_paper.other_models.study import BreakEven, Extended, Point, break_even, extended_stages, study
from oar_paper.other_models.summary import extended_section, extended_table
from oar_paper.reproduce import STAGES, reproduce, write_all
from oar_paper.settings import reproduction_settings

FAST = ("nearest_centroid", "prototypes", "softmax", "svm", "naive_bayes")


def few(keys):
    """Return quick settings with two budgets and a few models."""
    settings = extended_settings(quick=True)
    loop = ProjectedGradient(max_steps=8, tolerance=1e-4, restarts=0)
    contenders = tuple(
        one if one.together == "exact" else dataclasses.replace(one, together=loop)
        for one in settings.contenders
        if one.key in keys
    )
    return dataclasses.replace(settings, budgets=(0.25, 0.5), contenders=contenders)


@pytest.fixture(scope="module")
def found():
    settings, arena = few(FAST), standardised_iris()
    cells = [study(arena, one, settings) for one in settings.contenders]
    about = {"title": arena.title, "pair": arena.pair, "preparation": arena.preparation}
    return Extended(settings, {"iris": about}, cells)


def test_the_collective_never_does_worse_where_training_is_equivariant(found):
    for cell in found.cells:
        assert cell.guaranteed
        for alone, together in zip(cell.budgets["individual"], cell.budgets["collective"], strict=True):
            assert together.loss <= alone.loss + 1e-6, (cell.model, alone.place)


def test_claims_agree_with_the_audit_where_training_has_one_minimum(found):
    for cell in found.cells:
        for point in cell.points:
            assert point.loss == pytest.approx(point.claimed, abs=1e-4), (cell.model, point)


def test_a_frozen_prototype_network_is_nearest_centroid(found):
    exact, network = found.cells[:2]
    for way in ("individual", "collective"):
        for one, other in zip(exact.budgets[way], network.budgets[way], strict=True):
            assert one.loss == pytest.approx(other.loss, abs=1e-6)


def test_shapes_and_the_break_even_share(found):
    for cell in found.cells:
        assert [point.place for point in cell.budgets["one_shot"]] == [0.25, 0.5]
        shares = [point.place for point in cell.shares["collective"]]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert {0.5, 1.0} <= set(shares)
        assert cell.shares["collective"][-1].loss == cell.budgets["collective"][-1].loss
        between = cell.break_even
        assert between is not None
        assert between.above < between.at <= 1
        by_share = {point.place: point.loss for point in cell.shares["collective"]}
        assert by_share[between.at] < cell.individual.loss


def test_the_break_even_share_is_where_the_last_crossing_is():
    def points(*losses):
        return [Point(share / 10, loss, False, loss, 0.0, True, 1, "improved") for share, loss in enumerate(losses, 1)]

    assert break_even(points(3.0, 2.0, 1.0), 2.5) == BreakEven(0.1, 0.2)
    assert break_even(points(3.0, 2.0, 3.0, 1.0), 2.5) == BreakEven(0.3, 0.4)
    assert break_even(points(3.0, 2.0), 2.0) is None
    assert break_even(points(1.0, 0.5), 2.0) == BreakEven(0.0, 0.1)


def test_the_figure_is_readable_and_the_section_complete(found):
    figure = draw_extended(found)
    assert len(figure.axes) == 2 * len(FAST)
    assert_nothing_is_cut_off(figure)
    assert_no_text_covers_another(figure)
    text = extended_section(found)
    assert extended_table(found) in text
    assert "QUICK RUN" in text
    assert "10 of 10 comparisons" in text
    assert "nan" not in text


def test_samples_are_seeded_and_marked():
    arena = dataclasses.replace(standardised_iris(), key="mnist", _samples={})
    contender = Contender("c", "C", extended_settings().contenders[0].model, "auto", "exact", "paper", 60)
    cell = study(arena, contender, few(FAST))
    assert (cell.people, cell.sampled) == (60, True)
    again = dataclasses.replace(arena, _samples={}).people(60)
    assert (again.features == arena.people(60).features).all()


def test_the_other_models_add_a_figure_a_block_and_a_section(tmp_path):
    coarse = dataclasses.replace(
        reproduction_settings(quick=True),
        iris_budgets=(0.0, 1.0),
        mnist_budgets=(0.0, 1.0),
        shares=(0.0, 1.0),
        mnist_pairs=2,
        iris_audited_cells=1,
        mnist_audited_cells=1,
    )
    write_all(tmp_path, coarse, extended=few(("softmax",)))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    block = json.loads(text, parse_constant=refuse)["extended"]
    assert set(block["models"]) == {"softmax"}
    assert [cell["model"] for cell in block["cells"]] == ["softmax"]
    for kind in ("png", "svg", "pdf"):
        assert (tmp_path / f"extended.{kind}").stat().st_size > 1_000
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", summary)[-1] == "extended.png"


def test_a_run_with_other_models_announces_their_stages_too(tmp_path):
    class Enough(Exception):
        """The first stage was announced."""

    def first(*stage):
        raise Enough(stage)

    with pytest.raises(Enough) as ended:
        reproduce(tmp_path / "out", quick=True, extended=True, on_stage=first)
    assert ended.value.args[0] == (STAGES[0], 0, len(STAGES) + len(extended_stages(extended_settings(quick=True))))


def test_a_quick_run_is_iris_only_and_every_cell_is_announced():
    quick, full = extended_settings(quick=True), extended_settings()
    assert len(extended_stages(quick)) == len(quick.contenders)
    assert len(extended_stages(full)) == 2 * len(full.contenders)
    assert extended_stages(full)[1] == "Iris: Prototype network (identity, frozen)"
    assert full.share_budget in full.budgets
    assert len(full.budgets) > len(quick.budgets)
