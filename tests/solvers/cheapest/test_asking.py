"""The cheapest change of one person is the cheapest: against every combination of discrete values, and SLSQP."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
from scipy.optimize import minimize
from support.pages import page, run

import oar
from oar import models
from oar.actions.limits.limit import Limit, Limits
from oar.people.tables.schema import Column, Schema

LEVELS = ("car", "home", "school")
GRADES = ("low", "middle", "high", "top")
CLOSE = 2e-6
SCHEMA = Schema(
    (
        Column("income", "number"),
        Column("children", "integer"),
        Column("owns", "boolean"),
        Column("purpose", "category", LEVELS),
        Column("grade", "ordinal", GRADES),
    )
)


def table(classes=2, size=150, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "income": rng.normal(30.0, 8.0, size),
            "children": rng.integers(0, 5, size),
            "owns": rng.random(size) < 0.4,
            "purpose": rng.choice(LEVELS, size),
            "grade": pandas.Categorical.from_codes(rng.integers(0, 4, size), list(GRADES), ordered=True),
        },
        index=[f"p{number}" for number in range(size)],
    )
    purpose = frame["purpose"].map({"car": 0.0, "home": 1.0, "school": 0.4}).astype(float)
    score = frame["income"] / 8 - 0.5 * frame["children"] + frame["owns"] + purpose + 0.4 * frame["grade"].cat.codes
    score += rng.normal(0, 0.7, size)
    frame["score"] = score
    names = {2: ["no", "yes"], 3: ["no", "perhaps", "yes"]}[classes]
    frame["label"] = pandas.qcut(score, classes, labels=names).astype(str)
    return frame


def population(frame, target="label"):
    other = {"label": "score", "score": "label"}[target]
    return oar.Population.from_frame(frame.drop(columns=other), target=target, schema=SCHEMA)


LIMITS = Limits(
    {
        "income": Limit(upper=45.0),
        "children": Limit(lower=0, upper=6, direction="up"),
        "owns": Limit(cost=0.7),
        "purpose": Limit(levels=("home", "school"), cost=1.3),
        "grade": Limit(upper="high", cost=0.9, unit=2),
    },
    links=["children <= income / 4", "change(grade) <= change(children) + 1"],
)
FREE = Limits({"children": Limit(lower=0, upper=6)})
STEPPED = Limits(
    {"income": Limit(step=2.5, lower=10, upper=60), "children": Limit(immutable=True), "purpose": Limit(immutable=True)}
)


# -- an oracle that shares no code with the solver -------------------------------------------------------------------


def outputs_of(model, people):
    """Return a function from coordinates to outputs that are linear in them: all that the oracle asks of the model."""
    if isinstance(model, oar.NearestCentroid):
        centres = model.fit(people).positions
        return lambda row: centres @ row - 0.5 * (centres**2).sum(axis=1)
    matrix = model.fit(people)
    return lambda row: np.atleast_1d(matrix[:, :-1] @ row + matrix[:, -1])


def leads(values, goal, within):
    if within is not None:
        return np.array([within - (values[0] - goal), within + (values[0] - goal)])
    values = np.array([0.0, values[0]]) if values.size == 1 else values
    return values[goal] - np.delete(values, goal)


def allowed_values(name, person, limits):
    """Return the values that a discrete column may take."""
    limit, now = limits.columns.get(name, Limit()), person[name]
    if limit.immutable:
        return [now]
    if name == "owns":
        return [False, True]
    if name == "purpose":
        return sorted({now, *(limit.levels or LEVELS)})
    if name == "grade":
        top = GRADES.index(limit.upper) if limit.upper else 3
        return [level for rank, level in enumerate(GRADES) if rank <= max(top, GRADES.index(now))]
    bottom = now if limit.direction == "up" else limit.lower
    return list(range(int(min(bottom, now)), int(limit.upper) + 1))


def coordinates(person):
    return np.array(
        [
            person["income"],
            person["children"],
            float(person["owns"]),
            *(float(person["purpose"] == level) for level in LEVELS),
            GRADES.index(person["grade"]),
        ]
    )


def spread(values):
    return float(np.std(np.asarray(values, dtype=float)))


def spreads_of(frame):
    ranks = frame.assign(grade=frame["grade"].cat.codes)
    return {name: spread(ranks[name]) for name in ("income", "children", "grade")}


def column_costs(spreads, before, after, limits):
    found = []
    for name in SCHEMA.names:
        limit = limits.columns.get(name, Limit())
        if name in ("owns", "purpose"):
            found.append(limit.cost * (before[name] != after[name]))
            continue
        old, new = (GRADES.index(row[name]) if name == "grade" else row[name] for row in (before, after))
        found.append(limit.cost * abs(new - old) / (limit.unit or spreads[name]))
    return np.array(found, dtype=float)


def total(costs, limits, kind):
    if kind == "l1":
        return costs.sum()
    if kind == "l2":
        return np.sqrt((costs**2).sum())
    changed = [abs(cost) > 1e-12 for cost in costs]
    return sum(
        limits.columns.get(name, Limit()).cost for name, is_it in zip(SCHEMA.names, changed, strict=True) if is_it
    )


def link_rows(before, after, limits):
    """Return (slope, value) of what must be ≥ 0 as a function of income, the other columns as in `after`."""
    if not limits.links:
        return []
    rises = GRADES.index(after["grade"]) - GRADES.index(before["grade"])
    more = after["children"] - before["children"]
    return [(0.25, -after["children"]), (0.0, more + 1 - rises)]


KINDS = ("l1", "l2", "l0")


def brute_force(frame, model, people, before, goal, limits, within=None):
    """Return each kind's lowest cost over all discrete values, each with its nearest income that reaches the goal."""
    outputs, spreads = outputs_of(model, people), spreads_of(frame)
    limit = limits.columns.get("income", Limit())
    low, high = (-np.inf if limit.lower is None else limit.lower), (np.inf if limit.upper is None else limit.upper)
    best = dict.fromkeys(KINDS, np.inf)
    discrete = ("children", "owns", "purpose", "grade")
    for values in itertools.product(*(allowed_values(name, before, limits) for name in discrete)):
        after = dict(before) | dict(zip(discrete, values, strict=True))
        rows = link_rows(before, after, limits)
        at_zero, at_one = (leads(outputs(coordinates(after | {"income": float(x)})), goal, within) for x in (0, 1))
        rows += list(zip(at_one - at_zero, at_zero, strict=True))
        least, most = min(low, before["income"]), max(high, before["income"])
        for slope, value in rows:
            if abs(slope) < 1e-13:
                least = least if value >= -1e-12 else np.inf
            elif slope > 0:
                least = max(least, -value / slope)
            else:
                most = min(most, -value / slope)
        if limit.step:
            steps = np.arange(-40, 41) * limit.step + before["income"]
            steps = steps[(steps >= least) & (steps <= most)]
            incomes = list(steps)
        else:
            incomes = [float(np.clip(before["income"], least, most))] if least <= most else []
        for income in incomes:
            end = after | {"income": income}
            costs = column_costs(spreads, before, end, limits)
            best = {kind: min(best[kind], total(costs, limits, kind)) for kind in KINDS}
    return best


MODELS = [
    models.SoftmaxRegression(),
    models.LinearSVM(l2=0.05),
    models.LinearSVM(l2=0.05, penalise_intercept=True),
    oar.NearestCentroid(),
]


@pytest.mark.parametrize("limits", [LIMITS, FREE, STEPPED], ids=["limits", "free", "steps"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=["softmax", "svm", "svc", "centroid"])
def test_nothing_is_cheaper(model, classes, limits):
    frame = table(classes)
    people = population(frame)
    chosen = frame[frame["label"] == "no"].drop(columns=["label", "score"])
    ready = oar.Cheapest(people, model, limits)
    for row, goal in itertools.product(range(2), people.classes[1:]):
        best = brute_force(frame, model, people, dict(chosen.iloc[row]), people.classes.index(goal), limits)
        for kind in KINDS:
            advice = ready.of(oar.Query(chosen.iloc[row], goal=goal), kind)
            if advice.status is oar.results.Status.IMPOSSIBLE:
                assert best[kind] == np.inf
                continue
            assert advice.success, advice
            assert advice.proved, advice
            assert advice.cost == pytest.approx(best[kind], rel=CLOSE, abs=CLOSE)
            assert advice.bound <= advice.cost


@pytest.mark.parametrize("goal", [2.0, 5.0])
def test_nothing_is_cheaper_for_values(goal):
    frame = table()
    model, people = models.Ridge(), population(frame, "score")
    row = frame.drop(columns=["label", "score"]).iloc[3]
    best = brute_force(frame, model, people, dict(row), goal, LIMITS, within=0.2)
    for kind in KINDS:
        advice = oar.cheapest(people, model, oar.Query(row, goal=goal, within=0.2), LIMITS, kind)
        assert advice.success
        assert advice.proved
        assert abs(advice.prediction - goal) <= 0.2 + 1e-12
        assert advice.cost == pytest.approx(best[kind], rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaler_changes_units_not_the_answer(kind):
    """Without a penalty to speak of, the fit is the same behind a scaler."""
    frame = table()
    people, row = population(frame), frame[frame["label"] == "no"].drop(columns=["label", "score"]).iloc[2]
    plain, scaled = (
        oar.cheapest(people, model, oar.Query(row, goal="yes"), LIMITS, kind)
        for model in (models.SoftmaxRegression(l2=1e-9), models.Scaled(models.SoftmaxRegression(l2=1e-9)))
    )
    assert scaled.success
    assert scaled.proved
    assert scaled.cost == pytest.approx(plain.cost, rel=1e-3)


def numbers(classes, size=200, seed=1, columns=5):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(size, columns)) * np.arange(1, columns + 1) + 10
    frame = pandas.DataFrame(values, columns=[f"x{number}" for number in range(columns)])
    score = values @ rng.normal(size=columns) + rng.normal(size=size)
    frame["label"] = pandas.qcut(score + 0.3 * values[:, 0] ** 2, classes, labels=False)
    return frame


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("links", [(), ("x0 <= x1", "change(x2) + change(x3) <= 1")])
def test_slsqp_finds_nothing_shorter(classes, links):
    frame = numbers(classes)
    people = oar.Population.from_frame(frame, target="label")
    limits = Limits({"x1": Limit(lower=9, upper=11), "x4": Limit(direction="up"), "x2": Limit(cost=2.0)}, links=links)
    model = models.SoftmaxRegression()
    matrix = model.fit(people)
    matrix = np.vstack([np.zeros_like(matrix), matrix]) if len(matrix) == 1 else matrix
    features = frame.drop(columns="label").to_numpy()
    weights = np.array([1.0, 1.0, 2.0, 1.0, 1.0]) / features.std(axis=0)
    compared = 0
    for number in range(12):
        start, goal = features[number], (int(frame["label"][number]) + 1) % classes
        advice = oar.cheapest(
            people, model, oar.Query(frame.drop(columns="label").iloc[number], goal=goal), limits, "l2"
        )
        if not advice.success or advice.cost == 0:
            continue
        rivals = np.delete(np.arange(classes), goal)
        slopes = matrix[goal] - matrix[rivals]
        held = [{"type": "ineq", "fun": lambda u, s=slopes: s[:, :-1] @ (start + u / weights) + s[:, -1]}]  # noqa: B023
        if links:
            room = max(start[1] - start[0], 0.0)
            held += [
                {"type": "ineq", "fun": lambda u, r=room: r - (u / weights)[0] + (u / weights)[1]},
                {"type": "ineq", "fun": lambda u: 1 - (u / weights)[2] - (u / weights)[3]},
            ]
        span = weights[1] * (min(9 - start[1], 0.0)), weights[1] * max(11 - start[1], 0.0)
        bounds = [(None, None), span, (None, None), (None, None), (0, None)]
        best = np.inf
        for begin in (np.zeros(5), weights * (advice.row.to_numpy()[0] - start)):
            found = minimize(
                lambda u: 0.5 * u @ u,
                begin,
                jac=lambda u: u,
                bounds=bounds,
                constraints=held,
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            if found.success:
                best = min(best, float(np.sqrt(2 * found.fun)))
        assert advice.proved
        assert advice.cost <= best * (1 + 1e-5)
        if best < np.inf:  # SLSQP does not always end
            assert advice.cost >= best * (1 - 1e-5)
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("classes", [2, 3])
def test_fewest_columns_where_nothing_is_bounded(classes):
    """Against every set of columns, each with a linear programme: who has no bounds needs no large number."""
    from scipy.optimize import linprog

    frame = numbers(classes, columns=4)
    people, model = oar.Population.from_frame(frame, target="label"), models.SoftmaxRegression()
    costs = {"x0": 1.0, "x1": 1.7, "x2": 0.6, "x3": 1.1}
    limits = Limits({name: Limit(cost=cost) for name, cost in costs.items()}, links=["x0 <= x1 + 4", "x2 >= x3 - 9"])
    matrix = model.fit(people)
    matrix = np.vstack([np.zeros_like(matrix), matrix]) if len(matrix) == 1 else matrix
    for number in range(8):
        row = frame.drop(columns="label").iloc[number]
        start, goal = row.to_numpy(), (int(frame["label"][number]) + 1) % classes
        slopes = matrix[goal] - np.delete(matrix, goal, axis=0)
        links = np.array([[1.0, -1, 0, 0], [0, 0, -1, 1]])
        room = np.maximum(np.array([4.0, 9.0]) - links @ start, 0.0)
        best = np.inf
        for chosen in itertools.product((0, 1), repeat=4):
            found = linprog(
                np.zeros(4),
                A_ub=np.vstack([-slopes[:, :-1], links]),
                b_ub=np.concatenate([slopes[:, :-1] @ start + slopes[:, -1] - 1e-9, room]),
                bounds=[(None, None) if free else (0, 0) for free in chosen],
            )
            if found.status == 0:
                best = min(best, float(np.dot(chosen, list(costs.values()))))
        advice = oar.cheapest(people, model, oar.Query(row, goal=goal), limits, "l0")
        assert advice.proved
        assert advice.cost == pytest.approx(best)


def test_what_comes_back_is_a_row_of_the_table():
    frame = table().astype({"children": "int32"})
    people = population(frame)
    row = frame.drop(columns=["label", "score"]).loc[["p3"]]
    goal = "yes" if frame.loc["p3", "label"] == "no" else "no"
    advice = oar.cheapest(people, models.Scaled(models.SoftmaxRegression()), oar.Query(row, goal=goal), LIMITS)
    assert advice.row.index.tolist() == ["p3"]
    assert (advice.row.dtypes == row.dtypes).all()
    assert list(advice.changes.columns) == ["column", "from", "to", "cost"]
    assert advice.changes["cost"].sum() == pytest.approx(advice.cost)
    for name, old, new in advice.changes[["column", "from", "to"]].itertuples(index=False):
        assert row[name].iloc[0] == old != new == advice.row[name].iloc[0]
    unchanged = [name for name in row.columns if name not in set(advice.changes["column"])]
    assert row[unchanged].equals(advice.row[unchanged])
    assert "scikit-learn" in advice.witness
    assert advice.status is oar.results.Status.ACHIEVED
    assert "predicts the goal" in advice.explanation
    assert "proved cheapest" in repr(advice)


def test_small_floats_are_rounded_and_still_succeed():
    frame = table().astype({"income": "float32"})
    people = population(frame)
    row = frame[frame["label"] == "no"].drop(columns=["label", "score"]).iloc[[0]]
    limits = Limits({name: Limit(immutable=True) for name in SCHEMA.names if name != "income"})
    advice = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), limits)
    assert advice.row["income"].dtype == np.float32
    assert advice.success
    assert advice.proved


def test_who_has_the_goal_stays():
    frame = table()
    row = frame[frame["label"] == "yes"].drop(columns=["label", "score"]).sort_values("income").iloc[-1]
    advice = oar.cheapest(population(frame), models.SoftmaxRegression(), oar.Query(row, goal="yes"))
    assert advice.status is oar.results.Status.ALREADY
    assert (advice.cost, advice.bound, advice.proved, advice.success) == (0.0, 0.0, True, True)
    assert advice.changes.empty
    assert "nothing needs to change" in advice.explanation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [models.SoftmaxRegression(), oar.NearestCentroid(), models.GaussianNaiveBayes()])
def test_impossible_is_proved_and_says_why(kind, model):
    frame = table()
    row = frame[frame["label"] == "no"].drop(columns=["label", "score"]).sort_values("income").iloc[0]
    fixed = Limits({name: Limit(immutable=True) for name in SCHEMA.names})
    advice = oar.cheapest(population(frame), model, oar.Query(row, goal="yes"), fixed, kind)
    assert advice.status is oar.results.Status.IMPOSSIBLE
    assert (advice.cost, advice.bound, advice.proved, advice.success) == (np.inf, np.inf, True, False)
    assert "income: immutable" in advice.because
    assert "income: immutable" in advice.explanation
    assert advice.changes.empty


def test_only_limits_that_matter_are_named():
    frame = table()
    people = population(frame)
    row = frame[frame["label"] == "no"].drop(columns=["label", "score"]).sort_values("income").iloc[0]
    still = {name: Limit(immutable=True) for name in ("owns", "grade", "purpose")}
    bounded = {"income": Limit(upper=20.0), "children": Limit(lower=0, upper=8)}
    limits = Limits(still | bounded, links=["income <= 25"])
    advice = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), limits)
    assert advice.status is oar.results.Status.IMPOSSIBLE
    named = " ".join(advice.because)
    assert "children" in named  # without the bound children could go below 0
    kept = {name: limit for name, limit in limits.columns.items() if f"{name}:" in named}
    without = Limits(kept, links=[text for text in limits.links if text in named])
    again = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), without)
    assert again.status is oar.results.Status.IMPOSSIBLE
    for name in without.columns:
        fewer = Limits({other: limit for other, limit in without.columns.items() if other != name}, without.links)
        assert oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), fewer).success


def test_own_limits_are_in_place_of_everybodys():
    frame = table()
    people = population(frame)
    row = frame[frame["label"] == "no"].drop(columns=["label", "score"]).sort_values("income").iloc[5]
    ready = oar.Cheapest(people, models.SoftmaxRegression(), LIMITS)
    free = ready.of(oar.Query(row, goal="yes"))
    held = ready.of(oar.Query(row, goal="yes"), own={"income": Limit(upper=25.0), "purpose": {"immutable": True}})
    assert held.cost > free.cost
    assert "purpose" not in set(held.changes["column"])
    assert held.row["income"].item() <= max(25.0, row["income"])
    assert held.success
    assert held.proved
    never = ready.of(oar.Query(row, goal="yes"), own={name: Limit(immutable=True) for name in ("income", "purpose")})
    assert never.status is oar.results.Status.IMPOSSIBLE
    assert "purpose: immutable" in never.because


def test_a_list_of_queries_is_a_list_of_advice():
    frame = table()
    rows = frame[frame["label"] == "no"].drop(columns=["label", "score"])
    queries = [oar.Query(rows.iloc[number], goal="yes") for number in range(3)]
    together = oar.cheapest(population(frame), models.SoftmaxRegression(), queries, LIMITS)
    alone = [oar.cheapest(population(frame), models.SoftmaxRegression(), query, LIMITS) for query in queries]
    assert [advice.cost for advice in together] == [advice.cost for advice in alone]


def test_who_is_outside_a_bound_may_stay_there_but_not_go_further():
    frame = table()
    people = population(frame)
    row = dict(frame[frame["label"] == "no"].drop(columns=["label", "score"]).iloc[0]) | {"children": 9}
    limits = Limits({"children": Limit(upper=4), "income": Limit(direction="up")})
    advice = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), limits)
    assert advice.success
    assert advice.row["children"].item() <= 9
    worse = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row | {"income": 90.0}, goal="no"), limits)
    assert worse.row["children"].item() <= 9


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_are_switches_alone_the_cheapest_is_found(kind):
    frame = pandas.DataFrame({"b": [True, False] * 6, "c": ["u", "v", "w"] * 4, "t": [1, 0] * 5 + [0, 1]})
    advice = oar.cheapest(
        oar.Population.from_frame(frame, "t"), models.SoftmaxRegression(l2=0.1), oar.Query({"b": False, "c": "v"}, 1),
        cost=kind,
    )  # fmt: skip
    assert advice.proved
    assert advice.cost == 1


def test_weights_count_in_the_spread():
    frame = table().assign(weight=lambda rows: np.where(rows["income"] > 30, 3.0, 0.5))
    people = oar.Population.from_frame(frame.drop(columns="score"), target="label", weights="weight", schema=SCHEMA)
    row = frame[frame["label"] == "no"].drop(columns=["label", "score", "weight"]).iloc[0]
    limits = Limits({name: Limit(immutable=True) for name in SCHEMA.names if name != "income"})
    advice = oar.cheapest(people, models.SoftmaxRegression(), oar.Query(row, goal="yes"), limits)
    middle = np.average(frame["income"], weights=frame["weight"])
    deviation = np.sqrt(np.average((frame["income"] - middle) ** 2, weights=frame["weight"]))
    assert advice.cost == pytest.approx(abs(advice.row["income"].item() - row["income"]) / deviation)


def test_the_documentation_runs_and_says_what_is_so():
    text = page("tables")
    section = text[text.index("## The cheapest change for one person") :]
    section = section[: section.find("\n## ", 5)] if "\n## " in section[5:] else section
    names = run(section)
    assert names["advice"].success
    assert names["advice"].proved
    assert str(names["advice"].cost).startswith("2.89")
    assert names["refused"].status is oar.results.Status.IMPOSSIBLE
    assert all(advice.success and advice.proved for advice in names["twenty"])
    assert names["careful"].cost >= names["advice"].cost
