"""Numbers as files that may be published have them."""

import pytest

from oar.report.plan.publishable import publishable


def test_steps_are_ten_peoples_worth_and_no_finer_than_four_digits():
    told = {"outcome": {"loss": 2.1234567, "probability": 0.12345, "margin": 0.0123}}
    found = {size: publishable(told, size)["outcome"] for size in (20, 100, 1_000, 100_000, 10**8)}
    assert [found[size]["loss"] for size in found] == [2.0, 2.0, 2.1, 2.1235, 2.1235]
    assert [found[size]["probability"] for size in found] == [0.0, 0.1, 0.12, 0.1234, 0.1234]
    assert [found[size]["margin"] for size in found] == [0.0, 0.0, 0.0, 0.0125, 0.0125]  # which go by the loss


def test_counts_are_of_fives_and_tens_and_nobody_is_lost():
    told = {
        "outcome": {"movers": 0},
        "people": 199,
        "counts": [{"away": count} for count in (0, 1, 7, 12, 48, 56, 199)],
    }
    assert [each["away"] for each in publishable(told, 200)["counts"]] == [0, 5, 5, 10, 50, 60, 199]


def test_rates_of_a_group_go_by_its_size_and_do_not_undo_counts():
    row = {"group": "a", "bystanders": 291, "changed": 17, "share": 17 / 291, "wanted_before": 0.4123}
    small = {"group": "b", "members": 20, "participants": 20, "movers": 6, "effort": 2.1, "effort_per_member": 0.105}
    facts = {"asked": {"participants": 900}, "collateral": {"by_group": [row], "own": [0.8123], "held_out": [0.8123]}}
    facts["collateral"]["held_out_people"] = 50
    facts["burden"] = {"town": [{**small, "effort_per_mover": 0.35}, {**small, "effort": 300.0}]}
    found = publishable(facts, 1_000)
    told = found["collateral"]["by_group"][0]
    assert (told["changed"], told["share"], told["wanted_before"]) == (15, 0.05, 0.4)
    assert (found["collateral"]["own"], found["collateral"]["held_out"]) == ([0.81], [0.8])
    assert [found["burden"]["town"][0][name] for name in ("effort_per_member", "effort_per_mover")] == [0.1, 0.4]
    assert found["burden"]["town"][0]["effort"] == 0.0  # by what ten of everybody spend


def test_the_least_and_the_largest_value_are_not_told():
    said = "Moves leave the range of the data by much: 'income' goes to 151234 (observed: 1104.98 to 103779); limits"
    told = publishable({"explanation": said}, 100)["explanation"]
    assert told == "Moves leave the range of the data by much: 'income' goes to about 160000; limits"


def test_bounds_stay_true():
    told = {
        "loss": 3.0,
        "budget_at_most": 0.4213,
        "people_at_most": 51,
        "bound": 2.789,
        "residual": 3e-13,
        "steps": 137,
    }
    found = publishable(told, 100)
    assert found["budget_at_most"] == 0.45
    assert found["people_at_most"] == 60
    assert found["bound"] == 2.5
    assert (found["residual"], found["steps"]) == (1e-9, 1000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("goal loss 1.08912, by a refit.", "goal loss about 1.08, by a refit."),
        ("it takes any budget above 0.123456.", "it takes any budget above about 0.124."),
        ("of 999 members who act, 7 lose 'yes' and 843 gain it", "of 999 members who act, about 5 lose 'yes' and about "
         "840 gain it"),
        ("with a budget of 0.35 and label 17 of '2024'", "with a budget of 0.35 and label 17 of '2024'"),
        ("with 26 parameters, 84.31 % of income_2 in scikit-learn 1.9.1",
         "with 26 parameters, about 84 % of income_2 in scikit-learn 1.9.1"),
        ("up 9, down 1,234; by fewer than 5 people", "up about 10, down about 1,230; by fewer than 5 people"),
    ],
)  # fmt: skip
def test_numbers_within_sentences_are_rounded_and_names_are_not(text, told):
    facts = {"explanation": text, "asked": {"budget": 0.35, "participants": 999, "features": 7}, "people": 999}
    assert publishable(facts, 1_000, names=["2024", 17])["explanation"] == told


def test_what_was_asked_is_told_as_it_is():
    asked = {"asked": {"budget": 0.123456}, "repeat": {"seed": 12345, "command": "--budget 0.123456"}}
    assert publishable(asked, 100) == asked
    shown = publishable({**asked, "outcome": {"budget_at_most": 0.123456, "prediction": 17}}, 100)["outcome"]
    assert shown == {"budget_at_most": 0.123456, "prediction": 17}


def test_who_broke_a_limit_is_told_to_the_organiser_alone():
    facts = {"outcome": {"violations": ["person 17 moves by 2, limit 1"], "success": False}}
    (told,) = publishable(facts, 100)["outcome"]["violations"]
    assert "17" not in told
    assert "broken" in told
    assert publishable({"outcome": {"violations": []}}, 100)["outcome"]["violations"] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("of 300 members who act, 31 lose the prediction 2 that they had and 2 gain it; of 700 people who do nothing, "
         "1 lose the prediction 2 that they had and 300 gain it",
         "of 300 members who act, about 30 lose the prediction 2 that they had and about 5 gain it; of 700 people who "
         "do nothing, about 5 lose the prediction 2 that they had and about 300 gain it"),
        ("predictions of 2 go away from the goal and of 1 towards it",
         "predictions of about 5 go away from the goal and of about 5 towards it"),
        ("of 300 members who act, 30 lose it and 0 gain it", "of 300 members who act, about 30 lose it and 0 gain it"),
        ("of 14 members who act, 13 lose it and 14 gain it", "of 14 members who act, about 14 lose it and 14 gain it"),
        ("if 1 member moves, the model predicts 2", "if about 5 members move, the model predicts 2"),
        ("if 2 members move and 3 labels change", "if about 5 members move and 3 labels change"),
        ("gives 2 of the 14 who ask 'yes', instead of 1 of them",
         "gives 2 of the 14 who ask 'yes', instead of 1 of them"),
        ("up 2, down 1; 'a' → 'b': 7; others: 2", "up about 5, down about 5; 'a' → 'b': about 5; others: about 5"),
        ("Chosen were 2 of 300 eligible members", "Chosen were 2 of 300 eligible members"),
        ("goal loss 0.333, with a budget of 0.333", "goal loss about 0.335, with a budget of 0.333"),
    ],
)  # fmt: skip
def test_counts_of_people_are_rounded_though_they_equal_what_is_known(text, told):
    asked = {"budget": 0.333, "norm": "2", "classes": [1, 2], "participants": 300, "best": 2}
    known = {"actors": {"people": 300}, "bystanders": {"people": 700}, "few": {"people": 14, "relabelled": 3}}
    facts = {"explanation": text, "asked": asked, "collateral": known}
    assert publishable(facts, 1_000, names=["column 1", 2, 31])["explanation"] == told


def test_counts_of_rows_are_rounded_though_they_equal_others_and_are_no_more_than_all():
    rows = [
        {"group": "a", "people": 14, "away": 13, "towards": 2},
        {"group": "b", "people": 21, "away": 14, "towards": 21},
    ]
    facts = {"outcome": {"leavers": 2, "movers": 98}, "asked": {"people": 100, "participants": 99}, "rows": rows}
    found = publishable(facts, 100)
    assert [(row["away"], row["towards"]) for row in found["rows"]] == [(14, 5), (15, 21)]
    assert found["outcome"] == {"leavers": 2, "movers": 99}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("At most 74 of 300 eligible members: certain ones, found to suffice (audited), 41 labelled 'a b'.",
         "At most 80 of 300 eligible members: certain ones, found to suffice (audited), about 40 labelled 'a b'."),
        ("not proved to be the fewest; it takes at least 68 (proved).",
         "not proved to be the fewest; it takes at least 60 (proved)."),
        ("it takes at least 3 (proved).", "it takes at least 1 (proved)."),
        ("82 members suffice (30 of 'a b', 2 of 1), and it takes at least 82 (proved).",
         "90 members suffice (about 30 of 'a b', about 5 of 1), and it takes at least 80 (proved)."),
        ("Any budget above 1.12863 suffices.", "Any budget above about 1.14 suffices."),
        ("the goal is reached with any budget of at least 1.12163.",
         "the goal is reached with any budget of at least 1.14."),
        ("no moves have a loss below it: at least 1.1386.", "no moves have a loss below it: at least 1.12."),
    ],
)  # fmt: skip
def test_what_suffices_is_rounded_up_and_what_is_needed_down(text, told):
    assert publishable({"explanation": text, "asked": {"participants": 300}}, 1_000, names=[1])["explanation"] == told


def test_rates_of_a_small_group_are_left_out_and_those_of_a_large_one_rounded():
    row = {"wanted_before": 0.3889, "wanted_after": 0.5, "score_before": 0.9167, "score_after": 0.75, "away": 5}
    told = {"bystanders": row | {"people": 36}, "everyone": row | {"people": 240}, "actors": row | {"people": 204}}
    found = publishable({"collateral": told}, 240)["collateral"]
    assert [found["bystanders"][name] for name in row] == [None, None, None, None, 5]
    for group in ("everyone", "actors"):
        assert [found[group][name] for name in row] == [0.4, 0.5, 0.9, 0.75, 5]
