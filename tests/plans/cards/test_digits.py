"""Cards have as few digits as their answers need, and say it; what they say in other units, they say as well."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import oar
from oar.models import GaussianNaiveBayes, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression
from oar.models.serialize import parameter_count
from oar.plans.cards import digits as rounding
from oar.plans.cards.disclosure import telling
from oar.plans.cards.file import as_json
from oar.plans.cards.table.score import CardSignal, Scaler, TableScore, in_units
from oar.report.member_page import member_page
from oar.report.plan.deliver import publish


def loans(size=400, seed=0, jobs=("clerk", "cook", "driver")):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": draw.lognormal(8, 0.4, size).round(),
            "age": draw.integers(20, 70, size),
            "debt": draw.normal(5_000, 2_000, size).round(2),
            "job": draw.choice(list(jobs), size),
        }
    )
    chance = frame.income / 1500 - frame.debt / 3000 + frame.age / 40 + (frame.job == "clerk") + draw.normal(0, 1, size)
    frame["ok"] = np.where(chance > chance.median(), "yes", "no")
    return frame


def planned(frame, model=None, budget=0.4, norm=2, limits=None):
    people = oar.Population.from_frame(frame, target="ok")
    refused = frame[frame.ok == "no"].drop(columns="ok").sort_values("income")
    asking = refused.iloc[len(refused) // 4]
    action = oar.Perturb(budget, norm=norm, limits={"age": oar.Limit(immutable=True)} if limits is None else limits)
    asked = oar.Problem(people, model or Scaled(SoftmaxRegression(0.01)), oar.Query(asking, "yes"), action)
    return oar.collective(asked)


def numbers_in(content):
    """Yield all numbers of a card's JSON, but settings of the model."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in ("model", "version", "budget"):
                yield from numbers_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from numbers_in(value)
    elif isinstance(content, float):
        yield content


MODELS = [Scaled(GaussianNaiveBayes()), Scaled(SoftmaxRegression(0.01))]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("norm", [1, 2])
def test_a_card_has_the_fewest_digits_and_an_audit_agrees(model, norm, monkeypatch):
    result = planned(loans(), model, norm=norm)
    card, worth = result.plan.published()
    found = oar.audit(result.plan.followed(card))
    assert not found.violations  # by the plan's own costs: the card's are rounded up
    assert found.loss == pytest.approx(worth.loss, rel=1e-4)
    assert found.success == worth.success
    assert max(len(repr(abs(number)).replace(".", "").strip("0")) for number in numbers_in(as_json(card))) <= 6
    first = rounding.FEWEST_FIRST.index(card.digits)
    monkeypatch.setattr("oar.plans.cards.publish.FEWEST_FIRST", rounding.FEWEST_FIRST[-1:])
    full = result.plan.published()[1]
    enough = 0.99 * (result.loss_before - full.loss)
    assert result.loss_before - worth.loss >= enough - 1e-9
    if first:
        monkeypatch.setattr("oar.plans.cards.publish.FEWEST_FIRST", rounding.FEWEST_FIRST[:first])
        with pytest.raises(oar.errors.DataError, match="would need more than"):
            result.plan.card()


def test_costs_are_rounded_up_and_given_units_are_not():
    limits = {"age": oar.Limit(immutable=True), "debt": oar.Limit(unit=300.0)}
    result = planned(loans(), limits=limits)
    terms = {each.column.name: each for each in result.plan.card().table.columns}
    income = result.problem.people.features[:, 0]
    assert 1 / income.std() <= terms["income"].cost <= 1.1 / income.std()
    assert len(f"{terms['income'].cost:e}".split("e")[0].strip("0").replace(".", "")) <= 2
    assert terms["debt"].cost == 1 / 300


@pytest.mark.parametrize("size", [100, 300, 1_000])
def test_costs_do_not_tell_how_far_a_person_is_from_the_mean(size):
    """On their steps, costs with a person and without differ for outliers alone, and then by far more than its own."""
    frame = loans(size)
    card = planned(frame, budget=0.3).plan.card()
    terms = {each.column.name: each for each in card.table.columns}
    for name in ("income", "debt"):
        step = 10 / size / frame[name].std(ddof=0)
        exact, cost = 1 / frame[name].std(ddof=0), terms[name].cost
        assert exact <= cost <= exact + 2.6 * step
        others = [1 / frame[name].drop(index=one).std(ddof=0) for one in frame.index]
        tables = [replace(card.table, columns=(replace(terms[name], cost=each),)) for each in (exact, *others)]
        people = oar.Population.from_frame(frame, target="ok")
        published = {rounding.dearer(each, people).columns[0].cost for each in tables}
        assert len(published) <= 2
        assert cost in published


def test_digits_tell_on_small_classes():
    result = planned(loans(400), budget=0.3)  # two classes of 200
    card = result.plan.card()
    told = {digits: telling(replace(card, digits=digits), result.problem) for digits in (2, 3, None)}
    assert told == {2: (), 3: ("numbers of 3 digits",), None: ("numbers of many digits",)}


def test_a_card_that_needs_fine_costs_and_one_with_a_quantile_for_a_bound_say_so(monkeypatch):
    frame = loans(100)
    result = planned(frame, budget=0.3)
    assert telling(result.plan.card(), result.problem) == ()
    monkeypatch.setattr("oar.plans.cards.publish.COARSEST_FIRST", (0.01,))
    assert telling(result.plan.card(), result.problem) == ("fine costs of income, debt",)
    assert "It has fine costs of income, debt, which for so few people" in publish(result).facts["told"]
    monkeypatch.undo()
    bound = oar.Limit(upper=float(frame.income.quantile(0.9512)), unit=1_000.0)
    result = planned(frame, budget=0.3, limits={"income": bound, "debt": oar.Limit(unit=2_000.0)})
    assert telling(result.plan.card(), result.problem) == ("bounds of many digits of income",)


@pytest.mark.parametrize(
    ("model", "outputs"), [(SoftmaxRegression(), 3), (Ridge(), 2), (GaussianNaiveBayes(), 3), (PrototypeNetwork(), 3)]
)
def test_other_units_say_the_same(model, outputs):
    draw = np.random.default_rng(1)
    theta, signal = draw.normal(size=(2, parameter_count(model, 4, outputs)))
    if isinstance(model, PrototypeNetwork):
        theta = np.zeros(0)
    by = Scaler(*draw.normal(size=(1, 4)), draw.uniform(0.1, 5, 4), *draw.normal(size=(2, 4)))
    other = in_units(
        model, CardSignal(theta, signal, by), np.round(draw.normal(0, 9, 4)), np.array([0.1, 1, 10, 100.0])
    )
    rows, targets = draw.normal(0, 3, (20, 4)), np.eye(outputs)[draw.integers(0, outputs, 20)]
    values, slopes = TableScore(model, theta, signal, by)(rows, targets)
    again, same = TableScore(model, *other)(rows, targets)
    np.testing.assert_allclose(same, slopes, rtol=1e-8, atol=1e-10)
    for code in range(outputs):  # scores differ by a constant of each class
        apart = (again - values)[targets[:, code] == 1]
        np.testing.assert_allclose(apart, apart[0], rtol=1e-6, atol=1e-8)


def test_directions_are_cut_never_lengthened():
    draw = np.random.default_rng(0)
    for norm in (1, 2, np.inf):
        given = draw.normal(size=(5, 30))
        given /= np.linalg.norm(given, norm, axis=1)[:, None]
        for digits in (1, 2, 5, 10):
            short = rounding.shorter(given, digits)
            assert (np.abs(short) <= np.abs(given)).all()
            assert np.abs(short - given).max() <= 10.0 ** (1 - digits) * np.abs(given).max()
    np.testing.assert_array_equal(rounding.shorter(np.array([[1.0, -1.0, 0.3]]), 3), [[1.0, -1.0, 0.3]])


def test_a_level_of_one_is_named_nowhere_and_its_member_answers(tmp_path):
    frame = loans()
    frame.loc[3, "job"] = "astronaut"
    result = planned(frame)
    card = result.plan.card()
    card.save(tmp_path / "card.json")
    assert "astronaut" not in (tmp_path / "card.json").read_text()
    assert "astronaut" not in member_page(card)
    card = oar.results.Card.load(tmp_path / "card.json")
    answer = card.respond(frame.drop(columns="ok").loc[3], frame.ok[3], keep="job")
    assert answer.before["job"] == answer.after["job"] == "astronaut"
    free = card.respond(frame.drop(columns="ok").loc[3], frame.ok[3])
    assert free.after["job"] in ("astronaut", "clerk", "cook", "driver")
    followed = result.plan.followed(card)
    found = oar.audit(followed)
    assert not found.violations
    assert result.loss_before - found.loss >= 0.95 * (result.loss_before - result.loss)  # others do not suffer by it
    changes = followed.changes()
    ours = changes[changes.person == 3].set_index("column")["after"].to_dict()
    assert ours == {name: after for name, before, after in free.changes}
    assert not (changes["after"] == "astronaut").any()


def test_a_rule_that_names_a_level_of_one_leaves_no_card():
    frame = loans()
    frame.loc[3, "job"] = "astronaut"
    limits = oar.Limits(rules=["if job == 'astronaut' then income >= 1000"])
    with pytest.raises(oar.errors.DataError, match="names a level that fewer than 5 people have"):
        planned(frame, limits=limits).plan.card()


def test_bounds_that_are_one_persons_value_give_way():
    frame = loans()
    highest = float(frame.income.max())
    lowest = oar.Limit(lower=float(frame.debt.min()))
    result = planned(frame, limits={"income": oar.Limit(upper=highest), "debt": lowest})
    card = result.plan.card()
    text, terms = json.dumps(as_json(card)), {each.column.name: each for each in card.table.columns}
    assert repr(highest) not in text
    assert (frame.income >= terms["income"].upper).sum() >= 5
    assert (frame.debt <= terms["debt"].lower).sum() >= 5
    assert terms["income"].upper < highest
    assert not oar.audit(result.plan.followed(card)).violations
    declared = planned(frame, limits={"income": oar.Limit(upper=1e6)}).plan.card().table.columns[0]
    assert declared.upper == 1e6


def test_a_bound_that_one_has_and_others_are_beyond_gives_way_and_natural_ones_stay():
    frame = loans()
    frame["debt"] = (frame.debt - frame.debt.min()).round(2)  # one owes nothing
    fifth = float(np.sort(frame.income)[-5])
    result = planned(frame, limits={"income": oar.Limit(upper=fifth), "debt": oar.Limit(lower=0)})
    terms = {each.column.name: each for each in result.plan.card().table.columns}
    assert (frame.debt == 0).sum() == 1
    assert terms["debt"].lower == 0
    assert fifth - 0.25 * frame.income.std() <= terms["income"].upper < fifth
    assert terms["income"].upper % 100 == 0


def test_models_settled_by_the_data_do_not_say_so():
    """ε of Gaussian naive Bayes is the largest variance: with all its digits, an average of everybody's squares."""
    frame = loans(seed=2)
    features = frame[["income", "debt"]].to_numpy() / 1000
    people = oar.Population(features, frame.ok)
    query = oar.Query(features[frame.ok == "no"].mean(axis=0), "yes")
    asked = oar.Problem(people, GaussianNaiveBayes(var_smoothing=1e-3), query, oar.Perturb(0.3))
    card = oar.collective(asked).plan.card()
    assert card.broadcast.model.smoothing is None
    assert card.broadcast.model.var_smoothing == 1e-3
