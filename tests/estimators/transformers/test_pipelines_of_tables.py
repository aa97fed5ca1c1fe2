"""Pipelines on tables: encoders see columns as they came, and plans are audited by the pipeline itself."""

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, RobustScaler, StandardScaler
from support.estimators import features_of, few_loans, loan_columns, logistic, own_fit, own_refit

import oar
from oar.errors import DataError, OptionError
from oar.estimators.recognise import recognised
from oar.solvers import FrankWolfe

PEOPLE, LOANS = few_loans()
LEVELS = ["checking_account", "purpose", "housing"]


def agreement(pipeline, people):
    """Return how far the twin's probabilities are from the pipeline's: as read, and by the twin's own refit."""
    twin = recognised(pipeline)
    original, rows = own_fit(pipeline, twin, people)
    training, fit = own_refit(twin, people)
    both = twin.fit(people), twin.own_parameters(training, fit.parameters)
    return [np.abs(twin.probabilities(one, features_of(people)) - original.predict_proba(rows)).max() for one in both]


@pytest.mark.parametrize(
    "columns",
    [
        loan_columns(),
        make_column_transformer(
            (RobustScaler(), ["amount", "age"]),
            (OneHotEncoder(drop="first", sparse_output=False), [*LEVELS, "employment", "telephone"]),
            (OneHotEncoder(drop="if_binary"), ["foreign_worker", "other_plans"]),
            (OrdinalEncoder(), ["savings", "job", "foreign_worker"]),
        ),
        make_column_transformer(
            (OrdinalEncoder(categories=[list(PEOPLE.schema["employment"].levels)]), ["employment"]),
            (OneHotEncoder(drop=["none"], handle_unknown="ignore"), ["other_debtors"]),
            (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), slice(2, 4)),
            remainder="drop",
        ),
    ],
    ids=["realistic", "drops and codes", "orders as given"],
)
def test_a_twin_predicts_as_its_pipeline_does(columns):
    read, refitted = agreement(make_pipeline(columns, logistic()), PEOPLE)
    assert read < 1e-10
    assert refitted < 1e-6


def test_all_of_german_credit_behind_nested_pipelines():
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(StandardScaler(), PCA(3)), ["amount", "duration", "age", "installment_rate"]),
            ("levels", Pipeline([("codes", OneHotEncoder(sparse_output=False))]), LEVELS),
        ],
    )
    pipeline = Pipeline([("columns", columns), ("rest", make_pipeline(StandardScaler(), PCA(10), logistic()))])
    read, refitted = agreement(pipeline, LOANS.population)
    assert read < 1e-10
    assert refitted < 1e-6


def test_without_encoders_a_pipeline_sees_coordinates():
    twin = recognised(make_pipeline(StandardScaler(), logistic()))
    assert twin.handing(PEOPLE).rows(features_of(PEOPLE)).shape == (200, PEOPLE.dimensions)
    assert recognised(make_pipeline(loan_columns(), logistic())).handing(PEOPLE).rows(features_of(PEOPLE)).shape == (
        200,
        20,
    )


def test_a_level_that_nobody_has_left_changes_no_prediction():
    rows, place = features_of(PEOPLE), PEOPLE.encoding.places["purpose"]
    rows = rows.copy()
    someone = rows[:, place.start + 8] == 1
    rows[someone, place] = np.eye(place.stop - place.start)[0]  # business becomes a new car
    assert someone.any()
    twin = recognised(make_pipeline(loan_columns(), logistic()))
    training = twin.training(PEOPLE)
    fit = training.fit(training.moved(rows - features_of(PEOPLE)), training.start(), 1e-11)
    found = twin.probabilities(twin.own_parameters(training, fit.parameters), features_of(PEOPLE))
    original = twin.original(PEOPLE, rows)  # which forgets the level, and ignores those who have it
    expected = original.estimator.predict_proba(original.handing.rows(features_of(PEOPLE)))
    assert np.abs(found - expected).max() < 1e-6


def test_plans_keep_to_limits_and_are_audited_by_the_pipeline():
    pipeline = make_pipeline(loan_columns(), logistic())
    refused = LOANS.frame.drop(columns="credit").iloc[1]
    problem = oar.Problem(
        PEOPLE, pipeline, oar.Query(refused, goal="good"), oar.Perturb(0.5, norm=1, limits=LOANS.limits)
    )
    result = oar.collective(problem, solver=FrankWolfe(max_steps=6))
    assert result.audit.violations == ()
    assert "ColumnTransformer" in result.audit.witness
    assert result.loss < 0.5 * result.audit.loss_before
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-5)
    # The owner's own training, on the table as it would be handed in.
    moved = PEOPLE.encoding.decode(features_of(PEOPLE) + np.asarray(result.plan.each))
    by_hand = make_pipeline(loan_columns(), logistic()).fit(moved, np.array(PEOPLE.labels))
    assert by_hand.predict(refused.to_frame().T.astype(moved.dtypes.to_dict()))[0] == result.prediction


def test_a_strike_behind_a_pipeline_changes_what_its_scalers_learn():
    pipeline = make_pipeline(loan_columns(), logistic())
    refused = LOANS.frame.drop(columns="credit").iloc[1]
    result = oar.collective(oar.Problem(PEOPLE, pipeline, oar.Query(refused, goal="good"), oar.Withhold(most=1)))
    assert result.audit.violations == ()
    assert result.loss < result.audit.loss_before
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-5)


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        (make_column_transformer((OneHotEncoder(), ["amount"])), OptionError, "values of column 'amount'"),
        (make_column_transformer((OneHotEncoder(min_frequency=5), LEVELS)), OptionError, "min_frequency"),
        (make_column_transformer((StandardScaler(), ["purpose"])), DataError, "holds levels such as 'new car'"),
        (make_column_transformer((StandardScaler(), ["amount"]), remainder="passthrough"), DataError, "holds levels"),
        (make_column_transformer((OneHotEncoder(categories=[["rented"]]), ["housing"])), DataError, "lack 'owned'"),
        (make_column_transformer((OneHotEncoder(drop=["tent"]), ["housing"])), DataError, "drops 'tent'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, error, words):
    with pytest.raises(error, match=words):
        recognised(make_pipeline(columns, logistic())).check(PEOPLE)


def test_levels_that_are_numbers_are_taken_for_them():
    frame = pandas.DataFrame({"rooms": [1, 2, 3, 2, 1, 3, 2, 1], "rent": np.arange(8.0) ** 1.5, "y": [0, 1] * 4})
    schema = oar.Schema.from_tables({"rooms": {"kind": "ordinal", "levels": [1, 2, 3]}, "rent": {"kind": "number"}})
    people = oar.Population.from_frame(frame, "y", schema=schema)
    pipeline = make_pipeline(make_column_transformer((StandardScaler(), [0, 1])), logistic())
    assert max(agreement(pipeline, people)) < 1e-6
