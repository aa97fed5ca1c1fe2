"""Proofs are the referee's: what solvers claim or hint at proves nothing, and what is proved holds for every audit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import oar
from oar import models
from oar.actions.sets.norms import Norm
from oar.plans.proof import Hints, Proof
from oar.referee import judged, together
from oar.referee.individual.duels import UnmovedRefit
from oar.referee.proofs import balls, batch_norms
from oar.referee.proofs.own_moves import beyond_half_spaces
from oar.solvers import propose_collective, propose_individual

NORMS = (1.0, 2.0, np.inf)


def lines(budget=0.5, norm=2.0, model=None, **query):
    """Two classes on a line, and somebody at 0.4 who would like to be a "yes"."""
    people = oar.Population([[-1.0, 0.0], [-1.0, 0.2], [3.0, 0.0], [3.0, -0.2]], ["no", "no", "yes", "yes"])
    asked = oar.Query([0.4, 0.0], goal="yes", **query)
    return oar.Problem(people, model or oar.NearestCentroid(), asked, oar.Perturb(budget, norm=norm))


# -- nobody is believed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0.1, 2.0])
def test_a_solver_that_claims_everything_proves_nothing(budget):
    problem = lines(budget)
    honest = oar.collective(problem)
    lying = replace(propose_collective(problem), exact=True)
    told = judged(lying, problem, "members")
    assert (told.status, told.bound, told.exact) == (honest.status, honest.bound, honest.exact)
    unasked = judged(lying)  # nobody says who may move, so nothing is known of all that could have been done
    assert unasked.status is not oar.results.Status.IMPOSSIBLE
    assert not unasked.exact
    assert unasked.bound == 0.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), norm=st.sampled_from(NORMS))
def test_no_hint_makes_what_is_possible_impossible(seed, norm):
    rng = np.random.default_rng(seed)
    problem = lines(float(rng.choice([0.61, 0.7, 3.0])), norm)  # 0.6 is the way to the middle
    seen = UnmovedRefit(problem.model, balls_evidence(problem)[:2], None)
    for size in (1e-3, 1.0, 1e3):
        hints = Hints(multipliers=size * rng.random(1))
        assert not beyond_half_spaces(problem, seen, hints).impossible
    assert not beyond_half_spaces(problem, seen, Hints(multipliers=np.array([-1.0]))).impossible
    assert not beyond_half_spaces(problem, seen, Hints(multipliers=np.array([np.nan]))).impossible


def balls_evidence(problem):
    return oar.collective(problem).evidence


def test_hints_of_the_solver_prove_what_is_impossible_and_no_more():
    for norm in NORMS:
        assert oar.individual(lines(0.5, norm)).status is oar.results.Status.IMPOSSIBLE
        without = replace(propose_individual(lines(0.5, norm)), hints=Hints())
        assert "half-spaces" not in judged(without, lines(0.5, norm), "query").proof.by


# -- what the audit lets pass ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_a_budget_that_the_audits_slack_makes_enough_is_not_called_impossible(norm):
    enough = oar.minimal_budget(lines(norm=norm)).value
    problem = lines(enough * (1 - 2e-10), norm)
    result = oar.collective(problem)
    longer = np.asarray(result.plan.moves()) * (1 + 8e-10)
    told = oar.audit(problem, longer)
    assert told.success
    assert not told.violations
    assert result.status is not oar.results.Status.IMPOSSIBLE
    assert result.bound <= told.loss
    assert oar.collective(lines(enough * (1 - 1e-8), norm)).status is oar.results.Status.IMPOSSIBLE


def test_least_budgets_and_numbers_are_what_the_referee_proves():
    problem = lines(1.0)
    answer = oar.minimal_budget(problem)
    assert answer.exact
    assert answer.value * (1 - 1e-6) <= answer.at_least < answer.value
    assert oar.collective(problem.with_action(budget=answer.at_least)).status is oar.results.Status.IMPOSSIBLE


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_fewest_members_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(7, 2))
    people = oar.Population(features, np.array(["a", "b", "a", "b", "c", "a", "b"]), rng.uniform(0.2, 2, 7))
    action = oar.Perturb(0.8, norm=float(rng.choice(NORMS)))
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(rng.normal(size=2), goal="a"), action)
    fewest = balls.fewest_members(problem, balls_evidence(problem))
    by_hand = np.inf
    for number in range(8):
        choices = itertools.combinations(range(7), number)
        masks = (np.isin(np.arange(7), some) for some in choices)
        if any(oar.collective(problem.with_action(participants=mask, seed=None)).success for mask in masks):
            by_hand = number
            break
    assert fewest == by_hand


# -- single theorems -------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), norm=st.sampled_from(NORMS))
def test_nearest_and_farthest_points_of_balls(seed, norm):
    rng = np.random.default_rng(seed)
    offset, radius = np.abs(rng.normal(size=4)) * 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-7, 7)
    ball = Norm.of(norm)
    near = max(balls._near(offset, np.array([radius]), ball)[0], 0.0)
    far = balls._far(offset, np.array(radius), ball)
    assert near <= ball.nearest_distance(offset, radius) * (1 + 1e-12) + 1e-13 * offset.max()
    assert near >= ball.nearest_distance(offset, radius) - 1e-9 * (offset.max() + radius)
    points = ball.maximise(rng.normal(size=(200, 4)), np.full(200, radius))
    distances = np.linalg.norm(offset + points, axis=1)
    assert distances.min() >= near - 1e-12 * (offset.max() + radius)
    assert distances.max() <= far * (1 + 1e-12)
    assert far == pytest.approx(ball.farthest_distance(offset, radius), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), equal=st.booleans())
def test_units_of_a_batch_norm_cannot_be_pushed_farther(seed, equal):
    rng = np.random.default_rng(seed)
    size, m = int(rng.integers(1, 4)), float(rng.choice([1.0, 0.5, 0.1]))
    centres, widths = rng.normal(size=size) * 2, np.full(size, rng.uniform(0.1, 2))
    shares = np.ones(size + 1)
    if not equal:
        widths, shares = rng.uniform(0, 2, size), rng.uniform(0.2, 2, size + 1)
    shares[-1] *= rng.integers(2)
    shares /= shares.sum()
    place, mean, kept = float(rng.normal() * 3), float(rng.normal()) * (1 - m), float(rng.choice([1e-3, 0.1]))
    unit = batch_norms.UnitBounds(
        np.append(centres - widths, place), np.append(centres + widths, place), shares, place - mean, m, kept
    )
    grids = [np.linspace(low, high, 9) for low, high in zip(unit.low, unit.high, strict=True)][:-1]
    places = np.array([[*some, place] for some in itertools.product(*grids)])
    means = places @ shares
    variances = ((places - means[:, None]) ** 2) @ shares
    found = (place - mean - m * means) / np.sqrt(kept + m * variances)
    assert found.max() <= unit.most()
    if equal:  # the grid has everybody's ends, and is fine enough to see the top from there
        assert unit.most() <= found.max() + 0.5 * (1 + abs(found.max()))


def test_neighbourhoods_need_their_multipliers():
    rng = np.random.default_rng(4)
    people = oar.Population(rng.normal(size=(8, 2)), ["no"] * 5 + ["yes"] * 3)
    box = oar.BlackBox(KNeighborsClassifier(3))
    asked = oar.Query(people.features[0], goal="yes", budget=0.05)
    problem = oar.Problem(people, box, asked, oar.Perturb(0.05))
    result = oar.individual(problem)
    assert result.status is oar.results.Status.IMPOSSIBLE
    spoilt = {some: -each for some, each in (result.proposal.hints.excluded or {}).items()}
    told = judged(replace(result.proposal, hints=Hints(excluded=spoilt)), problem, "query")
    assert told.bound <= result.bound


def test_the_tangent_bounds_every_loss_of_a_convex_model():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], [14, 13, 13])
    people = oar.Population(rng.normal(size=(40, 3)) + np.eye(3)[labels], labels)
    for model in (models.SoftmaxRegression(), models.LinearSVM(), models.Scaled(models.SoftmaxRegression())):
        problem = oar.Problem(people, model, oar.Query([0.0, 0.0, 0.0], goal=2), oar.Perturb(0.5))
        result = oar.individual(problem)
        assert result.exact
        nobody = np.zeros((40, 3))
        for _ in range(10):
            way = rng.normal(size=3)
            told = oar.audit(problem, nobody, query_move=0.5 * way / np.linalg.norm(way))
            assert told.loss >= result.bound


def test_proofs_are_put_together():
    one, other = Proof(1.0, False, "a"), Proof(0.5, True, "b")
    assert together(one, other) == Proof(1.0, True, "a and b")
    assert together(Proof(), one).by == "a"


@pytest.mark.parametrize("seed", range(4))
def test_rounding_of_large_features_refutes_nothing_about_batch_norm(seed):
    """Units of features far from 0 are rounded at that size, though people differ little; asked is what is excluded."""
    rng, offset = np.random.default_rng(seed), 1e9
    features, weights, point = (
        rng.normal(size=(6, 2)) + offset,
        rng.normal(size=(1, 2)),
        rng.normal(size=2) * 2 + offset,
    )
    head, people = rng.normal(size=(2, 1)), oar.Population(features, ["no", "yes"] * 3)
    norm = models.BatchNorm([1.0], mean=weights @ np.full(2, offset), variance=[1.0])

    def asked(bias):
        layers = [models.Dense(weights), norm, models.Dense(head, [0.0, bias])]
        model = models.TestTimeBatchNorm(layers, classes=["no", "yes"], momentum=0.1, query_in_batch=False)
        return oar.Problem(people, model, oar.Query(point, "yes"), oar.Perturb(0.5))

    lead = -np.log(np.expm1(oar.collective(asked(0.0)).proof.bound))
    problem = asked(-lead - 3e-12 * (1 + abs(lead)))
    result = oar.collective(problem)
    assert result.status is oar.results.Status.IMPOSSIBLE
    moves = np.asarray(result.plan.moves())
    best = oar.audit(problem, moves)
    for _ in range(150):
        tried = moves + rng.normal(size=moves.shape) * 10.0 ** rng.uniform(-9, -1)
        tried *= np.minimum(1.0, 0.5 * (1 + 9e-10) / np.linalg.norm(tried, axis=1))[:, None]
        told = oar.audit(problem, tried)
        if told.margin > best.margin:
            moves, best = tried, told
    assert not best.violations
    assert not best.success
    assert best.loss >= result.bound


def test_a_tree_without_splits_behind_a_scaler_has_one_leaf():
    tree = make_pipeline(StandardScaler(), DecisionTreeClassifier(min_samples_leaf=15, random_state=0))
    people = oar.Population(np.random.default_rng(0).normal(size=(20, 2)), ["a"] * 15 + ["b"] * 5)
    result = oar.individual(oar.Problem(people, oar.BlackBox(tree), oar.Query([1.0, 1.0], goal="b"), oar.Perturb(1.0)))
    assert result.status is oar.results.Status.IMPOSSIBLE


@pytest.mark.parametrize(("seed", "large"), [(20, 1e8), (25, 3e6), (28, 3e6)])
def test_no_change_below_the_bound_is_accepted_beside_a_large_column_that_stays(seed, large):
    # A tie is some thousand times as wide as the rounding of distances, which must not be counted as part of it.
    rng = np.random.default_rng(seed)
    labels = np.arange(100) % 2
    for size in (24e3, 489e3, 3e6, 1e8):
        amounts = np.round(rng.lognormal(np.log(size), 0.5, 100))
        values = rng.normal(size=100) + labels
        if size == large:
            break
    amounts[labels == 1] = amounts[labels == 0]
    frame = pd.DataFrame({"amount": amounts, "a": values, "label": np.where(labels == 1, "yes", "no")})
    people = oar.Population.from_frame(frame, "label")
    advice = oar.Cheapest(people, oar.NearestCentroid(), {"amount": oar.Limit(immutable=True)})
    row = {"amount": float(amounts[0]), "a": -1.5}
    bound, unit = advice.of(oar.Query(row, "yes")).bound, frame["a"].std(ddof=0)
    for less in np.geomspace(1e-8, 1e-2, 30):
        moved = row | {"a": -1.5 + bound * (1 - less) * unit}
        assert advice.of(oar.Query(moved, "yes")).status is not oar.results.Status.ALREADY
