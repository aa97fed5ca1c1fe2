"""Models that are not linear: answers reach the goal within limits, and are cheap where that can be checked."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits

LEVELS = ("a", "b", "c")


def table(classes=2, size=120, seed=3):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size),
            "rent": rng.normal(9.0, 2.0, size),
            "children": rng.integers(0, 5, size),
            "owns": rng.random(size) < 0.4,
            "purpose": rng.choice(LEVELS, size),
        }
    )
    purpose = frame["purpose"].map({"a": 0.0, "b": 1.0, "c": 0.4}).astype(float)
    score = frame["income"] / 8 - frame["rent"] / 3 - 0.5 * frame["children"] + frame["owns"] + purpose
    score += rng.normal(0, 0.7, size)
    frame["label"] = pandas.qcut(score, classes, labels=["no", "perhaps", "yes"][3 - classes :]).astype(str)
    if classes == 2:
        frame["label"] = frame["label"].replace("perhaps", "no")
    return frame


LIMITS = Limits(
    {
        "income": Limit(direction="up", upper=45),
        "children": Limit(lower=0, upper=6),
        "purpose": Limit(levels=("b", "c")),
    },
    links=["rent <= income / 2"],
)


@pytest.mark.parametrize("kind", ["l1", "l2", "l0"])
@pytest.mark.parametrize("classes", [2, 3])
def test_search_ends_where_the_exact_solver_does(classes, kind):
    """Prototypes without an embedding are nearest centroids, which search does not know."""
    frame = table(classes)
    people = oar.Population.from_frame(frame, target="label")
    rows = frame[frame["label"] == "no"].drop(columns="label")
    exact, found = (oar.Cheapest(people, model, LIMITS) for model in (oar.NearestCentroid(), models.PrototypeNetwork()))
    for number in range(4):
        query = oar.Query(rows.iloc[number], goal="yes")
        best, near = exact.of(query, kind), found.of(query, kind)
        assert near.success == best.success
        if near.success and near.cost:
            assert best.cost * (1 - 1e-5) <= near.cost <= best.cost * 1.1
            assert (near.proved, near.bound) == (False, 0.0)
            assert "not linear" in near.explanation


@pytest.mark.parametrize(
    "model",
    [
        models.GaussianNaiveBayes(),
        models.Scaled(models.GaussianNaiveBayes()),
        models.Scaled(models.MLP((4,))),
        models.Scaled(models.PrototypeNetwork((3, 2))),
    ],
    ids=lambda model: model.name,
)
def test_every_answer_reaches_the_goal(model):
    frame = table()
    people = oar.Population.from_frame(frame, target="label")
    rows = frame[frame["label"] == "no"].drop(columns="label")
    ready = oar.Cheapest(people, model, LIMITS)
    for number, kind in enumerate(("l1", "l2", "l0")):
        advice = ready.of(oar.Query(rows.iloc[number], goal="yes"), kind)
        assert advice.status in (oar.results.Status.ACHIEVED, oar.results.Status.ALREADY)
        assert advice.success
        assert advice.prediction == "yes"
        assert not advice.violations


def test_a_curve_that_can_be_checked():
    """Naive Bayes of one number: the edge between two Gaussians is known to a root finder."""
    from scipy.optimize import brentq

    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(0, 1, 80), rng.normal(3, 2, 80)])
    frame = pandas.DataFrame({"x": values, "label": ["no"] * 80 + ["yes"] * 80})
    people, model = oar.Population.from_frame(frame, target="label"), models.GaussianNaiveBayes()
    fitted = model.fit(people)
    lead = lambda x: float(np.diff(np.log(model.probabilities(fitted, [x])))[0])  # noqa: E731
    edges = [brentq(lead, 0.0, 3.0), brentq(lead, -20.0, 0.0)]
    advice = oar.cheapest(people, model, oar.Query({"x": 0.0}, goal="yes"))
    nearest = min(edges, key=abs)
    assert advice.success
    assert advice.row["x"].item() == pytest.approx(nearest, rel=1e-4)


def test_a_regression_that_is_not_linear_is_searched_too():
    rng = np.random.default_rng(6)
    frame = pandas.DataFrame({"x": rng.normal(size=60), "k": rng.integers(0, 4, 60)})
    frame["y"] = np.tanh(frame["x"]) + 0.3 * frame["k"]

    def outputs(parameters, x):
        import jax.numpy as jnp

        return jnp.array([parameters["a"] * jnp.tanh(x[0]) + parameters["b"] * x[1] + parameters["c"]])

    model = models.Custom(
        loss=lambda parameters, x, y: 0.5 * ((outputs(parameters, x) - y) ** 2).sum(),
        init={"a": 0.5, "b": 0.1, "c": 0.0},
        outputs=outputs,
        regresses=True,
    )
    people = oar.Population.from_frame(frame, target="y")
    advice = oar.cheapest(people, model, oar.Query({"x": 0.0, "k": 0}, goal=1.0, within=0.05))
    assert advice.success
    assert abs(advice.prediction - 1.0) <= 0.05


def test_nothing_found_is_not_impossible():
    """Where search finds nothing, it does not say that there is nothing."""
    frame = table()
    people = oar.Population.from_frame(frame, target="label")
    row = frame[frame["label"] == "no"].drop(columns="label").sort_values("income").iloc[0]
    limits = Limits({name: Limit(immutable=True) for name in ("income", "rent", "children", "purpose")})
    advice = oar.cheapest(people, models.GaussianNaiveBayes(), oar.Query(row, goal="yes"), limits)
    assert advice.status is oar.results.Status.STOPPED_EARLY
    assert (advice.cost, advice.bound, advice.proved, advice.success) == (np.inf, 0.0, False, False)
    assert "nothing proves" in advice.explanation
