"""Studies of every kind of problem: each cell is what its own problem says, for numbers of labels and over rounds."""

import dataclasses

import numpy as np
import pytest
from support.study_problems import people, problem

import oar
from oar.errors import OptionError
from oar.online import ExponentialMeans, OnlineProblem, Stream

CENTROIDS = oar.NearestCentroid()


def levers(*action):
    return dataclasses.replace(problem(), action=list(action))


def rounds(**who):
    return OnlineProblem(
        Stream(people(), np.arange(60) % 3 - 1),
        CENTROIDS,
        ExponentialMeans(0.5),
        problem().query,
        oar.Perturb(0.4, **who),
    )


@pytest.mark.parametrize("kind", [oar.Relabel, oar.Withhold])
def test_numbers_of_labels_and_leavers_are_an_axis(kind, tmp_path):
    asked = levers(kind(share=0.5))
    found = oar.study(asked, most=[0, 2, 5], participation=[0.5, 1.0], store=tmp_path / "study.db").table()
    assert list(found.columns[:7]) == ["model", "query", "goal", "budget", "participation", "seed", "most"]
    assert found["most"].tolist() == [0, 2, 5] * 2
    for row in found.itertuples():
        drawn = {} if row.participation == 1.0 else {"participants": row.participation, "seed": 0}
        alone = oar.collective(levers(kind(most=row.most, **drawn)))
        assert (row.loss, row.success, row.outcome) == (alone.loss, alone.success, str(alone.status))
        assert row.relabelled + row.leavers <= row.most


def test_a_key_names_the_number_where_it_is_set(tmp_path):
    asked = levers(oar.Perturb(0.4), oar.Relabel(most=3))
    cells = [{"budget": 0.2}, {"budget": 0.2, "most": 3}]
    found = oar.study(asked, cells=cells, store=tmp_path / "study.db").table()
    assert found["most"].isna().tolist() == [True, False]
    assert found["loss"].nunique() == 1  # the action's own number is the same
    plain = oar.study(asked, budgets=[0.2], store=tmp_path / "study.db")
    assert plain.counts["done"] == 2  # it was there


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([oar.Perturb(0.4)], "has neither"),
        ([oar.Relabel(most=1), oar.Withhold(most=1)], "one number cannot be both"),
        ([oar.Relabel(soft=0.1)], "soft labels"),
    ],
)
def test_numbers_of_what_is_not_counted_are_refused(action, message, tmp_path):
    asked = dataclasses.replace(problem(oar.SoftmaxRegression()), action=action)
    with pytest.raises(OptionError, match=message):
        oar.study(asked, most=[1], store=tmp_path / "study.db")


def test_the_figure_has_numbers_where_budgets_are(tmp_path):
    asked = levers(oar.Perturb(0.4), oar.Relabel(most=3))
    found = oar.study(asked, budgets=[0.2, 0.4], most=[1, 2], store=tmp_path / "study.db")
    titles = [axes.get_title() for axes in found.plot().axes[:2]]
    assert [title.replace("\n", " ")[-6:] for title in titles] == ["most 1", "most 2"]
    alone = oar.study(levers(oar.Relabel(most=3)), most=[1, 2], store=tmp_path / "alone.db").plot()
    assert [label.get_text() for label in alone.axes[0].get_xticklabels()] == ["1", "2"]
    assert alone.axes[0].get_xlabel() == "labels or leavers"


def test_over_rounds_every_cell_is_its_own_problem(tmp_path):
    found = oar.study(rounds(), budgets=[0.2, 0.4], participation=[0.5, 1.0], store=tmp_path / "study.db").table()
    for row in found.itertuples():
        drawn = {} if row.participation == 1.0 else {"participants": row.participation, "seed": 0}
        alone = oar.collective(dataclasses.replace(rounds(), action=oar.Perturb(row.budget, **drawn)))
        assert (row.loss, row.success, row.movers) == (alone.loss, alone.success, alone.audit.movers)


def test_rounds_are_part_of_what_a_study_is_known_by(tmp_path):
    oar.study(rounds(), store=tmp_path / "study.db")
    other = dataclasses.replace(rounds(), rule=ExponentialMeans(0.7))
    with pytest.raises(oar.errors.StorageError, match="holds a study of another problem, whose fingerprint differs in"):
        oar.study(other, store=tmp_path / "study.db")


def test_the_most_useful_are_chosen_among_those_who_are_drawn(tmp_path):
    asked = problem(participants=oar.actions.participation.Best(20))
    found = oar.study(asked, participation=[0.2, 0.6, 1.0], store=tmp_path / "study.db").table()
    for row, who in zip(found.itertuples(), (0.2, oar.Best(20, 0.6), oar.Best(20)), strict=True):
        seed = {} if row.participation == 1.0 else {"seed": 0}
        alone = oar.collective(problem(participants=who, **seed))
        assert (row.loss, row.movers) == (alone.loss, alone.audit.movers)
    assert found["movers"].max() == 20


def test_a_limit_of_time_is_every_cells(tmp_path):
    asked = problem(oar.SoftmaxRegression())
    found = oar.study(asked, budgets=[0.2, 0.4], time_limit=0, effort="quick", store=tmp_path / "study.db")
    table = found.table()
    assert found.counts["done"] == 2
    assert not table["exact"].any()
    with pytest.raises(oar.errors.StorageError, match="0 s for a cell"):
        oar.study(asked, budgets=[0.2], effort="quick", store=tmp_path / "study.db")
    with pytest.raises(oar.errors.DataError, match="time_limit: must be a number of seconds"):
        oar.study(asked, time_limit=-1, store=tmp_path / "other.db")
