"""Several starts on a retraining with a closed form: the best counts, and starts keep to the limits."""

import numpy as np
import pytest
from support.closed_forms import AverageTraining, limits_of, objective_of, settings_of, wave

import oar
from oar.models import SoftmaxRegression
from oar.solvers.descent.multistart import Search, Start
from oar.solvers.descent.starts import other_starts

QUERY = np.array([1.0, 0.5])


def search_of(norm=2, size=6, steps=500, radius=3.0):
    training = AverageTraining(np.random.default_rng(3).normal(size=(size, 2)), loss=wave)
    limits = limits_of(norm, np.full(size, radius), training.weights)
    return Search(objective_of(training, QUERY), limits, settings_of(steps=steps))


def least(search):
    """Return the least loss at any average within reach, on a fine grid."""
    training = search.training
    middle = training.weights @ training.features
    axis = np.linspace(-3, 3, 301)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    grid = grid[search.feasible.norm.length(grid) <= 3.0]
    return min(wave(middle + step, QUERY)[0] for step in grid)


def test_the_best_of_several_starts_comes_first_and_counts():
    search = search_of()
    stay = np.zeros((7, 2))
    for shift in (0.0, 2.0, -2.0):
        search.run(Start(stay + shift))
    losses = [reached.loss for reached in search.reached]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.1  # this loss has several minima
    assert search.best.loss == losses[0]
    assert search.steps == sum(reached.steps for reached in search.reached)


def test_the_better_half_goes_on_until_it_is_done():
    search = search_of(steps=400)
    search.settings = settings_of(steps=400, tolerance=1e-14)
    ends = [search.improved(np.full((7, 2), shift), 1) for shift in (0.0, 2.0, -2.0, 1.0)]
    search.reached = sorted(ends, key=lambda reached: reached.loss)
    assert all(reached.ended == "steps" for reached in search.reached)
    before = search.best.loss
    search.carried_on()
    assert len(search.reached) <= 2
    assert search.best.loss < before
    assert all(reached.ended != "steps" for reached in search.reached)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_starts_keep_to_the_limits_are_seeded_and_find_the_best_minimum(norm):
    def ran(seed):
        search = search_of(norm)
        people = oar.Population(search.training.features, np.arange(6) % 2)
        problem = oar.Problem(people, SoftmaxRegression(), oar.Query(QUERY, 1), oar.Perturb(3.0, norm=norm))
        stay = np.zeros((7, 2))
        began = search.judged(stay, None, 1e-8)
        search.run(Start(stay), began)
        alone, starts = search.best.loss, []
        settings = oar.solvers.ProjectedGradient(restarts=12, seed=seed)
        for start in other_starts(problem, settings, search, began.fit):
            inside = search.feasible.project(start.moves)
            starts.append(inside)
            search.run(start._replace(moves=inside))
        return search, alone, starts

    search, alone, starts = ran(0)
    assert len(starts) > 5
    assert search.best.loss <= alone
    assert search.best.loss <= least(search) + 1e-3
    assert all((search.feasible.norm.length(moves) <= search.feasible.radii * (1 + 1e-12)).all() for moves in starts)
    again, other = ran(0)[2], ran(1)[2]
    assert all((one == same).all() for one, same in zip(starts, again, strict=True))
    assert any(one.shape != two.shape or (one != two).any() for one, two in zip(starts, other, strict=False))
