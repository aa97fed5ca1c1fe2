"""A page for members: one HTML file that computes a member's own move in its browser, and sends nothing.

The file holds the card as JSON, and the style and script of `pages/`. Its Content-Security-Policy allows exactly that
style and that script, by their hashes, and no connection, picture, frame or form target whatever. Everything that the
card names (columns, categories, labels) becomes text by the script's `append` and `textContent`, never markup.

The script repeats `plans.cards.response` and `plans.cards.table.response` for one person. Models that need automatic
differentiation are not repeated: their page says how to use the command instead.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from oar.files import replace_atomically
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.linear.losses import Linear
from oar.models.naive_bayes.gaussian import GaussianNaiveBayes
from oar.plans.cards.card import Card
from oar.plans.cards.file import as_json
from oar.report.member.words import words_for_members

SCRIPTS = (
    *("norms.js", "scores.js", "respond.js", "table_terms.js", "table_fill.js", "table_respond.js"),
    *("numbers.js", "fields.js", "result.js", "member.js"),
)
POLICY = "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"


def member_page(
    card: Card,
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
    told = {"title": title, "outcome": outcome, "note": note, "about": words_for_members(card, facts or {}, whom)}
    data = {"card": as_json(card), "supported": computes_in_browser(card)} | told
    parts = {
        "policy": POLICY.format(script=_hash(script), style=_hash(style)),
        "style": style,
        "script": script,
        "card": _inert(json.dumps(data, allow_nan=False)),
    }
    html = _part("member.html")
    for name, text in parts.items():
        html = html.replace(f"<!--{name}-->", text)
    return html


def write_member_page(card: Card, path: str | Path, **told: Any) -> None:
    """Write the page, of which `member_page` says what is told.

    The file is replaced whole or not at all, and folders that are missing are made.
    """
    html = member_page(card, **told)
    with replace_atomically(Path(path)) as file:
        file.write(html.encode())


def computes_in_browser(card: Card) -> bool:
    """Report whether a card's model has closed forms, which the page knows; otherwise members need `oar respond`."""
    if card.broadcast is None:
        return True
    model = card.broadcast.model
    if isinstance(model, PrototypeNetwork):
        return model.embedding is None
    return isinstance(model, Linear | GaussianNaiveBayes)


def _part(name: str) -> str:
    return (files("oar.report") / "pages" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inert(text: str) -> str:
    """Return JSON that cannot end its script element: it means the same, and holds no <, > or &.

    U+2028 and U+2029, and everything else beyond ASCII, json.dumps has escaped already.
    """
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
