"""Flips, soft labels and strikes for every model, alone and together with moves."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lever_problems import CLASSIFIERS, NETWORK, REGRESSORS, people_of, problem_of

import oar
from oar.models import Ridge, SoftmaxRegression
from oar.solvers import ProjectedGradient, propose_collective
from oar.solvers.discrete import levers

ALL = {"centroid": oar.NearestCentroid()} | CLASSIFIERS
FEW_STEPS = ProjectedGradient(30, 1e-4, restarts=0)


def kept(result, flips=0, leavers=0, soft=None):
    """Check everything that the audit checks, once more and by other means."""
    problem, plan = result.problem, result.plan
    assert result.audit.violations == ()
    before = problem.people.value_rows() if problem.regresses else problem.people.class_rows()
    changed = (plan.targets != before).any(axis=1)
    away = np.asarray(plan.leavers())
    assert away.sum() <= leavers
    if soft is None:
        assert changed.sum() <= flips
    else:
        assert (plan.targets >= -1e-12).all() or problem.regresses
        apart = np.abs(plan.targets - before).sum(axis=1) / (1 if problem.regresses else 2)
        assert (apart <= soft + 1e-9).all()
    assert result.loss <= result.loss_before + 1e-9
    assert result.proposal.claimed_loss == pytest.approx(result.loss, abs=1e-6)
    return result


@pytest.mark.parametrize("name", ALL)
def test_every_classifier_flips_and_strikes(name):
    flips = kept(oar.collective(problem_of(1, ALL[name], oar.Relabel(most=2), 2)), flips=2)
    strike = kept(oar.collective(problem_of(1, ALL[name], oar.Withhold(most=2), 2)), leavers=2)
    both = [oar.Relabel(most=2), oar.Withhold(most=2)]
    together = kept(oar.collective(problem_of(1, ALL[name], both, 2)), flips=2, leavers=2)
    assert flips.loss < flips.loss_before
    assert strike.loss < strike.loss_before
    assert together.loss <= min(flips.loss, strike.loss) + 1e-8
    assert not flips.exact
    assert f"; {flips.audit.relabelled} label" in repr(flips)
    assert f"; {strike.audit.leavers} member" in repr(strike)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_softens(name):
    result = kept(oar.collective(problem_of(1, CLASSIFIERS[name], oar.Relabel(soft=0.1), 3)), soft=0.1)
    assert result.loss < result.loss_before - 1e-3
    assert result.plan.labels().shape == (16, 3)


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_regressor_softens_and_strikes(name):
    soft = kept(oar.collective(problem_of(1, REGRESSORS[name], oar.Relabel(soft=0.3))), soft=0.3)
    strike = kept(oar.collective(problem_of(1, REGRESSORS[name], oar.Withhold(most=3))), leavers=3, flips=0)
    assert soft.loss < soft.loss_before
    assert strike.loss < strike.loss_before
    assert soft.plan.labels().shape == (16,)
    both = [oar.Perturb(0.1), oar.Relabel(soft=0.3), oar.Withhold(most=3)]
    together = kept(oar.collective(problem_of(1, REGRESSORS[name], both), solver=FEW_STEPS), soft=0.3, leavers=3)
    assert together.loss < min(soft.loss, strike.loss)


@pytest.mark.parametrize("name", ["frozen", "scaled", "scaled bayes", "bayes"])
def test_what_was_settled_before_stays_settled_when_people_leave(name):
    """Solver and audit agree on who was there when a frozen scaler, or a smoothing, was fitted; weights or none."""
    for weighted in (True, False):
        action = [oar.Perturb(0.1), oar.Withhold(most=3)]
        problem = problem_of(1, CLASSIFIERS[name], action, 2, weighted=weighted)
        result = kept(oar.collective(problem, solver=FEW_STEPS), leavers=3)
        assert result.audit.leavers > 0


def test_a_network_too():
    for action, limits in ((oar.Relabel(most=1), {"flips": 1}), (oar.Withhold(most=1), {"leavers": 1})):
        result = kept(oar.collective(problem_of(1, NETWORK, action, 2, size=10)), **limits)
        assert result.loss < result.loss_before


@pytest.mark.parametrize("name", ALL)
def test_nothing_allowed_is_nothing_changed(name):
    actions = [oar.Relabel(most=0), oar.Withhold(most=0), [oar.Relabel(share=0.0), oar.Withhold(share=0.01)]]
    actions += [] if name == "centroid" else [oar.Relabel(soft=0.0)]
    for action in actions:
        problem = problem_of(3, ALL[name], action, 2)
        result = oar.collective(problem)
        assert result.loss == result.loss_before
        assert (result.audit.relabelled, result.audit.leavers, result.audit.movers) == (0, 0, 0)
        np.testing.assert_array_equal(np.asarray(result.plan.targets), problem.people.class_rows())


@pytest.mark.parametrize("name", ["centroid", "softmax", "scaled", "frozen"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_together_is_never_worse_than_any_alone(name, seed):
    actions = [oar.Perturb(0.2), oar.Relabel(most=1), oar.Withhold(most=1)]
    options = {} if name == "centroid" else {"solver": FEW_STEPS}
    moves = oar.collective(problem_of(seed, ALL[name], actions[0], 2), **options)
    alone = [oar.collective(problem_of(seed, ALL[name], lever, 2)) for lever in actions[1:]]
    pairs = [oar.collective(problem_of(seed, ALL[name], [actions[0], lever], 2), **options) for lever in actions[1:]]
    for single, pair in zip(alone, pairs, strict=True):
        assert kept(pair, flips=1, leavers=1).loss <= min(moves.loss, single.loss) + 1e-8
    everything = kept(oar.collective(problem_of(seed, ALL[name], actions, 2), **options), flips=1, leavers=1)
    assert everything.loss <= min(moves.loss, *(single.loss for single in alone)) + 1e-8
    assert (np.linalg.norm(everything.plan.moves(), axis=1) <= 0.2 * (1 + 1e-9)).all()


def test_turns_go_on_from_the_last_ones():
    """Moves beside other labels and strikes take a few times the refits of these alone, not ten times."""
    both = [oar.Relabel(most=3), oar.Withhold(most=6)]
    refits = []
    for action in (both, [oar.Perturb(0.2), *both]):
        problem = problem_of(2, SoftmaxRegression(0.05), action, 2, size=100)
        refits.append(levers.solve(problem, lambda moves: propose_collective(moves, FEW_STEPS)).note.split()[0])
    alone, beside = (int(number.replace(",", "")) for number in refits)
    assert beside < 2 * alone


def test_moves_that_do_little_are_not_made_again_and_again():
    """Turns go from the levers alone: one search for moves beside nothing, and one beside them."""
    asked = []

    def propose(problem):
        asked.append(problem)
        return propose_collective(problem, FEW_STEPS)

    action = [oar.Perturb(1e-5), oar.Relabel(most=3)]
    proposal = levers.solve(problem_of(1, SoftmaxRegression(0.05), action, 2), propose)
    assert len(asked) == 2
    assert proposal.claimed_loss < oar.collective(asked[0], solver=FEW_STEPS).loss


def test_softer_labels_in_turns_stay_near_those_given():
    """Later turns start from labels that were softened already, and may not go further than the first."""
    action = [oar.Perturb(0.5), oar.Relabel(soft=0.2), oar.Withhold(most=2)]
    result = oar.collective(problem_of(5, SoftmaxRegression(0.05), action, 3), solver=FEW_STEPS)
    kept(result, soft=0.2, leavers=2)


def test_moves_alone_come_out_as_they_always_did():
    plain = oar.collective(problem_of(4, oar.NearestCentroid(), oar.Perturb(0.3), 2))
    beside = oar.collective(problem_of(4, oar.NearestCentroid(), [oar.Perturb(0.3), oar.Relabel(most=0)], 2))
    np.testing.assert_array_equal(plain.plan.moves(), beside.plan.moves())
    assert plain.loss == beside.loss


@given(
    seed=st.integers(0, 10_000), most=st.integers(0, 4), classes=st.integers(2, 3), share=st.sampled_from([0.3, 1.0])
)
@settings(max_examples=25)
def test_limits_are_kept_with_centroids(seed, most, classes, share):
    actions = [oar.Relabel(most=most, participants=share, seed=seed), oar.Withhold(most=most)]
    problem = problem_of(seed, oar.NearestCentroid(), actions, classes)
    result = kept(oar.collective(problem), flips=most, leavers=most)
    changed = np.asarray(result.plan.labels()) != problem.people.labels
    assert not changed[~problem.levers.relabel.mask].any()


@given(seed=st.integers(0, 10_000), soft=st.floats(0, 1), classes=st.integers(2, 3))
@settings(max_examples=10)
def test_limits_are_kept_by_soft_labels(seed, soft, classes):
    problem = problem_of(seed, SoftmaxRegression(0.05), [oar.Relabel(soft=soft), oar.Withhold(most=1)], classes, 12)
    kept(oar.collective(problem), soft=soft, leavers=1)


def test_only_labels_that_may_be_given():
    problem = problem_of(1, SoftmaxRegression(0.05), oar.Relabel(most=3, to=[2]), 3)
    result = kept(oar.collective(problem), flips=3)
    changed = result.plan.labels() != problem.people.labels
    assert set(result.plan.labels()[changed]) <= {2}


def test_people_with_soft_labels_are_flipped_to_hard_ones():
    features, codes, weights, query, goal = people_of(2, 3, 15)
    rows = 0.8 * np.eye(3)[codes] + 0.2 / 3
    people = oar.Population(features, rows, weights)
    problem = oar.Problem(people, SoftmaxRegression(0.05), oar.Query(query, goal), oar.Relabel(most=2))
    result = kept(oar.collective(problem), flips=2)
    changed = (result.plan.labels() != rows).any(axis=1)
    assert 0 < changed.sum() <= 2
    assert np.isin(result.plan.labels()[changed], (0, 1)).all()
    assert result.loss < result.loss_before


def test_frames_come_back_as_frames():
    """Soft labels in columns of any order, and everything that may be done at once."""
    features, codes, _, query, _ = people_of(2, 3, 15)
    frame = pd.DataFrame(features, columns=["u", "v"], index=np.arange(100, 115))
    shares = pd.DataFrame(0.8 * np.eye(3)[codes] + 0.2 / 3, columns=["c", "a", "b"], index=frame.index)
    people = oar.Population(frame, shares)
    actions = [oar.Perturb(0.1), oar.Relabel(soft=0.1), oar.Withhold(most=1)]
    problem = oar.Problem(people, SoftmaxRegression(0.05), oar.Query(query, "a"), actions)
    result = kept(oar.collective(problem, solver=FEW_STEPS), soft=0.1, leavers=1)
    labels, moves = result.plan.labels(), result.plan.moves()
    assert labels.index.equals(frame.index)
    assert moves.index.equals(frame.index)
    apart = (labels[shares.columns] - shares).abs().sum(axis=1) / 2
    assert (apart <= 0.1 + 1e-9).all()
    assert apart.max() > 0.05
    assert result.loss < result.loss_before


def test_values_of_several_dimensions():
    features, _, _, query, _ = people_of(2, 2, 15)
    values = features @ np.array([[1.0, 0.0], [2.0, 1.0]])
    asked = oar.Query(query, [3.0, 1.0], within=0.1)
    problem = oar.Problem(oar.Population(features, values), Ridge(0.1), asked, oar.Relabel(soft=0.2))
    result = oar.collective(problem)
    lengths = np.linalg.norm(result.plan.labels() - values, axis=1)
    assert (lengths <= 0.2 * (1 + 1e-9)).all()
    assert result.loss < result.loss_before
    assert not result.audit.violations


def test_there_is_no_card():
    result = oar.collective(problem_of(1, SoftmaxRegression(0.05), oar.Relabel(most=1), 2))
    with pytest.raises(oar.errors.DataError, match="plan: it chooses people one by one, .* Allow more of them"):
        result.plan.card()
    moves = oar.collective(problem_of(1, oar.NearestCentroid(), oar.Perturb(0.1), 2))
    with pytest.raises(oar.errors.DataError, match="card: must be for the plan's model"):
        result.plan.followed(moves.plan.card())


def test_people_who_cannot_be_fitted_are_refused_as_ever():
    """Perfectly separated people have no fit without a regulariser, whatever they may do."""
    people = oar.Population([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    problem = oar.Problem(people, SoftmaxRegression(0.0), oar.Query([1.4], 1), oar.Withhold(most=1))
    with pytest.raises(oar.errors.NumericsError, match="separates"):
        oar.collective(problem)


def test_the_same_problem_gives_the_same_plan():
    problem = problem_of(6, SoftmaxRegression(0.05), [oar.Relabel(most=2), oar.Withhold(most=1)], 3)
    once, again = oar.collective(problem).plan, oar.collective(problem).plan
    np.testing.assert_array_equal(once.labels(), again.labels())
    np.testing.assert_array_equal(once.leavers(), again.leavers())
