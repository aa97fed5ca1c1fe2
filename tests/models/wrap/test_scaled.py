"""A scaler that is refitted with the model: derivatives through it, scikit-learn's pipeline, and units."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oar
from oar.models import MLP, GaussianNaiveBayes, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.people import Column
from oar.signals import Implicit, Neumann, Unrolled, refit

SIZES = np.array([1.0, 1e4, 1e-3])


def world(seed=0, classes=3, size=30):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % classes
    features = (rng.normal(0, 1, (classes, 3))[codes] + rng.normal(size=(size, 3))) * SIZES + [5.0, -2e4, 1.0]
    return oar.Population(features, codes, rng.random(size) + 0.2), features[:3].mean(axis=0), rng


MODELS = [SoftmaxRegression(0.05), LinearSVM(0.05), GaussianNaiveBayes(), MLP((3,), l2=0.05)]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_gradients_are_those_of_finite_differences_through_true_refits(model, frozen):
    people, query, rng = world()
    training = Scaled(model, frozen).training(people)
    target = Scaled(model).goal_target(people, 1)
    moves = 0.3 * rng.normal(size=(30, 3)) * SIZES
    tight = Implicit(1e-10)
    signal = tight if tight.refusal(training) is None else Implicit()  # a factored Hessian is solved tightly anyway
    step = signal.at(training, moves, query, target, None, 1e-11)

    def loss(shift, shifted_query):
        return refit(training, moves + shift, shifted_query, target, step.memory, 1e-11).loss

    for _ in range(4):
        along = rng.normal(size=(30, 3)) * SIZES
        tiny = 1e-5
        expected = (loss(tiny * along, query) - loss(-tiny * along, query)) / (2 * tiny)
        found = float((training.weights[:, None] * step.gradient * along).sum())
        assert found == pytest.approx(expected, rel=2e-4, abs=1e-7)
        by_query = rng.normal(size=3) * SIZES
        expected = (loss(0.0, query + tiny * by_query) - loss(0.0, query - tiny * by_query)) / (2 * tiny)
        assert float(step.outcome.query_slope @ by_query) == pytest.approx(expected, rel=2e-4, abs=1e-7)


def test_regression_too():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(25, 3)) * SIZES
    people = oar.Population(features, features @ (1 / SIZES) + rng.normal(size=25))
    training, query, target = Scaled(Ridge(0.1)).training(people), features[0], np.array([2.0])
    step = Implicit().at(training, None, query, target)
    along, tiny = rng.normal(size=(25, 3)) * SIZES, 1e-6
    ends = [refit(training, sign * tiny * along, query, target, None, 1e-11).loss for sign in (1, -1)]
    found = float((training.weights[:, None] * step.gradient * along).sum())
    assert found == pytest.approx((ends[0] - ends[1]) / (2 * tiny), rel=1e-5)


def test_other_signals_come_near_the_exact_one():
    people, query, _ = world()
    training = Scaled(SoftmaxRegression(0.05)).training(people)
    target = np.eye(3)[1]
    exact = Implicit().at(training, None, query, target).gradient * SIZES
    for signal in (Neumann(400, warm_start=False), Unrolled(400)):
        other = signal.at(training, None, query, target).gradient * SIZES
        cosine = (exact * other).sum() / np.linalg.norm(exact) / np.linalg.norm(other)
        assert cosine > 0.999


def test_it_is_scikit_learns_pipeline():
    people, query, rng = world()
    problem = oar.Problem(people, Scaled(SoftmaxRegression(0.05)), oar.Query(query, 1), oar.Perturb(SIZES[0], np.inf))
    assert "StandardScaler, then scikit-learn LogisticRegression" in oar.collective(problem).audit.witness
    training = problem.model.training(people)
    moves = rng.normal(size=(30, 3)) * SIZES
    fit = training.fit(training.moved(moves), training.start(), 1e-11)
    pipeline = make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / (0.05 * people.weights.sum()), tol=1e-12, solver="newton-cholesky")
    )
    keys = {f"{name}__sample_weight": people.weights for name in ("standardscaler", "logisticregression")}
    pipeline.fit(people.features + moves, people.labels, **keys)
    logits = training.outputs(fit.parameters, query)
    shares = np.exp(logits - np.logaddexp.reduce(logits))
    np.testing.assert_allclose(shares, pipeline.predict_proba(query[None])[0], atol=1e-7)
    matrix = training.matrix(fit.parameters)
    np.testing.assert_allclose(matrix[:, :-1] @ query + matrix[:, -1], logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_what_is_claimed_is_what_the_audit_finds(model, frozen):
    people, query, _ = world(1)
    scaled = oar.Population(people.features / SIZES, people.labels, people.weights)
    problem = oar.Problem(scaled, Scaled(model, frozen), oar.Query(query / SIZES, 1), oar.Perturb(0.3))
    together = oar.collective(problem, solver=oar.solvers.ProjectedGradient(20, 1e-4))
    assert together.loss < together.loss_before
    assert together.proposal.claimed_loss == pytest.approx(together.loss, abs=2e-5)
    alone = oar.individual(problem)
    assert alone.proposal.claimed_loss == pytest.approx(alone.loss, abs=2e-5)
    if problem.model.equivariant:
        assert together.loss <= alone.loss + 1e-6


def test_a_scaler_that_follows_forgives_units():
    """Moves and budgets in other units are the same moves, without a penalty that depends on them."""
    people, query, _ = world(2)
    losses = []
    for unit in (1.0, 1e3):
        moved = oar.Population(people.features * unit, people.labels, people.weights)
        problem = oar.Problem(
            moved, Scaled(SoftmaxRegression(0.05)), oar.Query(query * unit, 1), oar.Perturb(0.2 * unit)
        )
        losses.append(oar.collective(problem).loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_of_a_table_only_columns_with_units_are_scaled():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"income": rng.normal(3000, 500, 40), "job": rng.choice(["a", "b"], 40), "old": rng.random(40) < 0.5}
    )
    frame["y"] = np.arange(40) % 2
    people = oar.Population.from_frame(frame, "y")
    assert Scaled(SoftmaxRegression()).columns(people).tolist() == [True, False, False, False]


def test_constant_columns_are_left_alone():
    people, query, _ = world()
    features = np.column_stack([people.features / SIZES, np.full(30, 7.0)])
    constant = oar.Population(features, people.labels)
    problem = oar.Problem(
        constant, Scaled(SoftmaxRegression(0.05)), oar.Query(np.append(query / SIZES, 7.0), 1), oar.Perturb(0.0)
    )
    assert oar.collective(problem).audit.converged


@pytest.mark.parametrize("centre", [0.0, 1.0, -1e9])
@pytest.mark.parametrize("size", [1e-13, 1e-11, 1e-9, 1e-6, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("together", [False, True])
def test_a_constant_column_that_people_move_is_divided_as_scikit_learn_divides_it(centre, size, together):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "flat": centre, "y": np.arange(40) % 2})
    people = oar.Population.from_frame(frame, "y", schema=oar.Schema((Column("x", "number"), Column("flat", "number"))))
    training = Scaled(SoftmaxRegression(0.1)).training(people)
    moves = np.zeros((40, 2))
    moves[:, 1] = size * (1.003 if together else rng.random(40) < 0.5)
    fit = training.fit(training.moved(moves), training.start(), 1e-10)
    after = people.features + moves
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (0.1 * 40), tol=1e-10, solver="newton-cg"))
    pipeline.fit(after, frame["y"])
    rows = np.array([after[0], after.mean(axis=0) + [0.5, 0.0]])
    expected = pipeline.decision_function(rows)
    found = [float(training.outputs(fit.parameters, row)[0]) for row in rows]
    assert found == pytest.approx(expected, rel=1e-2 if size < 1e-12 else 1e-5, abs=1e-5)


def test_what_cannot_be_scaled_is_refused():
    fixed = oar.models.TestTimeBatchNorm([oar.models.BatchNorm([1.0]), oar.models.Dense([[-1.0], [1.0]])])
    with pytest.raises(oar.errors.OptionError, match="model: must be one that is trained together with its scaler"):
        Scaled(fixed)
    with pytest.raises(oar.errors.OptionError, match="model: must be one of oar.models other than NearestCentroid"):
        Scaled(oar.NearestCentroid())
    with pytest.raises(oar.errors.DataError, match="frozen: must be True or False"):
        Scaled(Ridge(), frozen="no")
