"""What is promised of the cheapest change, for limits drawn at random; and every input that cannot be."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits

LEVELS = ("a", "b", "c")
GRADES = ("low", "middle", "high")


def table(seed=0, size=120):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size),
            "rent": rng.normal(9.0, 2.0, size),
            "children": rng.integers(0, 5, size),
            "owns": rng.random(size) < 0.4,
            "purpose": rng.choice(LEVELS, size),
            "grade": pandas.Categorical.from_codes(rng.integers(0, 3, size), list(GRADES), ordered=True),
        }
    )
    purpose = frame["purpose"].map({"a": 0.0, "b": 1.0, "c": 0.4}).astype(float)
    score = frame["income"] / 8 - frame["rent"] / 3 - 0.5 * frame["children"] + frame["owns"] + purpose
    score += 0.4 * frame["grade"].cat.codes + rng.normal(0, 0.7, size)
    frame["label"] = pandas.qcut(score, 3, labels=["no", "perhaps", "yes"]).astype(str)
    return frame


FRAME = table()
PEOPLE = oar.Population.from_frame(FRAME, target="label")
ROWS = FRAME.drop(columns="label")
MODEL = models.Scaled(models.SoftmaxRegression())
LINKS = ("rent <= income / 2", "change(children) >= change(owns)", "children <= income / 3 + 4", "owns + grade <= 2")


def numeric_limit(low, high):
    return st.builds(
        lambda lower, upper, direction, step, cost, unit: Limit(
            lower=None if lower is None else min(lower, upper if upper is not None else lower),
            upper=upper,
            direction=direction,
            step=step,
            cost=cost,
            unit=unit,
        ),
        st.none() | st.integers(low, high),
        st.none() | st.integers(low, high),
        st.sampled_from([None, None, "up", "down"]),
        st.sampled_from([None, None, 1, 2]),
        st.sampled_from([0.5, 1.0, 3.0]),
        st.sampled_from([None, 2.0]),
    )


STILL = st.just(Limit(immutable=True))
COLUMNS = st.fixed_dictionaries(
    {},
    optional={
        "income": numeric_limit(10, 50) | STILL,
        "rent": numeric_limit(4, 14) | STILL,
        "children": numeric_limit(0, 8) | STILL,
        "owns": STILL | st.builds(Limit, direction=st.sampled_from([None, "up", "down"]), cost=st.just(0.3)),
        "purpose": STILL | st.builds(Limit, levels=st.lists(st.sampled_from(LEVELS), max_size=2)),
        "grade": STILL | st.builds(Limit, upper=st.sampled_from(GRADES), cost=st.just(0.4)),
    },
)


@st.composite
def all_limits(draw):
    links = draw(st.lists(st.sampled_from(LINKS), max_size=2, unique=True))
    limits = Limits(draw(COLUMNS), links=links)
    try:
        limits.check(PEOPLE.schema)
    except oar.errors.OptionError:  # two that contradict each other
        return Limits(limits.columns)
    return limits


def ask(limits, number, goal, kind, people=PEOPLE):
    return oar.Cheapest(people, MODEL, limits).of(oar.Query(ROWS.iloc[number], goal=goal), kind)


def keeps(limits, before, after):
    """Every limit once more, as a reader of the documentation would check it."""
    for name in ROWS.columns:
        old, new, limit = before[name], after[name], limits.columns.get(name, Limit())
        if old == new:
            continue
        assert not limit.immutable
        if name == "purpose":
            assert limit.levels is None or new in limit.levels
            continue
        if name == "grade":
            old, new = GRADES.index(old), GRADES.index(new)
            assert limit.upper is None or new <= max(GRADES.index(limit.upper), old)
            continue
        old, new = float(old), float(new)
        assert limit.lower is None or new >= min(limit.lower, old) - 1e-8
        assert limit.upper is None or new <= max(limit.upper, old) + 1e-8
        assert limit.direction != "up" or new > old
        assert limit.direction != "down" or new < old
        step = limit.step or (1 if name in ("children", "owns") else None)
        assert step is None or abs((new - old) / step - round((new - old) / step)) < 1e-6
    a, b = ({**row, "grade": GRADES.index(row["grade"])} for row in (before, after))
    room = {
        LINKS[0]: [row["rent"] - row["income"] / 2 for row in (a, b)],
        LINKS[1]: [0.0, (float(b["owns"]) - float(a["owns"])) - (b["children"] - a["children"])],
        LINKS[2]: [row["children"] - row["income"] / 3 - 4 for row in (a, b)],
        LINKS[3]: [float(row["owns"]) + row["grade"] - 2 for row in (a, b)],
    }
    for text in limits.links:
        was, now = room[text]
        assert now <= max(was, 0.0) + 1e-7


@given(
    limits=all_limits(),
    number=st.integers(0, 119),
    goal=st.sampled_from(["no", "yes"]),
    kind=st.sampled_from(["l1", "l2", "l0"]),
)
@example(Limits({"children": Limit(cost=3.0)}), 6, "no", "l0")  # HiGHS leaves the rent at −4e-9: that is no change
@settings(max_examples=60)
def test_limits_are_kept_and_bounds_are_bounds(limits, number, goal, kind):
    advice = ask(limits, number, goal, kind)
    assert advice.status in (oar.results.Status.ACHIEVED, oar.results.Status.ALREADY, oar.results.Status.IMPOSSIBLE)
    assert not advice.violations
    assert advice.bound <= advice.cost
    assert advice.proved
    assert advice.success == (advice.status is not oar.results.Status.IMPOSSIBLE)
    keeps(limits, dict(ROWS.iloc[number]), dict(advice.row.iloc[0]))
    if advice.success:
        assert advice.prediction == goal
        costs = advice.changes["cost"].to_numpy()
        assert advice.cost == pytest.approx(np.sqrt((costs**2).sum()) if kind == "l2" else costs.sum())


@given(limits=all_limits(), number=st.integers(0, 119), kind=st.sampled_from(["l1", "l2", "l0"]), data=st.data())
@settings(max_examples=40)
def test_more_freedom_never_costs_more(limits, number, kind, data):
    held = ask(limits, number, "yes", kind)
    # A column without its limit would also cost something else: only what may be done is dropped.
    freed = data.draw(st.sets(st.sampled_from(sorted(limits.columns))) if limits.columns else st.just(set()))
    looser = {
        name: Limit(cost=limit.cost, unit=limit.unit) if name in freed else limit
        for name, limit in limits.columns.items()
    }
    free = ask(Limits(looser), number, "yes", kind)
    assert free.cost <= held.cost * (1 + 1e-6)


@given(
    limits=all_limits(),
    number=st.integers(0, 119),
    kind=st.sampled_from(["l1", "l2", "l0"]),
    order=st.permutations(list(ROWS.columns)),
)
@settings(max_examples=20)
def test_the_order_of_columns_does_not_matter(limits, number, kind, order):
    other = oar.Population.from_frame(FRAME[[*order, "label"]], target="label")
    one, two = ask(limits, number, "yes", kind), ask(limits, number, "yes", kind, other)
    assert one.status is two.status
    assert two.cost == pytest.approx(one.cost, rel=3e-6)
    assert list(two.row.columns) == list(order)


# -- inputs that cannot be -------------------------------------------------------------------------------------------

ROW = dict(ROWS.iloc[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"people": FRAME}, r"people: must be an oar.Population\(…\), got an object of type DataFrame"),
        ({"people": oar.Population([[0.0], [1.0]], ["a", "b"])}, "people: must be a table.*from_frame"),
        ({"model": "softmax"}, "model: must be"),
        ({"query": ROW}, r"query: must be an oar.Query\(row, goal=…\) or a list of them, got an object of type dict"),
        ({"query": [ROW]}, r"query: must be an oar.Query\(…\), got an object of type dict"),
        ({"query": oar.Query(ROW, goal="yes", budget=2.0)}, "Query budget: must be left out.*got 2"),
        ({"query": oar.Query(ROW, goal="yes", within=2.0)}, "Query within: is for models that predict values"),
        ({"query": oar.Query(ROW, goal="yess")}, "goal: must be one of the classes.*Did you mean 'yes'"),
        ({"query": oar.Query(ROW | {"purpose": "d"}, goal="yes")}, "column 'purpose' must be one of"),
        ({"query": oar.Query(ROW | {"income": np.nan}, goal="yes")}, "must not have missing values"),
        ({"query": oar.Query(ROW | {"income": np.inf}, goal="yes")}, "column 'income' must be finite"),
        ({"query": oar.Query(ROW | {"income": "much"}, goal="yes")}, "column 'income' must be numbers"),
        ({"query": oar.Query(ROW | {"children": 1.5}, goal="yes")}, "column 'children' must be whole numbers"),
        ({"query": oar.Query(ROW | {"owns": 2}, goal="yes")}, "column 'owns' must be true or false"),
        ({"query": oar.Query({"income": 3.0}, goal="yes")}, "must have column 'rent'"),
        ({"query": oar.Query(ROW | {"more": 1}, goal="yes")}, "got 'more' too"),
        ({"query": oar.Query(ROWS.iloc[:2], goal="yes")}, "must be one person with one label or value"),
        ({"query": oar.Query(np.full(8, 0.5), goal="yes")}, "query features: must be a person"),
        ({"limits": 3}, r"limits: must be an oar.Limits\(…\), a mapping of columns .* or a TOML file, got 3"),
        ({"limits": Limits({"incme": Limit(immutable=True)})}, "Did you mean 'income'"),
        ({"limits": Limits({"owns": Limit(step=2)})}, "limits.owns step: is for"),
        ({"cost": "l3"}, "cost: must be one of 'l1', 'l2', 'l0', got 'l3'"),
        ({"cost": 1}, "cost: must be one of"),
        ({"own": [Limit()]}, r"own: must be a mapping of columns to Limit\(…\)"),
        ({"own": {"incme": Limit()}}, "own: must be one of.*Did you mean 'income'"),
        ({"own": {"income": 3}}, "own.income: must be an oar.Limit"),
        ({"own": {"income": Limit(cost=3.0)}}, "own.income cost: is the same for everybody, got 3.0; set it in limits"),
        ({"own": {"owns": Limit(lower=0)}}, "limits.owns lower: is for"),
        ({"model": models.Ridge()}, "labels: must be numbers"),
    ],
)
def test_what_cannot_be_is_named(changes, message):
    arguments = {"people": PEOPLE, "model": MODEL, "query": oar.Query(ROW, goal="yes")} | changes
    with pytest.raises(oar.errors.OARError, match=message):
        oar.cheapest(**arguments)


def test_values_need_a_range():
    people = oar.Population.from_frame(FRAME.drop(columns="label"), target="rent")
    with pytest.raises(oar.errors.DataError, match="Query within: must say how near"):
        oar.cheapest(people, models.Ridge(), oar.Query({name: ROW[name] for name in people.schema.names}, goal=3.0))


def test_the_audit_sees_every_broken_limit():
    """The audit shares nothing with the solver: what a wrong solver might hand out is caught."""
    from oar.referee.individual.advice import broken_limits

    limits = Limits(
        {
            "income": Limit(upper=40.0, direction="up"),
            "rent": Limit(step=0.5),
            "children": Limit(immutable=True),
            "purpose": Limit(levels=("a", "b")),
            "grade": Limit(upper="middle"),
            "owns": Limit(direction="down"),
        },
        links=["rent <= income / 2", "change(rent) <= change(income)", "0 <= `rent` <= 50", "grade == children - 2"],
    )
    start = {"income": 30.0, "rent": 9.0, "children": 2, "owns": False, "purpose": "a", "grade": "low"}

    def broken(**changes):
        return " ".join(broken_limits(PEOPLE, limits, {}, start, start | changes))

    assert broken() == ""
    assert broken(income=35.0, rent=10.5, purpose="b") == ""
    assert "above 40.0" in broken(income=41.0)
    assert "may only go up" in broken(income=29.0)
    assert "multiples of 0.5" in broken(income=31.0, rent=9.2)
    assert "immutable" in broken(children=3)
    assert "switched to 'c'" in broken(purpose="c")
    assert "above 'middle'" in broken(grade="high")
    assert "may only go down" in broken(owns=True)
    assert "link 'rent <= income / 2'" in broken(income=30.0, rent=19.0)
    assert "link 'change(rent) <= change(income)'" in broken(rent=9.5)
    assert "link '0 <= `rent` <= 50'" in broken(rent=-1.0)
    assert "link 'grade == children - 2'" in broken(grade="middle")
    own = {"income": Limit(immutable=True)}
    assert "income is immutable" in " ".join(broken_limits(PEOPLE, limits, own, start, start | {"income": 31.0}))


def test_who_broke_a_link_may_not_break_it_further():
    from oar.referee.individual.advice import broken_limits

    limits = Limits(links=["rent <= income / 2"])
    start = {"income": 10.0, "rent": 9.0, "children": 2, "owns": False, "purpose": "a", "grade": "low"}
    assert not broken_limits(PEOPLE, limits, {}, start, start | {"rent": 8.0})
    assert broken_limits(PEOPLE, limits, {}, start, start | {"rent": 9.1})


def test_advice_is_frozen():
    advice = ask(Limits(), 0, "yes", "l1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        advice.cost = 0.0


@pytest.mark.parametrize("kind", ["l1", "l2", "l0"])
def test_a_column_that_never_varies_has_a_unit_of_one(kind):
    frame = FRAME.assign(fee=0.1, clerks=7)
    people = oar.Population.from_frame(frame, target="label")
    row = frame.drop(columns="label").iloc[0]
    goal = "yes" if row["income"] < 30 else "no"
    advice = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal=goal), cost=kind)
    assert advice.success
    assert advice.proved
    assert not {"fee", "clerks"} & set(advice.changes["column"])


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("kind", ["l1", "l2", "l0"])
def test_units_of_money_and_of_cost_do_not_matter(size, kind):
    """In cents or in millions, and with costs that are tiny or huge: the same change, proved the same."""
    other = oar.Population.from_frame(FRAME.assign(income=FRAME["income"] * size), target="label")
    costs = {name: Limit(cost=1 / size) for name in ROWS.columns}
    row = ROWS.iloc[1].copy()
    one = oar.cheapest(PEOPLE, MODEL, oar.Query(row, goal="yes"), cost=kind)
    two = oar.cheapest(
        other, MODEL, oar.Query(dict(row) | {"income": row["income"] * size}, goal="yes"), Limits(costs), kind
    )
    assert one.success
    assert two.success
    assert one.proved
    assert two.proved
    assert two.cost * size == pytest.approx(one.cost, rel=1e-5)


def test_limits_may_be_a_mapping_or_a_file(tmp_path):
    file = tmp_path / "limits.toml"
    file.write_text("[columns.income]\nimmutable = true\n")
    ways = [Limits({"income": Limit(immutable=True)}), {"income": {"immutable": True}}, file, str(file)]
    found = [oar.cheapest(PEOPLE, MODEL, oar.Query(ROW, goal="yes"), limits) for limits in ways]
    assert "income" not in found[0].costs
    assert len({advice.cost for advice in found}) == 1
    assert oar.cheapest(PEOPLE, MODEL, oar.Query(ROW, goal="yes")).cost < found[0].cost


def test_a_column_that_must_go_too_far_does_not_hide_the_others():
    """Visits are cheaper by "l0", but so small beside incomes that the goal's lead would be lost in rounding."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 50)
    frame = pandas.DataFrame(
        {
            "income": 1e5 * rng.normal(size=100) + 2e5 * labels,
            "visits": rng.integers(0, 6, 100) + labels,
            "label": np.array(["no", "yes"])[labels],
        }
    )
    people = oar.Population.from_frame(frame, target="label")
    query = oar.Query(frame.drop(columns="label").iloc[0], goal="yes")
    limits = {"income": Limit(lower=-1e6, upper=1e6, cost=2.0)}
    advice = oar.cheapest(people, oar.NearestCentroid(), query, limits, cost="l0")
    assert advice.success
    assert list(advice.changes["column"]) == ["income"]
    assert (advice.cost, advice.proved) == (2.0, False)
    assert "lost in rounding" in advice.explanation + advice.note


@pytest.mark.parametrize("unit", [1.0, 1e-5, 1e-8, 1e-12])
def test_scales_far_apart_hide_no_change(unit):
    """A concentration beside incomes can do nothing for a goal: its price is 1e18 and more, and only incomes change."""
    rng, labels = np.random.default_rng(0), np.arange(40) % 2
    data = {name: size * (rng.normal(size=40) + labels) for name, size in (("income", 2e4), ("amount", 2 * unit))}
    people = oar.Population.from_frame(pandas.DataFrame({**data, "label": labels}), target="label")
    query = oar.Query({"income": -6e4, "amount": -4 * unit}, goal=1)
    one, two = (oar.cheapest(people, oar.NearestCentroid(), query, cost=kind) for kind in ("l1", "l2"))
    assert one.proved
    assert two.proved
    assert list(two.changes["column"]) == ["income"]
    assert two.cost == pytest.approx(one.cost, rel=1e-8)


@pytest.mark.parametrize("kind", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(4))
def test_a_dear_column_makes_the_others_no_dearer(seed, kind):
    """What alone costs more than all that is needed is as good as immutable, however dear it is."""
    rng, labels = np.random.default_rng(seed), np.arange(30) % 3
    frame = pandas.DataFrame({name: rng.normal(size=30) + rng.normal(size=3)[labels] for name in ("x", "y", "z")})
    people = oar.Population.from_frame(frame.assign(label=labels), target="label")
    query = oar.Query(frame.iloc[0] + 1.0, goal=1)
    dear, fixed = (
        oar.cheapest(people, oar.NearestCentroid(), query, {"z": limit}, cost=kind)
        for limit in (Limit(cost=1e10), Limit(immutable=True))
    )
    assert fixed.success
    assert dear.proved
    assert dear.cost == pytest.approx(fixed.cost, rel=1e-5)
