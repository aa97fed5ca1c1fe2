"""The strategic-aware operator: exact over thresholds, and never worse on responses than the plain fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.worlds.operators.strategic import StrategicAware

pytest.importorskip("jax")
MODEL = oar.SoftmaxRegression(l2=0.05)
SIZE = 24


def people_of(seed, weighted=False, ties=False):
    rng = np.random.default_rng(seed)
    codes = np.arange(SIZE) % 2
    features = rng.normal(size=(SIZE, 2)) + 0.8 * codes[:, None]
    weights = rng.choice([0.5, 1.0, 2.0], SIZE) if weighted else None
    return oar.Population(features.round(0) if ties else features, codes, weights)


def responded(matrix, features, budget, norm, sign=1):
    """How people look after they tried, one by one, to be favoured: moved straight to the boundary if they can."""
    found = features.copy()
    w, b = sign * matrix[0, :-1], sign * matrix[0, -1]
    for row, x in enumerate(features):
        score = w @ x + b
        if score > 0:
            continue
        unit = {1: np.eye(2)[np.abs(w).argmax()] * np.sign(w), 2: w / np.linalg.norm(w), np.inf: np.sign(w)}[norm]
        if score + budget * (w @ unit) > 0:
            found[row] = x + budget * unit
    return found


def accuracy_on_responses(matrix, people, budget, norm, favoured=1):
    seen = responded(matrix, people.features, budget, norm, 1 if favoured == 1 else -1)
    predicted = (seen @ matrix[0, :-1] + matrix[0, -1] > 0).astype(int)
    return float(np.average(predicted == people.labels, weights=people.weights))


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    norm=st.sampled_from([1, 2, np.inf]),
    budget=st.sampled_from([0.0, 0.3, 1.0]),
    favoured=st.sampled_from([0, 1]),
    weighted=st.booleans(),
    ties=st.booleans(),
)
def test_it_is_what_it_says_on_responses_and_the_best_of_all_thresholds(seed, norm, budget, favoured, weighted, ties):
    people = people_of(seed, weighted, ties)
    plain = MODEL.fit(people)
    one = StrategicAware(MODEL, budget, norm, favoured, most_steps=1).begin(people)
    found = accuracy_on_responses(one.parameters, people, budget, norm, favoured)
    assert found == pytest.approx(one.memory.accuracy)
    assert accuracy_on_responses(plain, people, budget, norm, favoured) == pytest.approx(one.memory.plain)
    scores = people.features @ plain[0, :-1]
    best = 0.0
    for offset in np.linspace(-scores.max() - 6, -scores.min() + 6, 300):  # brute force
        tried = plain.copy()
        tried[0, -1] = offset
        best = max(best, accuracy_on_responses(tried, people, budget, norm, favoured))
    assert found >= best - 1e-12
    assert found >= one.memory.plain - 1e-12
    np.testing.assert_array_equal(one.parameters[0, :-1], plain[0, :-1])


def test_learning_the_direction_from_responses_never_does_worse():
    for seed in range(4):
        people = people_of(seed)
        one = StrategicAware(MODEL, 0.6, most_steps=1).begin(people)
        many = StrategicAware(MODEL, 0.6).begin(people)
        assert many.memory.accuracy >= one.memory.accuracy
        assert accuracy_on_responses(many.parameters, people, 0.6, 2) == pytest.approx(many.memory.accuracy)
        assert 1 < many.memory.steps <= 20


def test_a_threshold_is_raised_by_what_people_can_gain():
    """With classes far apart in one dimension the whole budget is asked for."""
    people = oar.Population([[0.0], [1.0], [4.0], [5.0]], ["no", "no", "yes", "yes"])
    operator = StrategicAware(oar.SoftmaxRegression(l2=0.01), budget=2.0)
    plain = oar.SoftmaxRegression(l2=0.01).fit(people)
    state = operator.begin(people)
    assert state.memory.plain == 0.75  # who is at 1 gets across the middle, 2.5
    assert state.memory.accuracy == 1.0
    boundary = -state.parameters[0, 1] / state.parameters[0, 0]
    assert 3.0 <= boundary < 6.0
    assert -plain[0, 1] / plain[0, 0] == pytest.approx(2.5, abs=1e-6)
    moves = operator.responses(state.parameters, people.features)
    assert np.abs(moves).max() <= 2.0
    np.testing.assert_array_equal(operator.gets(state.parameters, people.features), [False, False, True, True])
    after = people.features + moves
    np.testing.assert_array_equal(operator.model.predict(state.parameters, after), [0, 0, 1, 1])


def test_whom_it_trusts():
    people, later = people_of(0), people_of(1)
    patient, eager = (StrategicAware(MODEL, 0.5, trusts=trusts) for trusts in ("history", "rounds"))
    state = patient.begin(people)
    same = patient.retrain(state, later, 0, lambda _: later, np.random.default_rng(0))
    assert not same.retrained
    assert same.parameters is state.parameters
    new = eager.retrain(state, later, 0, lambda _: later, np.random.default_rng(0))
    np.testing.assert_array_equal(new.parameters, eager.begin(later).parameters)


def test_bad_input():
    for model in (oar.NearestCentroid(), oar.models.Ridge()):
        with pytest.raises(oar.errors.OptionError, match="model: must be a linear"):
            StrategicAware(model, 1.0)
    with pytest.raises(oar.errors.OARError, match="budget"):
        StrategicAware(MODEL, -1.0)
    with pytest.raises(oar.errors.OptionError, match="trusts: must be one of"):
        StrategicAware(MODEL, 1.0, trusts="nobody")
    with pytest.raises(oar.errors.DataError, match="favoured: must be one of"):
        StrategicAware(MODEL, 1.0, favoured="yes").begin(people_of(0))
    with pytest.raises(oar.errors.DataError, match="two classes"):
        StrategicAware(MODEL, 1.0).begin(oar.Population(np.eye(3), [0, 1, 2]))
