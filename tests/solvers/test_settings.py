"""Effort: one table that solvers read where their settings leave a number open."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import oar
from oar.errors import DataError
from oar.online import FullRefit, OnlineProblem, Stream
from oar.solvers import EFFORTS, DirectSearch, EffortLevel, ProjectedGradient, default_effort
from oar.solvers.registry import current_effort

RNG = np.random.default_rng(5)
CODES = np.arange(18) % 3
FEATURES = RNG.normal(size=(18, 2)) + RNG.normal(size=(3, 2))[CODES]
TIGHT = 1 + 1e-9  # what audits' refits may differ by
FEW = EffortLevel("few", most_restarts=1)  # normal but for the time that it takes


def problem(model, norm=2, budget=0.6):
    people = oar.Population(FEATURES, CODES)
    return oar.Problem(people, model, oar.Query(FEATURES[CODES == 0].mean(axis=0), 1), oar.Perturb(budget, norm=norm))


def test_the_table():
    quick, normal, thorough = EFFORTS.values()
    usual = {"max_steps": 100, "tolerance": 1e-6, "restarts": 8}
    assert normal.loop(usual) == usual
    assert quick.loop(usual) == {"max_steps": 50, "tolerance": pytest.approx(1e-5), "restarts": 0}
    assert thorough.loop(usual) == {"max_steps": 200, "tolerance": pytest.approx(1e-7), "restarts": 32}
    none = usual | {"restarts": 0}
    assert thorough.loop(none)["restarts"] == 4
    assert thorough.loop(none, random=False)["restarts"] == 0
    assert replace(normal, most_restarts=2).loop(usual)["restarts"] == 2


def test_explicit_settings_win_also_where_they_are_the_usual_ones():
    quick, thorough = EFFORTS["quick"], EFFORTS["thorough"]
    assert quick.settled(ProjectedGradient()).random_starts == 0
    assert thorough.settled(ProjectedGradient()).random_starts == 32
    assert thorough.settled(ProjectedGradient(random_starts=8)).random_starts == 8
    assert [effort.settled(DirectSearch()).refits for effort in (quick, EFFORTS["normal"], thorough)] == [20, 60, 240]
    assert quick.settled(DirectSearch(refits=60)).refits == 60
    assert repr(ProjectedGradient()) == (
        "ProjectedGradient(max_steps=None, tolerance=None, random_starts=8, restarts=None, time_limit=inf, seed=0)"
    )  # by which studies know their solver again


def test_effort_is_set_for_a_block_and_no_longer():
    with default_effort("quick"):
        assert current_effort() is EFFORTS["quick"]
        with default_effort(None):
            assert current_effort() is EFFORTS["quick"]
        assert current_effort().settled(DirectSearch()).refits == 20
    assert current_effort().name == "normal"
    with pytest.raises(
        oar.errors.OptionError, match="effort: must be one of 'quick', 'normal', 'thorough', got 'quik'"
    ):
        oar.collective(problem(oar.NearestCentroid()), effort="quik")
    assert current_effort().name == "normal"


def test_thorough_is_never_worse_than_normal_where_models_are_refitted():
    asked, steps, losses = problem(oar.SoftmaxRegression(l2=0.5), budget=0.3), {}, {}
    for effort in ("quick", "normal", "thorough"):
        found = oar.collective(asked, effort=effort)
        losses[effort], steps[effort] = found.loss, found.proposal.steps
        assert found.audit.violations == ()
    assert losses["thorough"] <= losses["normal"] * TIGHT
    assert steps["quick"] < steps["normal"] < steps["thorough"]


def test_thorough_is_never_worse_with_joint_moves_side_effects_and_several_classes():
    for verb, more in (
        (oar.joint, {}),
        (oar.collective, {"keep": oar.Keep(changed=0.1)}),
        (oar.collective, {"query": oar.Query(FEATURES[CODES == 0].mean(axis=0), {1, 2})}),
    ):
        asked = replace(problem(oar.SoftmaxRegression(l2=0.5), budget=0.2), **more)
        few = oar.solvers.ProjectedGradient(restarts=1)
        usual, thorough = (verb(asked, solver=few, effort=effort) for effort in ("normal", "thorough"))
        assert thorough.loss <= usual.loss * TIGHT
        assert thorough.audit.violations == ()


def test_thorough_is_never_worse_over_rounds_and_for_the_query_alone():
    stream = Stream.of_batches([(FEATURES[i::2], CODES[i::2]) for i in range(2)])
    asked = OnlineProblem(
        stream, oar.SoftmaxRegression(l2=0.5), FullRefit(), oar.Query([0.3, 0.5], 1), oar.Perturb(0.2)
    )
    usual, thorough = (oar.collective(asked, effort=effort) for effort in ("normal", "thorough"))
    assert thorough.loss <= usual.loss * TIGHT
    for model in (oar.NearestCentroid(), oar.models.GaussianNaiveBayes()):
        quick, usual, thorough = (oar.individual(problem(model), effort=effort) for effort in EFFORTS)
        assert thorough.loss <= usual.loss * TIGHT <= quick.loss * TIGHT**2


def test_exact_answers_are_the_same_with_any_effort():
    found = [oar.collective(problem(oar.NearestCentroid()), effort=effort) for effort in EFFORTS]
    assert {one.proposal.solver for one in found} == {"exact"}
    for one in found[1:]:
        np.testing.assert_array_equal(one.plan.moves(), found[0].plan.moves())


def test_a_black_box_is_trained_less_often():
    model = oar.BlackBox(DecisionTreeClassifier(max_depth=2, random_state=0))
    quick = oar.collective(problem(model), effort="quick", progress=False)
    told = oar.collective(problem(model), effort="quick", solver=DirectSearch(refits=25), progress=False)
    assert quick.proposal.calls.fits <= 20 < told.proposal.calls.fits <= 25


def test_a_level_of_ones_own():
    found = oar.collective(problem(oar.SoftmaxRegression(l2=0.05)), effort=FEW)
    assert found.loss <= found.audit.loss_before


@pytest.mark.parametrize(
    "wrong",
    [{"steps": np.nan}, {"starts": np.inf}, {"tolerance": -1.0}, {"refits": "many"}, {"fewest_restarts": 1.5},
     {"most_restarts": np.nan}, {"plans": -1}, {"repeats": "no"}],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_efforts_that_cannot_be_are_refused(wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        EffortLevel("mine", **wrong)
