"""One column whose scale drowns the others is named, with the cure; columns that are merely unlike are not."""

import numpy as np
import pytest

import oar
from oar import models
from oar.report.plan.answer import in_command_words

DRAW = np.random.default_rng(0)
ROWS, CODES = DRAW.normal(size=(40, 3)), np.arange(40) % 2


def asked(features, model):
    return oar.Problem(oar.Population(features, CODES), model, oar.Query(features[0], goal=1), oar.Perturb(0.1))


@pytest.mark.parametrize("model", [oar.NearestCentroid(), models.SoftmaxRegression()], ids=lambda model: model.name)
def test_a_column_that_drowns_the_others_is_named(model):
    solver = {} if isinstance(model, oar.NearestCentroid) else {"solver": "one-shot"}
    told = oar.collective(asked(ROWS * [1.0, 1e4, 2.0] + [0.0, 1e7, 0.0], model), **solver).explanation
    assert "Caution: feature 1 has a standard deviation of " in told
    assert "Scaled" in told
    assert "Leave out --plain" in in_command_words(told)
    assert "Scaled" not in in_command_words(told)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 50.0, 2.0), (0.0, 1.0, 0.0), (1e6, 1e6, 1e6)])
def test_columns_that_are_merely_unlike_or_never_vary_are_not(scales):
    assert asked(ROWS * scales, oar.NearestCentroid()).caution == ""


def test_behind_a_scaler_and_on_a_table_there_is_nothing_to_say():
    pandas = pytest.importorskip("pandas")
    wide = ROWS * [1.0, 1e4, 2.0]
    assert asked(wide, models.Scaled(models.SoftmaxRegression())).caution == ""
    frame = pandas.DataFrame(wide, columns=list("abc")).assign(label=CODES)
    people = oar.Population.from_frame(frame, target="label")
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(frame.loc[0, list("abc")], goal=1), oar.Perturb(0.1))
    assert problem.caution == ""
    by_name = oar.Population(frame[list("abc")], CODES)
    named = oar.Problem(by_name, oar.NearestCentroid(), oar.Query(wide[0], goal=1), oar.Perturb(0.1))
    assert "feature 'b'" in named.caution
