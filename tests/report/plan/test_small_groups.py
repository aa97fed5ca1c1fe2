"""Tables by group tell of no group, and of no few people, of whom it could be told who they are."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from support.commands import audited, done, people

from oar.report.plan.small_groups import LEFT_OUT, OTHERS, SMALL, pooled, withheld

ASKED = ("--target", "approved", "--query", "1", "--goal", "yes", "--budget", "0.4", "--leave-out", "town")


def planned(folder, towns, *more):
    frame = people().assign(town=towns)
    frame.to_csv(folder / "people.csv", index=False)
    done("plan", folder / "people.csv", *ASKED, "--group", "town", "--out", folder / "plan", *more)
    return frame, audited(folder / "plan"), (folder / "plan" / "report.html").read_text()


def test_small_groups_are_one_row(tmp_path):
    towns = np.repeat(["Aarau", "Basel", "Chur", "Davos", "Eglisau"], [50, 31, 4, 4, 1])
    frame, facts, report = planned(tmp_path, towns)
    for name in ("Chur", "Davos", "Eglisau"):
        assert name not in report
        assert name not in (tmp_path / "plan" / "audit.json").read_text()
    assert [(row["group"], row["members"]) for row in facts["burden"]["town"]] == [
        ("Aarau", 50), ("Basel", 31), (SMALL, 9),
    ]  # fmt: skip
    assert {row["group"] for row in facts["collateral"]["by_group"]} <= {"Aarau", "Basel", SMALL}
    assert facts["left_out"] == {}


def test_few_in_all_are_left_out_and_that_is_said(tmp_path):
    _, facts, report = planned(tmp_path, np.repeat(["Aarau", "Basel", "Chur", "Davos"], [50, 37, 2, 1]))
    assert [row["group"] for row in facts["burden"]["town"]] == ["Aarau", "Basel"]
    assert "Groups of fewer than 5 people, fewer than 5 in all, are left out." in report
    assert "Chur" not in report


def test_a_rare_class_is_left_out(tmp_path):
    frame = people().drop(columns="town")
    frame.loc[[4, 5], "approved"] = "perhaps"
    frame.to_csv(tmp_path / "people.csv", index=False)
    done("plan", tmp_path / "people.csv", *ASKED[:-2], "--out", tmp_path / "plan")
    facts = audited(tmp_path / "plan")
    assert {row["group"] for row in facts["burden"]["approved"]} == {"yes", "no"}
    assert facts["left_out"]["approved"]


def test_what_few_do_is_not_told(tmp_path):
    towns = np.repeat(["Aarau", "Basel", "Chur"], [50, 30, 10])
    _, facts, report = planned(tmp_path, towns, "--participants", "best:3")
    assert facts["outcome"]["movers"] <= 3
    for row in facts["burden"]["town"] + facts["burden"]["approved"]:
        if row["movers"]:
            assert row["effort"] is row["effort_per_member"] is row["effort_per_mover"] is None
    assert all(row["effort"] is None and "fewer than 5" in row["change"] for row in facts["columns"])
    assert facts["collateral"]["actors"]["changed"] is None
    assert facts["collateral"]["everyone"]["wanted_after"] is None
    assert facts["collateral"]["bystanders"]["score_before"] is None  # accuracy is told of everyone, too
    assert "A dash stands for" in report


def test_what_happens_to_few_bystanders_is_not_told(tmp_path):
    frame = people()
    car = (frame["purpose"] == "car").to_numpy()
    towns = np.where(np.arange(90) < 60, "Aarau", "Basel").astype(object)
    middle = np.argsort(np.abs(frame["income"] - frame["income"].median()).to_numpy())  # no bound stops them
    towns[[*middle[car[middle]][:10], *np.flatnonzero(~car)[-3:]]] = "Chur"
    _, facts, _ = planned(tmp_path, towns, "--participants", "purpose=car")
    rows = facts["collateral"]["by_group"]
    assert any(0 < row["bystanders"] < 5 for row in rows)
    assert any(row["changed"] is not None for row in rows)
    told = sum(row["bystanders"] for row in rows if row["changed"] is not None)
    rest = facts["collateral"]["bystanders"]["people"] - told
    assert not 0 < rest < 5 or not told
    assert all(row["changed"] is None for row in rows if 0 < row["bystanders"] < 5)
    hidden = {row["group"] for row in rows if row["changed"] is None}
    both = facts["collateral"]["everyone_by_group"]  # less the actors, who are told, it would tell the bystanders
    assert all(row["away"] is row["wanted_before"] is None for row in both if row["group"] in hidden)


def test_a_column_of_names_makes_no_long_table(tmp_path):
    _, facts, report = planned(tmp_path, [f"town {number}" for number in range(90)])
    assert [row["group"] for row in facts["burden"]["town"]] == [SMALL]
    assert "town 7" not in report


def test_at_most_thirty_rows():
    found = pooled(pd.Series(np.repeat([f"town {number}" for number in range(200)], 6)))
    assert len(found.order) == 30
    assert found.order[-1] == OTHERS
    assert (found.values == OTHERS).sum() == 171 * 6


def test_quarters_stay_in_their_order():
    parts = pd.Categorical.from_codes([0] * 5 + [1] * 9 + [2] * 6, ["9 to 10", "10 to 20", "20 to 30"], ordered=True)
    assert pooled(pd.Series(parts)).order == ("9 to 10", "10 to 20", "20 to 30")


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", OTHERS, SMALL, LEFT_OUT, None]), st.integers(0, 9)), min_size=1),
    st.integers(0, 60),
)
def test_everybody_is_in_one_group_of_five_or_in_none(parts, more):
    values = [name for name, size in parts for _ in range(size)] + [f"n{number // 6}" for number in range(6 * more)]
    if not values:
        return
    found = pooled(values)
    sizes = found.values.value_counts()
    assert len(found.values) == len(values)
    assert len(found.order) == len(set(found.order)) <= 30
    assert all(sizes[name] >= 5 for name in found.order)
    hidden = len(values) - sum(sizes[name] for name in found.order)
    assert hidden < 5
    assert bool(hidden) == bool(found.note)
    words = pd.Series(values, dtype=object).fillna("missing")
    for name in found.order:
        inside = words[(found.values == name).to_numpy()]
        pure = inside.nunique() == 1
        assert pure or name.startswith((OTHERS, SMALL))
        if pure and name == inside.iloc[0]:
            assert (words == name).sum() == len(inside)  # a real value's row has nobody else's


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 4))
def test_what_is_not_told_cannot_be_computed(counts, unseen):
    hidden = withheld(counts, sum(counts) + unseen)
    told = sum(count for count, hide in zip(counts, hidden, strict=True) if not hide)
    rest = sum(counts) + unseen - told
    assert rest == 0 or rest >= 5 or told == 0
    assert all(hide for count, hide in zip(counts, hidden, strict=True) if 0 < count < 5)


def test_gaps_are_a_group():
    assert pooled([None] * 6 + ["a"] * 7).order == ("a", "missing")
