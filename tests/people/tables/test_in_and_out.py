"""Tables in, tables out: names, index and dtypes come back; order and units do not matter; gradients are true."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

import oar
from oar import models
from oar.models.training import CostUnits
from oar.signals import as_signal

GRADES = ["low", "middle", "high"]


def table(seed: int = 0, size: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.gamma(2.0, 1_500, size),
            "ratio": rng.normal(size=size).astype(np.float32),
            "age": rng.integers(18, 70, size).astype(np.int16),
            "visits": pd.array(rng.integers(0, 9, size), dtype="Int64"),
            "owner": rng.random(size) < 0.4,
            "member": pd.array(rng.random(size) < 0.4, dtype="boolean"),
            "grade": pd.Categorical(rng.choice(GRADES, size), categories=GRADES, ordered=True),
            "purpose": rng.choice(["car", "home", "school"], size),
            "town": pd.Categorical(rng.choice(["x", "y"], size)),
        },
        index=pd.Index([f"p{place}" for place in range(size)], name="who"),
    )
    score = frame["income"] / 3_000 + frame["owner"] + rng.normal(size=size)
    return frame.assign(outcome=np.where(score > score.median(), "yes", "no"))


def problem_of(frame: pd.DataFrame, row, norm: float = 1, budget=0.7, **changes) -> oar.Problem:
    people = oar.Population.from_frame(frame, "outcome", weights=changes.pop("weights", None))
    model = changes.pop("model", models.Scaled(models.SoftmaxRegression(l2=0.05)))
    return oar.Problem(people, model, oar.Query(row, "yes", budget=0.5), oar.Perturb(budget, norm=norm, **changes))


def someone(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["outcome"] == "no"].drop(columns="outcome").iloc[0]


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_a_table_comes_back_with_its_index_names_and_dtypes(norm):
    frame = table()
    problem = problem_of(frame, someone(frame), norm)
    people = problem.people
    result = oar.collective(problem)
    moves = result.plan.moves()
    assert moves.index.equals(frame.index)
    assert moves.index.name == "who"
    assert tuple(moves.columns) == people.encoding.names
    assert moves.to_numpy().any()
    after = people.encoding.decode(people.features + moves.to_numpy(), people.index)
    before = frame.drop(columns="outcome")
    assert list(after.columns) == list(before.columns)
    assert (after.dtypes == before.dtypes).all()
    assert after.index.equals(before.index)
    # What nobody moves is as it was, and encoding what came back is where the moves led.
    still = ~moves.to_numpy().any(axis=1)
    pd.testing.assert_frame_equal(after[still], before[still])
    again = people.encoding.encode(after)
    np.testing.assert_allclose(again, people.features + moves.to_numpy(), rtol=1e-6, atol=1e-6)


def test_coordinates_and_back_is_the_table():
    frame = table(3)
    people = oar.Population.from_frame(frame, "outcome")
    back = people.encoding.decode(people.features, people.index)
    pd.testing.assert_frame_equal(back, frame.drop(columns="outcome"))


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("verb", [oar.collective, oar.individual, oar.joint])
def test_order_does_not_matter(norm, verb):
    frame = table(1)
    row = someone(frame)
    usual = verb(problem_of(frame, row, norm)).loss
    other = frame.sample(frac=1.0, random_state=5)[[*reversed(frame.columns[:-1]), "outcome"]]
    assert verb(problem_of(other, row[other.columns[:-1]], norm)).loss == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("verb", [oar.collective, oar.individual, oar.joint])
def test_units_do_not_matter_behind_a_scaler(norm, verb):
    frame = table(2)
    row = someone(frame)
    usual = verb(problem_of(frame, row, norm, limits={"income": oar.Limit(direction="up", upper=6_000)}))
    for factor in (1_000.0, 1e-6):
        other = frame.assign(income=frame["income"] * factor)
        scaled_row = {**row, "income": row["income"] * factor}
        found = verb(
            problem_of(other, scaled_row, norm, limits={"income": oar.Limit(direction="up", upper=6_000 * factor)})
        )
        assert found.loss == pytest.approx(usual.loss, rel=1e-6)


def scikit_loss(problem: oar.Problem, features: np.ndarray, point: np.ndarray, frozen: bool) -> float:
    """The goal loss after scikit-learn's refit to these features."""
    people = problem.people
    weights = np.ones(people.size) if people.weights is None else people.weights
    columns = people.encoding.scaled
    scaler = StandardScaler().fit((people.features if frozen else features)[:, columns], sample_weight=weights)

    def seen(rows):
        found = rows.copy()
        found[:, columns] = scaler.transform(rows[:, columns])
        return found

    if problem.regresses:
        fitted = Ridge(alpha=0.05 * weights.sum(), solver="cholesky")
        fitted.fit(seen(features), np.asarray(people.labels, dtype=float), sample_weight=weights)
        return 0.5 * float(fitted.predict(seen(point[None]))[0] - problem.goal_target[0]) ** 2
    fitted = LogisticRegression(C=1 / (0.05 * weights.sum()), solver="newton-cholesky", tol=1e-13, max_iter=1_000)
    fitted.fit(seen(features), np.asarray(people.labels), sample_weight=weights)
    return float(np.logaddexp(0.0, -fitted.decision_function(seen(point[None]))[0]))


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_in_cost_are_those_of_true_refits(norm, frozen, values, weighted):
    frame = table(4, size=25)
    rng = np.random.default_rng(11)
    if weighted:
        frame["weight"] = rng.integers(1, 4, len(frame))
    row = frame.drop(columns=["outcome", *(["weight"] if weighted else [])]).iloc[0]
    inner = models.SoftmaxRegression(l2=0.05)
    if values:
        frame["outcome"] = rng.normal(size=len(frame))
        inner = models.Ridge(l2=0.05)
    limits = {"income": oar.Limit(unit=500, cost=2), "purpose": oar.Limit(cost=3), "age": oar.Limit(unit=3)}
    limits["town"] = oar.Limit(immutable=True)
    people = oar.Population.from_frame(frame, "outcome", weights="weight" if weighted else None)
    query = oar.Query(row, 1.3, budget=0.5, within=0.1) if values else oar.Query(row, "yes", budget=0.5)
    model = models.Scaled(inner, frozen=frozen)
    problem = oar.Problem(people, model, query, oar.Perturb(1.0, norm=norm, limits=limits))
    measured = problem.measured(query=True)
    costs, columns = measured.costs, measured.columns
    assert 0 < columns.size < people.dimensions
    training = CostUnits(model.training(people), columns, costs, problem.query_features)
    maker, _ = as_signal("implicit", training)
    moves = 0.3 * rng.normal(size=(people.size, columns.size))
    own = 0.3 * rng.normal(size=columns.size)
    point = training.point + own
    step = maker.at(training, moves, point, problem.goal_target, tolerance=1e-12)
    features = np.asarray(people.features)

    def true(towards: np.ndarray, own_way: np.ndarray, by: float) -> float:
        moved, asking = features.copy(), problem.query_features.copy()
        moved[:, columns] += (moves + by * towards) / costs
        asking[columns] = (point + by * own_way) / costs
        return scikit_loss(problem, moved, asking, frozen)

    assert step.loss == pytest.approx(true(0 * moves, 0 * own, 0.0), rel=1e-7)
    for _ in range(5):
        towards, own_way = rng.normal(size=moves.shape), rng.normal(size=own.shape)
        width = 1e-4
        measured = (true(towards, own_way, width) - true(towards, own_way, -width)) / (2 * width)
        said = float((training.weights * (step.gradient * towards).sum(axis=1)).sum())
        said += float(step.outcome.query_slope @ own_way)
        assert said == pytest.approx(measured, rel=2e-5, abs=1e-7)


def test_a_problem_can_be_asked_again_with_another_budget():
    frame = table(5)
    problem = problem_of(frame, someone(frame), limits={"age": oar.Limit(immutable=True)})
    wider = problem.with_action(budget=2.0)
    assert wider.limits == problem.limits
    assert oar.collective(wider).loss <= oar.collective(problem).loss
    assert dataclasses.replace(problem, query=oar.Query(someone(frame), "yes", budget=0.0)).query_budget == 0
