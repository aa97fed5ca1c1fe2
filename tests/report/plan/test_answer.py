"""Answers and reports are sentences: no Python in them, and no more digits than there is meaning."""

import ast
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import audited, done, people, values

import oar
from oar.errors import Status
from oar.estimators.black_box import Rate
from oar.plans.proof import Proof
from oar.report.plan.answer import answer, in_command_words
from oar.report.plan.deliver import publish

YES = ("--target", "approved", "--goal", "yes")
PYTHON = re.compile(r"\boar\.\w|AnyBut|Between\(|\d\.\d{9,}|another solver")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    people().to_csv(folder / "people.csv", index=False)
    values().to_csv(folder / "flats.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("data", "asked", "goal"),
    [
        ("people.csv", [*YES, "--probability", "0.5"], "'yes' with probability at least 0.5"),
        ("people.csv", ["--target", "purpose", "--not", "car"], "anything but 'car'"),
        ("flats.csv", ["--target", "price", "--model", "ridge", "--goal", "80.."], "at least 80"),
        ("flats.csv", ["--target", "price", "--model", "ridge", "--goal", "20..90"], "between 20 and 90"),
        ("flats.csv", ["--target", "price", "--model", "ridge", "--goal", "60.1", "--within", "0.3"], "60.1"),
    ],
)  # fmt: skip
def test_goals_are_in_words(files, tmp_path, data, asked, goal):
    said = done("plan", files / data, *asked, "--query", 1, "--budget", 0.2, "--out", tmp_path / "plan")
    report, facts = (tmp_path / "plan" / "report.html").read_text(), (tmp_path / "plan" / "audit.json").read_text()
    assert json.loads(facts)["asked"]["goal_words"] == goal
    target = json.loads(facts)["asked"]["target"]
    assert f"<h1>Plan towards {target} = {goal.replace(chr(39), '&#x27;')}</h1>" in report
    for text in (said.split("card  ")[0], re.sub(r"<style>.*?</style>|<pre>.*?</pre>", "", report, flags=re.S)):
        assert not PYTHON.search(text), PYTHON.search(text)
        assert "for who asks" not in text


def test_values_lie_inside_or_outside_what_is_wanted(files, tmp_path):
    for goal, word in (("20..90", "inside"), ("500..", "outside")):
        asked = ("--target", "price", "--model", "ridge", "--goal", goal, "--query", 1, "--budget", 0.2)
        done("plan", files / "flats.csv", *asked, "--out", tmp_path / word)
        report = (tmp_path / word / "report.html").read_text()
        assert f"{word} what is wanted by" in report
        assert "counts as a tie" not in report
        assert "1 % of the standard deviation" in report


def test_groups_of_those_who_act_are_told(files, tmp_path):
    asked = (*YES, "--query", 1, "--budget", 0.5, "--group", "town")
    done("plan", files / "people.csv", *asked, "--leave-out", "town", "--out", tmp_path / "plan")
    found = json.loads((tmp_path / "plan" / "audit.json").read_text())["collateral"]
    assert sum(row["actors"] for row in found["actors_by_group"]) == found["actors"]["people"]
    assert all(row["changed"] is None for row in found["actors_by_group"] if 0 < row["actors"] < 5)
    assert "change their data, by town" in (tmp_path / "plan" / "report.html").read_text()


def test_every_status_advises_in_the_commands_words():
    for status in Status:
        assert not PYTHON.search(in_command_words(status.advice)), status


def test_several_people_ask():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 20)
    crowd = oar.Population(rng.normal(0, 1, (40, 2)) + 3.0 * (labels == "b")[:, None], labels)
    query = oar.Query([[0.0, 0.0], [-1.0, 0.0]], "b")
    result = oar.collective(oar.Problem(crowd, oar.models.SoftmaxRegression(), query, oar.Perturb(0.0)))
    assert "No, and that is proved" in answer(result)  # nobody can move
    assert "the people who ask" in answer(dataclasses.replace(result, proof=Proof()))


def test_members_are_told_where_moves_are_in_vain(files, tmp_path):
    asked = (
        "--target",
        "approved",
        "--goal",
        "no",
        "--query",
        int(people()["income"].idxmax()),
        "--budget",
        0.03,
    )  # a step or two
    done("plan", files / "people.csv", *asked, "--out", tmp_path / "no")
    page = (tmp_path / "no" / "member.html").read_text()
    assert "does not reach its goal" in page
    assert '"outcome": "approved"' in page


def test_nobody_is_asked_to_move_where_the_goal_is_there_before(files, tmp_path):
    asked = ("--target", "approved", "--goal", "yes", "--query", int(people()["income"].idxmax()), "--budget", 0.5)
    told = done("plan", files / "people.csv", *asked, "--out", tmp_path / "yes")
    said = "before anybody moves, and nobody is asked to; --probability asks for more."
    assert told.startswith("Nothing is needed: ")
    assert said in told.splitlines()[0]
    assert said.partition(";")[0] in (tmp_path / "yes" / "report.html").read_text()
    assert (tmp_path / "yes" / "moves.csv").read_text().splitlines() == ["person,column,before,after"]
    assert len(pd.read_parquet(tmp_path / "yes" / "moves.parquet")) == 0
    found = audited(tmp_path / "yes")
    assert (found["status"], found["outcome"]["movers"], found["outcome"]["effort"]) == ("already", 0, 0)
    assert found["collateral"]["bystanders"]["changed"] == 0
    audit = done("audit", tmp_path / "yes", files / "people.csv")
    assert "yes (before any move: yes)" in audit
    assert "0 members move" in audit
    assert "the goal is reached before anybody moves, so nobody is asked to move" in " ".join(told.split())
    assert not (tmp_path / "yes" / "member.html").exists()
    assert not (tmp_path / "yes" / "plan.json").exists()


@pytest.mark.parametrize(
    ("more", "option"),
    [
        (("--participants", "best:10"), "--probability asks for more"),
        (("--relabel", 3), "--probability asks for more"),
        (("--probability", 0.55), "a higher --probability asks for more"),
        (("--model", "svm"), "--probability asks for more, with another --model"),
    ],
)
def test_nobody_moves_whatever_members_may_do(files, tmp_path, more, option):
    asked = ("--target", "approved", "--goal", "yes", "--query", int(people()["income"].idxmax()), "--budget", 0.2)
    told = done("plan", files / "people.csv", *asked, *more, "--out", tmp_path / "yes")
    assert f"nobody is asked to; {option}." in told
    assert audited(tmp_path / "yes")["outcome"]["movers"] == 0
    assert "0 members move" in done("audit", tmp_path / "yes", files / "people.csv")


def test_whoever_wants_more_than_the_goal_says_so(files, tmp_path):
    asked = ("--target", "approved", "--goal", "yes", "--query", int(people()["income"].idxmax()), "--budget", 0.5)
    done("plan", files / "people.csv", *asked, "--probability", 0.999, "--out", tmp_path / "yes")
    assert audited(tmp_path / "yes")["outcome"]["movers"] > 0


def test_values_that_are_near_enough_need_nothing(tmp_path):
    values().to_csv(tmp_path / "rooms.csv", index=False)
    for goal, option in (("40", "a smaller --within"), ("0..100", "a narrower --goal")):
        near = ("--within", 60) if goal == "40" else ()
        asked = ("--target", "price", "--query", 1, "--goal", goal, "--model", "ridge", "--budget", 0.2)
        told = done("plan", tmp_path / "rooms.csv", *asked, *near, "--out", tmp_path / "plan")
        assert f"nobody is asked to; {option} asks for more." in told


def test_a_probability_that_is_reached_is_told_as_one():
    labels = np.repeat(["a", "b"], 20)
    crowd = oar.Population(np.random.default_rng(0).normal(0, 1, (40, 2)) + 3.0 * (labels == "b")[:, None], labels)
    query = oar.Query([1.8, 1.8], "b", probability=0.8)
    result = oar.collective(oar.Problem(crowd, oar.models.SoftmaxRegression(), query, oar.Perturb(0.5)))
    assert result.success
    assert result.audit.prediction_before == "b"
    said = "the retrained model gives the person who asks 'b' with probability at least 0.8, as it did not before."
    assert answer(result).endswith(said)


def crowd_of(goal, budget, point=(0.0, 0.0), **query):
    labels = np.repeat(["a", "b"], 20)
    crowd = oar.Population(np.random.default_rng(0).normal(0, 1, (40, 2)) + 3.0 * (labels == "b")[:, None], labels)
    query = oar.Query(list(point), goal, **query)
    return oar.collective(oar.Problem(crowd, oar.models.SoftmaxRegression(), query, oar.Perturb(budget)))


def values_of(goal, budget):
    features = np.linspace(0, 10, 40)[:, None]
    crowd = oar.Population(features, 2 * features[:, 0] + np.sin(np.arange(40.0)))
    return oar.collective(oar.Problem(crowd, oar.models.Ridge(), oar.Query([5.0], goal), oar.Perturb(budget)))


def test_a_goal_that_is_missed_is_not_said_to_be_given():
    missed = crowd_of("b", 0.05)
    assert (missed.audit.prediction_before, missed.audit.prediction) == ("a", "a")
    for status, proof in ((Status.IMPROVED, Proof()), (Status.IMPOSSIBLE, missed.proof)):
        one = dataclasses.replace(missed, proof=proof)
        said = answer(one)
        assert "still predicts 'a' for the person who asks" in said, (status, said)
        assert "gives" not in said
    short = dataclasses.replace(crowd_of("b", 0.01, (1.8, 1.8), probability=0.99), proof=Proof())
    assert not short.success
    assert "still predicts 'b' for the person who asks; that is nearer" in answer(short)


def test_a_prediction_that_changes_does_not_stay():
    missed = values_of(oar.Between(14.0, None), 0.5)
    then, now = (f"{one:.6g}" for one in (missed.audit.prediction_before, missed.audit.prediction))
    assert not missed.success
    assert then != now
    for proof in (Proof(), missed.proof):
        assert f"predicts {now} for the person who asks, instead of {then}" in answer(
            dataclasses.replace(missed, proof=proof)
        )
    there = values_of(oar.Between(8.0, None), 0.5)
    assert there.status is Status.ALREADY
    assert answer(there).startswith("Nothing is needed: the model gives the person who asks at least 8 before anybody")


def test_several_who_ask_are_told_before_and_after():
    missed = dataclasses.replace(crowd_of("b", 0.05, ((0.0, 0.0), (3.0, 3.0))), proof=Proof())
    assert "gives 1 of the 2 who ask 'b', as before; that is nearer" in answer(missed)


def test_a_goal_that_random_training_misses_is_told_by_its_refits():
    missed = dataclasses.replace(crowd_of("b", 0.05), proof=Proof())
    rates = {"prediction_before": "b", "prediction": "b", "rate_before": Rate(7, 20), "rate": Rate(13, 20)}
    missed = dataclasses.replace(missed, audit=dataclasses.replace(missed.audit, **rates))
    assert "gives the person who asks 'b' in 65 % of refits, instead of in 35 %; that is" in answer(missed)


def test_settings_and_limits_on_others_are_told(files, tmp_path):
    asked = (*YES, "--query", 1, "--budget", 0.3, "--changed", 0.5, "--worse", 0.4, "--leave-out", "town")
    done("plan", files / "people.csv", *asked, "--out", tmp_path / "plan")
    facts = json.loads((tmp_path / "plan" / "audit.json").read_text())
    assert facts["asked"]["model_settings"] == {"l2": 0.01, "scaler_refitted": True}
    assert facts["asked"]["standardised"] == ["income", "age"]
    assert facts["asked"]["keep"] == {"changed": 0.5, "lost": None, "worse": 0.4}
    report = (tmp_path / "plan" / "report.html").read_text()
    assert "l2 = 0.01; numbers and ordered levels are standardised, flags and categories are not" in report
    assert "Limits that were asked for" in report
    assert "accuracy falls by" in report


def test_a_goal_that_is_missed_is_not_told_as_given():
    labels = np.repeat(["a", "b"], 20)
    crowd = oar.Population(np.random.default_rng(0).normal(0, 1, (40, 2)) + 3.0 * (labels == "b")[:, None], labels)
    result = oar.collective(
        oar.Problem(crowd, oar.models.SoftmaxRegression(), oar.Query([-1.0, -1.0], "b"), oar.Perturb(0.1))
    )
    assert (result.success, result.audit.movers) == (False, 40)
    said = "the retrained model still predicts 'a' for the person who asks; that is nearer to 'b' than before."
    assert answer(result).endswith(said)


def test_the_report_names_columns_that_moves_change_and_the_card_does_not():
    """Only three people are within the bounds of `grade`: a card must not tell them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.normal(3, 1, 400), "grade": rng.normal(0, 1, 400).round(3)})
    frame["y"] = np.where(frame["income"] + 0.05 * frame["grade"] + rng.normal(0, 0.5, 400) > 3, "yes", "no")
    highest = np.sort(frame["grade"])[::-1]
    limits = oar.Limits({"grade": oar.Limit(lower=float(highest[3]), upper=float(highest[0]))})
    query = oar.Query({"income": 1.0, "grade": float(highest[1])}, "yes")
    problem = oar.Problem(
        oar.Population.from_frame(frame, "y"),
        oar.models.Scaled(oar.models.SoftmaxRegression()),
        query,
        oar.Perturb(0.3, limits=limits),
    )
    result = oar.collective(problem)
    assert "grade" in set(result.plan.changes()["column"])
    published = publish(result)
    assert not published.card.table.columns[1].movable
    assert "Who answers it changes nothing in grade, where moves.csv does" in published.facts["told"]


PLANS = Path(oar.__file__).parent / "plans"


def reasons():
    """Yield every reason against a card that the sources have, with what is filled in left as it stands there."""
    cards = [f"cards/{name}" for name in ("publish", "publish_table", "file", "digits", "signals")]
    cards += [f"cards/levers/{path.stem}" for path in (PLANS / "cards" / "levers").glob("*.py")]
    for name in ("plan", *cards):
        tree = ast.parse((PLANS / f"{name}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise | ast.Assign) and not isinstance(getattr(node, "exc", node), ast.Name):
                parts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                text = "".join(part for part in parts if isinstance(part, str))
                if "card" in text and "members" in text:
                    yield text


def test_reasons_against_a_card_are_in_the_words_of_the_command():
    every = list(reasons())
    assert len([text for text in every if "plan.moves()" in text]) >= 5
    for text in every:
        assert not re.search(r"plan\.\w+\(|\boar\.\w|signal=|^plan:", in_command_words(text)), text


def test_a_plan_without_a_card_says_why_without_python(files, tmp_path):
    asked = ("--target", "approved", "--goal", "yes", "--query", 1, "--budget", 0, "--relabel", 1)
    told = done("plan", files / "people.csv", *asked, "--out", tmp_path / "plan")
    for text in (told, (tmp_path / "plan" / "audit.json").read_text(), (tmp_path / "plan" / "report.html").read_text()):
        assert "hand members their rows of moves.csv." in " ".join(text.split())
        assert "plan.moves" not in text


@pytest.mark.parametrize(
    ("budget", "free", "kept"),
    [
        (1.0, "; --lost or --worse limit that.", "; --lost 0.9 was kept; --worse limits that further."),
        (0.3, "; --lost limits that.", "; --lost 0.9 was kept; a smaller --lost limits that further."),
    ],
)
def test_a_limit_that_was_kept_is_told_as_kept(files, tmp_path, budget, free, kept):
    """More are harmed than helped all the same, within what was allowed."""
    asked = (*YES, "--query", 1, "--budget", budget, "--participants", "50%")
    told = done("plan", files / "people.csv", *asked, "--out", tmp_path / "plan").splitlines()[0]
    assert told.endswith(free), told
    told = done("plan", files / "people.csv", *asked, "--lost", 0.9, "--out", tmp_path / "plan").splitlines()[0]
    assert told.endswith(kept), told
    assert "--lost 0.9 was kept" in re.sub("<[^>]*>", "", (tmp_path / "plan" / "report.html").read_text())
