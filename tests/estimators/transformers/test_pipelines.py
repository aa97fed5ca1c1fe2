"""Pipelines on plain features: twins predict as their originals do, before and after refits of their own."""

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from support.estimators import features_of, logistic, own_fit, own_refit

import oar
from oar.errors import DataError, NumericsError, OptionError
from oar.estimators.recognise import recognised
from oar.estimators.transformers.front import Front
from oar.estimators.transformers.nodes import hats
from oar.estimators.twin import Twin
from oar.solvers import ProjectedGradient

IRIS = oar.datasets.iris()
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
PEOPLE = oar.Population(IRIS.features, IRIS.labels)
FRAMED = oar.Population(pandas.DataFrame(IRIS.features, columns=NAMES), IRIS.labels)

PIPELINES = {
    "standard": make_pipeline(StandardScaler(), logistic()),
    "spread only": make_pipeline(StandardScaler(with_mean=False), logistic()),
    "largest": make_pipeline(MaxAbsScaler(), logistic()),
    "robust": make_pipeline(RobustScaler(quantile_range=(10, 80), unit_variance=True), logistic()),
    "length 1": make_pipeline(Normalizer("l1"), Normalizer("max"), Normalizer(), logistic(C=100)),
    "two components": make_pipeline(StandardScaler(), PCA(2), logistic()),
    "a share of variance, whitened": make_pipeline(PCA(0.97, whiten=True), logistic()),
    "nested, with steps that do nothing": Pipeline(
        [
            ("nothing", "passthrough"),
            ("inner", make_pipeline(SimpleImputer(), FunctionTransformer(), MinMaxScaler())),
            ("last", Pipeline([("again", make_pipeline(KNNImputer(), StandardScaler())), ("model", logistic())])),
        ]
    ),
    "positions, slices and masks": make_pipeline(
        ColumnTransformer(
            [
                ("ends", StandardScaler(), [0, -1]),
                ("middle", make_pipeline(MinMaxScaler(), PCA(1)), slice(1, 3)),
                ("again", "passthrough", [False, True, False, False]),
                ("nothing", MaxAbsScaler(), []),
            ],
        ),
        logistic(),
    ),
    "a remainder that is scaled": make_pipeline(
        make_column_transformer((MinMaxScaler(), [2]), ("drop", [0]), remainder=RobustScaler()), logistic()
    ),
}


@pytest.mark.parametrize("name", [name for name in PIPELINES if name not in ("standard", "spread only", "largest")])
def test_a_twin_predicts_as_its_pipeline_does(name):
    twin = recognised(PIPELINES[name])
    original, rows = own_fit(PIPELINES[name], twin, PEOPLE)
    read = twin.fit(PEOPLE)
    assert np.abs(twin.probabilities(read, rows) - original.predict_proba(rows)).max() < 1e-10
    training, fit = own_refit(twin, PEOPLE)
    found = twin.own_parameters(training, fit.parameters)
    assert np.abs(twin.probabilities(found, rows) - original.predict_proba(rows)).max() < 1e-6


@pytest.mark.parametrize(
    "columns",
    [["petal width", "sepal length"], slice("sepal width", "petal width"), make_column_selector(pattern="petal")],
    ids=["names", "a slice of names", "a pattern"],
)
def test_columns_of_a_frame_are_chosen_as_scikit_learn_chooses_them(columns):
    pipeline = make_pipeline(
        ColumnTransformer([("scaled", StandardScaler(), columns)], remainder="passthrough"), logistic()
    )
    twin = recognised(pipeline)
    original, rows = own_fit(pipeline, twin, FRAMED)
    found = twin.probabilities(twin.fit(FRAMED), features_of(FRAMED))
    assert np.abs(found - original.predict_proba(rows)).max() < 1e-10


def test_leavers_are_forgotten_by_transformers_and_estimator():
    pipeline = PIPELINES["nested, with steps that do nothing"]
    left = np.ones(150)
    left[[3, 77, 120, 131]] = 0.0
    twin = recognised(pipeline)
    training = twin.training(PEOPLE).contributing(PEOPLE.class_rows(), left / left.sum())
    fit = training.fit(training.moved(None), training.start(), 1e-11)
    found = twin.probabilities(twin.own_parameters(training, fit.parameters), IRIS.features)
    there = left > 0
    expected = twin.estimator.fit(IRIS.features[there], IRIS.labels[there]).predict_proba(IRIS.features)
    assert np.abs(found - expected).max() < 1e-6


def test_transformers_are_fitted_without_weights_and_the_estimator_with_them():
    weights = np.where(IRIS.labels == 1, 3.0, 0.5)
    people = oar.Population(IRIS.features, IRIS.labels, weights)
    pipeline = make_pipeline(RobustScaler(), StandardScaler(), logistic())
    twin = recognised(pipeline)
    training, fit = own_refit(twin, people)
    found = twin.probabilities(twin.own_parameters(training, fit.parameters), IRIS.features)
    pipeline.fit(IRIS.features, IRIS.labels, logisticregression__sample_weight=weights)
    assert np.abs(found - pipeline.predict_proba(IRIS.features)).max() < 1e-6


def test_what_a_common_shift_does_is_known():
    expected = {"standard": (True, True), "spread only": (False, True), "largest": (False, False)}
    expected |= {"length 1": (False, False), "two components": (True, True)}
    for name, (invariant, equivariant) in expected.items():
        front = Front(PIPELINES[name])
        assert (front.invariant, front.equivariant) == (invariant, equivariant), name
        rows = IRIS.features
        before, after = (PIPELINES[name][:-1].fit_transform(some) for some in (rows, rows + [0.3, -0.2, 0.1, 0.4]))
        change = after - before
        assert invariant == (np.abs(change).max() < 1e-9)
        assert equivariant == (np.ptp(change, axis=0).max() < 1e-9)
    assert not recognised(PIPELINES["robust"]).smooth
    assert recognised(PIPELINES["standard"]).smooth


def rows_and_more():
    numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
    shapes = st.sampled_from([(4, 2), (7, 3)])  # few, because JAX compiles for each
    return shapes.flatmap(lambda shape: st.tuples(*[arrays.arrays(float, shape, elements=numbers)] * 2))


SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-2, 5)),
    MaxAbsScaler(),
    RobustScaler(with_centering=False),
    RobustScaler(quantile_range=(5, 70), unit_variance=True),
    Normalizer("l2"),
]


@given(st.sampled_from(SCALERS), rows_and_more())
@settings(max_examples=20)
def test_scalers_are_those_of_scikit_learn_whatever_the_rows(scaler, tables):
    rows, others = tables
    people = oar.Population(rows, [0, 1] * (len(rows) // 2) + [0] * (len(rows) % 2))
    pipeline = make_pipeline(scaler, logistic())
    bound = Front(pipeline).bound(people, pipeline)
    with jax.enable_x64(True):
        learned = bound.node.learned(rows, np.full(len(rows), 1 / len(rows)))
        found = np.asarray(bound.node.applied(others, learned))
    expected = scaler.fit(rows).transform(others)
    assert np.abs(found - expected).max() <= 1e-9 * (1 + np.abs(expected).max())


def test_ranks_are_one_hot_where_they_are_whole_and_curves_in_between():
    near = 1e-6
    ranks = np.concatenate([np.arange(5.0), np.linspace(0, 4, 33), [2 - near, 2 + near, 0.0, near]])
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(hats, static_argnums=1)(ranks, 5))
    between = found[5:38]
    slope, first = (found[39] - found[38]) / (2 * near), (found[41] - found[40]) / near
    assert np.abs(found[:5] - np.eye(5)).max() < 1e-15
    assert np.abs(between.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(between @ np.arange(5) - np.linspace(0, 4, 33)).max() < 1e-14
    assert np.allclose(slope, [0, -0.5, 0, 0.5, 0], atol=1e-4)
    assert np.allclose(first, [-1, 1, 0, 0, 0], atol=1e-4)


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (make_pipeline(SelectKBest(), logistic()), "SelectKBest.*oar.BlackBox"),
        (make_pipeline(StandardScaler(), KernelPCA(), logistic()), "KernelPCA"),
        (make_pipeline(make_column_transformer((SelectKBest(), [0])), logistic()), "SelectKBest"),
        (make_pipeline(MinMaxScaler(clip=True), logistic()), "clip=True"),
        (make_pipeline(FunctionTransformer(np.log1p), logistic()), "func"),
        (make_pipeline(PCA(2, svd_solver="randomized", random_state=0), logistic()), "covariance_eigh"),
        (make_pipeline(PCA("mle"), logistic()), "mle"),
        (make_pipeline(SimpleImputer(missing_values=0.0), logistic()), "missing_values=0.0"),
        (make_pipeline(OneHotEncoder(), logistic()), "numbers.*from_frame"),
        (make_pipeline(StandardScaler(), "passthrough"), "predicts"),
        (make_pipeline(make_column_transformer((StandardScaler(), 0)), logistic()), r"write \[0\]"),
        (make_pipeline(make_column_transformer(("drop", [0, 1, 2, 3])), logistic()), "drops every column"),
        (
            make_pipeline(make_column_transformer((StandardScaler(), [0]), remainder=KernelPCA()), logistic()),
            "KernelPCA",
        ),
        (
            make_pipeline(
                ColumnTransformer([("a", StandardScaler(), [0])], transformer_weights={"a": 2.0}), logistic()
            ),
            "transformer_weights",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_is_refused_with_what_to_use_instead(pipeline, words):
    with pytest.raises(OptionError, match=words):
        oar.Problem(PEOPLE, pipeline, oar.Query(IRIS.features[0], goal=1), oar.Perturb(0.1))


def test_columns_that_are_not_there_are_refused():
    for columns in (["petal"], [7]):
        pipeline = make_pipeline(make_column_transformer((StandardScaler(), columns)), logistic())
        with pytest.raises(DataError, match="which is not there|there are 4 columns"):
            recognised(pipeline).check(FRAMED)


def test_a_cut_between_equal_eigenvalues_is_refused():
    corners = np.array([[x, y, z] for x in (-1.0, 1) for y in (-1.0, 1) for z in (-1.0, 1)])
    people = oar.Population(corners, [0, 1] * 4)
    with pytest.raises(NumericsError, match="either side of the cut after 2"):
        recognised(make_pipeline(PCA(2), logistic())).check(people)


def test_the_users_pipeline_is_never_fitted_or_changed():
    pipeline = make_pipeline(StandardScaler(), PCA(2), logistic())
    before = repr(pipeline.get_params())
    problem = oar.Problem(PEOPLE, pipeline, oar.Query(IRIS.features[60], goal=2), oar.Perturb(0.3))
    assert isinstance(problem.model, Twin)
    assert oar.collective(problem, solver=ProjectedGradient(max_steps=3)).audit.violations == ()
    assert repr(pipeline.get_params()) == before
    assert not any(name.endswith("_") and not name.startswith("_") for name in vars(pipeline[0]))
    assert not hasattr(pipeline[-1], "coef_")


@pytest.mark.parametrize("name", ["standard"])
def test_what_is_compiled_for_a_pipeline_is_kept_for_other_problems(name):
    fronts = [recognised(PIPELINES[name]).training(people) for people in (PEOPLE, PEOPLE)]
    nodes = [front._node for front in fronts]
    assert nodes[0] == nodes[1]
    assert hash(nodes[0]) == hash(nodes[1])
