"""The member's page in a browser: the card's own moves, for people who type, err, mend and tab."""

import dataclasses
import json
import math
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from support.member_cards import (
    COLUMNS,
    FAMILIES,
    as_typed,
    random_card,
    random_members,
    random_row,
    random_table_card,
)

import oar
from oar.models import MLP, PrototypeNetwork, Ridge, SoftmaxRegression
from oar.plans.cards.file import as_json
from oar.plans.cards.levers.rule import AWAY, LabelRule, Threshold
from oar.plans.cards.rounds import RoundsCard
from oar.plans.cards.table.score import Scaler
from oar.report.member_page import member_page, write_member_page

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>&amp;\u2028"
IN_BULK = """([card, rows, targets, radii, kept]) =>
    rows.map((row, i) => oarMember.plainMove(card, row, targets[i], radii[i], kept))"""


@pytest.fixture(scope="module")
def calculator(chromium, tmp_path_factory):
    """A page of some card, whose function is asked about other cards."""
    from support.browser import visits

    with visits(chromium, tmp_path_factory.mktemp("pages")) as visit:
        yield visit(member_page(random_card(None, 2, 2))).page


def computed(calculator, card, rows, targets, radii, kept=()):
    """Return the page's moves (n, d)."""
    keep = [place in kept for place in range(rows.shape[1])]
    return np.array(
        calculator.evaluate(IN_BULK, [as_json(card), rows.tolist(), targets.tolist(), radii.tolist(), keep])
    )


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("family", FAMILIES)
def test_moves_are_those_of_the_card(calculator, family, norm):
    for seed, size in enumerate((3, 12)):
        card = random_card(*FAMILIES[family], size, norm, seed)
        members = random_members(card, 50, seed)
        found, expected = computed(calculator, card, *members), card.responses(*members)
        assert np.abs(found - expected).max() < 1e-6
        assert np.abs(expected).max() > 0.1  # there is something to agree on


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("family", ["softmax, 2 classes", "softmax, 3 classes", "ridge, 2 values", "svm, 3 classes"])
def test_what_is_kept_is_a_constant_of_the_model(calculator, family, norm):
    """Without the kept columns, which go to the intercepts as W_k x_k, the card gives the same move."""
    card = random_card(*FAMILIES[family], 5, norm, seed=9)
    rows, targets, radii = random_members(card, 20, seed=9)
    found = computed(calculator, card, rows, targets, radii, kept=(1, 3))
    stays = np.isin(np.arange(5), (1, 3))
    assert np.abs(found - card.responses(rows, targets, radii, stays)).max() < 1e-6
    assert not found[:, stays].any()
    free = np.array([0, 2, 4])
    for row, target, radius, move in zip(rows, targets, radii, found, strict=True):

        def reduced(flat, row=row):
            matrix = flat.reshape(-1, 6)
            return np.column_stack([matrix[:, free], matrix[:, -1] + matrix[:, [1, 3]] @ row[[1, 3]]]).ravel()

        broadcast = dataclasses.replace(
            card.broadcast, parameters=reduced(card.broadcast.parameters), signal=reduced(card.broadcast.signal)
        )
        smaller = dataclasses.replace(card, broadcast=broadcast, directions=card.directions[:, free], features=None)
        expected = smaller.responses(row[None, free], target[None], np.array([radius]))[0]
        assert np.abs(move[free] - expected).max() < 1e-6
        assert not move[[1, 3]].any()


ALL_TABLES = """([card, members, kept]) => members.map((member) => oarMember.tableMove(card, ...member, kept))"""


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("family", FAMILIES)
def test_moves_on_tables_are_those_of_the_card(calculator, family, norm):
    """With whole numbers, levels, bounds, steps; with links and rules or without; and with columns that are kept."""
    limited = family not in ("softmax, 3 classes", "ridge, 2 values")
    card = random_table_card(*FAMILIES[family], norm, seed=1, links=limited, rules=limited, scaled=family != "ridge")
    rng = np.random.default_rng(1)
    rows = [random_row(rng) for _ in range(100)]
    points = np.array([card.table.encoding.encode_row(row, "row") for row in rows])
    _, targets, shares = random_members(card, 100, seed=1)
    kept = ["savings", "town"] if norm == 1 else ["grade"] if norm == 2 else []
    radii = card.budget * shares
    expected, costs, _ = card.table_responses(points, targets, radii, card.table.room(points, kept))
    members = [[as_typed(row), *each] for row, *each in zip(rows, targets.tolist(), radii.tolist(), strict=True)]
    found = calculator.evaluate(ALL_TABLES, [as_json(card), members, [each.name in kept for each in COLUMNS]])
    assert np.abs(np.array([each["move"] for each in found]) - expected).max() < 1e-6
    assert [each["cost"] for each in found] == pytest.approx(costs, abs=1e-6)
    for answer, point, move in zip(found, points, expected, strict=True):
        assert answer["after"] == pytest.approx(as_typed(card.table.values_of(point + move)), abs=1e-6)
    assert np.count_nonzero(expected.any(axis=1)) > 40  # there is something to agree on


def test_a_row_of_a_table_is_typed_and_answered(visit):
    card = random_table_card(*FAMILIES["softmax, 2 classes"], 2, seed=4, links=True, rules=True)
    seen = visit(member_page(card))
    page = seen.page
    row = {"income": 1.5, "savings": -0.25, "loans": 2, "owns": True, "grade": "middle", "purpose": "education"}
    row |= {"town": "D", "age": 41}
    for name in ("income", "savings", "loans", "age"):
        page.get_by_label(name, exact=True).fill(str(row[name]))
    page.get_by_role("checkbox", name="owns yes").check()
    for name in ("grade", "purpose", "town"):
        page.get_by_role("combobox", name=name).select_option(label=row[name])
    page.get_by_label("My own outcome").select_option(label="class 1")
    page.get_by_label("loans", exact=True).fill("2.5")
    page.keyboard.press("Enter")
    said = described(page, page.get_by_label("loans", exact=True))
    assert re.fullmatch(r"A change by [\d.]+ costs 1\..* Please write a whole number\.", said)
    assert re.match(r"A switch costs [\d.]+\.", described(page, page.get_by_role("combobox", name="purpose")))
    page.get_by_label("loans", exact=True).fill("2")
    page.get_by_label("I can’t change this (town)").check()
    page.get_by_role("button", name="Show my move").click()
    answer = card.respond(row, "class 1", keep=["town"])
    assert answer.changes
    assert len(answer.changes) < len(COLUMNS)
    for column, (name, after) in zip(COLUMNS, answer.after.items(), strict=True):
        cells = page.get_by_role("row", name=re.compile(f"^{name} ")).get_by_role("cell").all_inner_texts()
        assert (cells[1] == "no change") == (row[name] == after)
        if column.kind in ("number", "integer"):
            assert float(cells[2].replace("\u2212", "-")) == pytest.approx(
                after, abs=1.001e-6
            )  # cut off at six decimals
        else:
            assert cells[2] == {True: "yes", False: "no"}.get(after, after)
    assert page.get_by_label("I can’t change this (age)").count() == 0  # nobody can
    assert page.get_by_text("savings <= 2 * income").is_visible()
    assert seen.noise == []


def fill(page, values, label):
    for name, value in values.items():
        page.get_by_label(name, exact=True).fill(str(value))
    page.get_by_label("My own outcome").select_option(label=label)


def shown(page):
    """Return {name: (now, change, then)} from the table, with the numbers behind its texts."""
    rows = page.get_by_role("table").locator("tbody tr")
    return {
        row.get_by_role("rowheader").inner_text(): tuple(
            float(cell.get_attribute("value")) for cell in row.locator("data").all()
        )
        for row in rows.all()
    }


@pytest.mark.parametrize("family", ["nearest centroid", "softmax, 3 classes"])
def test_a_person_types_and_reads(visit, family):
    card = random_card(*FAMILIES[family], 3, seed=2)
    seen = visit(member_page(card))
    page = seen.page
    own = {"feature 0": 1.25, "feature 1": -0.5, "feature 2": 3}
    fill(page, own, "class 1")
    page.get_by_role("button", name="Show my move").click()
    expected = card.respond(list(own.values()), "class 1")
    found = shown(page)
    assert list(found) == list(own)
    for (name, now), change in zip(own.items(), expected, strict=True):
        assert found[name] == pytest.approx((now, change, now + change), abs=1e-6)
    written = page.get_by_role("row", name="feature 0").get_by_role("cell").nth(1).inner_text()
    assert float(written.replace("\u2212", "-")) == pytest.approx(expected[0], abs=1.001e-6)
    assert "Change 3 of 3 values" in page.get_by_role("status").inner_text()
    assert seen.noise == []


def test_less_far_and_what_cannot_change(visit):
    card = random_card(None, 2, 3, norm=math.inf, seed=3)
    page = visit(member_page(card)).page
    fill(page, {"feature 0": 0, "feature 1": 0, "feature 2": 0}, "class 0")
    page.get_by_label("How far I am willing to go").fill("0,5")
    page.get_by_label("I can’t change this (feature 1)").check()
    page.keyboard.press("Enter")
    expected = card.respond([0, 0, 0], "class 0", budget=0.5)
    changes = [change for _, change, _ in shown(page).values()]
    assert changes == pytest.approx([expected[0], 0.0, expected[2]], abs=1e-9)
    assert page.get_by_role("row", name="feature 1").get_by_role("cell").nth(1).inner_text() == "no change"


def test_stay_as_you_are(visit):
    card = random_card(None, 2, 2, directions=np.array([[0.0, 0.0], [1.0, 0.0]]))
    page = visit(member_page(card)).page
    fill(page, {"feature 0": 1, "feature 1": 2}, "class 0")
    page.get_by_role("button", name="Show my move").click()
    assert page.get_by_role("status").inner_text().startswith("Stay as you are")
    assert page.get_by_role("table").count() == 0


def test_mistakes_are_named_beside_the_field_and_go_when_mended(visit):
    seen = visit(member_page(random_card(SoftmaxRegression(), 2, 2)))
    page = seen.page
    first, second = page.get_by_label("feature 0", exact=True), page.get_by_label("feature 1", exact=True)
    first.fill("tall")
    page.get_by_role("button", name="Show my move").click()
    assert page.get_by_role("status").inner_text() == (
        "3 answers need another look: feature 0, feature 1, My own outcome."
    )
    assert first.get_attribute("aria-invalid") == "true"
    assert first.evaluate("field => field === document.activeElement")
    assert "“tall” is not one" in described(page, first)
    assert described(page, second) == (
        "Please fill this in. Where you have no such value, this page has no move for you: stay as you are, or ask the "
        "organiser."
    )
    assert "Please choose one." in described(page, page.get_by_label("My own outcome"))
    first.press("Control+a")
    page.keyboard.type("1,5")
    assert first.get_attribute("aria-invalid") is None
    assert described(page, first) == ""
    second.fill("1,500")
    page.get_by_label("My own outcome").select_option(label="class 1")
    page.keyboard.press("Enter")
    assert described(page, second) == "Please write 1500 or 1.500, without the comma."
    second.fill("\u22122e-1")
    page.get_by_label("How far I am willing to go").fill("1.01")
    page.keyboard.press("Enter")
    assert "At most 1, the plan’s own limit" in described(page, page.get_by_label("How far I am willing to go"))
    page.get_by_label("How far I am willing to go").fill("1")
    page.keyboard.press("Enter")
    assert [now for now, _, _ in shown(page).values()] == [1.5, -0.2]
    first.fill("2")  # an answer that is no longer the answer goes
    assert page.get_by_role("table").count() == 0
    assert seen.noise == []


def described(page, field):
    """Return what a screen reader says after a field's name: its hint and its error, where they can be seen."""
    parts = (page.locator(f"#{name}") for name in field.get_attribute("aria-describedby").split())
    return " ".join(part.inner_text() for part in parts if part.is_visible())


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (" 12 ", 12), ("-.5", -0.5), ("+3.", 3), ("1e3", 1000), ("0,25", 0.25), ("12 500", 12500),
        ("1\u202f000,5", 1000.5), ("\u22122", -2), ("1e101", None),
        ("0x10", None), ("1,2,3", None), ("1.000,5", None), ("12,345", None), ("NaN", None), ("Infinity", None),
        ("1e999", None), ("--1", None), ("1 2", None), ("=1+1", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_as_people_type_them(calculator, typed, value):
    assert calculator.evaluate("text => oarMember.readNumber(text).value ?? null", typed) == value


def test_everything_can_be_done_by_keyboard(visit):
    card = random_card(SoftmaxRegression(), 2, 2, seed=5)
    seen = visit(member_page(card))
    page = seen.page
    press, write = page.keyboard.press, page.keyboard.type
    for value in ("1.5", "-2"):
        press("Tab")
        write(value)
        press("Tab")  # to its box
    press("Space")  # the second feature is kept
    press("Tab")
    write("class 1")
    press("Tab")
    press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Show my move"
    press("Space")
    found = shown(page)
    assert found["feature 1"] == (-2.0, 0.0, -2.0)
    assert found["feature 0"][1] != 0
    press("Shift+Tab")
    press("Control+a")
    write("0")
    press("Enter")
    assert page.get_by_role("status").inner_text().startswith("Stay as you are")
    assert seen.noise == []


def test_a_screen_reader_finds_names_for_everything(visit):
    page = visit(member_page(random_card(Ridge(), 2, 2), title="Our plan")).page
    assert page.get_by_role("heading", level=1).inner_text() == "Our plan"
    assert page.title() == "Our plan"
    for name in ("feature 0", "My own outcome 1", "My own outcome 2", "How far I am willing to go"):
        assert page.get_by_role("textbox", name=name, exact=True).count() == 1
    assert page.get_by_role("checkbox", name="I can’t change this (feature 1)", exact=True).count() == 1
    assert page.get_by_role("group", name="My values").count() == 1
    assert page.get_by_role("region", name="Your move").get_by_role("status").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
    for field in page.locator("input, select, button").all():
        assert field.evaluate("field => field.labels?.length > 0 || field.textContent !== ''")


def test_the_goal_and_who_is_asked(visit):
    page = visit(member_page(random_card(None, 2, 2, participants="selected", goal="class 1"))).page
    assert page.get_by_role("heading", level=1).inner_text() == "A plan so that the prediction becomes “class 1”"
    named = visit(member_page(random_card(None, 2, 2, goal="class 1"), outcome="repaid")).page
    heading = named.get_by_role("heading", level=1).inner_text()
    assert heading == "A plan so that the prediction of repaid becomes “class 1”"
    assert page.get_by_text("only those who were asked").is_visible()
    assert not page.get_by_text("everyone whose data").is_visible()


def test_the_outcomes_name_and_a_note(visit):
    card = random_card(None, 2, 2)
    page = visit(member_page(card, outcome="<b>decision</b>", note="The organiser’s audit: <i>no</i>.")).page
    assert page.get_by_label("My own outcome (<b>decision</b>)").is_visible()
    assert page.get_by_text("The organiser’s audit: <i>no</i>.").is_visible()
    assert not visit(member_page(card)).page.locator("#note").is_visible()


def test_an_unusual_value_is_asked_about(visit):
    card = dataclasses.replace(random_card(SoftmaxRegression(), 2, 2, seed=5), usual=((0.0, 1.0), None))
    seen = visit(member_page(card))
    page = seen.page
    share = page.get_by_label("feature 0", exact=True)
    assert described(page, share) == "Nearly everyone is between 0 and 1."
    fill(page, {"feature 0": "76.6", "feature 1": "-900"}, "class 1")
    page.keyboard.press("Enter")
    assert described(page, share) == "Nearly everyone is between 0 and 1. Expected is between 0 and 1. Is this right?"
    assert page.get_by_role("table").count() == 0
    right = page.get_by_label("Yes, this is right (feature 0)")
    right.check()
    page.get_by_role("button", name="Show my move").click()
    assert shown(page)["feature 0"][0] == 76.6
    share.fill("-2")  # what was said of another value is not said of this one
    assert not right.is_checked()
    assert page.get_by_role("table").count() == 0
    share.fill("0.5")
    assert not right.is_visible()
    page.keyboard.press("Enter")
    assert shown(page)["feature 0"][0] == 0.5
    assert seen.noise == []


DOUBTS = (
    "([columns, rows]) => rows.map((row) => columns.map((column, at) => oarMember.doubtOf(column, row[at]) !== null))"
)


def test_what_is_doubtful_is_so_on_the_page_and_in_python(calculator):
    card = random_table_card(*FAMILIES["softmax, 2 classes"], 2, seed=4, links=False, rules=False)
    usual = tuple((-1.0, 2.0) if column.kind in ("number", "integer") else None for column in COLUMNS)
    card = dataclasses.replace(card, usual=usual)
    rng = np.random.default_rng(3)
    terms = [
        dataclasses.replace(each, missing=(98.0,) if each.column.name == "loans" else ()) for each in card.table.columns
    ]
    card = dataclasses.replace(card, table=dataclasses.replace(card.table, columns=tuple(terms)))
    own = {"loans": lambda: int(rng.choice([1, 97, 98])), "age": lambda: int(rng.integers(-3, 5))}
    rows = [
        random_row(rng) | {"income": 4 * rng.normal()} | {name: drawn() for name, drawn in own.items()}
        for _ in range(60)
    ]
    columns = [said | {"usual": around} for said, around in zip(as_json(card)["columns"], usual, strict=True)]
    found = calculator.evaluate(DOUBTS, [columns, [as_typed(row) for row in rows]])
    for row, said in zip(rows, found, strict=True):
        names = [column.name for column, asked in zip(COLUMNS, said, strict=True) if asked]
        assert [words.split(" is ")[0] for words in card.doubts(row)] == names
    asked = {row["loans"]: said[2] for row, said in zip(rows, found, strict=True)}
    assert asked == {1: False, 97: True, 98: False}  # a code that the card names is expected
    assert not all(map(any, found))


def test_bounds_and_directions_stand_beside_each_field(visit):
    card = random_table_card(*FAMILIES["softmax, 2 classes"], 2, seed=4, links=False, rules=False)
    terms = [dataclasses.replace(each) for each in card.table.columns]
    terms[0] = dataclasses.replace(
        terms[0], movable=True, lower=0.0, upper=9000.0, direction="up", step=50.0, cost=0.05
    )
    table = dataclasses.replace(card.table, columns=tuple(terms))
    page = visit(member_page(dataclasses.replace(card, table=table))).page
    assert described(page, page.get_by_label("income", exact=True)) == (
        "A change by 20 costs 1. The plan goes between 0 and 9000 only. It only goes up. In steps of 50."
    )


def test_codes_are_named_and_what_the_budget_does_not_pay_for_is_not_asked_for(visit):
    card = random_table_card(*FAMILIES["softmax, 2 classes"], 2, seed=4, links=False, rules=False)
    terms = [
        dataclasses.replace(each, cost=9.0 if each.column.name == "purpose" else 0.5) for each in card.table.columns
    ]
    terms[0] = dataclasses.replace(terms[0], lower=0.0, upper=9.0, direction=None, step=0.0, missing=(96.0, 98.0))
    card = dataclasses.replace(card, table=dataclasses.replace(card.table, columns=tuple(terms)))
    page = visit(member_page(card)).page
    assert described(page, page.get_by_label("income", exact=True)) == (
        "A change by 2 costs 1. The plan goes between 0 and 9 only. 96 or 98: no value; stays."
    )
    asks = page.locator("#asks").inner_text()
    assert "as costs are counted below: income, savings, loans, owns, grade, town." in asks
    assert "You are not asked to change purpose: the smallest change costs more than that." in asks
    for name, keepable in (("purpose", 0), ("age", 0), ("town", 1)):
        assert page.get_by_label(f"I can’t change this ({name})").count() == keepable
    for name in ("purpose", "age"):
        assert described(page, page.get_by_label(name, exact=True)) == "You are not asked to change this."


def test_members_are_told_for_whom_what_and_what_if_not(visit):
    card = random_table_card(*FAMILIES["softmax, 2 classes"], 2, seed=4, links=False, rules=False)
    few = {"group": "class 1", "people": 3, "towards": None, "away": None}
    many = {"group": "class 0", "people": 300, "towards": 3, "away": 12}
    of_moves = {"group": "class 0", "people": 299, "towards": 5, "away": 7}
    idle = {"people": 21, "towards": 5, "away": 0}
    found = {"prediction": "'class 0'", "actors": {}, "harm": "more people are harmed by it than helped"}
    facts = {
        "asked": {"asking": 2},
        "collateral": found | {"by_outcome": [of_moves], "bystanders": {"people": 0}},
        "card": {"success": False, "unable": 0, "collateral": found | {"by_outcome": [many, few], "bystanders": idle}},
        "outcome": {"success": True, "success_before": False, "movers": 303},
        "least": {"people_at_most": 40},
        "robustness": {"defection": 0.2, "draws": 20, "success_rate": 0.95, "of": "answers"},
    }
    said = visit(member_page(card, facts=facts)).page.locator("#about").inner_text()
    assert "2 people who ask for another decision" in said
    assert "This page does not say who that is." in said
    assert "Of 300 members who take part whose own outcome is “class 0”, 12 lose the prediction 'class 0'" in said
    assert "By the organiser’s count, more people are harmed by this plan than helped." in said
    assert "“class 1”" not in said
    assert "Taking part is voluntary" in said
    assert "asks 303 members; 40 certain ones of them were found to be enough for it. As many others need not" in said
    assert "299" not in said  # which counts the organiser's moves, and whoever reads this follows the card
    assert "Of 21 people who do nothing, 0 lose" in said
    assert "if everyone follows this page, the goal is missed; if everyone follows that list" in said
    assert "In 19 of 20 trials" in said
    named = visit(member_page(card, facts=facts, whom="<b>Ann</b>, who was refused.")).page.locator("#whom")
    assert "<b>Ann</b>, who was refused." in named.inner_text()
    assert "does not say who" not in named.inner_text()
    assert "This page does not know." in visit(member_page(card)).page.locator("#mine").inner_text()


def test_labels_of_every_kind_and_columns_without_names(visit):
    classes = (True, 2, 2.5, ("a", 1))
    card = random_card(None, 4, 2, classes=classes, goal=("a", 1), features=None, budget=None)
    page = visit(member_page(card)).page
    assert page.get_by_role("heading", level=1).inner_text().endswith("“(a, 1)”")
    fill(page, {"Feature 1": 1, "Feature 2": 1}, "(a, 1)")
    page.get_by_role("button", name="Show my move").click()
    assert "Please fill this in." in described(page, page.get_by_label("How far I am willing to go"))
    page.get_by_label("How far I am willing to go").fill("7")
    page.keyboard.press("Enter")
    found = [change for _, change, _ in shown(page).values()]
    assert found == pytest.approx(card.respond([1, 1], ("a", 1), budget=7.0), abs=1e-6)


def test_markup_and_script_in_names_are_text(visit):
    card = random_card(None, 2, 2, features=(HOSTILE, "{{x}}"), classes=(HOSTILE, "<b>no</b>"), goal=HOSTILE)
    seen = visit(member_page(card, title=f"<i>{HOSTILE}"))
    page = seen.page
    assert page.get_by_role("heading", level=1).text_content() == f"<i>{HOSTILE}"
    page.locator("#value-0").fill("1")
    page.locator("#value-1").fill("1")
    page.get_by_label("My own outcome").select_option(index=1)
    page.keyboard.press("Enter")
    assert page.get_by_role("rowheader").first.text_content() == HOSTILE
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("img, i, b").count() == 0
    assert page.locator("script").count() == 2
    assert seen.noise == []


@pytest.fixture
def doorbell():
    """A server on this machine: its address, and everything that was asked of it."""
    rung = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            rung.append(f"{self.command} {self.path}")
            self.send_response(204)
            self.end_headers()

        do_GET = do_POST = do_OPTIONS = answer

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}", rung
        server.shutdown()


RING = """async (address) => {
    await fetch(`${address}/fetch`, { mode: "no-cors" }).catch(() => null);
    navigator.sendBeacon(`${address}/beacon`, "x");
    new Image().src = `${address}/picture`;
    const frame = document.createElement("iframe");
    frame.src = `${address}/frame`;
    const form = document.createElement("form");
    [form.action, form.method, form.target] = [`${address}/form`, "post", "_blank"];
    document.body.append(frame, form);
    form.submit();
    await new Promise((resolve) => setTimeout(resolve, 300));
}"""


def test_nothing_can_leave_the_page(visit, doorbell):
    address, rung = doorbell
    html = member_page(random_card(None, 2, 2))
    seen = visit(html)
    seen.page.evaluate(RING, address)
    assert rung == []
    assert sum("Content Security Policy" in line for line in seen.errors) >= 4
    assert seen.page.evaluate("localStorage.length + sessionStorage.length") == 0
    visit(re.sub("<meta http-equiv.*", "", html)).page.evaluate(RING, address)  # without its policy it could
    ways, patience = {"fetch", "beacon", "picture", "frame"}, time.monotonic() + 20  # a busy machine is slow to ring
    while not ways <= {line.split("/")[1] for line in rung} and time.monotonic() < patience:
        time.sleep(0.05)
    assert {line.split("/")[1] for line in rung} >= ways


def test_scripts_that_are_not_its_own_do_not_run(visit):
    html = member_page(random_card(None, 2, 2))
    bad = "<script>window.hacked = 1</script><p onclick='window.hacked = 1'>here</p><style>p { display: none }</style>"
    seen = visit(html.replace("</main>", bad + "</main>"))
    seen.page.get_by_text("here", exact=True).click()
    assert seen.page.evaluate("window.hacked === undefined")
    assert any("Content Security Policy" in line for line in seen.errors)
    assert seen.page.get_by_role("button", name="Show my move").is_visible()  # its own still does


def test_nothing_outside_is_named_and_nothing_is_remembered():
    html = member_page(random_card(SoftmaxRegression(), 3, 4))
    assert not re.search(r"https?:|src=|href=|url\(|@import", html)
    assert not re.search(r"localStorage|sessionStorage|indexedDB|cookie|fetch|XMLHttp|innerHTML|eval\(", html)


@pytest.mark.parametrize("model", [MLP((3,)), PrototypeNetwork((3, 2))], ids=["mlp", "embedding"])
def test_other_families_say_what_to_do_instead(visit, model):
    seen = visit(member_page(random_card(model, 2, 2, features=("age", 'a "b", c'))))
    page = seen.page
    assert page.get_by_role("heading", name="This plan needs the program").is_visible()
    assert page.get_by_text("oar respond plan.json me.csv").is_visible()
    assert page.locator("#header-line").inner_text() == 'age,"a ""b"", c",label'
    assert not page.get_by_role("button").first.is_visible()
    assert seen.noise == []


def test_on_a_phone_in_the_dark_and_on_paper(visit):
    card = random_card(None, 2, 3, features=("a", "b" * 60, "c c c c"))
    page = visit(member_page(card), width=390, height=800, has_touch=True, color_scheme="dark").page
    fill(page, {"a": 1, "b" * 60: 100000.125, "c c c c": 3}, "class 1")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.scrollWidth <= 390")
    for button in page.locator("button, input[type=text], select, .keep label").all():
        assert button.bounding_box()["height"] >= 44
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    page.emulate_media(media="print", color_scheme="light")
    assert page.get_by_role("table").is_visible()
    assert not page.get_by_role("button", name="Print this page").is_visible()


def test_a_hundred_features_take_no_time(visit):
    card = random_card(SoftmaxRegression(), 3, 100, seed=7)
    page = visit(member_page(card)).page
    members = random_members(card, 20, seed=7)
    taken = page.evaluate(
        """([card, rows, targets, radii]) => {
            const begun = performance.now();
            rows.forEach((row, i) => oarMember.plainMove(card, row, targets[i], radii[i], row.map(() => false)));
            return (performance.now() - begun) / rows.length;
        }""",
        [as_json(card), *(array.tolist() for array in members)],
    )
    assert taken < 250  # milliseconds; benchmarks/member_page.py has the honest measure


def test_a_real_plan_through_its_file(visit, tmp_path):
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(0, 1, (20, 2)), rng.normal(2, 1, (20, 2))])
    people = oar.Population(rows, ["no"] * 20 + ["yes"] * 20)
    problem = oar.Problem(
        people, SoftmaxRegression(0.05), oar.Query([0.5, 0.5], "yes"), oar.Perturb(0.4, norm=math.inf)
    )
    card = oar.collective(problem).plan.card()
    write_member_page(card, tmp_path / "new" / "member.html")
    seen = visit(tmp_path / "new" / "member.html")
    fill(seen.page, {"Feature 1": rows[0, 0], "Feature 2": rows[0, 1]}, "no")
    seen.page.keyboard.press("Enter")
    found = [change for _, change, _ in shown(seen.page).values()]
    assert found == pytest.approx(card.respond(rows[0], "no"), abs=1e-6)
    assert seen.noise == []
    held = re.search(r'id="card">(.*?)</script>', (tmp_path / "new" / "member.html").read_text())[1]
    assert json.loads(held)["card"] == as_json(card)


def test_a_percent_sign_is_understood_where_one_number_fits_and_asked_about_where_two_do(visit):
    page = visit(member_page(random_card(SoftmaxRegression(), 2, 2))).page
    read = "([typed, low, high]) => oarMember.readNumber(typed, (value) => value >= low && value <= high)"
    assert page.evaluate(read, ["50%", 0, 3]) == {"value": 0.5}
    assert page.evaluate(read, ["50 %", 10, 90]) == {"value": 50}
    assert page.evaluate(read, ["7,5%", 0, 1]) == {"value": 0.075}
    error = "Please write 50 or 0.5, without the percent sign."
    assert page.evaluate(read, ["50%", 0, 90]) == page.evaluate(read, ["50%", 200, 300]) == {"error": error}
    assert (
        "is not one" in page.evaluate(read, ["%", 0, 1])["error"] or "fill" in page.evaluate(read, ["%", 0, 1])["error"]
    )


@pytest.mark.parametrize("family", ["softmax, 2 classes", "softmax, 3 classes", "gaussian", "prototypes", "ridge"])
def test_moves_behind_a_scaler_are_those_of_the_card(calculator, family):
    model, width = FAMILIES[family]
    card, rng = random_card(model, width, 4, seed=3), np.random.default_rng(3)
    seen = Scaler(rng.normal(size=4), rng.uniform(0.5, 2, 4), *(0.1 * rng.normal(size=(2, 4))))
    sent = dataclasses.replace(card.broadcast, seen=seen, scaled="refitted")
    if family == "prototypes":  # whose scores do without θ there
        sent = dataclasses.replace(sent, parameters=np.zeros(0))
    card = dataclasses.replace(card, broadcast=sent)
    members = random_members(card, 50, 3)
    found, expected = computed(calculator, card, *members), card.responses(*members)
    assert np.abs(found - expected).max() < 1e-6
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("family", ["softmax, 2 classes", "svm, 3 classes", "gaussian", "prototypes"])
def test_what_is_wanted_of_a_label_is_what_the_card_says(calculator, family):
    model, width = FAMILIES[family]
    card, rng = random_card(model, width, 4, seed=5), np.random.default_rng(5)
    parameters = np.zeros(0) if family == "prototypes" else card.broadcast.parameters
    sent = dataclasses.replace(card.broadcast, seen=Scaler.none(4), parameters=parameters)
    card = dataclasses.replace(card, broadcast=sent)
    rows, targets, _ = random_members(card, 200, 5)
    codes = targets.argmax(axis=1)
    values = card.label_scores(rows)
    kinds = [(label, to) for label in range(width) for to in (*range(width), AWAY) if label != to]
    rule = LabelRule(tuple(Threshold(*kind, float(rng.normal(scale=np.abs(values).mean()))) for kind in kinds))
    card = dataclasses.replace(card, rule=rule)
    expected = rule.decided(values, codes)
    ask = "([card, rows, targets]) => rows.map((row, i) => oarMember.labelWanted(card, row, targets[i]))"
    found = calculator.evaluate(ask, [as_json(card), rows.tolist(), targets.tolist()])
    assert [AWAY if one is None else one for one in found] == expected.tolist()
    assert len(set(expected)) > 2


@pytest.mark.parametrize("to", [1, AWAY])
def test_a_member_reads_what_is_wanted_of_its_label(visit, to):
    card = random_card(*FAMILIES["softmax, 2 classes"], 2, seed=5)
    sent = dataclasses.replace(card.broadcast, seen=Scaler.none(2))
    rule = LabelRule((Threshold(0, to, -1e6),), keeps=0.9)
    card = dataclasses.replace(card, broadcast=sent, rule=rule, budget=0.0)
    seen = visit(member_page(card))
    page = seen.page
    assert "this keeps 90%" in page.locator("#asks").inner_text()
    fill(page, {"feature 0": 1, "feature 1": 2}, "class 0")
    assert page.get_by_label("How far I am willing to go").is_hidden()
    page.get_by_role("button", name="Show my move").click()
    said = page.get_by_role("status").inner_text()
    answer = card.respond([1, 2], "class 0")
    assert (answer.leaves, answer.label) == (to == AWAY, "class 0" if to == AWAY else "class 1")
    wanted = "Take your data away" if to == AWAY else "Hand in the outcome “class 1” in place of “class 0”."
    assert said.startswith(wanted)
    page.get_by_label("My own outcome").select_option(label="class 1")
    page.keyboard.press("Enter")
    assert page.get_by_role("status").inner_text() == "Keep your outcome “class 1”."
    assert seen.noise == []


def test_the_card_of_ones_round_is_answered(visit):
    cards = tuple(random_card(*FAMILIES["softmax, 2 classes"], 2, seed=seed) for seed in (5, 6))
    rounds = RoundsCard((*cards, dataclasses.replace(cards[0], budget=0.0)))
    seen = visit(member_page(rounds))
    page = seen.page
    assert "asked in rounds 0, 1." in page.locator("#asks").inner_text()
    fill(page, {"feature 0": 1, "feature 1": 2}, "class 0")
    page.get_by_role("button", name="Show my move").click()
    assert "My round" in page.get_by_role("status").inner_text()
    for number, card in enumerate(cards):
        page.get_by_label("My round").select_option(label=str(number))
        page.get_by_role("button", name="Show my move").click()
        changes = [change for _, change, _ in shown(page).values()]
        assert changes == pytest.approx(list(card.respond([1, 2], "class 0")), abs=1e-6)
    page.get_by_label("My round").select_option(label="2")
    page.get_by_role("button", name="Show my move").click()
    assert page.get_by_role("status").inner_text().startswith("Stay as you are")
    assert seen.noise == []
