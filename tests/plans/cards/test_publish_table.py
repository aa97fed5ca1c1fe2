"""Cards of tables: what is on them, what members make of them, and that no limit is ever broken."""

import dataclasses
import itertools
import json
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.random_tables import worlds
from support.rule_tables import frame_of, keeps, people_of, rows_of

import oar
from oar import Limit, Limits
from oar.models import MLP, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression
from oar.plans import MemberPlan
from oar.plans.cards.publish import FEWEST
from oar.plans.cards.publish_table import table_cards
from oar.plans.cards.signals import SignalSource
from oar.plans.cards.table.score import TableScore
from oar.referee.table_moves import TableMoveCheck
from oar.retraining.contribution import Contribution

LIMITS = Limits(
    {
        "age": Limit(immutable=True),
        "income": Limit(direction="up", upper=5_000),
        "savings": Limit(lower=0),
        "months": Limit(lower=12, upper=60, step=6),
        "purpose": Limit(levels=("car", "education")),
    },
    links=["savings <= 5 * income", "0 <= change(income) <= 9000", "savings <= 5 * income"],
    rules=["if purpose == 'education' then months <= 48"],
)


ME = {"age": 31, "income": 2_400, "savings": 900.0, "months": 36, "owns_home": False, "purpose": "business"}


def credit(size=80, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, size),
            "income": rng.normal(2_500, 600, size).round(),
            "savings": rng.gamma(2.0, 1_500, size),
            "months": rng.integers(2, 10, size) * 6,
            "owns_home": rng.random(size) < 0.3,
            "purpose": rng.choice(["business", "car", "education"], size),
        }
    )
    score = frame["income"] / 600 + frame["savings"] / 2_000 - frame["months"] / 15 + frame["owns_home"]
    score += frame["purpose"].map({"business": -0.5, "car": 0.0, "education": 0.5}) + rng.normal(0, 0.5, size)
    return frame, score


def problem_of(model, budget=0.5, norm=2, limits=LIMITS, size=80, **action):
    frame, score = credit(size)
    if model is not None and getattr(model, "regresses", False):
        query, target = oar.Query(frame.iloc[4], 6.0, within=0.1), score
    else:
        target = pd.Series(np.where(score > 3.5, "yes", "no"))
        query = oar.Query(frame[target == "no"].iloc[4], "yes")
    people = oar.Population.from_frame(frame.assign(outcome=target), "outcome")
    return oar.Problem(people, model, query, oar.Perturb(budget, norm, limits=limits, **action))


def first_card(problem, seed=None):
    """Return a plan and a card that no refit has judged: the signal of the people as they are, or a random one."""
    stay = np.zeros((problem.people.size, problem.people.dimensions))
    plan = MemberPlan(problem, stay[0], stay)
    model = PrototypeNetwork() if isinstance(problem.model, oar.NearestCentroid) else problem.model
    parameters, signal = SignalSource(problem, model).pair(Contribution())
    if seed is not None:
        signal = np.random.default_rng(seed).normal(size=signal.size)
    plan = dataclasses.replace(plan, parameters=parameters, signal=signal)
    return plan, next(table_cards(plan))


def violations(plan):
    judge = TableMoveCheck(plan.problem)
    for chunk in plan.problem.people.chunks():
        judge.check(chunk, plan.of_chunk(chunk))
    return judge.violations


FAMILIES = [
    SoftmaxRegression(1e-2),
    LinearSVM(1e-2),
    PrototypeNetwork(),
    GaussianNaiveBayes(1e-3),
    Scaled(MLP((2,), l2=1e-1)),
    Ridge(1e-2),
    Scaled(SoftmaxRegression(1e-2)),
    Scaled(SoftmaxRegression(1e-2), frozen=True),
    Scaled(LinearSVM(1e-2)),
    Scaled(PrototypeNetwork()),
    Scaled(GaussianNaiveBayes()),
    Scaled(Ridge(1e-2)),
]


@pytest.mark.parametrize("model", FAMILIES, ids=lambda model: model.name)
def test_the_card_scores_as_training_does_and_slopes_are_those_of_its_values(model):
    problem = problem_of(model)
    people, training = problem.people, model.training(problem.people)
    rng = np.random.default_rng(3)
    moves = rng.normal(size=people.features.shape) * people.features.std(axis=0)
    fit = training.fit(training.moved(moves), training.start(), 1e-8 if model.convex else 1e-3)
    signal = rng.normal(size=fit.parameters.size)
    wanted = training.score_gradients(fit.parameters, training.moved(moves), signal)
    values = training.scores(fit.parameters, training.moved(moves), signal, model.targets(people))
    given_units = getattr(training, "in_given_units", lambda vector: vector)
    stay = np.zeros_like(moves)
    plan = MemberPlan(problem, stay[0], stay, given_units(fit.parameters), given_units(signal))
    card = next(table_cards(plan))
    sent = card.broadcast
    score = TableScore(sent.model, sent.parameters, sent.signal, card.table.scaler)
    found, slopes = score(people.features + moves, model.targets(people))
    np.testing.assert_allclose(slopes, wanted, rtol=1e-7, atol=1e-9 * np.abs(wanted).max())
    # A constant for each label is left out: compare differences within a class, and everywhere for values.
    codes = np.zeros(people.size) if model.regresses else people.class_rows()[:, 1]
    for code in np.unique(codes):
        here = codes == code
        np.testing.assert_allclose(
            found[here] - found[here][0],
            values[here] - values[here][0],
            rtol=1e-7,
            atol=1e-8 * np.abs(values).max(),
        )
    for at in range(people.dimensions):
        step = 1e-5 * max(float(people.features[:, at].std()), 1.0)
        ends = [
            score(people.features + moves + sign * step * np.eye(people.dimensions)[at], model.targets(people))[0]
            for sign in (1, -1)
        ]
        differences = (ends[0] - ends[1]) / (2 * step)
        smooth = np.abs(differences - slopes[:, at]) <= 1e-4 * np.abs(slopes).max() + 1e-6
        assert smooth.mean() > 0.95  # an SVM has kinks


@pytest.mark.parametrize(
    ("model", "norm"),
    [
        (Scaled(SoftmaxRegression(1e-3)), 1),
        (Scaled(SoftmaxRegression(1e-3)), 2),
        (Scaled(SoftmaxRegression(1e-3)), np.inf),
        (SoftmaxRegression(1e-3), 2),
        (Scaled(LinearSVM(1e-2)), 2),
        (oar.NearestCentroid(), 1),
        (Scaled(PrototypeNetwork()), 2),
        (Scaled(GaussianNaiveBayes()), 1),
        (Scaled(Ridge()), 2),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_members_at_home_keep_the_gain_and_every_limit(model, norm):
    result = oar.collective(problem_of(model, norm=norm))
    card = result.plan.card()
    audited = oar.audit(result.plan.followed(card))
    assert not audited.violations
    assert result.loss_before - audited.loss > 0.9 * (result.loss_before - result.loss)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds(most_rows=36), st.integers(0, 2**32 - 1))
def test_no_limit_is_ever_broken(world, seed):
    try:
        problem = world.problem(Scaled(SoftmaxRegression(1e-2)))
    except oar.errors.OptionError:  # two limits that contradict each other
        return
    shares = problem.people.class_rows() * (1.0 if world.weights is None else world.weights[:, None])
    assume((shares.sum(axis=0) ** 2 >= FEWEST * (shares**2).sum(axis=0)).all())  # there are no cards of tiny classes
    plan, card = first_card(problem, seed)
    followed = plan.followed(card)
    assert not violations(followed)
    assert not world.broken(types.SimpleNamespace(plan=followed))


RULES = [
    "if job == 'none' then income <= 18",
    "if owns and age < 23 then income >= 20",
    "if grade == 'high' then job != 'none'",
    "if income > 22 then grade >= 'middle'",
    "if job == 'full' then 2 * age <= income + 30",
]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sets(st.sampled_from(RULES), min_size=1), st.sampled_from((1, 2, np.inf)))
def test_rules_are_kept(seed, rules, norm):
    frame = frame_of(30, seed)
    limits = Limits({"age": Limit(direction="up")}, links=["income <= 2 * age"], rules=sorted(rules))
    query = oar.Query(frame.drop(columns="label").iloc[0], "yes")
    problem = oar.Problem(people_of(frame), SoftmaxRegression(1e-2), query, oar.Perturb(1.5, norm, limits=limits))
    plan, card = first_card(problem, seed)
    followed = plan.followed(card)
    assert not violations(followed)
    for before, after in zip(rows_of(frame), rows_of(followed.table()), strict=True):
        assert all(keeps(text, before, after, slack=1e-7) for text in rules)


def test_links_and_rules_shorten_changes_in_place_of_forbidding_them():
    """Income may grow until a link ends it, and to the edge of a rule."""
    frame = frame_of(40)
    limits = Limits({name: Limit(immutable=True) for name in ("age", "owns", "grade", "job")}, links=["income <= 24"])
    query = oar.Query(frame.drop(columns="label").iloc[0], "yes")
    for other in (limits, dataclasses.replace(limits, links=(), rules=("if age >= 0 then income <= 24",))):
        problem = oar.Problem(people_of(frame), SoftmaxRegression(1e-2), query, oar.Perturb(9.0, limits=other))
        plan, card = first_card(problem)
        sent, at = card.broadcast, 1  # income
        up = np.zeros(sent.signal.size)
        up[at] = -1.0 if sent.parameters[at] > 0 else 1.0
        for sign in (1, -1):
            pushed = dataclasses.replace(card, broadcast=dataclasses.replace(sent, signal=sign * up))
            after = np.asarray(frame["income"]) + plan.followed(pushed).each[:, at]
            low = np.asarray(frame["income"]) < 23
            risen = low & (after > np.asarray(frame["income"]) + 1e-3)
            np.testing.assert_allclose(after[risen & (after > 23.9)], 24, atol=1e-4)
        assert not violations(plan.followed(card))


def brute_force(card, row, target, radius):
    """Return the highest score of any whole change, for a table of columns with few values."""
    table, sent = card.table, card.broadcast
    options = []
    for each, place in zip(table.columns, table.places, strict=True):
        held = row[place]
        values = [held]
        if each.movable and each.column.kind == "category":
            values += [np.eye(len(held))[level] for level in each.choices]
        elif each.movable:
            values += [np.array([float(value)]) for value in range(int(each.lower), int(each.upper) + 1)]
        options.append(values)
    points = np.array([np.concatenate(choice) for choice in itertools.product(*options)])
    paid = np.array(
        [
            [
                each.cost * np.abs(point[place] - row[place]).max()
                for each, place in zip(table.columns, table.places, strict=True)
            ]
            for point in points
        ]
    )
    points = points[np.linalg.norm(paid, ord=card.norm.p, axis=1) <= radius * (1 + 1e-12)]
    score = TableScore(sent.model, sent.parameters, sent.signal, table.scaler)
    return score(points, np.repeat(target[None], len(points), axis=0))[0].max() - score(row[None], target[None])[0][0]


@pytest.mark.parametrize("norm", [1, 2, np.inf])
def test_answers_are_near_the_best_of_all(norm):
    rng = np.random.default_rng(1)
    size = 40
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 5, size),
            "b": rng.integers(0, 4, size),
            "c": rng.random(size) < 0.5,
            "d": rng.choice(list("uvw"), size),
            "label": np.where(rng.random(size) < 0.5, "no", "yes"),
        }
    )
    people = oar.Population.from_frame(frame, "label")
    limits = Limits({"a": Limit(lower=0, upper=4, unit=2), "b": Limit(lower=0, upper=3, cost=0.7)})
    query = oar.Query(frame.drop(columns="label").iloc[0], "yes")
    problem = oar.Problem(people, Scaled(SoftmaxRegression(1e-2)), query, oar.Perturb(1.5, norm, limits=limits))
    _, card = first_card(problem)
    shares = []
    for place in range(20):
        row, label = people.features[place], frame["label"][place]
        best = brute_force(card, row, np.array([float(label == "yes")]), 1.5)
        answer = card.respond(frame.drop(columns="label").iloc[place], label)
        assert 0 <= answer.gain <= best + 1e-9 * abs(best)
        shares.append(answer.gain / best if best > 1e-9 else 1.0)
    assert np.mean(shares) > 0.95


@pytest.mark.parametrize("model", [Scaled(SoftmaxRegression(1e-2)), Scaled(GaussianNaiveBayes())], ids=lambda m: m.name)
def test_one_member_is_as_everyone_and_a_file_changes_nothing(model, tmp_path):
    problem = problem_of(model)
    plan, card = first_card(problem)
    card.save(tmp_path / "plan.json")
    read = oar.results.Card.load(tmp_path / "plan.json")
    everyone = plan.followed(card).each
    frame, _ = credit()
    labels = problem.people.class_rows()[:, 1]
    for place in range(0, 80, 7):
        answer = read.respond(frame.iloc[place], "yes" if labels[place] else "no")
        np.testing.assert_array_equal(answer.move, everyone[place])
        assert answer.cost <= 0.5 * (1 + 1e-9)
        assert answer.gain >= 0
    assert (read.respond(frame.iloc[:1], "no").move == read.respond(frame.iloc[0].to_dict(), "no").move).all()


def test_members_need_no_jax(tmp_path):
    _, card = first_card(problem_of(Scaled(GaussianNaiveBayes())))
    card.save(tmp_path / "plan.json")
    code = (
        "import sys; sys.modules['jax'] = None; import oar; "
        f"print(oar.results.Card.load({str(tmp_path / 'plan.json')!r}).respond({ME!r}, 'no'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(card.respond(ME, "no"))


def test_answers_are_in_the_members_own_words():
    _, card = first_card(problem_of(Scaled(SoftmaxRegression(1e-2)), budget=1.5, norm=np.inf))
    row = credit()[0].iloc[0].to_dict()
    answer = card.respond(row, "yes")
    assert answer.before == row
    assert answer.changes == [(name, row[name], answer.after[name]) for name in row if row[name] != answer.after[name]]
    assert answer.changes
    for name, kind in (("income", int), ("savings", float), ("months", int), ("owns_home", bool), ("purpose", str)):
        assert type(answer.after[name]) is kind
    name, old, new = answer.changes[0]
    assert f"{name}: " in str(answer)
    assert " → " in str(answer)
    kept = card.respond(row, "yes", keep=[name])
    assert kept.after[name] == old
    assert kept.gain <= answer.gain
    still = card.respond(row, "yes", keep=list(row))
    assert str(still) == "stay as you are"
    assert not still.move.any()
    assert card.respond(row, "yes", budget=0.0).changes == []
    assert card.respond(row, "yes", budget=0.7).cost <= 0.7


def test_what_members_may_not_ask_is_refused():
    _, card = first_card(problem_of(Scaled(SoftmaxRegression(1e-2))))
    row = credit()[0].iloc[0].to_dict()
    with pytest.raises(oar.errors.OARError, match="purpose"):
        card.respond(row, "yes", keep=["purposes"])
    with pytest.raises(oar.errors.OARError, match="at most the plan's own"):
        card.respond(row, "yes", budget=3.0)
    with pytest.raises(oar.errors.OARError, match="must have column 'age'"):
        card.respond({name: value for name, value in row.items() if name != "age"}, "yes")
    with pytest.raises(oar.errors.OARError, match="income.*must be"):
        card.respond(row | {"income": "much"}, "yes")
    with pytest.raises(oar.errors.OARError, match="must be one of"):
        card.respond(row | {"purpose": "boat"}, "yes")
    with pytest.raises(oar.errors.OARError, match="classes"):
        card.respond(row, "perhaps")
    people = oar.Population(np.arange(10.0)[:, None], ["no"] * 5 + ["yes"] * 5)
    result = oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query([4.0], "yes"), oar.Perturb(0.5)))
    with pytest.raises(oar.errors.OARError, match="keep: must be among the card's features"):
        result.plan.card().respond([1.0], "no", keep=["x"])
    assert result.plan.card().respond([1.0], "no", keep=[0]) == [0.0]


def test_people_with_limits_of_their_own_stay_within_them():
    own = {3: {"income": Limit(immutable=True), "purpose": Limit(levels=())}, 5: {"savings": Limit(upper=10.0)}}
    limits = dataclasses.replace(LIMITS, own=own)
    plan, card = first_card(problem_of(Scaled(SoftmaxRegression(1e-2)), 1.5, np.inf, limits=limits), seed=1)
    followed = plan.followed(card)
    assert not violations(followed)
    assert followed.each[3, 1] == 0
    assert followed.each[5, 2] <= 0
    text = json.dumps([str(each) for each in card.table.columns])
    assert "10.0" not in text


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize(
    "model",
    [oar.NearestCentroid(), Scaled(SoftmaxRegression(1e-2)), Scaled(GaussianNaiveBayes()), PrototypeNetwork(), Ridge()],
    ids=lambda model: model.name,
)
def test_nobody_can_be_found_on_a_card(model, tmp_path):
    """No value of anybody's numbers is on it, nor a combination of values, nor what only the data say of the range."""
    problem = problem_of(model, norm=1)
    frame, score = credit()
    own = {7: {"income": Limit(upper=4_321.5)}}
    problem = problem.with_action(limits=dataclasses.replace(LIMITS, own=own))
    _, card = first_card(problem)
    card.save(tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    published = np.array(numbers_in(content))
    assert published.size > 20
    # Values with many digits: somebody's savings and outcome; also as the model sees them, or as a difference to it.
    savings, at = frame["savings"].to_numpy(), 2
    scaler = content["scaler"]
    for secret in (savings, score.to_numpy(), (savings - scaler["centres"][at]) / scaler["scales"][at], 4_321.5):
        secret = np.atleast_1d(secret)
        near = np.isclose(secret[:, None], published[None], rtol=1e-9, atol=0)
        assert not near.any()
    # Two or more neighbouring numbers in the order of some row: a row, whole or in part, written down.
    rows = np.asarray(problem.people.features)
    for start in range(published.size - rows.shape[1] + 1):
        part = published[start : start + rows.shape[1]]
        assert not (np.isclose(part, rows, rtol=1e-9)[:, [1, 2, 3]].sum(axis=1) >= 2).any()
    for name in ("income", "savings", "age"):
        column = next(each for each in content["columns"] if each["name"] == name)
        assert frame[name].min() not in (column["lower"], column["upper"])
        assert frame[name].max() not in (column["lower"], column["upper"])
    assert "own" not in content


def test_what_would_reveal_somebody_is_refused():
    plausible = problem_of(Scaled(SoftmaxRegression(1e-2)), limits=dataclasses.replace(LIMITS, plausible=0.9))
    with pytest.raises(oar.errors.OARError, match="plausible"):
        first_card(plausible)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.5], "label": ["no", "yes", "no", "yes"]})
    few = oar.Problem(
        oar.Population.from_frame(frame, "label"), SoftmaxRegression(), oar.Query({"a": 1.5}, "yes"), oar.Perturb(1.0)
    )
    with pytest.raises(oar.errors.OARError, match="at least 5 people"):
        first_card(few)
    frame = pd.DataFrame({"a": np.arange(12.0) ** 1.1, "label": ["no"] * 9 + ["yes"] * 3})
    people = oar.Population.from_frame(frame, "label")
    for model in (oar.NearestCentroid(), Scaled(GaussianNaiveBayes(1e-3))):
        with pytest.raises(oar.errors.OARError, match="class 'yes'"):
            first_card(oar.Problem(people, model, oar.Query({"a": 1.5}, "yes"), oar.Perturb(1.0)))
    lonely = oar.collective(problem_of(Scaled(SoftmaxRegression(1e-2)), budget=0.0))
    with pytest.raises(oar.errors.OARError, match="nobody moves"):
        lonely.plan.card()


def changed(content, *path, to):
    content = json.loads(json.dumps(content))
    *way, last = path
    part = content
    for step in way:
        part = part[step]
    part[last] = to
    return content


DAMAGE = [
    (("scaler", "scales", 0), 1e-320, "scales must be above 0 .and at least 1e-100."),
    (("columns", 0, "step"), 1e-320, "must be numbers of at least 1e-100"),
    (("columns", 0, "cost"), 1e-320, "must be numbers of at least 1e-100"),
    (("columns", 1, "kind"), "numbr", "kind"),
    (("columns", 1, "cost"), 0, "cost"),
    (("columns", 1, "cost"), "1", "finite number"),
    (("columns", 1, "lower"), 9_000, "contradict"),
    (("columns", 1, "direction"), "sideways", "direction"),
    (("columns", 3, "step"), 0.5, "whole"),
    (("columns", 4, "upper"), 2, "bounds from 0 to 1"),
    (("columns", 5, "choices"), [0, 7], "positions"),
    (("columns", 5, "levels"), ["car", "car"], "twice"),
    (("columns", 5, "levels"), ["business", "car"], "positions|must be"),
    (("columns", 1, "name"), "age", "twice"),
    (("columns", 1, "movable"), 1, "true or false"),
    (("columns",), [], "columns"),
    (("links", 0, "text"), "__import__('os').system('x') <= 1", "linear"),
    (("links", 0, "values", "income"), -4.0, "not what their texts say"),
    (("rules", 0, "text"), "if purpose == 'boat' then months <= 48", "boat|must be one of"),
    (("rules", 0, "ways"), [], "not what their texts say"),
    (("scaler", "scales", 0), 0.0, "above 0"),
    (("scaler", "shift"), [1.0], "finite numbers"),
    (("parameters",), [1.0], "finite numbers"),
    (("signal", 0), None, "finite numbers"),
    (("model", "name"), "oracle", "oracle"),
    (("scaled",), "perhaps", "scaled|perhaps"),
    (("norm",), "3", "norm"),
    (("budget",), -1, "budget"),
    (("goal",), "perhaps", "goal"),
    (("participants",), "some", "participants"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("cards") / "plan.json"
    plan, card = first_card(problem_of(Scaled(SoftmaxRegression(1e-2))))
    card.save(path)
    return path, plan


@pytest.mark.parametrize(("path", "to", "message"), DAMAGE, ids=lambda value: str(value)[:40])
def test_damaged_cards_are_refused(path, to, message, written, tmp_path):
    content = json.loads(written[0].read_text())
    (tmp_path / "bad.json").write_text(json.dumps(changed(content, *path, to=to)))
    with pytest.raises(oar.errors.StorageError, match=f"damaged.*({message})"):
        oar.results.Card.load(tmp_path / "bad.json")


def test_cards_that_lack_something_are_refused(written, tmp_path):
    text = written[0].read_text()
    content, path = json.loads(text), tmp_path / "bad.json"
    for name in content:
        path.write_text(json.dumps({key: value for key, value in content.items() if key != name}))
        if name in ("oar", "digits", "usual"):
            oar.results.Card.load(path)
            continue
        with pytest.raises(oar.errors.StorageError):
            oar.results.Card.load(path)
    for end in (0, 10, len(text) // 2, len(text) - 3):
        path.write_text(text[:end])
        with pytest.raises(oar.errors.StorageError, match="damaged or truncated"):
            oar.results.Card.load(path)
    path.write_text(json.dumps(content | {"version": 9}))
    with pytest.raises(oar.errors.StorageError, match="version 9"):
        oar.results.Card.load(path)


def test_cards_for_other_columns_are_refused(written):
    plan = written[1]
    card = oar.results.Card.load(written[0])
    frame, score = credit()
    other = frame.rename(columns={"months": "weeks"}).assign(outcome=np.where(score > 3.5, "yes", "no"))
    people = oar.Population.from_frame(other, "outcome")
    query = oar.Query(other.drop(columns="outcome").iloc[4], "yes")
    problem = oar.Problem(people, Scaled(SoftmaxRegression(1e-2)), query, oar.Perturb(0.5))
    with pytest.raises(oar.errors.OARError, match="columns, kinds and levels"):
        MemberPlan(problem, plan.query_move, plan.each).followed(card)
    schema = people_schema = plan.problem.people.schema
    assert people_schema is not None
    wider = oar.Population.from_frame(
        frame.assign(outcome=np.where(score > 3.5, "yes", "no")),
        "outcome",
        schema=schema.replace("age", kind="number"),
    )
    problem = oar.Problem(wider, Scaled(SoftmaxRegression(1e-2)), oar.Query(frame.iloc[4], "yes"), oar.Perturb(0.5))
    with pytest.raises(oar.errors.OARError, match="kinds and levels"):
        MemberPlan(problem, plan.query_move, plan.each).followed(card)


def test_several_budgets_and_only_some_members():
    frame, _ = credit()
    budgets = np.random.default_rng(0).choice([0.0, 0.5, 1.0], len(frame))
    mask = np.arange(len(frame)) % 3 > 0
    problem = problem_of(Scaled(SoftmaxRegression(1e-2)), budget=budgets, participants=mask)
    plan, card = first_card(problem)
    assert card.budget is None
    assert card.participants == "selected"
    with pytest.raises(oar.errors.OARError, match="no common budget"):
        card.respond(frame.iloc[0], "yes")
    assert card.respond(frame.iloc[0], "yes", budget=0.5).cost <= 0.5 * (1 + 1e-9)
    followed = plan.followed(card)
    assert not violations(followed)
    assert not followed.each[~mask].any()


def test_a_column_with_a_long_tail_keeps_bounds_of_its_own_size_on_the_card():
    """A tenth have a thousand times as much as all others; the lower bound is the own value of one of them."""
    rng = np.random.default_rng(0)
    ratio = np.concatenate([np.round(rng.gamma(2, 0.2, 450), 4), np.round(10 ** rng.uniform(2, 4, 50))])
    income = rng.normal(3, 1, 500).round(2)
    label = np.where(income - 2 * ratio.clip(0, 3) + rng.normal(0, 0.5, 500) > 2, "yes", "no")
    people = oar.Population.from_frame(pd.DataFrame({"ratio": ratio, "income": income, "y": label}), "y")
    lowest = np.sort(ratio)
    ratio_limit = Limit(lower=float(lowest[1]), upper=2.0, unit=0.3)
    limits = Limits({"ratio": ratio_limit, "income": Limit(immutable=True)})
    query = oar.Query({"ratio": 1.0, "income": 2.5}, "yes")
    problem = oar.Problem(people, oar.models.Scaled(oar.SoftmaxRegression()), query, oar.Perturb(0.3, 1, limits=limits))
    plan = oar.collective(problem).plan
    assert (plan.changes()["column"] == "ratio").sum() > 100
    terms = plan.card().table.columns[0]
    assert terms.movable
    assert lowest[4] <= terms.lower < lowest[30]
    assert terms.upper == 2.0
