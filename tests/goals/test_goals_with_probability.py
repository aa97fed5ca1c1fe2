"""Where a probability is asked for, what is possible is judged by the probability, and not by who is predicted."""

import numpy as np
import pytest

import oar
from oar.errors import Status
from oar.models import BatchNorm, Dense, SoftmaxRegression, TestTimeBatchNorm
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Stream
from oar.solvers import FrankWolfe

TWO = ([[0.0], [4.0]], ["a", "b"])


def one_refit(place, probability, budget, norm=2, who=None):
    people = oar.Population(*TWO)
    asked = oar.Query([place], "a", probability=probability)
    return oar.Problem(people, oar.NearestCentroid(), asked, oar.Perturb(budget, norm=norm, participants=who))


def test_a_goal_that_is_probable_enough_without_being_predicted_is_not_impossible():
    result = oar.collective(one_refit(2.5, 0.4, 0.4))
    assert result.prediction == "b"
    assert result.status is Status.ACHIEVED
    assert not result.impossible


@pytest.mark.parametrize("probability", [0.2, 0.45, 0.7])
def test_what_is_said_to_suffice_for_a_probability_does_and_no_less(probability):
    said = oar.collective(one_refit(3.5, probability, 0.01)).proposal.suffices
    enough = float(said.split("above ")[1].rstrip("."))
    # By hand: both centroids move by ε, so that p = 1/(1 + exp(3.5 − ε − (0.5 + ε))).
    assert enough == pytest.approx((3.0 - np.log(1 / probability - 1)) / 2, rel=1e-5)
    assert oar.collective(one_refit(3.5, probability, 1.0001 * enough)).success
    below = oar.collective(one_refit(3.5, probability, 0.999 * enough))
    assert below.status is Status.IMPOSSIBLE


def test_how_probable_the_goal_can_become_at_the_most_is_said():
    result = oar.collective(one_refit(3.5, 0.9, 0.1, who=[True, False]))  # class "b" stays at a distance of 0.5
    most = 1 / (1 + np.exp(-0.5))
    assert result.status is Status.IMPOSSIBLE
    assert f"no more than {most:.6g} probable" in result.explanation
    assert "any budget above" in oar.collective(one_refit(3.5, most - 0.01, 0.1, who=[True, False])).explanation


def test_over_time_a_plan_that_succeeds_is_not_called_impossible():
    rounds = [TWO, ([[0.0], [3.0556]], ["a", "b"])]
    problem = OnlineProblem(
        Stream.of_batches(rounds, who=True), oar.NearestCentroid(), ExponentialMeans(0.9),
        oar.Query([2.075], "a", probability=0.45), oar.Perturb(0.5), goal_for="every", shared=True,
    )  # fmt: skip
    assert oar.audit(oar.online.OnlinePlan(problem, [[0.0], [0.0], [0.5], [0.5]])).success
    assert oar.collective(problem).status is not Status.IMPOSSIBLE


def test_over_time_what_suffices_is_of_the_probability():
    stream = Stream.of_batches([TWO, TWO])
    asked = oar.Query([3.5], "a", probability=0.45)
    problem = OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), asked, oar.Perturb(0.1))
    result = oar.collective(problem)
    assert result.status is Status.IMPOSSIBLE
    enough = (3.0 - np.log(1 / 0.45 - 1)) / 2
    assert f"any budget above {enough:.6g}" in result.explanation


def test_batches_that_make_it_probable_enough_are_found_possible():
    """The features themselves are normalised, and the third class leads at the query whatever the batch does."""
    model = TestTimeBatchNorm([BatchNorm([1.0]), Dense([[1.0], [-1.0], [0.0]], [0.0, 0.0, 2.0])])
    people = oar.Population([[-1.0], [0.0], [1.0]], [0, 1, 2])
    asked = oar.Query([0.2], 0, probability=0.15)
    problem = oar.Problem(people, model, asked, oar.Perturb(0.2))
    one_step = oar.collective(problem, solver=FrankWolfe(max_steps=1))
    assert not one_step.impossible
    assert oar.collective(problem).status is Status.ACHIEVED
    never = oar.Problem(people, model, oar.Query([0.2], 0, probability=0.9), oar.Perturb(0.2))
    assert oar.collective(never).status is Status.IMPOSSIBLE


def test_an_individual_and_the_best_few_are_judged_by_the_probability_too():
    rng = np.random.default_rng(0)
    features = np.repeat([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], 6, axis=0) + rng.normal(size=(18, 2))
    people = oar.Population(features, np.repeat([0, 1, 2], 6))
    asked = oar.Query([3.0, 1.0], 2, probability=0.08)
    for model, action in (
        (SoftmaxRegression(0.1), oar.Perturb(0.6)),
        (oar.NearestCentroid(), oar.Perturb(0.4)),
    ):
        alone = oar.individual(oar.Problem(people, model, asked, action))
        assert alone.success
        assert alone.prediction != 2
        assert not alone.impossible
    few = oar.collective(oar.Problem(people, oar.NearestCentroid(), asked, oar.Perturb(1.5, participants=oar.Best(9))))
    assert few.success
    assert few.prediction != 2
    assert not few.impossible
