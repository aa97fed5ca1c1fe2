"""People and pipelines that several tests are about, and what a twin is compared with."""

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import oar
from oar.estimators.twin import output_loss


def logistic(**settings):
    """Return a regression that is fitted as tightly as can be."""
    return LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1_000, **settings)


def loan_columns():
    """Return what a credit model usually begins with: numbers scaled, levels one-hot, and flags as they are."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    levels = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="int64")),
            ("levels", levels, make_column_selector(dtype_include="category")),
        ],
        remainder="passthrough",
    )


def few_loans(count=200):
    """Return some of the people of German credit, and its dataset."""
    loans = oar.datasets.german_credit()
    return loans.population.some(np.arange(count)), loans


def features_of(people):
    """Return everyone's coordinates."""
    return np.asarray(people.features, dtype=np.float64)


def own_fit(estimator, twin, people, features=None):
    """Fit the estimator as its owner would, without a twin; return it and the rows it was fitted to."""
    features = features_of(people) if features is None else features
    rows = twin.handing(people).rows(features)
    return clone(estimator).fit(rows, np.array(people.labels)), rows


def own_refit(twin, people, tolerance=1e-11):
    """Return the twin's training, and its own refit."""
    training = twin.training(people)
    return training, training.fit(training.moved(None), training.start(), tolerance)


def slopes(twin, people, query, target):
    """Return the query's loss and its slopes in everyone's features (n, d) and in the query's (d,)."""
    training, fit = own_refit(twin, people)
    loss, pull, own = training.goal(fit.parameters, query, target)
    signal = training.solve(fit, pull, None, 1e-12)
    gradients = training.score_gradients(fit.parameters, fit.features, signal)
    return loss, -training.weights[:, None] * gradients, own


def loss_of_the_original(twin, people, features, query, target):
    """Return the query's loss after the estimator's own fit to these features."""
    return output_loss(twin.core.loss, twin.original(people, features).outputs(query[None])[0], target)
