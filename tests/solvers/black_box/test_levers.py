"""Labels and strikes for black boxes: within quotas, masks and trainings, and the best where all can be tried."""

import itertools

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeRegressor
from support.black_boxes import CountedTree, crowd, problem

import oar
from oar.errors import OptionError
from oar.retraining.black_box import BlackBoxTraining
from oar.retraining.contribution import Contribution
from oar.solvers import DirectSearch, Surrogate
from oar.solvers.black_box.levers import _best
from oar.solvers.discrete.ground import LEAVE, OpenChanges

QUICK = Surrogate(models=[oar.SoftmaxRegression(0.05)])


def best_single(asked, relabel):
    """Return the least loss of any single flip, or of any single leaver, by trying all of them."""
    asking, rows = BlackBoxTraining(asked), asked.people.class_rows()
    size = asked.people.size
    losses = [asking.said(asking.seeded(Contribution(), 0)).loss]
    for person in range(size):
        changed, weights = rows.copy(), np.ones(size)
        if relabel:
            changed[person] = 1 - changed[person]
        else:
            weights[person] = 0.0
        losses.append(asking.said(asking.seeded(Contribution(None, changed, weights), 0)).loss)
    return min(losses)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("relabel", [True, False])
def test_one_change_is_the_best_of_all(seed, relabel):
    people = crowd(14, seed=seed, noise=0.8)
    action = oar.Relabel(most=1) if relabel else oar.Withhold(most=1)
    box = oar.BlackBox(KNeighborsClassifier(5, weights="distance"))
    asked = problem(box, action, people, (-0.2, -0.1))
    result = oar.collective(asked, solver=DirectSearch(refits=70, start=QUICK))
    assert result.loss == pytest.approx(best_single(asked, relabel), abs=1e-12)


def test_two_flips_are_close_to_the_best_pair():
    people = crowd(12, seed=1, noise=0.8)
    asked = problem(
        oar.BlackBox(KNeighborsClassifier(5, weights="distance")), oar.Relabel(most=2), people, (-0.2, -0.1)
    )
    asking, rows = BlackBoxTraining(asked), people.class_rows()
    losses = []
    for pair in itertools.combinations(range(12), 2):
        changed = rows.copy()
        changed[list(pair)] = 1 - changed[list(pair)]
        if (changed.sum(axis=0) > 0).all():
            losses.append(asking.said(asking.seeded(Contribution(targets=changed), 0)).loss)
    before = asking.said(asking.seeded(Contribution(), 0)).loss
    result = oar.collective(asked, solver=DirectSearch(refits=80, start=QUICK))
    assert before - result.loss >= 0.9 * (before - min(losses))


@pytest.mark.parametrize("refits", [1, 3, 8, 20])
@pytest.mark.parametrize("action", [oar.Relabel(most=5), oar.Withhold(most=4), [oar.Relabel(most=3), oar.Perturb(0.3)]])
def test_no_more_trainings_than_allowed(refits, action):
    log = []
    asked = problem(oar.BlackBox(CountedTree(log), randomised=False), action)
    found = oar.solvers.propose_collective(asked, DirectSearch(refits=refits, start=QUICK))
    assert len(log) <= refits
    assert found.calls.fits == len(log)
    assert isinstance(found.plan, oar.plans.LeverPlan)


def test_quotas_and_masks_are_kept():
    flippers, strikers = np.arange(80) % 2 == 0, np.arange(80) % 3 == 0
    action = [oar.Relabel(most=4, participants=flippers), oar.Withhold(most=3, participants=strikers)]
    asked = problem(oar.BlackBox(KNeighborsClassifier(7)), action)
    result = oar.collective(asked, solver=DirectSearch(refits=40, start=QUICK))
    assert not result.audit.violations
    assert result.audit.relabelled + result.audit.leavers > 0
    assert result.audit.relabelled <= 4
    assert result.audit.leavers <= 3
    changed = (result.plan.targets != asked.people.class_rows()).any(axis=1)
    assert not changed[~flippers].any()
    assert not np.asarray(result.plan.away)[~strikers].any()
    assert result.loss < result.loss_before


def test_levers_with_moves_are_no_worse_than_staying_and_keep_all_limits():
    action = [oar.Relabel(most=3), oar.Withhold(most=2), oar.Perturb(0.4)]
    asked = problem(oar.BlackBox(KNeighborsClassifier(7)), action)
    result = oar.collective(asked, solver=DirectSearch(refits=40, start=QUICK))
    assert not result.audit.violations
    assert result.loss < result.loss_before
    assert result.proposal.claimed_loss == pytest.approx(result.loss, abs=1e-12)
    away = np.asarray(result.plan.away)
    assert not np.asarray(result.plan.moves())[away].any()


def test_random_training_is_compared_over_several_seeds():
    asked = problem(oar.BlackBox(RandomForestClassifier(5), refits=4), oar.Relabel(most=6))
    result = oar.collective(asked, solver=DirectSearch(refits=40, start=QUICK))
    assert result.audit.rate is not None
    assert result.proposal.estimated
    assert result.proposal.calls.fits <= 40


def test_strikes_change_values_too():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2))
    people = oar.Population(features, features @ [1.0, 1.0] + 0.5 * rng.normal(size=40))
    box = oar.BlackBox(DecisionTreeRegressor(max_depth=3, random_state=0), randomised=False)
    asked = oar.Problem(people, box, oar.Query([0.1, 0.1], goal=1.5, within=0.1), oar.Withhold(most=5))
    result = oar.collective(asked, solver=DirectSearch(refits=60))
    assert not result.audit.violations
    assert result.loss < result.loss_before
    assert 0 < result.audit.leavers <= 5


def test_a_failure_keeps_the_best_so_far():
    log = []
    asked = problem(oar.BlackBox(CountedTree(log, breaks_at=12), randomised=False), oar.Relabel(most=5))
    found = oar.solvers.propose_collective(asked, DirectSearch(refits=60, start=QUICK))
    assert len(log) == 12
    assert "on fire" in found.ended
    assert np.isfinite(found.claimed_loss)


def test_what_does_not_go_is_refused():
    box = oar.BlackBox(KNeighborsClassifier(5))
    with pytest.raises(OptionError, match="soft: a black box is trained on one label"):
        oar.collective(problem(box, oar.Relabel(soft=0.1)), solver=DirectSearch(refits=5, start="nothing"))
    with pytest.raises(OptionError, match="leave others alone"):
        oar.collective(problem(box, oar.Relabel(most=2), keep=oar.Keep(changed=0.1)))


@pytest.mark.parametrize("relabel", [oar.Relabel(most=3), oar.Relabel(share=0.2), oar.Relabel(soft=0.5)])
def test_values_of_a_black_box_are_not_changed_and_no_advice_leads_in_circles(relabel):
    people = oar.Population(np.arange(20.0)[:, None], np.arange(20.0))
    with pytest.raises(OptionError, match="values of a black box's people are not changed.*use Perturb or Withhold"):
        oar.collective(
            oar.Problem(people, oar.BlackBox(DecisionTreeRegressor()), oar.Query([3.0], goal=4.0, within=1.0), relabel)
        )


def test_more_trainings_go_on_exchanging_many_changes_and_never_do_worse():
    people = crowd(120, seed=3, noise=0.8)
    losses, fits = [], []
    for refits in (12, 24, 60):
        box = oar.BlackBox(GradientBoostingClassifier(n_estimators=10, random_state=0))
        asked = problem(box, oar.Relabel(most=20), people, (-0.9, -0.7))
        result = oar.collective(asked, solver=DirectSearch(refits=refits, start=QUICK))
        losses.append(result.loss)
        fits.append(result.calls.fits)
        assert np.count_nonzero((result.plan.targets != people.class_rows()).any(axis=1)) <= 20
    assert losses[2] <= losses[1] <= losses[0]
    assert losses[2] < losses[0], "what is left of the trainings was of no use"
    assert fits[1] > 12, "24 trainings were allowed, and hardly more than 12 were used"


@pytest.mark.parametrize("most", [3, 8, 11])
def test_first_sets_of_leavers_leave_somebody_of_each_class(most):
    people = crowd(12, seed=0)
    asked = problem(oar.BlackBox(KNeighborsClassifier(3)), oar.Withhold(most), people, (0.0, 0.0))
    open_ = OpenChanges(asked.levers, Contribution.of(people, False), False)
    ranked = np.where(open_.start.targets[:, [0]] > 0, 0.0, 1.0) + np.zeros((12, 3))  # the first class ranks first
    found = _best(ranked, open_, most)
    assert set(found.values()) == {LEAVE}
    left = open_.start.targets[[person for person in range(12) if person not in found]]
    assert (left.sum(axis=0) > 0).all()
    assert len(found) == min(most, 10)
    assert open_.fills(found)
    assert not open_.fills({person: LEAVE for person in np.flatnonzero(open_.start.targets[:, 0])})
