"""The report's last sections: what is proved and by whom, and how to do it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oar.pictures.markup import Markup, joined, pairs, table, tag
from oar.pictures.numbers import loss, number

Facts = Mapping[str, Any]


def certificate(facts: Facts) -> Markup:
    """Tell what the planner claims, what the audit found, and what neither proves."""
    proof, found, card = facts["certificate"], facts["outcome"], facts["card"]
    best = "proved: no moves within these limits have a lower goal loss"
    if not proof["exact"]:
        best = "not proved: the best that was found; another plan may be better"
    rows = [
        ("best possible", best),
        ("goal loss, audited", loss(found["loss"])),
        ("goal loss, as the planner claims", loss(proof["claimed_loss"])),
        ("goal loss of any moves, at least", loss(proof["bound"])),
        ("first-order gap", number(proof["gap"]) if proof["gap"] is not None else "no certificate"),
        _lead(found, facts["asked"]["classes"] is None),
        ("limits", "; ".join(found["violations"]) or "all kept, checked person by person"),
        ("refitted by", found["witness"]),
        ("that is", found["independence"]),
        ("training gradient after the refit", number(found["residual"])),
        ("planner", f"{proof['solver']}, at most {number(proof['steps'])} steps"),
    ]
    notes = [proof[name] for name in ("note", "suffices", "ended") if proof[name]]
    if not proof["promised"]:
        notes.append("A collective is not promised to do as well as an individual here.")
    parts = [pairs(rows), *(tag("p", note, class_="aside") for note in notes)]
    if card is not None:
        parts += [tag("h3", "The card"), tag("p", card["told"])]
        parts += [tag("p", card[name]) for name in ("worth", "ways") if card[name]]
    return joined(parts)


def _lead(found: Facts, values: bool) -> tuple[str, str]:
    """Tell how far on the goal's side the outcome is; of values, how far inside what is wanted."""
    margin = found["margin"]
    if not values:
        return "goal leads by", f"{number(margin)} (up to {number(found['tie'])} counts as a tie)"
    inside = margin is None or margin > 0 or found["success"]  # a margin may be rounded to 0
    return f"{'inside' if inside else 'outside'} what is wanted by", loss(None if margin is None else abs(margin))


def repeat(facts: Facts) -> Markup:
    """Tell the command, the data and the versions."""
    again = facts["repeat"]
    data = again["data"]
    rows = [
        ("data", f"{data['file']}, {data['rows']:,} rows"),
        ("seed", str(again["seed"])),
        *([("plan id", facts["plan"])] if "plan" in facts else []),
    ]
    ways = (facts["card"] or {}).get("ways")
    check = "moves.csv and moves.parquet hold every change in raw units: apply them to the data, refit, and compare."
    check += f" {ways}" if ways else ""
    versions = table(["package", "version"], again["versions"].items())
    return joined([tag("pre", again["command"]), pairs(rows), versions, tag("p", check, class_="aside")])
