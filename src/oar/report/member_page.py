"""A page for members: one HTML file that computes a member's own move in its browser, and sends nothing.

The file holds the card as JSON, and the style and script of `pages/`. Its Content-Security-Policy allows exactly that
style and that script, by their hashes, and no connection, picture, frame or form target whatever. Everything that the
card names (columns, categories, labels) becomes text by the script's `append` and `textContent`, never markup.

The script repeats `plans.cards.response` and `plans.cards.table.response` for one person. Models that need automatic
differentiation are not repeated: their page says how to use the command instead.

Before they take part members are told for whom, what is asked, the effects on them, and what if they don't. Of who asks
it says how many they are and what they want, and who they are only where the organiser does. Counts are those of a
report's facts, in which nothing is told of fewer than five people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from oar.files import write_text
from oar.goals import GoalText
from oar.people.wording import counted
from oar.pictures.markup import source_hash
from oar.pictures.numbers import number
from oar.plans.cards.card import Card
from oar.plans.cards.file import as_json
from oar.plans.cards.levers.rule import AWAY, LabelRule
from oar.plans.cards.rounds import RoundsCard
from oar.plans.cards.table.score import is_laid_out
from oar.questions.collateral import way_words
from oar.report.plan.answer import unable_words

SCRIPTS = (
    *("norms.js", "scores.js", "respond.js", "table_terms.js", "table_fill.js", "table_respond.js"),
    *("numbers.js", "fields.js", "result.js", "member.js"),
)
POLICY = "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"
Facts = Mapping[str, Any]
NOTHING: Facts = {}
MOST_NAMES = 12
OTHER = "to hand in another outcome than your own"
LEAVING = "to take your data away"
UNKNOWN = "This page does not know. Ask whoever sent it for the report on the plan."
VOLUNTARY = "Nothing happens to you. Taking part is voluntary, and this page tells nobody whether you do."
ANYHOW = "The model is retrained on what others do, so your own prediction may change even if you do nothing."


def member_page(
    card: Card | RoundsCard,
    *,
    title: str | None = None,
    outcome: str | None = None,
    note: str | None = None,
    facts: Mapping[str, Any] | None = None,
    whom: str = "",
) -> str:
    """Return the page for a card's members, as HTML.

    Args:
        card: the plan as it is published.
        title: the page's heading; None to say what the plan works towards.
        outcome: the name of the column of outcomes, which is not on the card; None where it has none.
        note: a sentence near the top, such as that the plan does not reach its goal; None for none.
        facts: what `facts.facts_of` collected, from which members are told what the plan may do to them;
            None where only the card is known.
        whom: the organiser's own words on who asks; empty to say nothing of that.
    """
    style, script = _part("member.css"), '"use strict";\n{\n' + "\n".join(map(_part, SCRIPTS)) + "}\n"
    facts = facts or NOTHING
    about = {  # sentences by question
        "whom": _whom(card.first, facts, whom),
        "asks": [*_asks(card.first), *_asks_by_round(card), *_two_ways(facts)],
        "mine": _mine(_of_card(facts)),
        "otherwise": [VOLUNTARY, ANYHOW, *_otherwise(facts)],
    }
    # The page knows the models that have closed forms; with others members need `oar respond`.
    rounds, card = card, card.first
    supported = card.broadcast is None or is_laid_out(card.broadcast.model)
    told = {"title": title, "outcome": outcome, "note": note, "about": about}
    data = json.dumps({"card": as_json(rounds), "supported": supported} | told, allow_nan=False)
    # It cannot end its script element: this means the same, and holds no <, > or &. U+2028 and U+2029, and everything
    # else beyond ASCII, json.dumps has escaped already.
    inert = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    parts = {
        "policy": POLICY.format(script=source_hash(script), style=source_hash(style)),
        "style": style,
        "script": script,
        "card": inert,
    }
    html = _part("member.html")
    for name, text in parts.items():
        html = html.replace(f"<!--{name}-->", text)
    return html


def write_member_page(card: Card | RoundsCard, path: str | Path, **told: Any) -> None:
    """Write the page, of which `member_page` says what is told.

    The file is replaced whole or not at all, and folders that are missing are made.
    """
    write_text(path, member_page(card, **told))


def _part(name: str) -> str:
    return (files("oar.report") / "pages" / name).read_text(encoding="utf-8")


def _whom(card: Card, facts: Facts, whom: str) -> list[str]:
    goal = card.goal.text if isinstance(card.goal, GoalText) else f"“{_label(card.goal)}”"
    asking = facts["asked"]["asking"] if facts else 1
    who = "somebody who asks" if asking == 1 else f"{asking:,} people who ask"
    said = f"For {who} for another decision: the retrained model is to predict {goal}."
    return [said, whom or "This page does not say who that is."]


def _asks(card: Card) -> list[str]:
    return [*_asked_of_labels(card.rule), *(_asks_of_values(card) if card.most > 0 else [])]


def _asks_by_round(card: Card | RoundsCard) -> list[str]:
    if not isinstance(card, RoundsCard):
        return []
    asked = [str(number) for number, one in enumerate(card.cards) if one.most > 0]
    return [f"It depends on the round in which you hand in your data; members are asked in rounds {', '.join(asked)}."]


def _asked_of_labels(rule: LabelRule | None) -> list[str]:
    if rule is None:
        return []
    leaving = {one.to == AWAY for one in rule.thresholds}
    ways = [
        words for at, words in ((False, "to hand in another outcome than your own"), (True, LEAVING)) if at in leaving
    ]
    said = " or ".join(ways) or "nothing"
    kept = "" if rule.keeps is None else f" Of what the organiser's own list would change, this keeps {rule.keeps:.0%}."
    return [f"{said[0].upper()}{said[1:]}, if the form below says so: it depends on your own values.{kept}"]


def _asks_of_values(card: Card) -> list[str]:
    limit = f"by at most {number(card.most)} in all" if card.most < math.inf else "as far as you are willing to go"
    if not card.terms.columns:
        return [f"To change your values {limit}. The form below works out which of them, and by how much."]
    names = [each.column.name for each in card.terms.columns if each.asked(card.most)]
    dear = [each.column.name for each in card.terms.columns if each.movable and each.column.name not in names]
    fixed = len(card.terms.columns) - len(names) - len(dear)
    said = [f"To change some of these, {limit}, as costs are counted below: {_listed(names)}."]
    if not names:
        said = [f"Nothing: a change may cost {number(card.budget or 0.0)} at most, and every change costs more."]
    if dear:
        said.append(f"You are not asked to change {_listed(dear)}: the smallest change costs more than that.")
    if fixed:
        said.append(f"{counted(fixed, 'other value stays as it is', 'other values stay as they are')}.")
    return said


def _listed(names: list[str]) -> str:
    more = "" if len(names) <= MOST_NAMES else f" and {len(names) - MOST_NAMES:,} more"
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _two_ways(facts: Facts) -> list[str]:
    """Say that the page and the organiser's list are two plans, of which one is followed."""
    found = facts.get("card") or {}
    if found.get("success") is None:
        return []
    page, listed = ("reached" if each["success"] else "missed" for each in (found, facts["outcome"]))
    return [
        f"The organiser also has a list of changes (moves.csv), which may ask something else of you: follow this page "
        f"or that list, and not both. By a refit each: if everyone follows this page, the goal is {page}; if everyone "
        f"follows that list, the goal is {listed}."
    ]


def _of_card(facts: Facts) -> Facts:
    """Return the side effects where everyone answers the card: whoever reads the page has no row of the moves."""
    return (facts.get("card") or {}).get("collateral") or NOTHING


ROUGHLY = "Counts are rounded to fives and tens, and even one person counts as five"


def _mine(found: Facts) -> list[str]:
    if not found:
        return [UNKNOWN]
    said: list[str] = []
    for row in found["by_outcome"] or [found["actors"]]:
        if row["away"] is None or not row["people"]:
            continue
        who = f" whose own outcome is “{row['group']}”" if "group" in row else ""
        ways = way_words(found["prediction"], row, "have")
        said.append(f"Of {counted(row['people'], 'member', 'members')} who take part{who}, {ways}.")
    harm = [f"By the organiser’s count, {found['harm'].replace('by it', 'by this plan')}."] if found["harm"] else []
    if not said:
        return [*harm, "Too few people take part to tell of it without telling of one of them."]
    return [
        *harm,
        *said,
        f"The organiser counted that by retraining the model, with everyone following this page. {ROUGHLY}, so that "
        "they tell of nobody, and nobody can say whether you are one of them.",
    ]


def _otherwise(facts: Facts) -> list[str]:
    if not facts:
        return []
    said, found = [], _of_card(facts)
    row = found.get("bystanders", NOTHING)
    if row.get("people") and row["away"] is not None:
        ways = way_words(found["prediction"], row, "have")
        said.append(f"Of {counted(row['people'], 'person', 'people')} who do nothing, {ways}. {ROUGHLY}.")
    unable = (facts.get("card") or {}).get("unable")
    if unable:
        said.append(f"{unable_words(unable)}; whether the goal is reached was tried with them doing nothing.")
    if not facts["outcome"]["success"] or facts["outcome"]["success_before"]:
        return said
    enough, movers = facts["least"]["people_at_most"], facts["outcome"]["movers"]
    if enough is not None and enough < movers:
        were = counted(enough, "certain one of them was", "certain ones of them were")
        said.append(
            f"The organiser’s list asks {movers:,} members; {were} found to be enough for it. "
            "As many others need not be, and this page does not know whether you are one of them."
        )
    shaken = facts["robustness"]
    if shaken is not None and shaken["of"] == "answers":  # a member has the card, and no row of the moves
        tries, good = shaken["draws"], round(shaken["success_rate"] * shaken["draws"])
        said.append(f"In {good} of {tries} trials in which a random fifth did nothing, it still reached its goal.")
    return said


def _label(label: Any) -> str:
    return f"({', '.join(map(_label, label))})" if isinstance(label, tuple) else str(label)
