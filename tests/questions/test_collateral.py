"""What happens to others is what refits by code that is not ours say about each of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid as SklearnCentroid
from support.people_in_parts import asked as asked_in_parts
from support.people_in_parts import blobs, halves

import oar
from oar.models import GaussianNaiveBayes, LinearSVM, Ridge, Scaled
from oar.plans import MemberPlan, Proposal, Result
from oar.questions.collateral import EFFECTS, PredictionChanges
from oar.referee.witnesses.refits import refit

SOFTMAX = oar.SoftmaxRegression(l2=0.05)
MODELS = [
    SOFTMAX,
    Scaled(SOFTMAX),
    Scaled(SOFTMAX, frozen=True),
    Ridge(l2=0.1),
    LinearSVM(l2=0.1),
    GaussianNaiveBayes(),
]


def problem(model, classes=3, budget=0.8, seed=0, size=120):
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % classes
    features = rng.normal(size=(size, 3)) + 0.8 * labels[:, None] * [1, -1, 0.5]
    query = oar.Query([0.5, 0.3, 0.6], 1)
    if isinstance(model, Ridge):
        labels, query = features @ [1.0, -0.5, 0.2], oar.Query([0.5, 0.3, 0.6], 2.0, within=0.3)
    people = oar.Population(features, labels, rng.choice([0.5, 1.0, 2.0], size))
    return oar.Problem(people, model, query, oar.Perturb(budget, participants=np.arange(size) < size // 2))


def solved(asked):
    return oar.collective(asked, solver="auto" if isinstance(asked.model, oar.NearestCentroid) else "one-shot")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_predictions_are_those_of_the_audits_witnesses(model):
    result = solved(problem(model))
    people, found = result.problem.people, oar.questions.collateral(result)
    moved = people.features + result.plan.moves()
    some = np.random.default_rng(2).choice(people.size, 40, replace=False)
    for features, rows, said in ((people.features, people.features, found.before), (moved, moved, found.after)):
        witness = refit(model, people, features)
        for person in some:
            outputs = witness.outputs(rows[person][None])[0]
            if isinstance(model, Ridge):
                assert said[person] == pytest.approx(outputs, rel=1e-6)
            else:
                assert said[person] == model.predicted_class(outputs)
    assert found.bystanders.people == 60
    assert found.bystanders.changed > 0


def test_counts_are_those_of_scikit_learn():
    result = solved(problem(SOFTMAX))
    people, moves = result.problem.people, result.plan.moves()
    weights = people.weights / people.weights.sum()
    fits = [
        LogisticRegression(C=1 / 0.05, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(
            people.features + move, people.labels, sample_weight=weights
        )
        for move in (0.0, moves)
    ]
    before, after = (fit.predict(people.features) for fit in fits)
    found, still = oar.questions.collateral(result), ~moves.any(axis=1)
    assert found.bystanders.people == still.sum()
    assert found.bystanders.changed == (before != after)[still].sum()
    assert found.bystanders.towards == ((before != 1) & (after == 1))[still].sum()
    assert found.bystanders.away == ((before == 1) & (after != 1))[still].sum()
    expected = pd.crosstab(before[still], after[still]).reindex(index=range(3), columns=range(3), fill_value=0)
    assert (found.table.to_numpy() == expected.to_numpy()).all()
    assert found.own_before == pytest.approx(np.average(before == people.labels, weights=weights))
    assert found.own_after == pytest.approx(np.average(after == people.labels, weights=weights))
    assert found.actors.changed == (before != fits[1].predict(people.features + moves))[~still].sum()
    there = fits[1].predict(people.features + moves)
    for some, inside, then in ((found.bystanders, still, after), (found.actors, ~still, there)):
        assert some.wanted_before == pytest.approx((before == 1)[inside].mean())
        assert some.wanted_after == pytest.approx((then == 1)[inside].mean())
        assert some.score_before == pytest.approx((before == people.labels)[inside].mean())
        assert some.score_after == pytest.approx((then == people.labels)[inside].mean())
        assert (some.towards - some.away) / some.people == pytest.approx(some.wanted_after - some.wanted_before)
    frame = found.frame()
    assert frame["person"].tolist() == np.flatnonzero(still & (before != after)).tolist()
    assert frame["before"].tolist() == before[frame["person"].astype(int)].tolist()
    assert frame["after"].tolist() == after[frame["person"].astype(int)].tolist()
    assert (frame["effect"] == "towards").sum() == found.bystanders.towards
    others = solved_people(50)
    outside = oar.questions.collateral(result, held_out=others)
    for fit, score in zip(fits, (outside.held_out_before, outside.held_out_after), strict=True):
        assert score == pytest.approx(fit.score(others.features, others.labels))


def solved_people(size, seed=9):
    other = problem(SOFTMAX, seed=seed, size=size).people
    return oar.Population(other.features, other.labels)


def test_nearest_centroid_too():
    asked = problem(oar.NearestCentroid())
    result = solved(replace(asked, people=oar.Population(asked.people.features, asked.people.labels)))
    people, moves = result.problem.people, result.plan.moves()
    before, after = (SklearnCentroid().fit(people.features + move, people.labels) for move in (0.0, moves))
    found = oar.questions.collateral(result)
    assert (found.before == before.predict(people.features)).all()
    assert (found.after == after.predict(people.features + moves)).all()


def test_values_have_a_mean_change_and_quantiles():
    result = solved(problem(Ridge(l2=0.1)))
    found = oar.questions.collateral(result, groups=np.arange(120) % 2, held_out=result.problem.people)
    changes = (found.after - found.before)[~found.acts, 0]
    assert found.change[0]["mean"] == pytest.approx(changes.mean())
    assert found.change[0]["95%"] == pytest.approx(np.quantile(changes, 0.95))
    nearer = np.abs(found.after - 2.0) < np.abs(found.before - 2.0)
    changed = np.abs(found.after - found.before) > 0.01 * found.before.std()
    assert 0 < found.bystanders.changed == changed[~found.acts].sum()
    assert found.bystanders.towards == (changed & nearer)[~found.acts].sum()
    acting = found.actors_by_group
    assert (acting["actors"].sum(), acting["changed"].sum()) == (found.actors.people, found.actors.changed)
    assert found.score == "mean squared error"
    assert found.own_after > found.own_before > 0
    assert (found.held_out_before, found.held_out_after) == pytest.approx((found.own_before, found.own_after))
    assert (found.by_group["mean change"] * found.by_group["bystanders"]).sum() == pytest.approx(changes.sum())
    assert len(found.frame()) == found.bystanders.changed
    with pytest.raises(oar.errors.DataError, match="use `change`"):
        _ = found.table
    with pytest.raises(oar.errors.DataError, match="use `table`"):
        _ = oar.questions.collateral(solved(problem(SOFTMAX))).change


def test_who_is_relabelled_or_leaves_is_no_bystander():
    asked = problem(SOFTMAX, classes=2)
    result = oar.collective(replace(asked, action=[oar.Relabel(most=3), oar.Withhold(most=4)]))
    found = oar.questions.collateral(result)
    assert found.bystanders.people == 120 - (result.audit.relabelled + result.audit.leavers)
    assert found.actors.people == 7


def table():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"income": rng.normal(2, 1, 140), "home": rng.choice(["own", "rent"], 140), "sex": rng.choice(["f", "m"], 140)},
        index=[f"p{number}" for number in range(140)],
    )
    frame["good"] = np.where(frame["income"] + (frame["home"] == "own") + rng.normal(0, 0.5, 140) > 2.5, "yes", "no")
    train, test = frame.iloc[:80], frame.iloc[80:]
    people = oar.Population.from_frame(train, "good")
    query = oar.Query({"income": 1.5, "home": "rent", "sex": "f"}, "yes")
    action = oar.Perturb(1.5, participants=np.arange(80) < 40)
    return oar.collective(oar.Problem(people, Scaled(SOFTMAX), query, action), solver="one-shot"), train, test


def test_groups_and_held_out_people_of_a_table():
    result, train, test = table()
    found = oar.questions.collateral(result, held_out=test, groups="sex")
    by = found.by_group
    assert list(by.index) == ["f", "m"]
    assert by["bystanders"].sum() == found.bystanders.people
    for name in ("changed", "towards", "away"):
        assert by[name].sum() == getattr(found.bystanders, name)
    effects = pd.Series(np.array(EFFECTS)[found.effects], index=train.index)
    women = (train["sex"] == "f") & ~found.acts
    assert by.loc["f", "changed"] == (effects[women] != "none").sum()
    assert by.loc["f", "share"] == pytest.approx((effects[women] != "none").mean())
    schema = result.problem.people.schema
    again = oar.questions.collateral(
        result, held_out=oar.Population.from_frame(test, "good", schema=schema), groups=["sex", "home"]
    )
    assert again.held_out_before == found.held_out_before
    assert again.held_out_after == found.held_out_after
    assert len(again.by_group) == 4
    assert set(found.frame()["person"]) <= set(train.index)
    assert "on 60 held-out people" in str(found)
    assert "sex" in str(found)
    assert repr(found) == f"Collateral({found.told})"


@pytest.mark.parametrize("numbers", [True, False])
def test_people_whose_group_is_missing_are_counted(numbers):
    result, train, _ = table()
    group = train["income"].copy() if numbers else train["sex"].copy()
    group.iloc[50:60] = None
    found = oar.questions.collateral(result, groups=group)
    assert found.by_group["bystanders"].sum() == found.bystanders.people
    assert found.by_group.loc["missing", "bystanders"] == (~found.acts[50:60]).sum() > 0


def test_what_does_not_fit_is_refused():
    result, _, test = table()
    for wrong, words in (
        (test.drop(columns="good"), "held_out: must have the column of labels 'good'"),
        (test.drop(columns="sex"), "held_out"),
        (test.assign(good="perhaps"), "held_out labels: must be one of the classes"),
        (test.assign(sex="x"), "held_out"),
        (test.iloc[:0], "at least one row"),
        (solved_people(10), "held_out: must have the people's 5 features"),
        ([1, 2], "held_out: must be an oar.Population"),
    ):
        with pytest.raises(oar.errors.OARError, match=words):
            oar.questions.collateral(result, held_out=wrong)
    with pytest.raises(oar.errors.OptionError, match="groups"):
        oar.questions.collateral(result, groups="gender")
    with pytest.raises(oar.errors.DataError, match="result: must be"):
        oar.questions.collateral(result.plan)
    with pytest.raises(oar.errors.DataError, match="must be an oar.Population where the people are no table"):
        oar.questions.collateral(solved(problem(SOFTMAX)), held_out=test)


def test_harm_is_told_first_and_with_what_limits_it():
    result = solved(problem(SOFTMAX, classes=2))
    found = oar.questions.collateral(result)
    losing = replace(found, actors=PredictionChanges(60, 8, 1, 7), bystanders=PredictionChanges(60, 0, 0, 0))
    assert losing.harms
    assert losing.told == (
        "More people are harmed by it than helped. Of 60 members who act, 7 lose the prediction 1 that they had and 1 "
        "gain it; of 60 people who do nothing, 0 lose the prediction 1 that they had and 0 gain it. Limit that by "
        f"oar.Keep(lost=…{', worse=…' if found.own_after < found.own_before else ''})."
    )
    assert str(losing).startswith(losing.told)
    others = replace(found, actors=PredictionChanges(60, 9, 9, 0), bystanders=PredictionChanges(60, 5, 1, 4))
    assert others.told.startswith("More of those who do nothing are harmed by it than helped. ")
    assert "changed=…" in others.told
    helping = replace(found, actors=PredictionChanges(60, 8, 7, 1), bystanders=PredictionChanges(0, 0, 0, 0))
    assert not helping.harms
    assert helping.told == "Of 60 members who act, 1 lose the prediction 1 that they had and 7 gain it."


def test_who_asks_is_neither_actor_nor_bystander():
    asked = problem(SOFTMAX)
    asking = replace(asked, query=oar.Query(oar.Members([0, 1, 119], stay=True), 1))
    found = oar.questions.collateral(solved(asking))
    assert not found.acts[[0, 1, 119]].any()
    assert not found.stays[[0, 1, 119]].any()
    assert found.everyone.people == found.actors.people + found.bystanders.people == 117


@pytest.mark.parametrize("model", [oar.NearestCentroid(), SOFTMAX, Ridge(l2=0.1)], ids=lambda model: model.name)
def test_people_in_parts_are_counted_as_in_memory(tmp_path, model):
    features, labels, query = blobs(150)
    goal = 1
    if isinstance(model, Ridge):
        labels, goal = features @ [1.0, -0.5, 0.2], 0.5
    people = oar.Population.from_parquet(halves(tmp_path / "people", features, labels), target="label")
    few = oar.Perturb(0.5, participants=np.arange(150) % 3 == 0)
    there = oar.collective(replace(asked_in_parts(people, model, query, goal), action=few))
    moves = there.plan.contribution().moves[np.arange(150)]
    asked = replace(there.problem, people=people.loaded())
    plan = MemberPlan(asked, np.zeros(3), moves)
    here = Result(asked, Proposal(plan, "by hand", 0.0, 0.0, 0.0, False, False, True, 0, 0), oar.audit(plan))
    held_out = oar.Population(pd.DataFrame(blobs(30, seed=1)[0], columns=["x0", "x1", "x2"]), labels[:30])
    both = [oar.questions.collateral(one, held_out=held_out, groups=["x0"]) for one in (there, here)]
    for name in ("bystanders", "actors", "everyone", "own_before", "own_after", "held_out_before", "held_out_after"):
        found, expected = (getattr(one, name) for one in both)
        assert found == pytest.approx(expected, rel=1e-6)
    assert both[0].bystanders.people == 100
    for name in ("by_group", "actors_by_group", "everyone_by_group"):
        pd.testing.assert_frame_equal(*(getattr(one, name) for one in both), check_dtype=False)
    frames = [one.frame().drop(columns="person") for one in both]
    pd.testing.assert_frame_equal(*frames, check_dtype=False)
    assert len(str(both[0])) == len(str(both[1]))
