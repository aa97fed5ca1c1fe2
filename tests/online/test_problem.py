"""Problems over time: who may do what in which round, and what is refused."""

import numpy as np
import pytest
from support.online_problems import RULES, batch, problem, some_moves, stream, valued

import oar
from oar import online
from oar.online import Stream


def test_history_takes_no_part_and_everybody_else_does():
    asked = problem(online.FullRefit())
    assert asked.radii.tolist() == [0.5] * 27 + [0.0] * 9
    assert problem(online.FullRefit(), given=stream(history=False)).everyone.everyone_acts


def test_a_list_of_actions_is_one_for_each_round_by_its_own_batch():
    first = np.arange(9) < 2
    actions = [oar.Perturb(1.0, participants=first), oar.Perturb(np.arange(9.0)), oar.Perturb(2.0, participants=0.5)]
    radii = problem(online.FullRefit(), action=actions).radii
    assert radii[:9].tolist() == [1, 1] + [0] * 7
    assert radii[9:18].tolist() == list(range(9))
    assert sorted(set(radii[18:27])) == [0, 2]
    assert (radii[18:27] > 0).sum() == 4
    assert not radii[27:].any()


def test_a_share_is_drawn_among_persons_and_stays_drawn():
    action = oar.Perturb(1.0, participants=1 / 3, seed=4)
    radii = problem(online.FullRefit(), given=stream(who=True), action=action).radii[:27].reshape(3, 9)
    assert (radii.sum(axis=1) == 3).all()
    assert (radii == radii[0]).all()
    rows = problem(online.FullRefit(), action=action).radii
    assert (rows > 0).sum() == 9
    assert not rows[27:].any()
    again = problem(online.FullRefit(), action=action)
    assert np.array_equal(again.everyone.with_action(budget=2.0).allowance.mask, rows > 0)


def test_what_counts_is_the_last_round_or_every_round():
    assert problem(online.FullRefit()).weights.tolist() == [0, 0, 1]
    assert problem(online.FullRefit(), goal_for="every").weights.tolist() == pytest.approx([1 / 3] * 3)


def test_shared_budgets_need_persons_whose_budgets_agree():
    with pytest.raises(oar.errors.OptionError, match="shared: needs to know who is the same person"):
        problem(online.FullRefit(), shared=True)
    who = stream(who=True)
    assert problem(online.FullRefit(), given=who, shared=True).shared
    apart = [oar.Perturb(1.0), oar.Perturb(2.0), oar.Perturb(1.0)]
    with pytest.raises(
        oar.errors.DataError, match="budget: must be the same in all rounds of a person .* 1 and 2 for person 0"
    ):
        problem(online.FullRefit(), given=who, shared=True, action=apart)
    resting = [oar.Perturb(1.0), oar.Perturb(0.0), oar.Perturb(1.0)]  # who may not act in a round has no say about it
    assert problem(online.FullRefit(), given=who, shared=True, action=resting).shared


def test_totals_beside_budgets_for_rounds():
    who = stream(who=True)
    given = problem(online.FullRefit(), given=who, shared=1.5, action=[*2 * [oar.Perturb(1.0)], oar.Perturb(0.0)])
    assert np.array_equal(given.totals, np.where(given.radii > 0, 1.5, 0.0))
    assert np.isinf(problem(online.FullRefit(), given=who).totals[who.when >= 0]).all()
    totals = np.ones(who.people.size)
    totals[0] = 2.0
    with pytest.raises(
        oar.errors.DataError, match="shared: must be the same in all rounds of a person .* 1 and 2 for person"
    ):
        problem(online.FullRefit(), given=who, shared=totals)
    with pytest.raises(oar.errors.OptionError, match="shared: needs to know who is the same person"):
        problem(online.FullRefit(), shared=1.5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rule": online.Window(10)}, "reads the newest 10 batches, but the stream has only 4, history included"),
        ({"rule": online.FullRefit}, "rule: must be a rule, got the class FullRefit"),
        ({"rule": 3}, "rule: must be one of oar.online's .* has no name"),
        ({"goal_for": "any"}, "goal_for: must be one of 'last', 'every'"),
        ({"shared": "yes"}, "shared: must be True or False"),
        ({"shared": -1.0}, "shared: must be .* a number ≥ 0, .* got -1.0"),
        ({"shared": np.inf}, "shared: must be"),
        ({"shared": [1.0, 2.0]}, r"shared: must be .* got shape \(2,\)"),
        ({"given": [1]}, "stream: must be an oar.online.Stream"),
        ({"action": oar.Relabel(most=1)}, r"action: must be an oar.Perturb\(…\) over time"),
        ({"action": oar.Perturb(1.0, participants=oar.Best(2))}, "action: oar.Best is not chosen over time"),
        ({"action": [oar.Perturb(1.0)]}, "action: must be one, or one for each of 3 rounds, got 1"),
        (
            {"action": [oar.Perturb(1.0), oar.Perturb(1.0, norm=1), oar.Perturb(1.0)]},
            r"action\[1\]: must have the norm",
        ),
        ({"action": [oar.Perturb([1.0]), *[oar.Perturb(1.0)] * 2]}, r"action\[0\]: in round 0, budget: "),
        ({"rule": online.FullRefit(warm=True)}, "warm: does nothing for nearest-centroid"),
        ({"query": oar.Query([0.0, 0.0], 9)}, "goal"),
        (
            {"model": oar.models.Scaled(oar.SoftmaxRegression()), "rule": RULES["steps"]},
            "model: gradient steps carries",
        ),
        ({"rule": RULES["steps"], "given": stream(history=False)}, "start: gradient steps begins at what was deployed"),
        ({"rule": RULES["tune"], "given": stream(history=False)}, "start: fine-tuning begins at what was deployed"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, words):
    with pytest.raises(oar.errors.OARError, match=words):
        problem(**({"rule": online.FullRefit()} | changes))


def lacking(number: int, code: int) -> Stream:
    """Return the stream whose batch `number` (−1 for history) has nobody of a class."""
    whole = stream()
    rows = np.flatnonzero((whole.when != number) | (whole.people.labels != code))
    return Stream(whole.people.some(rows), whole.when[rows])


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression()])
def test_a_batch_without_a_class_is_named_by_rules_that_refit_it(model):
    with pytest.raises(
        oar.errors.DataError, match="window refit refits in round 1, for which it reads nobody of class 2"
    ):
        problem(online.Window(1), model, lacking(1, 2))
    problem(online.Window(2), model, lacking(1, 2))
    problem(online.FullRefit(), model, lacking(-1, 2))
    problem(RULES["steps"], model, lacking(1, 2))
    with pytest.raises(oar.errors.DataError, match="refits in the history, for which it reads nobody of class 2"):
        problem(RULES["means"], model, lacking(-1, 2))


def test_exponential_means_of_centroids_do_without_a_class_and_those_of_fits_do_not():
    with pytest.raises(oar.errors.DataError, match="refits in round 1, .* class 2"):
        problem(RULES["means"], oar.SoftmaxRegression(), lacking(1, 2))
    walk = online.Rollout(problem(RULES["means"], given=lacking(1, 2)))
    found = walk.forward().parameters.reshape(3, 3, 2)
    assert np.array_equal(found[1, 2], found[0, 2])
    assert not np.allclose(found[1, 1], found[0, 1])


def test_a_batch_that_weighs_nothing_is_refused():
    whole = stream(history=False)
    people = oar.Population(whole.people.features, whole.people.labels, np.where(whole.when == 1, 0.0, 1.0))
    with pytest.raises(
        oar.errors.DataError, match="weights: somebody whom the rule reads in round 1 must weigh something"
    ):
        problem(online.Window(1), valued_model(), valued(Stream(people, whole.when)))


def valued_model() -> oar.models.Ridge:
    return oar.models.Ridge(0.1)


class Broken:
    """Returns what it should not."""

    name, reads = "broken", 1

    def __init__(self, after):
        self.after = after

    def update(self, update):
        return self.after(update)

    def pull_back(self, update, after, adjoint):
        raise NotImplementedError


def test_nan_parameters_and_wrong_shapes_name_the_rule_and_the_round():
    def later(update):
        return update.before * (np.nan if update.number == 2 else 1.0)

    with pytest.raises(
        oar.errors.NumericsError, match="broken must return finite parameters, got 6 of 6 .* in round 2"
    ):
        online.Rollout(problem(Broken(later))).forward()
    with pytest.raises(
        oar.errors.DataError, match=r"broken must return 6 parameters, shape \(6,\), got shape \(3,\) in round 0"
    ):
        online.Rollout(problem(Broken(lambda update: update.before[:3]))).forward()


def test_moves_must_fit_and_history_does_not_move():
    walk = online.Rollout(problem(online.FullRefit()))
    with pytest.raises(oar.errors.DataError, match=r"moves: must be finite and one row .*\(36, 2\), got \(3, 2\)"):
        walk.forward(np.zeros((3, 2)))
    moves = some_moves(walk.problem.stream)
    moves[-1] = 1.0
    with pytest.raises(oar.errors.DataError, match="they never act"):
        walk.forward(moves)


def test_a_start_is_taken_in_any_form_and_checked():
    centroids = oar.NearestCentroid().fit(batch(99))
    first = online.Rollout(problem(RULES["steps"])).first
    for given in (centroids, centroids.positions, centroids.positions.ravel()):
        walk = online.Rollout(problem(RULES["steps"], given=stream(history=False), start=given))
        assert np.allclose(walk.first, first, atol=1e-14)
    with pytest.raises(oar.errors.DataError, match="start: must be the model's 6 parameters"):
        problem(RULES["steps"], start=[1.0])
    transposed = centroids.positions.T
    with pytest.raises(
        oar.errors.DataError, match=r"start: must have the model's own shape \(3, 2\).*got shape \(2, 3\)"
    ):
        problem(RULES["steps"], start=transposed)
    with pytest.raises(oar.errors.DataError, match="start: must have the model's own shape"):
        problem(RULES["steps"], oar.SoftmaxRegression(0.1), start=np.zeros((9, 1)))


def test_a_network_that_nothing_retrains_is_refused():
    fixed = oar.models.TestTimeBatchNorm([oar.models.BatchNorm([1.0, 1.0]), oar.models.Dense(np.eye(3, 2))])
    with pytest.raises(
        oar.errors.OptionError, match="model: must be one that rounds of data retrain, got test-time-batch-"
    ):
        problem(online.FullRefit(), fixed)
    with pytest.raises(oar.errors.OptionError, match="model: must be one that rounds of data retrain"):
        oar.worlds.Operator(fixed)
