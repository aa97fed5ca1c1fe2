"""report.html: one file for the organiser, made of facts alone. It has no script, loads nothing, and prints."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from oar.pictures.markup import Markup, joined, pairs, tag
from oar.pictures.numbers import number
from oar.pictures.rows import known_rows
from oar.report.organiser.effects import burden, collateral, glance, moves
from oar.report.organiser.outcome import least, outcome, power
from oar.report.organiser.proof import certificate, repeat
from oar.report.plan.facts import COSTS

Facts = Mapping[str, Any]
# Every section: what it answers, its heading, and who writes it.
SECTIONS: tuple[tuple[str, str, Callable[[Facts], Markup]], ...] = (
    ("outcome", "Before and after", outcome),
    ("least", "How far, and how many", least),
    ("power", "The power of the group", power),
    ("moves", "What moves most", moves),
    ("burden", "Who bears the burden", burden),
    ("collateral", "What happens to others", collateral),
    ("certificate", "What is proved", certificate),
    ("repeat", "How to repeat it", repeat),
)
FOOTER = (
    "Success here means what an audit found: the model was refitted from scratch on the moved data; what the refit "
    "shares with the planner is said under “What is proved”. No member's row is in this file; audit.json has the same "
    "numbers for programs."
)
OPTION = re.compile(r"(--[a-z-]+)")
REACHED = ("achieved", "already")


def as_percent(columns: list[str]) -> str:
    """Return how columns of percentages were read."""
    return f"{', '.join(columns)}: 5% is the number 5"


def organiser_page(facts: Facts, *, title: str | None = None) -> str:
    """Return the report as HTML.

    Args:
        facts: what `facts_of` collected.
        title: shown above the answer; left out, the goal.
    """
    asked = facts["asked"]
    target = f"{asked['target']} = " if asked["target"] else ""
    heading = title or f"Plan towards {target}{asked['goal_words']}"
    style = files("oar.report").joinpath("pages", "organiser.css").read_text(encoding="utf-8")
    good = facts["status"] in REACHED and not facts["caveats"]
    body = [
        tag("h1", heading),
        tag("p", _with_options(facts["answer"]), class_="answer" if good else "answer no"),
        glance(facts),
        tag("p", facts["explanation"], class_="aside"),
        _asked(asked),
        *(tag("section", tag("h2", name), write(facts), id=key) for key, name, write in SECTIONS),
        tag("footer", *(tag("p", text) for text in (facts.get("rounding"), FOOTER) if text)),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", heading),
        Markup(f"<style>{style}</style>"),
    ]
    page = tag("html", tag("head", *head), tag("body", tag("main", *body)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _with_options(answer: str) -> Markup:
    """Return a sentence in which options of the command are not broken across lines."""
    return joined(
        tag("span", part, class_="option") if part.startswith("--") else part for part in OPTION.split(answer)
    )


def _policy(style: str) -> str:
    """Return what the page may do: nothing but have this one style."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _asked(asked: Facts) -> Markup:
    near = "" if asked["within"] is None else f" ± {number(asked['within'])}"
    told = [
        ("goal", f"{asked['goal_words']}{near}"),
        ("people", f"{asked['people']:,}, of whom {asked['participants']:,} take part"),
        ("columns", f"{asked['columns']:,} ({asked['features']:,} features of the model)"),
        ("model that is retrained", _model(asked)),
    ]
    unit = f"({asked['budget_unit']}; norm {asked['norm']})"
    more = known_rows(
        ("budget of each member", lambda budget: f"{number(budget)} {unit}", asked["budget"]),
        ("limits", str, asked["limits"]),
        ("read as percent", as_percent, asked.get("percent")),
        ("missing, and filled in", str, (asked["imputed"] or {}).get("told")),
        ("filled in of who asks", ", ".join, asked.get("query_filled")),
        ("what members may do", str, asked["levers"]),
    )
    return pairs([*told, *more])


def _model(asked: Facts) -> str:
    """Return what would have to be fitted to find the same numbers."""
    settings = ", ".join(
        f"{name} = {number(value) if isinstance(value, float) else value}"
        for name, value in asked["model_settings"].items()
        if name != "scaler_refitted"
    )
    told = [asked["model"], *([settings] if settings else [])]
    if asked["standardised"]:
        of_table = asked["budget_unit"] == COSTS
        what = "numbers and ordered levels are standardised, flags and categories are not"
        scaler = "refitted too" if asked["model_settings"]["scaler_refitted"] else "kept as it was"
        told.append(f"{what if of_table else 'all columns are standardised'}, and the scaler is {scaler}")
    return "; ".join(told)
