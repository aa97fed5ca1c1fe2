"""The batch-norm footnote as a scenario: what it measures, its control, its pictures, and what it refuses."""

import numpy as np
import pytest

import oar
from oar_stories.batch_norm.story import BATCHNORM, SHARES, BatchNormSettings, Point, batchnorm, cases, run_batchnorm

SETTINGS = BatchNormSettings(people=16, hidden=0, repeats=2)


@pytest.fixture(scope="module")
def told():
    return run_batchnorm(SETTINGS, 0, lambda *_: None)


def rows_of(told, arm, **fixed):
    return [row for row in told.rows if row["arm"] == arm and all(row[name] == fixed[name] for name in fixed)]


def test_every_size_share_and_budget_is_solved_exactly(told):
    found = rows_of(told, "features")
    assert len(found) == 2 * len(SETTINGS.sizes) * len(SHARES) * len(SETTINGS.budgets)
    assert all(row["exact"] for row in found)
    for row in found:
        assert row["movers"] <= round(row["share"] * row["people"])
        assert row["success"] == (row["probability"] > 0.5)
        assert row["impossible"] == (not row["success"])  # the optimum decides


def test_more_budget_and_more_people_who_act_never_hurt(told):
    for repeat in (0, 1):
        for size in SETTINGS.sizes:
            found = np.array([
                [rows_of(told, "features", repeat=repeat, people=size, share=share, budget=budget)[0]["probability"]
                 for budget in SETTINGS.budgets]
                for share in SHARES
            ])  # fmt: skip
            assert (np.diff(found, axis=0) >= -1e-9).all()
            assert (np.diff(found, axis=1) >= -1e-9).all()
            assert found[-1, -1] > found[-1, 0] + 0.1


def test_no_success_was_there_before_anybody_moved(told):
    for row in told.rows:
        assert row["probability_before"] < 0.5
        assert row["gain"] == row["probability"] - row["probability_before"]
        if row["budget"] == 0:
            assert not row["success"]
            assert row["gain"] == pytest.approx(0, abs=1e-12)
    shown = told.still().axes[2]  # the panel of batch sizes shows what moves add, not where batches begin
    frozen = next(line for line in shown.lines if line.get_label() == "frozen statistics")
    assert np.abs(frozen.get_ydata()).max() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 5])
def test_the_flower_is_refused_in_a_batch_of_every_size(seed):
    settings = BatchNormSettings(people=40, hidden=0, repeats=2)
    for _, case in zip(range(2), cases(settings, seed), strict=False):
        for size in settings.sizes:
            for arm in case.models:
                audit = case.planned(arm, Point(size, 1.0, 0.0)).audit
                assert not audit.success
                assert audit.queries[0].probability <= case.highest_before(settings.sizes) + 1e-9 < 0.5


def test_proofs_are_counted_where_there_can_be_any(told):
    (sentence,) = (one for one in told.summary if "proved" in one)
    tried = [row for row in told.rows if row["arm"] == "features" and row["budget"] > 0]
    tried = [row for row in tried if (row["people"], row["share"]) != (2, 0.25)]  # of two, a quarter is nobody
    proved = sum(not row["success"] for row in tried)
    assert sentence.startswith(f"In {proved} of the {len(tried)} cases")
    assert [arm.name for arm in BatchNormSettings().arms if arm.provable] == ["features", "hidden"]
    assert any("already" in one for one in told.summary)


def test_with_frozen_statistics_nobody_can_do_anything(told):
    for row in rows_of(told, "frozen"):
        assert row["probability"] == row["probability_before"] < 0.5
        assert row["impossible"]


def test_whoever_asks_is_called_wrong_before_and_is_not_in_the_batch():
    case = next(cases(SETTINGS, 0))
    flowers = oar.datasets.iris()
    truth = flowers.labels[(flowers.features == case.query).all(axis=1)]
    assert flowers.class_names[truth[0]] == case.goal
    assert case.batch.shape == (16, 4)
    result = case.planned("features", Point(16, 0.5, 0.2))
    moves = result.plan.moves()
    assert not moves[8:].any()
    assert np.abs(moves).max() == pytest.approx(0.2)


def test_the_same_seed_tells_the_same_and_the_pictures_are_drawn(told):
    again = batchnorm(0, people=16, hidden=0, repeats=1)
    assert again.rows == told.rows[: len(again.rows)] or again.rows == [row for row in told.rows if not row["repeat"]]
    assert len(told.lines) == 2
    assert len(told.header) == len(told.lines[0])
    assert any("proved" in sentence for sentence in told.summary)
    still, frame = told.still(), told.film(told.frames - 1)
    still.draw_without_rendering()
    frame.draw_without_rendering()
    assert "network of normalised features. First of 2 flowers that ask." in frame.get_suptitle()
    assert "versicolor" in frame.axes[0].texts[0].get_text() or "virginica" in frame.axes[0].texts[0].get_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [({"people": 7}, "--people"), ({"people": 50}, "--people"), ({"budget": 0.0}, "--budget"),
     ({"repeats": 0}, "--repeats"),
     ({"hidden": 3}, "--hidden"), ({"rounds": 3}, "--rounds: does nothing")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(given, words):
    with pytest.raises(oar.errors.OARError, match=words):
        BATCHNORM.with_settings(given)
