"""How a query's loss changes as people move: through transformers and estimator, against the pipeline's own refits."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from support.estimators import features_of, few_loans, loan_columns, logistic, loss_of_the_original, own_refit, slopes

import oar
from oar.estimators.recognise import recognised

STEP = 1e-5
DRAWN = np.random.default_rng(5)
ROWS = DRAWN.normal(size=(40, 3)) * [1.0, 20.0, 0.05] + [3.0, -5.0, 0.1]  # in a box, without ties
LABELS = (ROWS @ [1.0, 0.05, -10.0] + DRAWN.normal(size=40) > 1.5).astype(int) + (ROWS[:, 1] > 15)
PEOPLE = oar.Population(ROWS, LABELS, np.linspace(0.5, 2.0, 40))
QUERY, TARGET = np.array([3.5, 4.0, 0.12]), np.array([0.0, 1.0, 0.0])
SIZES = ROWS.std(axis=0)

FRONTS = {
    "standard": [StandardScaler()],
    "kinks": [
        make_column_transformer(
            (RobustScaler(unit_variance=True), [1]), (MinMaxScaler((-1, 1)), [0]), remainder=MaxAbsScaler()
        )
    ],
    "components": [StandardScaler(with_mean=False), Normalizer(), PCA(2)],
    "whitened": [make_column_transformer((StandardScaler(), [0, 2]), remainder="passthrough"), PCA(2, whiten=True)],
}


@pytest.mark.parametrize("name", FRONTS)
def test_slopes_are_those_of_the_pipelines_own_refits(name):
    twin = recognised(make_pipeline(*FRONTS[name], logistic()))
    loss, gradient, own = slopes(twin, PEOPLE, QUERY, TARGET)
    assert loss == pytest.approx(loss_of_the_original(twin, PEOPLE, ROWS, QUERY, TARGET), rel=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(3):
        along, ahead = rng.normal(size=ROWS.shape) * SIZES, rng.normal(size=3) * SIZES
        there, back = (
            loss_of_the_original(twin, PEOPLE, ROWS + step * along, QUERY + step * ahead, TARGET)
            for step in (STEP, -STEP)
        )
        assert (gradient * along).sum() + own @ ahead == pytest.approx((there - back) / (2 * STEP), rel=1e-4)


def test_a_scaler_that_is_moved_moves_the_query_too():
    """Everybody but the query shifts: only a query that is seen by the moved statistics feels it so."""
    twin = recognised(make_pipeline(StandardScaler(), logistic()))
    _, gradient, own = slopes(twin, PEOPLE, QUERY, TARGET)
    assert gradient.sum(axis=0) == pytest.approx(-own, rel=1e-6)


def test_slopes_on_a_table_are_those_of_switches_and_steps():
    people, loans = few_loans()
    twin = recognised(make_pipeline(loan_columns(), logistic(C=0.5)))
    query = loans.population.vector(loans.frame.drop(columns="credit").iloc[1], "query")
    _, gradient, _ = slopes(twin, people, query, np.array([1.0]))
    rows, places = features_of(people), people.encoding.places
    for column in ("amount", "duration", "age"):
        at, step = places[column].start, 1.0
        there, back = rows.copy(), rows.copy()
        there[:, at] += step * (np.arange(len(rows)) % 2)
        back[:, at] -= step * (np.arange(len(rows)) % 2)
        change = [loss_of_the_original(twin, people, some, query, np.array([1.0])) for some in (there, back)]
        found = gradient[1::2, at].sum()
        assert found == pytest.approx((change[0] - change[1]) / 2, rel=2e-2)


def test_scores_promise_what_leaving_does():
    twin = recognised(make_pipeline(StandardScaler(), logistic()))
    people = oar.Population(np.tile(ROWS, (8, 1)), np.tile(LABELS, 8))
    training, fit = own_refit(twin, people)
    loss, pull, _ = training.goal(fit.parameters, QUERY, TARGET)
    signal = training.solve(fit, pull, None, 1e-12)
    scores = training.scores(fit.parameters, fit.features, signal, training.targets)
    promised = training.weights / (1 - training.weights) * (scores - training.weights @ scores)
    for person in (0, 7, 23):
        weights = np.where(np.arange(people.size) == person, 0.0, 1.0)
        other = training.contributing(training.targets, weights / weights.sum())
        after = other.goal(other.fit(other.moved(None), fit.parameters, 1e-11).parameters, QUERY, TARGET)[0]
        assert promised[person] == pytest.approx(after - loss, rel=0.05, abs=1e-6)


def test_many_queries_at_once_and_columns_alone_say_the_same():
    twin = recognised(make_pipeline(*FRONTS["kinks"], logistic()))
    training, fit = own_refit(twin, PEOPLE)
    targets = np.eye(3)[[0, 2, 1]]
    losses, pull, by_rows = training.goals(fit.parameters, ROWS[:3], targets)
    each = [training.goal(fit.parameters, row, target) for row, target in zip(ROWS[:3], targets, strict=True)]
    assert losses == pytest.approx([loss for loss, _, _ in each])
    assert pull == pytest.approx(np.mean([one for _, one, _ in each], axis=0))
    assert by_rows == pytest.approx(np.array([one for _, _, one in each]))
    some = np.array([2, 0])
    moves = 0.01 * ROWS[:, some]
    everywhere = np.zeros_like(ROWS)
    everywhere[:, some] = moves
    a, b = training.moved(moves, some), training.moved(everywhere)
    assert np.array_equal(a.rows, b.rows)
    whole = training.score_gradients(fit.parameters, b, pull)
    assert np.array_equal(training.score_gradients(fit.parameters, a, pull, some), whole[:, some])


def test_the_risks_gradient_vanishes_at_the_refit_and_its_product_is_the_adjoint():
    twin = recognised(make_pipeline(*FRONTS["whitened"], logistic()))
    training, fit = own_refit(twin, PEOPLE)
    assert np.linalg.norm(training.risk_gradient(fit.parameters, fit.features)[1]) < 1e-10
    rng = np.random.default_rng(1)
    right = rng.normal(size=training.parameter_count)
    signal = training.solve(fit, right, None, 1e-12)
    assert training.product(fit.parameters, fit.features, signal) == pytest.approx(right, abs=1e-8)
    along = rng.normal(size=right.size)
    there, back = (training.risk_gradient(fit.parameters + step * along, fit.features)[1] for step in (1e-6, -1e-6))
    assert signal @ (there - back) / 2e-6 == pytest.approx(right @ along, rel=1e-5)
