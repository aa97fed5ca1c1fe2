"""The moved table, given to a pipeline of scikit-learn's as anybody would write it, gets what the audit says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import oar
from oar import models
from oar.people.tables.schema import Column, Schema

GRADES, PURPOSES = ("low", "middle", "high"), ("car", "home", "school")
NUMBERS, FLAGS = ["income", "age", "grade"], ["owner"]
SCHEMA = Schema(
    (
        Column("income", "number"),
        Column("age", "integer"),
        Column("owner", "boolean"),
        Column("grade", "ordinal", GRADES),
        Column("purpose", "category", PURPOSES),
    )
)
LIMITS = oar.Limits(
    {"age": oar.Limit(direction="up", unit=5), "income": oar.Limit(lower=0, upper=9_000)},
    links=["change(grade) <= change(age)"],
)


def table(seed: int, values: bool) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = 24
    frame = pd.DataFrame(
        {
            "income": rng.gamma(2.0, 1_500, size),
            "age": rng.integers(18, 70, size),
            "owner": rng.random(size) < 0.4,
            "grade": rng.choice(GRADES, size),
            "purpose": rng.choice(PURPOSES, size),
            "weight": rng.integers(0, 4, size).astype(float),
        },
        index=[f"person {place}" for place in range(size)],
    )
    if values:
        return frame.assign(outcome=frame["income"] / 2_000 + rng.normal(size=size))
    score = frame["income"] / 3_000 + frame["owner"] + rng.normal(size=size)
    return frame.assign(outcome=np.where(score > score.median(), "yes", "no"))


def after(frame: pd.DataFrame, moves: pd.DataFrame) -> pd.DataFrame:
    """The table after the moves, in its own words."""
    found = frame.copy()
    found["income"] = frame["income"] + moves["income"]
    found["age"] = (frame["age"] + moves["age"]).astype(int)
    found["owner"] = (frame["owner"] + moves["owner"]).astype(bool)
    ranks = frame["grade"].map(GRADES.index) + moves["grade"]
    found["grade"] = [GRADES[int(rank)] for rank in ranks]
    for level in PURPOSES:
        found.loc[moves[f"purpose={level}"] == 1, "purpose"] = level
    return found


class Pipeline:
    """One-hot purposes, ranks of grades, standardised numbers; weights go everywhere."""

    def __init__(self, estimator, scaled: bool = True) -> None:
        self.estimator, self.scaled = estimator, scaled

    def _numbers(self, frame: pd.DataFrame) -> np.ndarray:
        return frame[NUMBERS].assign(grade=frame["grade"].map(GRADES.index)).to_numpy(dtype=float)

    def _features(self, frame: pd.DataFrame) -> np.ndarray:
        numbers = self.scaler.transform(self._numbers(frame)) if self.scaled else self._numbers(frame)
        return np.hstack([numbers, frame[FLAGS].to_numpy(dtype=float), self.encoder.transform(frame[["purpose"]])])

    def fit(self, frame: pd.DataFrame, weights, scaler_of: pd.DataFrame | None = None):
        self.encoder = OneHotEncoder(categories=[list(PURPOSES)], sparse_output=False).fit(frame[["purpose"]])
        fitted = frame if scaler_of is None else scaler_of
        self.scaler = StandardScaler().fit(self._numbers(fitted), sample_weight=weights)
        self.estimator.fit(self._features(frame), frame["outcome"], sample_weight=weights)
        return self

    def __getattr__(self, name: str):
        return lambda frame: getattr(self.estimator, name)(self._features(frame))


def moved(seed, model, weighted, goal, verb, norm, **query):
    frame = table(seed, values=not isinstance(goal, str))
    weights = frame["weight"].to_numpy() if weighted else np.ones(len(frame))
    frame = frame if weighted else frame.drop(columns="weight")
    people = oar.Population.from_frame(frame, "outcome", schema=SCHEMA, weights="weight" if weighted else None)
    refused = frame[frame["outcome"] == "no"] if isinstance(goal, str) else frame
    row = refused.iloc[0][list(SCHEMA.names)]
    action = oar.Perturb(0.7, norm=norm, limits=LIMITS)
    result = verb(oar.Problem(people, model, oar.Query(row, goal, **query), action))
    assert result.status is not oar.results.Status.REFUSED
    someone = after(pd.DataFrame([row]).astype({"income": float}), _query_moves(result, row.name))
    return result, frame, after(frame, result.plan.moves()), someone, weights


def _query_moves(result, name) -> pd.DataFrame:
    return pd.DataFrame([result.plan.query_move], columns=result.plan.moves().columns, index=[name])


VERBS = [oar.collective, oar.individual, oar.joint]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_logistic_regression(verb, frozen, weighted, norm):
    model = models.Scaled(models.SoftmaxRegression(l2=0.05), frozen=frozen)
    result, before, later, someone, weights = moved(1, model, weighted, "yes", verb, norm)
    pipeline = Pipeline(LogisticRegression(C=1 / (0.05 * weights.sum()), tol=1e-12, max_iter=10_000))
    pipeline.fit(later, weights, before if frozen else None)
    chance = pipeline.predict_proba(someone)[0, 1]
    assert chance == pytest.approx(np.exp(-result.loss), rel=1e-6)
    assert pipeline.predict(someone)[0] == result.prediction
    assert result.loss < result.loss_before


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("scaled", ["no", "refitted", "frozen"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge(verb, scaled, weighted):
    model = models.Ridge(l2=0.1)
    model = model if scaled == "no" else models.Scaled(model, frozen=scaled == "frozen")
    result, before, later, someone, weights = moved(2, model, weighted, 4.0, verb, 1, within=0.5)
    pipeline = Pipeline(Ridge(alpha=0.1 * weights.sum()), scaled=scaled != "no")
    pipeline.fit(later, weights, before if scaled == "frozen" else None)
    assert pipeline.predict(someone)[0] == pytest.approx(result.prediction, rel=1e-6)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_svc(verb, frozen, weighted):
    model = models.Scaled(models.LinearSVM(l2=0.1, penalise_intercept=True), frozen=frozen)
    result, before, later, someone, weights = moved(3, model, weighted, "yes", verb, 1)
    pipeline = Pipeline(LinearSVC(C=1 / (0.1 * weights.sum()), dual=False, tol=1e-12, max_iter=1_000_000))
    pipeline.fit(later, weights, before if frozen else None)
    margin = pipeline.decision_function(someone)[0]
    assert margin == pytest.approx(result.audit.margin, rel=1e-6, abs=1e-7)
    assert pipeline.predict(someone)[0] == result.prediction


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_naive_bayes(verb, frozen, weighted):
    model = models.Scaled(models.GaussianNaiveBayes(smoothing=0.1), frozen=frozen)
    result, before, later, someone, weights = moved(4, model, weighted, "yes", verb, 1)
    pipeline = Pipeline(GaussianNB())
    pipeline.fit(later, weights, before if frozen else None)
    # scikit-learn adds a share of the largest variance; here it is told the share that is 0.1.
    largest = pipeline.estimator.epsilon_ / pipeline.estimator.var_smoothing
    pipeline.estimator.set_params(var_smoothing=0.1 / largest)
    pipeline.fit(later, weights, before if frozen else None)
    chance = pipeline.predict_proba(someone)[0, 1]
    assert chance == pytest.approx(np.exp(-result.loss), rel=1e-6)
