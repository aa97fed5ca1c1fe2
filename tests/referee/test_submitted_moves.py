"""`oar.audit(problem, moves)`: what somebody else computed is judged as a plan's own moves are."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from support.commands import numbers, people
from support.online_problems import three_rounds

import oar
from oar.errors import DataError, OptionError
from oar.online import FullRefit
from oar.plans import MemberPlan
from oar.plans.moves.changes_table import changes_of

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 2
POINTS = RNG.normal(size=(60, 2)) + 1.5 * LABELS[:, None]
NAMED = pd.DataFrame(POINTS, columns=["x", "y"], index=[f"p{row}" for row in range(60)])
QUERY = np.array([0.5, 0.5])
QUICK = oar.solvers.ProjectedGradient(max_steps=20, restarts=0)  # the audit is asked, not how good plans are


def plain(model=None, features=POINTS, action=None, **more):
    query = more.pop("query", oar.Query(QUERY, goal=1))
    return oar.Problem(
        oar.Population(features, LABELS), model or oar.NearestCentroid(), query, action or oar.Perturb(0.8), **more
    )


def table(action=None):
    frame = people(60).drop(columns="town")
    population = oar.Population.from_frame(frame, "approved")
    query = oar.Query(frame.drop(columns="approved").iloc[1].to_dict(), goal="yes")
    return oar.Problem(
        population, oar.models.Scaled(oar.SoftmaxRegression()), query, action or oar.Perturb(0.5, norm=1)
    )


def same(found, expected):
    """Compare audits: files and tables have values after a move, whose differences carry rounding."""
    found, expected = asdict(found), asdict(expected)
    for name, value in expected.items():
        if isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-7, abs=1e-9), name
        elif name != "queries":
            assert found[name] == value, name


MODELS = {
    "centroids": lambda: plain(),
    "softmax": lambda: plain(oar.SoftmaxRegression()),
    "several": lambda: plain(query=oar.Query(np.array([QUERY, QUERY - 0.2]), goal=1)),
    "kept": lambda: plain(oar.SoftmaxRegression(), keep=oar.Keep(changed=0.0)),
    "best": lambda: plain(action=oar.Perturb(0.8, participants=oar.Best(20))),
}


@pytest.mark.parametrize("kind", MODELS)
def test_an_array_is_audited_as_the_plan_that_it_is_of(kind):
    problem = MODELS[kind]()
    result = oar.collective(problem)
    same(oar.audit(problem, result.plan.moves()), oar.audit(result.plan))


def test_a_black_box_is_audited():
    from sklearn.tree import DecisionTreeClassifier

    problem = plain(oar.BlackBox(DecisionTreeClassifier(max_depth=2, random_state=0)))
    moves = np.where(LABELS[:, None] == 0, 0.0, [-0.5, -0.5])
    found = oar.audit(problem, moves)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(POINTS + moves, LABELS)
    assert found.prediction == tree.predict([QUERY])[0]
    assert found.movers == 30


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression()], ids=lambda model: model.name)
def test_tables_of_any_shape_say_the_same(model, tmp_path):
    problem = plain(model, NAMED)
    result = oar.collective(problem)
    expected = oar.audit(result.plan)
    moves = result.plan.moves()
    result.plan.write_moves(tmp_path / "moves")
    changes_of(result.plan).to_parquet(tmp_path / "moves.parquet")
    moves.sample(frac=1, random_state=0).to_parquet(tmp_path / "frame.parquet")
    for given in (
        moves,
        moves[["y", "x"]].sample(frac=1, random_state=0),
        changes_of(result.plan),
        changes_of(result.plan).drop(columns="before").assign(imputed=False),
        tmp_path / "moves",
        tmp_path / "moves.parquet",
        tmp_path / "frame.parquet",
    ):
        same(oar.audit(problem, given), expected)
    same(oar.audit(problem, after=NAMED + moves), expected)
    same(oar.audit(problem, after=(NAMED + moves).to_numpy()), expected)


def test_who_is_not_in_a_table_stays():
    problem = plain(features=NAMED)
    moves = oar.collective(problem).plan.moves()
    some = moves.iloc[:10]
    everyone = moves.copy()
    everyone.iloc[10:] = 0.0
    same(oar.audit(problem, some), oar.audit(problem, everyone))


def test_a_written_table_is_refused_as_the_table_itself_is(tmp_path):
    moves, path = oar.collective(plain()).plan.moves(), tmp_path / "moves.parquet"
    frame = pd.DataFrame(moves, columns=["0", "1"])
    for problem, given in (
        (plain(), frame),  # nobody called the columns so
        (plain(features=NAMED), frame.set_axis(["x", "z"], axis=1)),
        (plain(features=NAMED), frame.set_axis(["x", "y"], axis=1)),  # rows are people by number, and they have names
    ):
        given.to_parquet(path)
        with pytest.raises(DataError) as itself:
            oar.audit(problem, given)
        with pytest.raises(DataError) as written:
            oar.audit(problem, path)
        assert str(written.value) == str(itself.value)


def test_a_table_of_people_in_its_own_words():
    problem = table()
    result = oar.collective(problem)
    expected = oar.audit(result.plan)
    same(oar.audit(problem, result.plan.changes()), expected)
    same(oar.audit(problem, after=result.plan.table()), expected)
    with pytest.raises(DataError, match=r"moves: must have the columns .*given as after="):
        oar.audit(problem, result.plan.table())


def test_labels_and_leavers():
    problem = plain(oar.SoftmaxRegression(), NAMED, [oar.Perturb(0.3), oar.Relabel(most=3), oar.Withhold(most=2)])
    plan = oar.collective(problem, solver=QUICK).plan
    expected = oar.audit(plan)
    assert expected.relabelled or expected.leavers
    same(oar.audit(problem, plan.moves(), labels=plan.labels(), leavers=plan.leavers()), expected)
    changed = plan.labels()[plan.labels() != LABELS]
    left = list(plan.leavers()[plan.leavers()].index)
    same(oar.audit(problem, plan.moves(), labels=changed, leavers=left), expected)
    same(oar.audit(problem, plan.moves(), labels=changed.to_dict(), leavers=left), expected)
    same(oar.audit(problem, changes_of(plan)), expected)
    of_table = table([oar.Perturb(0.3, norm=1), oar.Relabel(most=2)])
    planned = oar.collective(of_table, solver=QUICK).plan
    same(oar.audit(of_table, planned.changes()), oar.audit(planned))


def test_what_is_not_allowed_is_told():
    far = np.zeros((60, 2))
    far[3] = 5.0
    found = oar.audit(plain(), far)
    assert found.violations == ("person 3 moves by 7.07107, limit 0.8",)
    assert not found.success
    relabelled = oar.audit(plain(oar.SoftmaxRegression()), labels={0: 1})
    assert "is relabelled, and nobody may be" in relabelled.violations[0]
    away = oar.audit(plain(oar.SoftmaxRegression()), leavers=[4])
    assert "leaves, and nobody may" in away.violations[0]
    many = oar.audit(MODELS["best"](), np.full((60, 2), 0.1))
    assert "60 members move, limit 20" in many.violations
    assert not many.success
    own = oar.audit(plain(query=oar.Query(QUERY, goal=1, budget=0.1)), query_move=[1.0, 1.0])
    assert own.violations == ("the query moves by 1.41421, limit 0.1",)


def test_people_in_parts(tmp_path):
    frame = numbers(400)
    frame.to_parquet(tmp_path / "people.parquet", row_group_size=150)
    streamed = oar.Population.from_parquet(tmp_path / "people.parquet", "kind")
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)):
        query = oar.Query([1.0, 1.0], goal=1)
        problem = oar.Problem(streamed, model, query, oar.Perturb(0.5))
        plan = oar.collective(problem).plan
        expected = oar.audit(plan)
        folder = tmp_path / model.name
        files = plan.write_moves(folder)
        same(oar.audit(problem, folder), expected)
        moves = pd.concat([pd.read_parquet(file) for file in files])[["x", "y"]].to_numpy(copy=True)
        same(oar.audit(problem, moves), expected)
        loaded = oar.Problem(oar.Population(frame[["x", "y"]], frame["kind"]), model, query, oar.Perturb(0.5))
        assert oar.audit(loaded, folder).loss == pytest.approx(expected.loss, rel=1e-6)
        assert "limit 0.5" in oar.audit(problem, 9 * moves).violations[0]
        with pytest.raises(DataError, match=r"moves: must be 400 people × 2 features, shape \(400, 2\), got shape"):
            oar.audit(problem, moves[1:])
        moves[7, 1] = np.nan
        with pytest.raises(DataError, match=r"moves: must be finite, got nan for person 7, feature 1"):
            oar.audit(problem, moves)
    short = pd.read_parquet(files[0]).drop(columns="y")
    short.to_parquet(tmp_path / "short.parquet")
    with pytest.raises(DataError, match=r"moves: files must have a column 'position' and one for each.*without 'y'"):
        oar.audit(problem, tmp_path / "short.parquet")
    with pytest.raises(DataError, match=r"moves: must be a Parquet file or a folder of them, got .*which is not there"):
        oar.audit(problem, tmp_path / "nowhere")


def changed(**cells):
    return pd.DataFrame([{"person": "p3", "column": "x", "before": POINTS[3, 0], "after": 1.0} | cells])


MISTAKES = [
    (np.zeros((59, 2)), r"moves: must be 60 people × 2 features, shape \(60, 2\), got shape \(59, 2\); a row of zeros"),
    (np.full((60, 2), np.nan), r"moves: must be finite, got nan for person p0, column 'x'; a zero is"),
    ("nowhere.parquet", r"moves: must be a Parquet file or a folder"),
    ([["a", "b"]] * 60, r"moves: must be numbers of shape \(60, 2\), a DataFrame"),
    (NAMED[["x"]], r"moves: must have the columns \['x', 'y'\], got a table without 'y'"),
    (NAMED.assign(z=1.0), r"moves: must have the columns \['x', 'y'\], got a table with 'z'"),
    (NAMED.rename(index={"p0": "zoe"}), r"moves: must be of these people, got 'zoe', who is not among them"),
    (pd.concat([NAMED, NAMED.iloc[:1]]), r"moves: everybody must be there once, got 'p0' twice"),
    (changed(person="zoe"), r"moves: row 0 is about 'zoe', who is not among these people"),
    (changed(column="z"), r"moves: row 0 must name a feature, got 'z'"),
    (changed(before=99.0), r"moves: row 0 says that 'x' of 'p3' is 99.0 before, and in these data it is not"),
    (changed(after="much"), r"moves: row 0 puts 'much' into 'x', which it cannot hold"),
    (changed(after=np.nan), r"moves: row 0 puts nan into 'x', which it cannot hold"),
    (pd.concat([changed(), changed(after=2.0)]), r"moves: row 1 is the second about 'x' of 'p3'; leave one"),
    (changed(column="label", before=1, after=7), r"moves: row 0 gives the label 7, which is none"),
    (changed(column="all data", before="given", after="lent"), r"moves: row 0 must have a member's data withheld"),
]  # fmt: skip


@pytest.mark.parametrize(("moves", "told"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_told_kindly(moves, told):
    with pytest.raises(DataError, match=told):
        oar.audit(plain(features=NAMED), moves)


def test_what_is_said_twice_or_not_at_all_is_refused():
    problem = plain()
    with pytest.raises(OptionError, match="moves: must say what members do, got nothing"):
        oar.audit(problem)
    with pytest.raises(OptionError, match="after: says where members come to, and moves by how much"):
        oar.audit(problem, np.zeros((60, 2)), after=POINTS)
    with pytest.raises(OptionError, match="labels: a plan says itself who does what"):
        oar.audit(oar.collective(problem).plan, labels=LABELS)
    with pytest.raises(OptionError, match=r"plan: must be a plan, or an oar.Problem\(…\) with moves"):
        oar.audit(np.zeros((60, 2)))
    with pytest.raises(DataError, match="leavers: must be of these people, got 77"):
        oar.audit(problem, leavers=[77])
    with pytest.raises(DataError, match="labels: must be one for each of the 60 people, got 2"):
        oar.audit(problem, labels=[0, 1])


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression()])
def test_rows_that_are_numbered_in_another_order_are_refused(model, tmp_path):
    """Do they go by their numbers or by their places? Either would be a guess."""
    problem, order = plain(model), RNG.permutation(60)
    moves = pd.DataFrame(oar.collective(problem).plan.moves(), columns=[0, 1])
    own = oar.Problem(problem.people, model, problem.query, [oar.Relabel(most=3), oar.Withhold(most=3)])
    for given in (
        lambda: oar.audit(problem, moves.iloc[order]),
        lambda: oar.audit(own, labels=pd.Series(LABELS).iloc[order]),
        lambda: oar.audit(own, leavers=pd.Series(LABELS == 2).iloc[order]),
    ):
        with pytest.raises(DataError, match=r"must be in the order of the people.*sort_index\(\)"):
            given()
    same(oar.audit(problem, moves.iloc[order].sort_index()), oar.audit(problem, moves))
    NAMED.assign(label=LABELS).to_parquet(tmp_path / "people.parquet", index=False)
    many = oar.Population.from_parquet(tmp_path / "people.parquet", target="label")
    asked = oar.Problem(many, model, problem.query, oar.Perturb(0.8))
    with pytest.raises(DataError, match="must be in the order of the people"):
        oar.audit(asked, moves.set_axis(["x", "y"], axis=1).iloc[order])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"labels": 1}, "labels: must be one for each person"),
        ({"leavers": 3}, "leavers: must be a list of people"),
        ({"moves": np.full((60, 2), 0.1 + 1j)}, "moves: must be plain numbers, got numbers of type complex128"),
        ({"moves": np.ma.masked_greater(POINTS, 0.5)}, "moves: must be plain numbers, got masked ones"),
        (
            {"moves": np.ones((60, 2), dtype="timedelta64[s]")},
            "moves: must be plain numbers, got numbers of type timede",
        ),
    ],
)
def test_what_is_no_list_and_no_plain_number_is_refused(given, told):
    with pytest.raises(DataError, match=told):
        oar.audit(plain(), **given)


TURNED = 0.01j * np.ones((60, 2))  # imaginary parts that NumPy drops without a word


@pytest.mark.parametrize(
    "given",
    [
        {"moves": TURNED},
        {"moves": list(TURNED)},
        {"moves": TURNED.tolist()},
        {"moves": pd.DataFrame(TURNED, columns=["x", "y"], index=NAMED.index)},
        {"after": pd.DataFrame(POINTS + TURNED, columns=["x", "y"], index=NAMED.index)},
        {"query_move": TURNED[0]},
        {"labels": np.eye(2)[LABELS] + 0j},
        {"moves": pd.DataFrame({"person": ["p0"], "column": ["x"], "after": [0.1j]})},
    ],
    ids=["array", "rows", "lists", "table", "after", "query", "labels", "changes"],
)
def test_complex_numbers_are_refused(given):
    problem = plain(oar.SoftmaxRegression(), NAMED, [oar.Perturb(0.8), oar.Relabel(soft=1.0)])
    with pytest.raises(DataError, match="complex|which it cannot hold"):
        oar.audit(problem, **given)


@pytest.mark.parametrize("stay", [True, False])
def test_members_who_ask_have_no_move_beside_their_data(stay):
    problem = plain(query=oar.Query(oar.Members([0, 3], stay=stay), goal=1))
    with pytest.raises(OptionError, match="query_move: .*oar.Members"):
        oar.audit(problem, np.zeros((60, 2)), query_move=[0.1, 0.0])
    assert oar.audit(problem, query_move=[0.0, 0.0]).violations == ()
    found = oar.audit(MemberPlan(problem, np.array([0.1, 0.0]), np.zeros((60, 2))))
    assert found.violations == ("the query moves, and members who ask move with their data alone",)
    assert not found.success


@pytest.mark.parametrize("kind", [pd.Series, dict])
def test_the_querys_move_is_matched_by_name(kind):
    problem = plain(features=NAMED, query=oar.Query(QUERY, goal=1, budget=2.0))
    found = oar.audit(problem, query_move=kind({"y": 1.0, "x": 0.0}))
    assert found == oar.audit(problem, query_move=[0.0, 1.0]) != oar.audit(problem, query_move=[1.0, 0.0])
    with pytest.raises(DataError, match="query_move: its names must be the population's columns, got missing 'y'"):
        oar.audit(problem, query_move=kind({"x": 1.0}))


def test_over_rounds_what_changes_nothing_is_no_other_lever_and_a_querys_move_has_its_shape():
    problem = three_rounds(oar.SoftmaxRegression(), FullRefit())
    still = oar.audit(problem, np.zeros((18, 2)))
    assert oar.audit(problem, leavers=[]) == oar.audit(problem, labels={}) == still
    assert oar.audit(problem, np.zeros((18, 2)), query_move=[0.0, 0.0]) == still
    with pytest.raises(DataError, match=r"query_move: must have shape \(2,\), got \(3,\)"):
        oar.audit(problem, query_move=[0.0, 0.0, 0.0])
    with pytest.raises(OptionError, match="members move and do nothing else"):
        oar.audit(problem, leavers=[0])
