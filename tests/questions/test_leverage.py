"""Leverage is the slope of the goal loss over true refits, defended or not: checked by central differences."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar import defences
from oar.defences.base import defended_refit

SIZE, DIMENSIONS = 21, 2


def people_of(seed=0, frame=False):
    rng = np.random.default_rng(seed)
    codes = np.arange(SIZE) % 3
    features = 2 * rng.normal(size=(3, DIMENSIONS))[codes] + rng.normal(size=(SIZE, DIMENSIONS))
    weights = rng.choice([0.5, 1.0, 2.0], SIZE)
    weights[7] = 0.0
    if frame:
        index = [f"p{row}" for row in range(SIZE)]
        return oar.Population(pd.DataFrame(features, index, ["age", "income"]), pd.Series(codes, index), weights)
    return oar.Population(features, codes, weights)


def problem_of(model, norm=2, goal=2, within=None, **action):
    people = people_of()
    query = people.features[0] + 0.2
    return oar.Problem(people, model, oar.Query(query, goal, within=within), oar.Perturb(0.3, norm, **action))


def loss_after(problem, defence, deployed, moves):
    """Refit from scratch on the moved data, as an operator would, and judge the query."""
    moved = problem.people.with_features(problem.people.features + moves)
    refit = defended_refit(moved, problem.model, defences.as_defence(defence), deployed)
    goal = problem.goal_target if problem.regresses else problem.goal
    return float(refit.model.goal_loss(refit.fit(), problem.query_features, goal))


def assert_slopes(problem, defence=None, step=1e-6, rtol=1e-6):
    found = oar.questions.leverage(problem, defence, everyone=True)
    deployed = defences.as_defence(defence).model_for(problem.model).fit(problem.people)
    rng = np.random.default_rng(5)
    for trial in range(4):
        moves = rng.normal(size=found.slopes.shape)
        if trial:  # one person alone: who pulls most, then others
            alone = np.argsort(-np.abs(found.slopes).sum(axis=1))[trial - 1]
            moves[np.arange(SIZE) != alone] = 0.0
        up, down = (loss_after(problem, defence, deployed, sign * step * moves) for sign in (1, -1))
        predicted = float((found.slopes * moves).sum())
        assert predicted == pytest.approx((up - down) / (2 * step), rel=rtol, abs=rtol * np.abs(found.slopes).max())
    assert found.loss == pytest.approx(loss_after(problem, defence, deployed, 0.0), rel=1e-7)
    return found


CENTROID_DEFENCES = [
    None,
    defences.TrimmedCentroids(0.2),
    defences.MedianOfMeans(3, seed=1),
    defences.MedianOfMeans(2, seed=1),
    defences.DistanceFilter(share=0.2),
    defences.ClippedInfluence(0.8),
    [defences.ClippedInfluence(1.1), defences.DistanceFilter(radius=2.0), defences.TrimmedCentroids(0.2)],
    [defences.DistanceFilter(share=0.2), defences.ClippedInfluence(0.7), defences.ClippedInfluence(1.2)],
]


@pytest.mark.parametrize("defence", CENTROID_DEFENCES)
def test_of_nearest_centroid(defence):
    found = assert_slopes(problem_of(oar.NearestCentroid()), defence)
    assert found.slopes[7].tolist() == [0.0, 0.0]  # who weighs nothing moves nothing


@pytest.mark.parametrize(
    "defence",
    [None, defences.StrongerPenalty(5.0), [defences.DistanceFilter(share=0.2), defences.ClippedInfluence(0.8)]],
)
def test_of_softmax_regression(defence):
    pytest.importorskip("jax")
    assert_slopes(problem_of(oar.SoftmaxRegression(l2=0.05)), defence, step=1e-4, rtol=1e-5)


@pytest.mark.parametrize("model", [oar.models.Ridge(0.1), oar.models.Scaled(oar.models.Ridge(0.1))])
def test_of_values_and_behind_a_scaler(model):
    pytest.importorskip("jax")
    found = assert_slopes(problem_of(model, goal=1.4, within=0.1), defences.ClippedInfluence(0.9), step=1e-4, rtol=1e-5)
    assert found.classes == {}
    with pytest.raises(oar.errors.OptionError, match="by: 'class'"):
        found.table("class")


def test_of_a_model_by_automatic_differentiation():
    pytest.importorskip("jax")
    assert_slopes(problem_of(oar.models.PrototypeNetwork()), defences.ClippedInfluence(0.9), step=1e-4, rtol=1e-4)


def test_who_is_left_out_or_trimmed_has_none():
    problem = problem_of(oar.NearestCentroid())
    filtered = oar.questions.leverage(problem, defences.DistanceFilter(share=0.3))
    kept = defences.DistanceFilter(share=0.3).prepared(problem.people, problem.model, None, None).kept
    np.testing.assert_array_equal(filtered.members[problem.people.weights > 0] > 0, kept[problem.people.weights > 0])
    trimmed = oar.questions.leverage(problem, defences.TrimmedCentroids(0.2))
    for code in range(3):
        own = np.flatnonzero((problem.people.labels == code) & (problem.people.weights > 0))
        ends = [own[problem.people.features[own, 0].argmin()], own[problem.people.features[own, 0].argmax()]]
        assert trimmed.slopes[ends, 0].tolist() == [0.0, 0.0]
    blocks = oar.questions.leverage(problem, defences.MedianOfMeans(3))
    assert ((np.asarray(blocks.members) > 0).sum()) < (np.asarray(oar.questions.leverage(problem).members) > 0).sum()


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_it_is_the_steepest_fall_per_unit(norm):
    """No move of one unit gains more, and the one that the norm says gains just that."""
    problem = problem_of(oar.NearestCentroid(), norm)
    found, step = oar.questions.leverage(problem), 1e-7
    before = loss_after(problem, None, None, 0.0)
    for member in (0, 5):
        falls = []
        rng = np.random.default_rng(0)
        best = problem.allowance.norm.maximise(-found.slopes[member], 1.0)
        for direction in [best, *rng.normal(size=(20, DIMENSIONS))]:
            moves = np.zeros((SIZE, DIMENSIONS))
            moves[member] = step * direction / problem.allowance.norm.length(direction)
            falls.append((before - loss_after(problem, None, None, moves)) / step)
        assert falls[0] == pytest.approx(found.members[member], rel=1e-5)
        assert max(falls) <= falls[0] * (1 + 1e-6)


def test_sums_tables_and_names():
    people = people_of(frame=True)
    query = oar.Query(people.features[0], 2)
    found = oar.questions.leverage(
        oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.1, participants=np.arange(SIZE) < 9))
    )
    assert list(found.members.index) == list(people.index)
    assert (found.members.iloc[9:] == 0).all()
    assert found.acts.sum() == 8  # p7 weighs nothing
    assert found.total == pytest.approx(found.members.sum())
    assert sum(found.classes.values()) == pytest.approx(found.total)
    assert found.features["income"] == pytest.approx(np.abs(found.slopes[:, 1]).sum())
    for by, rows in (("feature", 2), ("class", 3), ("member", 8)):
        table = found.table(by)
        assert len(table) == rows
        assert table["share"].sum() == pytest.approx(1)
        assert (np.diff(table["leverage"]) <= 0).all()
    assert found.table("member").index[0] == found.members.idxmax()
    text = str(found)
    assert "income" in text
    assert "by class" in text
    assert repr(found).startswith("Leverage(8 members, total ")
    assert found._repr_html_().startswith("<pre>")
    with pytest.raises(oar.errors.OptionError, match="by: must be one of"):
        found.table("person")


def test_several_who_ask_and_members_who_ask():
    pytest.importorskip("jax")
    people = people_of()
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(l2=0.05)):
        asked = oar.Problem(people, model, oar.Query(people.features[:3] + 0.1, [1, 2, 0]), oar.Perturb(0.3))
        own = [
            oar.Problem(people, model, oar.Query(people.features[row] + 0.1, goal), oar.Perturb(0.3))
            for row, goal in enumerate([1, 2, 0])
        ]
        expected = np.mean([oar.questions.leverage(one).slopes for one in own], axis=0)
        np.testing.assert_allclose(oar.questions.leverage(asked).slopes, expected, atol=1e-9)
    members = oar.Problem(people, oar.NearestCentroid(), oar.Query(oar.Members([1]), 2), oar.Perturb(0.3))
    outside = oar.Problem(people, oar.NearestCentroid(), oar.Query(people.features[1], 2), oar.Perturb(0.3))
    moved = people.features[1] + np.array([1e-6, 0.0])
    centroids = oar.NearestCentroid()
    slope = (
        centroids.goal_loss(centroids.fit(people), moved, 2)
        - centroids.goal_loss(centroids.fit(people), people.features[1], 2)
    ) / 1e-6
    difference = oar.questions.leverage(members).slopes - oar.questions.leverage(outside, everyone=True).slopes
    assert difference[1, 0] == pytest.approx(slope, rel=1e-4)
    assert np.abs(np.delete(difference, 1, axis=0)).max() < 1e-12


def test_on_a_table_costs_and_directions_count():
    pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 20), "income": rng.normal(50, 9, 20), "y": ["no", "yes"] * 10})
    frame["income"] += 9.0 * (frame["y"] == "yes")
    people = oar.Population.from_frame(frame, "y")
    free, upwards = (
        oar.questions.leverage(
            oar.Problem(
                people,
                oar.models.Scaled(oar.SoftmaxRegression()),
                oar.Query(frame.drop(columns="y").iloc[0], "yes"),
                oar.Perturb(1.0, limits=limits),
            )
        )
        for limits in (oar.Limits({}), oar.Limits({"income": oar.Limit(direction="up")}))
    )
    place = list(people.names).index("income")
    assert (free.slopes[:, place] > 0).any()
    np.testing.assert_array_equal(upwards.slopes[:, place], np.minimum(free.slopes[:, place], 0.0))


@pytest.mark.parametrize("goal_for", ["last", "every"])
def test_over_time_it_is_of_everyone_of_every_round(goal_for):
    people = people_of()
    when = np.repeat([-1, 0, 1], 7)
    stream = oar.online.Stream(people, when)
    once = {"query": oar.Query(people.features[0] + 0.2, 2), "action": oar.Perturb(0.3)}
    settings = once | {"goal_for": goal_for}
    problem = oar.online.OnlineProblem(stream, oar.NearestCentroid(), oar.online.FullRefit(), **settings)
    found = oar.questions.leverage(problem)

    def loss(moves):
        goal, losses = problem.goal, []
        for last in (0, 1):
            some = np.flatnonzero(when <= last)
            centroids = oar.NearestCentroid().fit(people.with_features(people.features + moves).some(some))
            losses.append(float(oar.NearestCentroid().goal_loss(centroids, people.features[0] + 0.2, goal)))
        return losses[-1] if goal_for == "last" else np.mean(losses)

    assert found.loss == pytest.approx(loss(0.0))
    moves = np.random.default_rng(0).normal(size=found.slopes.shape) * (when >= 0)[:, None]
    slope = (loss(1e-6 * moves) - loss(-1e-6 * moves)) / 2e-6
    assert (found.slopes * moves).sum() == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(found.rounds, [np.sum(found.members[when == number]) for number in (0, 1)])
    assert found.table("round")["share"].sum() == pytest.approx(1)
    assert (np.asarray(found.members)[when < 0] == 0).all()
    assert "by round" in str(found)
    with pytest.raises(oar.errors.OptionError, match="defence: is for one refit"):
        oar.questions.leverage(problem, defences.TrimmedCentroids(0.1))
    with pytest.raises(oar.errors.OptionError, match="rounds: are of"):
        oar.questions.leverage(oar.Problem(people, oar.NearestCentroid(), **once)).table("round")


def test_the_picture_is_a_figure_of_two_panels():
    figure = oar.questions.leverage(problem_of(oar.NearestCentroid())).plot()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["By feature", "By member"]
    assert len(figure.axes[0].patches) == DIMENSIONS


def test_bad_input():
    problem = problem_of(oar.NearestCentroid())
    with pytest.raises(oar.errors.DataError, match="problem: must be an"):
        oar.questions.leverage(problem.people)
    with pytest.raises(oar.errors.OptionError, match="defence: must be one of"):
        oar.questions.leverage(problem, "trimmed")
    with pytest.raises(oar.errors.DataError, match="everyone: must be True"):
        oar.questions.leverage(problem, everyone="yes")
    for when in (
        defences.Delayed(3),
        defences.RandomRetraining(0.1),
        [defences.StrongerPenalty(2), defences.Delayed(3)],
    ):
        for question in (oar.questions.leverage, oar.questions.worth):
            with pytest.raises(
                oar.errors.OptionError, match="which only says when there is a refit; oar.simulate shows"
            ):
                question(problem, when)
    worst = oar.Problem(
        problem.people,
        oar.NearestCentroid(),
        oar.Query(problem.people.features[:2], 1, several="worst"),
        oar.Perturb(1),
    )
    with pytest.raises(oar.errors.OptionError, match="several: must be 'mean'"):
        oar.questions.leverage(worst)


def test_what_stops_before_its_minimum_has_leverage_where_it_stops():
    """By its own refits, to the few percent that its Hessian there, damped, is off; and that is said."""
    from sklearn.base import clone
    from sklearn.linear_model import SGDClassifier

    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    codes = (features.sum(axis=1) + 0.3 * rng.normal(size=60) > 0).astype(int)
    estimator = SGDClassifier(loss="log_loss", random_state=0, alpha=0.05)
    problem = oar.Problem(oar.Population(features, codes), estimator, oar.Query([-0.4, -0.2], goal=1), oar.Perturb(0.1))
    found = oar.questions.leverage(problem)

    def loss(moves):
        return -clone(estimator).fit(features + moves, codes).predict_log_proba([[-0.4, -0.2]])[0, 1]

    way = found.slopes / np.linalg.norm(found.slopes)
    assert found.loss == pytest.approx(loss(0.0), rel=1e-6)
    assert (loss(0.1 * way) - loss(-0.1 * way)) / 0.2 == pytest.approx(np.linalg.norm(found.slopes), rel=0.05)
    assert "not exact" in found.note


PARTS_MODELS = [
    oar.NearestCentroid(),
    oar.SoftmaxRegression(l2=0.05),
    oar.models.Scaled(oar.SoftmaxRegression(l2=0.05)),
]


@pytest.mark.parametrize("model", PARTS_MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("queries", [1, 3])
def test_of_people_in_parts_it_is_that_of_the_same_people_in_memory(tmp_path, model, queries):
    frame = pd.DataFrame(people_of().features, columns=["age", "income"])
    frame = frame.assign(y=people_of().labels, w=people_of().weights)
    for part in range(3):
        frame.iloc[part * 7 : (part + 1) * 7].to_parquet(tmp_path / f"{part}.parquet")
    people = oar.Population.from_parquet(tmp_path, target="y", weights="w")
    query = oar.Query(people_of().features[:queries] + 0.2 if queries > 1 else people_of().features[0] + 0.2, 2)
    action = oar.Perturb(0.3, participants=np.arange(SIZE) < 15)
    here, there = (oar.questions.leverage(oar.Problem(one, model, query, action)) for one in (people, people.loaded()))
    np.testing.assert_allclose(here.members, there.members, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(here.features, there.features, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(here.slopes[[3, 9]], there.slopes[[3, 9]], rtol=1e-6, atol=1e-9)
    assert here.classes == pytest.approx(there.classes, rel=1e-6)
    assert here.total == pytest.approx(there.total)
    assert here.loss == pytest.approx(there.loss)
    tables = [one.table("member")["leverage"].sort_index() for one in (here, there)]
    np.testing.assert_allclose(*tables, rtol=1e-6, atol=1e-9)
    assert "income" in str(here)
    before = people.passes
    str(here), here.total, here.largest, here.table("class")
    assert people.passes == before  # every sum is made once
    assert here.plot() is not None
