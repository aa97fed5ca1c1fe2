"""Robustness is what true refits say: it agrees with the audit, with scikit-learn, and with what was asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import oar
from oar.models import GaussianNaiveBayes, LinearSVM, Ridge, Scaled
from oar.people import Chunk
from oar.plans import MemberPlan
from oar.plans.refits import Refits
from oar.plans.robustness import DrawnErrors, InexactMoves

L2 = 0.05


def blobs(seed=0, size=60, values=False, weights=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 2
    features = rng.normal(size=(size, 3)) + 1.5 * labels[:, None]
    if values:
        labels = features @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=size)
    return oar.Population(features, labels, rng.choice([0.5, 1.0, 2.0], size) if weights else None)


def planned(model, action=None, seed=0):
    people = blobs(seed, values=model is not None and getattr(model, "regresses", False))
    query = oar.Query([0.5, 0.3, 0.6], 1)
    if getattr(model, "regresses", False):
        query = oar.Query([0.5, 0.3, 0.6], 1.0, within=0.3)
    solver = "one-shot" if isinstance(model, LinearSVM) else "auto"
    return oar.collective(oar.Problem(people, model, query, action or oar.Perturb(0.4)), solver=solver)


def table(size=80):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(2000, 500, size).round(1),
            "age": rng.integers(20, 60, size),
            "owner": rng.random(size) < 0.5,
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], size), ["low", "mid", "high"], ordered=True),
            "purpose": rng.choice(["car", "home", "school"], size),
        }
    )
    good = (
        frame["income"] + 300 * frame["owner"] + 200 * frame["grade"].cat.codes.astype(int) + rng.normal(0, 300, size)
        > 2300
    )
    people = oar.Population.from_frame(frame.assign(approved=np.where(good, "yes", "no")), "approved")
    limits = {
        "income": oar.Limit(direction="up", upper=2800),
        "age": oar.Limit(upper=55.5, direction="up"),
        "purpose": oar.Limit(levels=["car"]),
    }
    query = dict(frame.iloc[int(np.flatnonzero(~good)[0])])
    return oar.Problem(
        people, Scaled(oar.SoftmaxRegression(l2=L2)), oar.Query(query, "yes"), oar.Perturb(1.5, limits=limits)
    )


MODELS = [oar.NearestCentroid(), oar.SoftmaxRegression(l2=L2), Ridge(l2=L2), LinearSVM(l2=L2), GaussianNaiveBayes()]
ACTIONS = [oar.Relabel(most=4), oar.Withhold(most=6), [oar.Perturb(0.3), oar.Relabel(most=2), oar.Withhold(most=3)]]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_without_mishap_it_is_the_audited_outcome_and_without_actors_the_model_before(model):
    result = planned(model)
    exact = result.plan.robustness(noise=1e-12, draws=2)
    assert exact.losses == pytest.approx(result.loss, rel=1e-6, abs=1e-9)
    assert exact.successes.all() == result.success == exact.planned_success
    nobody = result.plan.robustness(defection=1.0, draws=2)
    assert nobody.losses == pytest.approx(result.loss_before, rel=1e-6, abs=1e-9)
    assert nobody.successes.any() == result.audit.success_before
    assert (nobody.acted == 0).all()
    assert nobody.loss_before == pytest.approx(result.loss_before, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(l2=L2)], ids=lambda model: model.name)
@pytest.mark.parametrize("action", ACTIONS, ids=["labels", "strike", "all"])
def test_labels_and_strikes_defect_too(model, action):
    result = planned(model, action)
    found = result.plan.robustness(defection=0.5, draws=20, seed=4)
    assert found.planned_loss == pytest.approx(result.loss, rel=1e-6)
    assert found.planned_success == result.success
    assert found.actors == Refits(result.plan).actors.sum() > 0
    assert 0 < found.acted.mean() < found.actors
    nobody = result.plan.robustness(defection=1.0, draws=1)
    assert nobody.losses == pytest.approx(result.loss_before, rel=1e-6)


def refitted(features, labels, weights):
    """Refit by scikit-learn; return the loss of the query for goal 1, and whether it is predicted."""
    weights = weights / weights.sum()
    fit = LogisticRegression(C=1 / L2, solver="newton-cholesky", tol=1e-12, max_iter=500)
    fit.fit(features, labels, sample_weight=weights)
    query = np.array([[0.5, 0.3, 0.6]])
    return -fit.predict_log_proba(query)[0, 1], fit.predict(query)[0] == 1


def test_a_draw_of_each_kind_is_what_scikit_learn_says():
    result = planned(oar.SoftmaxRegression(l2=L2))
    people, moves = result.problem.people, result.plan.moves()
    found = result.plan.robustness(defection=0.4, draws=3, seed=7)
    for draw in range(3):
        rng = np.random.default_rng((7, draw))
        loss, success = refitted(
            people.features + moves * (rng.random(60) >= 0.4)[:, None], people.labels, people.weights
        )
        assert found.losses[draw] == pytest.approx(loss, rel=1e-7)
        assert found.successes[draw] == success
    found = result.plan.robustness(stale=0.3, draws=3, seed=7)
    for draw in range(3):
        rng = np.random.default_rng((7, draw))
        rng.random(60)
        gone, donors = rng.random(60) < 0.3, rng.integers(60, size=60)
        features, who = people.features + moves, np.where(gone, donors, np.arange(60))
        features[gone] = people.features[donors[gone]]
        loss, _ = refitted(features, people.labels[who], people.weights[who])
        assert found.losses[draw] == pytest.approx(loss, rel=1e-7)
        assert found.replaced[draw] == gone.sum()


def test_noise_is_as_wide_as_asked_and_only_where_somebody_moves():
    result = planned(oar.SoftmaxRegression(l2=L2))
    refits = Refits(result.plan)
    people, weights = result.problem.people, refits.before.weights / refits.before.weights.sum()
    spread = np.sqrt(weights @ (people.features - weights @ people.features) ** 2)
    rng, inexact, each = np.random.default_rng(0), InexactMoves(result.plan, refits, 0.2), refits.planned.moves.copy()
    each[::2] = 0.0
    errors = np.array([inexact.moves(each, rng) - each for _ in range(400)])
    assert not errors[:, ::2].any()
    assert errors[:, 1::2].std(axis=(0, 1)) == pytest.approx(0.2 * spread, rel=0.03)
    assert np.abs(errors.mean(axis=(0, 1))).max() < 0.01


def test_on_a_table_inexact_moves_are_still_rows_of_it_within_its_limits():
    result = oar.collective(table())
    people, refits = result.problem.people, Refits(result.plan)
    rng, inexact = np.random.default_rng(0), InexactMoves(result.plan, refits, 0.5)
    before = people.encoding.decode(people.features)
    moved = set()
    for _ in range(30):
        moves = inexact.moves(refits.planned.moves, rng)
        for person in range(0, people.size, 7):
            people.encoding.check_person(people.features[person] + moves[person], "person")
        after = people.encoding.decode(people.features + moves)
        assert (after["income"] <= np.maximum(before["income"], 2800) + 1e-9).all()
        assert (after["income"] >= before["income"] - 1e-9).all()
        assert (after["age"] <= np.maximum(before["age"], 55)).all()
        assert (after["age"] >= before["age"]).all()
        assert ((after["purpose"] == before["purpose"]) | (after["purpose"] == "car")).all()
        moved |= {name for name in before if (before[name].astype(str) != after[name].astype(str)).any()}
        assert not moves[~refits.actors].any()
    assert len(moved) > 1
    certain = InexactMoves(result.plan, refits, 5.0).moves(refits.planned.moves, rng)
    places = [people.encoding.places[name] for name in ("owner", "purpose")]
    assert not any(certain[:, place].any() for place in places)  # no switch happens
    assert oar.results.Plan.robustness(result.plan, noise=1e-9, draws=1).losses == pytest.approx(result.loss, rel=1e-6)


def test_draws_are_nested_and_repeatable():
    plan = planned(oar.SoftmaxRegression(l2=L2)).plan
    few, many = (plan.robustness(defection=0.3, noise=0.1, stale=0.1, draws=draws, seed=2) for draws in (5, 12))
    assert (few.losses == many.losses[:5]).all()
    assert (few.losses != plan.robustness(0.3, 0.1, 0.1, draws=5, seed=3).losses).all()
    less = plan.robustness(defection=0.1, draws=12, seed=2)
    assert (less.acted >= many.acted).all()


def test_it_can_be_read():
    found = planned(oar.NearestCentroid()).plan.robustness(defection=0.2, draws=40)
    low, high = found.interval
    assert 0 <= low <= found.success_rate <= high <= 1
    assert found.quantiles[0.5] == pytest.approx(np.median(found.losses))
    assert list(found.frame().columns) == ["loss", "success", "acted", "replaced"]
    assert len(found.frame()) == found.draws == 40
    assert "40 draws" in str(found)
    assert "each of 60 actors stays out at 0.2\n" in str(found)
    assert repr(found).startswith("Robustness(success ")


def test_a_class_that_nobody_is_left_in_is_no_success():
    people = oar.Population([[0.0], [0.2], [0.4], [1.0]], ["no", "no", "no", "yes"])
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(l2=L2)):
        result = oar.collective(oar.Problem(people, model, oar.Query([0.55], "yes"), oar.Perturb(0.3)))
        found = result.plan.robustness(stale=1.0, draws=30)
        assert 0 < found.failed < 30
        assert not found.successes[np.isnan(found.losses)].any()
        assert np.isfinite(list(found.quantiles.values())).all()
        assert "no refit" in str(found)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "at least one must be above 0"),
        ({"defection": 1.5}, "defection: must be a probability"),
        ({"stale": -0.1}, "stale: must be a number of at least 0"),
        ({"noise": "much"}, "noise: must be a number"),
        ({"noise": float("nan")}, "noise: must be a number"),
        ({"noise": 0.1, "draws": 0}, "draws: must be a whole number"),
        ({"noise": 0.1, "seed": -1}, "seed: must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused(settings, words):
    with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=words):
        planned(oar.NearestCentroid()).plan.robustness(**settings)


def test_what_would_do_nothing_is_refused():
    still = planned(oar.NearestCentroid(), oar.Perturb(0.0)).plan
    with pytest.raises(oar.errors.OptionError, match="nobody can defect"):
        still.robustness(defection=0.1)
    with pytest.raises(oar.errors.OptionError, match="no move can be inexact"):
        still.robustness(noise=0.1)
    assert still.robustness(stale=0.1, draws=3).actors == 0


@pytest.fixture
def in_parts(tmp_path):
    """Return a problem of people in two files, and the same people in memory."""
    features, labels = blobs().features, blobs().labels
    frame = pd.DataFrame(features, columns=["a", "b", "c"]).assign(y=labels)
    for part in range(2):
        frame.iloc[part * 30 : (part + 1) * 30].to_parquet(tmp_path / f"{part}.parquet")
    people = oar.Population.from_parquet(tmp_path, target="y")
    query = oar.Query([0.5, 0.3, 0.6], 1)

    def both(model):
        return [oar.Problem(one, model, query, oar.Perturb(0.4)) for one in (people, people.loaded())]

    return both


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(l2=L2)], ids=lambda model: model.name)
def test_of_people_in_parts_it_is_that_of_the_same_people_in_memory(in_parts, model):
    streamed, memory = in_parts(model)
    plan = oar.collective(streamed).plan
    moves = plan.contribution().parts[0][np.arange(60)]
    same = MemberPlan(memory, np.zeros(3), moves)
    for what in ({"defection": 0.4}, {"stale": 0.3}, {"defection": 0.2, "stale": 0.2}):
        here, there = (one.robustness(draws=4, seed=3, **what) for one in (plan, same))
        np.testing.assert_allclose(here.losses, there.losses, rtol=1e-6, atol=1e-8)
        assert here.successes.tolist() == there.successes.tolist()
        assert here.acted.tolist() == there.acted.tolist()
        assert here.replaced.tolist() == there.replaced.tolist()
    here, there = (one.robustness(noise=0.2, draws=40, seed=3) for one in (plan, same))
    assert here.losses.std() == pytest.approx(there.losses.std(), rel=0.5)
    assert here.losses.mean() == pytest.approx(there.losses.mean(), rel=0.05)
    exact = plan.robustness(noise=1e-12, draws=1)
    assert exact.losses[0] == pytest.approx(exact.planned_loss, rel=1e-6)


def test_errors_of_people_in_parts_do_not_depend_on_the_parts():
    drawn = DrawnErrors((1, 2), 3)

    def of(start, stop):
        rows = np.zeros((stop - start, 3))
        return drawn.of_chunk(Chunk(start, rows, np.zeros(stop - start, int), None, None))

    everyone = of(0, 5_000)
    np.testing.assert_array_equal(np.concatenate([of(0, 1_500), of(1_500, 1_501), of(1_501, 5_000)]), everyone)
    assert everyone.std(axis=0) == pytest.approx(1, rel=0.05)
    assert np.abs(np.corrcoef(everyone[:1_024].ravel(), everyone[1_024:2_048].ravel())[0, 1]) < 0.1


def test_of_many_people_in_parts_those_who_come_are_some_of_all(in_parts, monkeypatch):
    monkeypatch.setattr("oar.plans.robustness.POOL", 12)
    streamed, memory = in_parts(oar.NearestCentroid())
    plan = oar.collective(streamed).plan
    everyone = oar.collective(memory).plan.robustness(stale=0.5, draws=60)
    some = plan.robustness(stale=0.5, draws=60)
    assert some.losses.mean() == pytest.approx(everyone.losses.mean(), rel=0.1)


def test_after_the_time_there_are_no_more_draws(monkeypatch):
    plan = planned(oar.SoftmaxRegression(l2=L2)).plan
    late = plan.robustness(defection=0.3, draws=5, time_limit=0)
    assert (late.draws, late.asked, late.interval) == (0, 5, (0.0, 1.0))
    assert np.isnan(late.success_rate)
    assert not late.planned_success
    assert "over after 0 of 5 draws" in str(late)
    assert np.isnan(late.quantiles[0.5])
    whole = plan.robustness(defection=0.3, draws=5)
    assert whole.note == ""
    looks = iter([False] * 3 + [True] * 3)  # before all draws, and before each
    monkeypatch.setattr("oar.plans.robustness.is_late", lambda: next(looks))
    soon = plan.robustness(defection=0.3, draws=5)
    np.testing.assert_array_equal(soon.losses, whole.losses[:2])
    assert soon.planned_loss == whole.planned_loss
    assert "over after 2 of 5 draws" in soon.note
    with pytest.raises(oar.errors.DataError, match="time_limit"):
        plan.robustness(defection=0.3, time_limit="soon")
