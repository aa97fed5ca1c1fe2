"""The organiser's report: one file that is whole by itself, tells the truth, and can be read, printed and carried."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from support.commands import approval, done, people

import oar
from oar.cli.commands.audit_folder import _effects
from oar.errors import Status
from oar.pictures.numbers import percent
from oar.questions.collateral import PredictionChanges
from oar.report.files.text_formats import json_text
from oar.report.organiser_page import organiser_page
from oar.report.plan.answer import answer
from oar.report.plan.deliver import publish
from oar.report.plan.facts import Origin, facts_of
from oar.report.plan.publishable import publishable

ORIGIN = Origin("oar plan people.csv", "people.csv", 90, 0, {"budget": 0.5})
SECTIONS = ["outcome", "least", "power", "moves", "burden", "collateral", "certificate", "repeat"]
VOID = {"meta", "br", "hr"}


@pytest.fixture(scope="module")
def result():
    frame = people().drop(columns="town")
    table = oar.Population.from_frame(frame, "approved")
    others = np.arange(len(frame)) != 1
    problem = oar.Problem(
        table,
        oar.models.Scaled(oar.SoftmaxRegression()),
        oar.Query(frame.drop(columns="approved").iloc[1].to_dict(), "yes"),
        oar.Perturb(0.5, norm=1, participants=others),
    )
    return oar.collective(problem)


@pytest.fixture(scope="module")
def facts(result):
    return facts_of(
        result,
        origin=ORIGIN,
        groups={"town": people()["town"]},
        power=oar.questions.power(result),
        collateral=oar.questions.collateral(result, groups=people()["town"]),
        card=publish(result).facts,
    )


@pytest.fixture(scope="module")
def page(facts):
    return organiser_page(facts)


class Tree(HTMLParser):
    """Notes elements, and any that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        assert not [name for name, _ in attributes if name.startswith("on") or name in ("style", "src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    tree = Tree()
    tree.feed(page)
    tree.close()
    assert tree.open == []
    return tree


def test_it_is_one_whole_file_without_a_script(page):
    tree = parsed(page)
    assert tree.ids == SECTIONS
    assert not {"script", "link", "iframe", "img", "object", "form"} & set(tree.seen)
    assert "default-src &#x27;none&#x27;" in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_its_numbers_are_in_the_audit(page, facts, result):
    text = " ".join(" ".join(parsed(page).text).split())  # options are marked up, and so in pieces
    assert facts["answer"] in text
    assert f"{100 * math.exp(-result.loss):.2f} %" in text
    assert f"{result.audit.movers} of 90 people move" in text
    assert json.loads(json_text(facts)) == facts


def test_no_row_of_a_member_is_in_it(page, facts):
    for row in people().itertuples(index=False):
        assert f"{row.income}" not in page
        assert f"{row.income}" not in json_text(facts)


def test_the_power_curve_is_that_of_other_refits(facts, result):
    power = oar.questions.power(result)
    frame = people().drop(columns="town")
    for height, budget in enumerate(facts["power"]["budgets"]):
        for place, share in enumerate(facts["power"]["shares"]):
            moved = power.plan(budget, share).table().assign(approved=frame["approved"])
            likely = approval(moved, 1)
            assert math.exp(-facts["power"]["losses"][height][place]) == pytest.approx(likely, abs=1e-5)
            assert facts["power"]["success"][height][place] == (likely > 0.5)


def test_no_percentage_has_more_digits_than_what_it_is_made_of(facts):
    told = publishable(facts, 90)
    page = organiser_page(told)
    chances = {percent(each) for row in told["power"]["probabilities"] for each in row}
    assert chances == set(re.findall(r"[✓✗] ([^<]* %)", page))
    assert percent(told["outcome"]["goal_probability"]) in chances  # one number, not two
    parts = re.findall(r"([\d.]+) %", page.split('id="burden"')[1].split('id="certificate"')[0])
    assert parts
    assert all(len(part.replace(".", "").strip("0")) <= 2 for part in parts), parts


def test_what_the_card_is_worth_is_what_an_audit_of_its_answers_finds(page, facts, result):
    found = oar.audit(result.plan.followed(result.plan.card()))
    card = facts["card"]
    assert card["loss"] == pytest.approx(found.loss, abs=1e-6)
    assert card["success"] == found.success
    said = f"answers the card: goal {'reached' if found.success else 'missed'}, goal loss {card['loss']:.4g}"
    assert said in page


@pytest.mark.parametrize("hit", [False, True])
def test_a_part_that_reaches_the_goal_is_not_denied(facts, hit):
    power = facts["power"] | {"success": [[False] * len(row) for row in facts["power"]["success"]]}
    power["success"][1][0] = hit
    least = {"budget_at_most": None, "people_at_most": None, "people_told": None, "proved": []}
    page = organiser_page(
        facts | {"power": power, "least": least, "outcome": facts["outcome"] | {"success": False}}
    )  # fmt: skip
    assert ("nor by any part of it" in page) == (not hit)
    assert ("but by some parts of it" in page) == hit


def test_collateral_is_that_of_other_refits(facts, result):
    found = facts["collateral"]
    frame = people()
    after = result.plan.table().assign(approved=frame["approved"])
    still = (after.drop(columns="approved") == frame.drop(columns=["approved", "town"])).all(axis=1)
    assert found["bystanders"]["people"] == still.sum()
    before = np.array([approval(frame, person) for person in range(len(frame))]) > 0.5
    assert found["own"][0] == pytest.approx((before == (frame["approved"] == "yes")).mean())
    assert sum(row["bystanders"] for row in found["by_group"]) == still.sum()


def test_how_few_suffice_is_what_the_question_answers(facts, page, result):
    asked = oar.minimal_coalition(result.problem)
    assert facts["least"]["people_at_most"] == asked.size
    assert facts["least"]["people_told"] == asked.explanation
    assert f"{asked.size} people" in page
    assert "plans for fewer" in page


def test_harm_comes_first_and_names_the_option(result):
    nobody = PredictionChanges(0, 0, 0, 0)
    harming = replace(
        oar.questions.collateral(result),
        actors=PredictionChanges(80, 9, 1, 8, 0.5, 0.4125, 0.8, 0.7),
        bystanders=nobody,
    )
    told = facts_of(result, origin=ORIGIN, collateral=harming)
    assert told["answer"].startswith("Yes, but more people are harmed by it than helped: if ")
    assert "of 80 members who act, 8 lose the prediction 'yes' that they had and 1 gain it" in told["answer"]
    assert "--lost" in told["answer"]
    assert told["answer"].count(".") == 1  # one sentence
    page = organiser_page(told)
    first = page[: page.index("<section")]
    assert 'class="answer no"' in first
    assert "50 % → 41.25 %" in first
    assert "80 % → 70 %" in first


def test_what_happens_to_people_is_beside_the_answer(facts, page):
    first, found = page[: page.index("<section")], facts["collateral"]
    assert "members who act" in first
    for row in found["everyone_by_group"]:
        assert f"town: {row['group']}" in first
    assert sum(row["people"] for row in found["everyone_by_group"]) == found["everyone"]["people"]
    for some in (found["actors"], found["everyone"], *found["everyone_by_group"]):
        if some["away"] is not None:
            change = (some["wanted_after"] - some["wanted_before"]) * some["people"]
            assert change == pytest.approx(some["towards"] - some["away"])


def test_a_large_group_makes_no_large_report():
    rng = np.random.default_rng(0)
    size, width = 45_000, 40
    frame = pd.DataFrame(rng.normal(size=(size, width)), columns=[f"column {number}" for number in range(width)])
    labels = (frame["column 0"] > 0).astype(int)
    crowd = oar.Population(frame, labels)
    problem = oar.Problem(crowd, oar.NearestCentroid(), oar.Query(np.full(width, -0.1), 1), oar.Perturb(0.3))
    result = oar.collective(problem)
    groups = {"many": pd.Series(rng.integers(0, 5_000, size))}
    page = organiser_page(facts_of(result, origin=ORIGIN, groups=groups, power=oar.questions.power(result)))
    assert len(page) < 200_000
    assert "all others" in page
    assert "Proved: Any budget above" in page


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_an_answer_in_one_sentence(result, status, monkeypatch):
    monkeypatch.setattr(oar.results.Result, "status", status)
    said = answer(result)
    assert said.endswith(".")
    assert said.count(". ") == 0
    assert said.startswith("Yes") == (status is Status.ACHIEVED)


def test_it_is_quiet_on_a_phone_and_in_print(page, visit):
    phone = visit(page, width=390, height=844)
    assert phone.noise == []
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.page.evaluate("getComputedStyle(document.querySelector('.answer')).borderLeftStyle") == "solid"
    headings = phone.page.get_by_role("heading", level=2).all_inner_texts()
    assert len(headings) == len(SECTIONS)
    for picture in phone.page.get_by_role("img").all():
        assert picture.get_attribute("aria-label")
    desk = visit(page)
    assert desk.noise == []
    printed = desk.page.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type /Page/") <= 8


def test_hostile_names_run_nothing(tmp_path, visit):
    bad = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    people().rename(columns={"income": bad, "town": f"town {bad}"}).to_csv(tmp_path / "bad.csv", index=False)
    done(
        "plan", tmp_path / "bad.csv", "--target", "approved", "--query", 1, "--goal", "yes", "--budget", 0.4,
        "--group", f"town {bad}", "--out", tmp_path / "plan",
    )  # fmt: skip
    for name in ("report.html", "member.html"):
        seen = visit(tmp_path / "plan" / name)
        assert seen.noise == []
        assert "broken" not in seen.page.title()


def test_few_of_a_group_are_told_as_five_and_groups_of_few_not_at_all(result):
    found = oar.questions.collateral(result)
    some = replace(found, bystanders=found.bystanders._replace(people=21, away=3, towards=0))
    facts = publishable(facts_of(result, origin=ORIGIN, collateral=some, card=publish(result).facts, answered=some), 90)
    assert facts["collateral"]["bystanders"]["away"] == 5
    said = "of 21 people who do nothing, about 5 lose the prediction 'yes' that they had and 0 gain it"
    assert said in facts["collateral"]["effects"]
    assert said in facts["card"]["collateral"]["effects"]
    few = replace(found, bystanders=found.bystanders._replace(people=3, away=1, towards=0))
    facts = facts_of(result, origin=ORIGIN, collateral=few, card=publish(result).facts, answered=few)
    both = (facts["collateral"], facts["card"]["collateral"])
    for text in (*(part["effects"] for part in both), *dict(_effects(few, 5)).values()):
        assert "who do nothing" not in text
    assert "after the moves" not in dict(_effects(few, 5))["accuracy"]
    assert "of 3 people who do nothing" in dict(_effects(few))["collateral"]  # for the organiser alone


def test_the_first_sentence_says_that_only_the_moves_reach_the_goal_and_which_way_to_follow(result):
    card = publish(result)
    assert answer(result).startswith("Yes: if ")
    assert facts_of(result, origin=ORIGIN, card=replace(card, success=True).facts)["caveats"] == []
    facts = facts_of(result, origin=ORIGIN, card=replace(card, success=False, opposite=148).facts)
    assert facts["answer"].startswith("Yes, but only by moves.csv: if ")
    assert facts["answer"].endswith("; if members use member.html instead, the goal is missed, by a refit.")
    page = organiser_page(facts)
    assert 'class="answer no"' in page
    assert "There are two ways to take part" in page
    assert "148 people would go one way in a column by the one, and the other way by the other" in page
    assert "moves.csv: goal reached" in page
    assert "goal missed" in page
    unknown = facts_of(result, origin=ORIGIN, card=replace(card, success=False, loss=math.nan).facts)
    assert unknown["answer"].startswith("Yes, but that is known of moves.csv only: if ")


def test_those_who_would_go_opposite_ways_are_counted(result):
    card = publish(result)
    planned, answered = (np.asarray(plan.moves()) for plan in (result.plan, result.plan.followed(card.card)))
    assert card.opposite == sum(bool((one * other < 0).any()) for one, other in zip(planned, answered, strict=True))


def test_the_first_sentence_says_that_the_model_gets_worse(result):
    found = oar.questions.collateral(result)
    worse = replace(found, own_before=0.7177, own_after=0.5553)
    facts = facts_of(result, origin=ORIGIN, collateral=worse)
    assert "the model gets worse:" in facts["answer"]
    assert "accuracy about people as they were falls from 71.77 % to 55.53 %; " in facts["answer"]
    assert "--worse" in facts["answer"].rsplit(";", 1)[1]
    little = replace(found, own_before=0.71, own_after=0.70)
    assert "gets worse" not in facts_of(result, origin=ORIGIN, collateral=little)["answer"]
