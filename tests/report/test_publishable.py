"""Numbers as files that may be published have them."""

import pytest

from oar.report.publishable import publishable


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
