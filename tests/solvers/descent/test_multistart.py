"""Several starts on a retraining with a closed form: the best counts, and starts keep to the limits."""

from dataclasses import replace

import numpy as np
import pytest
from support.closed_forms import AverageTraining, limits_of, objective_of, settings_of, wave

import oar
from oar.models import SoftmaxRegression
from oar.solvers.descent.descent import DescentProblem, point_of
from oar.solvers.descent.multistart import History, Multistart, Start
from oar.solvers.descent.starts import Starts

QUERY = np.array([1.0, 0.5])


def search_of(norm=2, size=6, steps=500, radius=3.0, **more):
    training = AverageTraining(np.random.default_rng(3).normal(size=(size, 2)), loss=wave)
    limits = limits_of(norm, np.full(size, radius), training.weights)
    return Multistart(DescentProblem(objective_of(training, QUERY), limits, settings_of(steps=steps, **more)))


def least(search):
    """Return the least loss at any average within reach, on a fine grid."""
    training = search.problem.training
    middle = training.weights @ training.features
    axis = np.linspace(-3, 3, 301)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    grid = grid[search.problem.feasible.norm.length(grid) <= 3.0]
    return min(wave(middle + step, QUERY)[0] for step in grid)


def test_the_best_of_several_starts_comes_first_and_counts():
    search = search_of()
    stay = np.zeros((7, 2))
    for shift in (0.0, 2.0, -2.0):
        search.run(Start(stay + shift))
    losses = [reached.loss for reached in search.history.reached]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.1  # this loss has several minima
    assert search.best.loss == losses[0]
    assert search.steps == sum(reached.steps for reached in search.history.reached)


def test_the_better_half_goes_on_until_it_is_done():
    search = search_of(steps=400, tolerance=1e-14)
    ends = [search.problem.improved(np.full((7, 2), shift), 1) for shift in (0.0, 2.0, -2.0, 1.0)]
    search.history = History(tuple(sorted(ends, key=lambda end: end.loss)))
    assert all(reached.ended == "steps" for reached in search.history.reached)
    before = search.best.loss
    search.carry_on()
    assert len(search.history.reached) <= 2
    assert search.best.loss < before
    assert all(reached.ended != "steps" for reached in search.history.reached)


def test_a_maker_sees_what_was_reached_before_it_and_is_followed_only_where_it_led_to_the_best():
    search, seen = search_of(), []
    places = [np.full((7, 2), shift) for shift in (0.0, 2.0, -2.0)]
    best, _, worst = sorted(places, key=lambda moves: search.problem.improved(moves, 60).loss)
    search.run(Start(worst))

    def noted(name, starts=()):
        def maker(history):
            seen.append((name, history.best.loss, len(history.reached)))
            return starts

        return maker

    began = search.best.loss
    first = noted("first", [Start(worst, steps=7, followed=noted("never")), Start(best, followed=noted("follows"))])
    assert search.run_all([first, noted("last")])
    assert [name for name, _, _ in seen] == ["first", "follows", "last"]
    assert [count for _, _, count in seen] == [1, 3, 3]
    assert seen[0][1] == began > seen[1][1] == seen[2][1] == search.best.loss
    assert search.steps == 7 + sum(reached.steps for reached in search.history.reached)


def test_nothing_is_tried_once_no_loss_can_be_less():
    search = search_of()
    search.run(Start(np.zeros((7, 2))))
    enough = Multistart(search.problem, least=search.best.loss)
    enough.run(Start(np.zeros((7, 2))))
    stay = Start(np.zeros((7, 2)))
    assert not enough.run_all([lambda history: [stay, stay], lambda history: [stay]])
    assert len(enough.history.reached) == 2


def test_a_start_that_counts_only_where_it_is_better_is_judged_by_a_refit_first():
    search = search_of()
    search.run(Start(np.zeros((7, 2))))
    best = search.best
    assert search.run_all([lambda history: [Start(best.moves, only_better=True)]])
    assert search.history.reached == (best,)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_starts_keep_to_the_limits_are_seeded_and_find_the_best_minimum(norm):
    def ran(seed):
        search = search_of(norm)
        people = oar.Population(search.problem.training.features, np.arange(6) % 2)
        problem = oar.Problem(people, SoftmaxRegression(), oar.Query(QUERY, 1), oar.Perturb(3.0, norm=norm))
        stay = np.zeros((7, 2))
        began = search.problem.objective.outcome(stay, None, 1e-8)
        search.run(Start(stay, began=point_of(stay, began)))
        alone, starts = search.best.loss, []

        def noting(maker):
            def noted(history):
                for start in maker(history):
                    inside = search.problem.feasible.project(start.moves)
                    starts.append(inside)
                    yield replace(start, moves=inside)

            return noted

        settings = oar.solvers.ProjectedGradient(restarts=12, seed=seed)
        made = Starts(problem, settings, search.problem, began.fit)
        makers = (*made.in_order(search.best), *made.at_random(search.best))
        search.run_all(noting(maker) for maker in makers)
        return search, alone, starts

    search, alone, starts = ran(0)
    assert len(starts) > 5
    assert search.best.loss <= alone
    assert search.best.loss <= least(search) + 1e-3
    feasible = search.problem.feasible
    assert all((feasible.norm.length(moves) <= feasible.radii * (1 + 1e-12)).all() for moves in starts)
    again, other = ran(0)[2], ran(1)[2]
    assert all((one == same).all() for one, same in zip(starts, again, strict=True))
    assert any(one.shape != two.shape or (one != two).any() for one, two in zip(starts, other, strict=False))


def test_patience_ends_random_starts_that_lead_to_nothing():
    asked = []

    def maker(number, shift):
        def make(history):
            asked.append(number)
            return [Start(np.full((7, 2), shift))]

        return make

    search = search_of()
    search.run(Start(np.zeros((7, 2))))
    makers = [maker(0, 2.0), maker(1, -2.0), *(maker(number, 0.0) for number in range(2, 9))]
    best = [search.best.loss]
    assert search.run_all(makers, patience=2)
    assert asked[-1] < 8  # starts from the same place twice in a row gain nothing
    assert search.best.loss <= best[0]
    many, asked[:] = len(asked), []
    search.run_all(makers)
    assert len(asked) == 9 > many


def test_a_loss_that_is_the_least_there_can_be_ends_a_descent():
    settings = settings_of(steps=500, least=3.0)
    assert settings.stop(3.0, gap=1.0, steps=1) == "closed"
    assert settings.stop(3.1, gap=1.0, steps=1) == ""
