"""Estimators and pipelines of scikit-learn, fitted to the last digits, people, and what twins are held against."""

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import oar
from oar.estimators.twin import output_loss
from oar.problem import as_model
from oar.referee.witnesses import refits as witnesses

NAMES = ("zebra", "ant", "mole")


def crowd(seed=0, size=60, dimensions=3, classes=2, weighted=False, labels="words"):
    """Overlapping classes, in no order of their names."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(size) % classes)
    features = rng.normal(size=(size, dimensions)) * (1.0 + np.arange(dimensions)) + 0.8 * codes[:, None] + 1.5
    told = {"words": np.array(NAMES)[codes], "numbers": 7 - 2 * codes, "values": None}[labels]
    if told is None:
        told = features @ rng.normal(size=(dimensions, classes - 1)) + rng.normal(size=(size, classes - 1))
        told = told[:, 0] if classes == 2 else told
    return oar.Population(features, told, rng.uniform(0.2, 3.0, size) if weighted else None)


def logistic(**settings):
    """With Newton steps and a Cholesky factor: L-BFGS stops where the risk no longer falls, some digits earlier."""
    liblinear = settings.get("solver") == "liblinear"
    settings = {"solver": "newton-cholesky", "tol": 1e-10 if liblinear else 1e-12, "max_iter": 10_000} | settings
    return LogisticRegression(**settings)


def machines(**settings):
    return LinearSVC(**({"tol": 1e-13, "max_iter": 1_000_000, "dual": False} | settings))


# Everything that changes the minimum, and has a gradient.
TWO = {
    "logistic": logistic(),
    "logistic without a penalty": logistic(C=np.inf),
    "logistic without an intercept": logistic(C=0.3, fit_intercept=False),
    "logistic, classes weighed": logistic(class_weight={"ant": 4.0, "zebra": 0.5}),
    "logistic, balanced": logistic(C=3.0, class_weight="balanced"),
    "logistic by liblinear": logistic(solver="liblinear", intercept_scaling=2.5, class_weight="balanced"),
    "logistic by liblinear without an intercept": logistic(solver="liblinear", fit_intercept=False, C=0.1),
    "ridge classifier": RidgeClassifier(alpha=3.0),
    "ridge classifier, balanced": RidgeClassifier(fit_intercept=False, class_weight="balanced"),
    "machine": machines(C=0.2),
    "machine, weighed and scaled": machines(C=0.2, class_weight={"ant": 3.0}, intercept_scaling=3.0),
    "machine without an intercept": machines(C=0.2, fit_intercept=False, class_weight="balanced"),
    "naive Bayes": GaussianNB(),
    "naive Bayes, smoothed": GaussianNB(var_smoothing=0.3, priors=[0.2, 0.8]),
}
THREE = {
    "logistic": logistic(),
    "logistic without a penalty": logistic(C=np.inf),
    "logistic without an intercept": logistic(fit_intercept=False),
    "logistic, neither": logistic(C=np.inf, fit_intercept=False),
    "logistic, classes weighed": logistic(class_weight={"ant": 4.0, "zebra": 0.5, "mole": 1.0}),
    "logistic, balanced": logistic(class_weight="balanced"),
    "ridge classifier": RidgeClassifier(class_weight={"mole": 5.0}),
    "ridge classifier, balanced": RidgeClassifier(class_weight="balanced"),
    "machines": machines(C=0.1, intercept_scaling=0.5),
    "machines, weighed": machines(C=0.1, class_weight={"mole": 5.0, "ant": 0.4}),
    "machines, balanced": machines(C=0.1, class_weight="balanced", fit_intercept=False),
    "naive Bayes": GaussianNB(var_smoothing=0.2),
    "naive Bayes, with priors": GaussianNB(priors=[0.5, 0.2, 0.3]),
}
VALUES = {
    "ridge": Ridge(alpha=5.0),
    "ridge without an intercept": Ridge(alpha=5.0, fit_intercept=False),
    "least squares": LinearRegression(),
    "least squares without an intercept": LinearRegression(fit_intercept=False),
}
CASES = [
    *(("words", 2, name, estimator) for name, estimator in TWO.items()),
    *(("words", 3, name, estimator) for name, estimator in THREE.items()),
    *(("values", outputs + 1, name, estimator) for name, estimator in VALUES.items() for outputs in (1, 2)),
]
IDS = [f"{name}, {classes}" for _, classes, name, _ in CASES]


def refitted(twin, people):
    """The twin's own refit, in the form in which it predicts."""
    training = twin.training(people)
    found = training.fit(training.moved(None), training.start(), 1e-11)
    assert found.converged
    return twin.own_parameters(training, found.parameters)


def original_loss(twin, people, features, query, target):
    """What the estimator itself makes of people who have moved."""
    return witnesses.refit(twin, people, features).loss(query, target)


@st.composite
def worlds(draw):
    """A crowd, and an estimator with any settings of those that matter."""
    labels, classes, _, estimator = draw(st.sampled_from(CASES))
    people = crowd(draw(st.integers(0, 10_000)), classes=classes, weighted=draw(st.booleans()), labels=labels)
    return people, as_model(estimator)


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
