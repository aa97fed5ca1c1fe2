"""The report on people: what they change, who bears it, and what happens to those who do nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oar.people.wording import counted
from oar.pictures.charts import bars
from oar.pictures.markup import Markup, joined, table, tag
from oar.pictures.numbers import number, percent, shortened
from oar.tolerances import FEW_PEOPLE

Facts = Mapping[str, Any]
MOST_BARS, MOST_ROWS = 8, 40
OLD_DATA, NEW_DATA = "everyone's data as they were", "the data after the moves, without the queries"
NOTICED = "A predicted value changes where it does so by more than 1 % of the standard deviation of all of them before."


def moves(facts: Facts) -> Markup:
    """Tell columns by effort and by how many change them."""
    columns = facts["columns"]
    if not columns:
        return tag("p", "Nobody's columns change.")
    told = [row for row in columns if row["effort"] is not None]
    first = told[:MOST_BARS]
    picture = bars(
        [row["column"] for row in first],
        [row["effort"] for row in first],
        [f"effort {number(row['effort'])}, {counted(row['movers'], 'person', 'people')}" for row in first],
        f"effort by column, largest first: {', '.join(shortened(row['column'], 30) for row in first)}",
    )
    total = sum(row["effort"] or 0.0 for row in columns) or 1.0

    def cells(row: Facts) -> tuple[str, ...]:
        share = _part(row["effort"], total)
        return shortened(row["column"]), number(row["movers"]), number(row["effort"]), share, row["change"]

    header = ["column", "people", "effort", "share of it", "change"]
    listed = table(header, list(map(cells, columns[:MOST_ROWS])), "largest effort first")
    more = len(columns) - MOST_ROWS
    unit = f"Effort is in the units of the budget: {facts['asked']['budget_unit']}."
    if facts["asked"]["norm"] != "1":
        unit += " Columns' efforts add up to more than people's, because the norm is not 1."
    rest = tag("p", f"{more:,} more columns change less.") if more > 0 else ""
    parts = [picture if first else "", listed, rest, tag("p", unit, class_="aside")]
    return joined([*parts, _few(len(told) < len(columns))])


def burden(facts: Facts) -> Markup:
    """Tell movers and effort by class, and by every group that was asked for."""
    if not facts["burden"]:
        return tag("p", "Name a column with --group to see who bears it.")
    header = ["people", "take part", "move", "of them move", "effort", "per member", "per mover"]
    parts = []
    for name, groups in facts["burden"].items():
        rows = [
            (
                shortened(row["group"]),
                *(number(row[name]) for name in ("members", "participants", "movers")),
                _part(row["movers"], row["members"]),
                *(number(row[name]) for name in ("effort", "effort_per_member", "effort_per_mover")),
            )
            for row in groups
        ]
        parts += [tag("h3", f"by {name}"), table([shortened(name), *header], rows), _left_out(facts, name)]
    hidden = any(row["effort"] is None for groups in facts["burden"].values() for row in groups)
    return joined([*parts, _few(hidden)])


def glance(facts: Facts) -> Markup | str:
    """Tell beside the success what becomes of members, of bystanders and of groups, in one table."""
    found = facts["collateral"]
    if not found:
        return ""
    name = found["grouped_by"]
    who = [("members who act", found["actors"]), ("people who do nothing", found["bystanders"])]
    who += [(f"{shortened(name)}: {shortened(row['group'])}", row) for row in found["everyone_by_group"] or ()]
    rows = [(label, *standing(row, found["score"])) for label, row in who if row["people"]]
    if not rows:
        return ""
    goal, loses = "the goal", ("away from the goal", "towards it")
    if found["prediction"]:
        goal, loses = found["prediction"], ("lose it", "gain it")
    header = ["", "people", *loses, f"predicted {goal}", f"{found['score']} about them"]
    caption = "What the moves of moves.csv do to people who did not ask, before and after, where these moves take them"
    few = _few(any(row["away"] is None for _, row in who if row["people"]))
    words = card_effects(facts)  # members' own answers need not be the moves that were planned
    answers = tag("p", f"If everyone answers the card instead: {words}.", class_="aside") if words else ""
    return joined([table(header, rows, caption), few, answers])


def card_effects(facts: Facts) -> str | None:
    """Return what happens to people where everyone answers the card, in words; None where that is not known."""
    return ((facts["card"] or {}).get("collateral") or {}).get("effects") or None


def standing(row: Facts, score: str) -> tuple[str, ...]:
    """Return how many people there are, who lose and gain the goal, and both rates before and after."""
    right = percent if score == "accuracy" else number
    rates = (percent, "wanted_before", "wanted_after"), (right, "score_before", "score_after")
    told = ("–" if row[one] is None else f"{say(row[one])} → {say(row[two])}" for say, one, two in rates)
    return number(row["people"]), number(row["away"]), number(row["towards"]), *told


def scores_told(score: str, own: Sequence[float | None], everyone: Facts) -> str:
    """Say how right the model is before and after: about people's old data, and about those that moves give them.

    >>> scores_told("accuracy", [0.9, 0.8], {"score_before": 0.9, "score_after": 0.95})
    "90 % → 80 % with everyone's data as they were; 90 % → 95 % with the data after the moves, without the queries"
    """
    return "; ".join(f"{before} → {after} {where}" for where, before, after in _scores(score, own, everyone))


def _scores(score: str, own: Sequence[float | None], everyone: Facts) -> list[tuple[str, str, str]]:
    """Return on which data the model is judged, and its score before and after."""
    say = percent if score == "accuracy" else number
    rows = [(f"with {OLD_DATA}", say(own[0]), say(own[1]))]
    if everyone["score_before"] is not None:
        rows.append((f"with {NEW_DATA}", say(everyone["score_before"]), say(everyone["score_after"])))
    return rows


def held_out_told(found: Facts) -> str:
    """Say how right the model is before and after about people on whom it is not trained."""
    say = percent if found["score"] == "accuracy" else number
    return f"{' → '.join(map(say, found['held_out']))} about {number(found['held_out_people'])} people"


def collateral(facts: Facts) -> Markup:
    """Tell whose predictions change besides, in which direction, and how right the model is before and after."""
    found = facts["collateral"]
    if not found:
        return tag("p", "It was not computed: the model could not be refitted.")
    acting = "change their data"
    header = ["", "people", "prediction changes", "of them", "towards the goal", "away from it"]
    rows = [("do nothing", *_changes(found["bystanders"])), (acting, *_changes(found["actors"]))]
    parts: list[Markup | str] = [table(header, rows)]
    for key, people, who in (("by_group", "bystanders", "do nothing"), ("actors_by_group", "actors", acting)):
        if found[key]:
            name = found["grouped_by"]
            rows = [(shortened(row["group"]), *_changes(row | {"people": row[people]})) for row in found[key]]
            parts += [tag("h3", f"those who {who}, by {name}"), table([shortened(name), *header[1:]], rows)]
            parts.append(_left_out(facts, name))
    every = [found["bystanders"], found["actors"], *(found["by_group"] or ()), *(found["actors_by_group"] or ())]
    parts.append(_few(any(row["changed"] is None for row in every)))
    if not facts["asked"]["classes"]:
        parts.append(tag("p", NOTICED, class_="aside"))
    parts.append(_kept(facts["asked"]["keep"], found))
    scores = _scores(found["score"], found["own"], found["everyone"])
    if found["held_out"]:
        before, after = map(percent if found["score"] == "accuracy" else number, found["held_out"])
        scores.append((f"on {number(found['held_out_people'])} held-out people", before, after))
    return joined([*parts, tag("h3", "How good the model is"), table([found["score"], "before", "after"], scores)])


def _kept(limits: Facts | None, found: Facts) -> Markup | str:
    """Tell the limits on side effects that were asked for, and what was measured."""
    if not limits:
        return ""
    rows: list[tuple[str, ...]] = []
    changed, lost, worse = (limits[name] for name in ("changed", "lost", "worse"))
    if changed is not None:
        share = _changes(found["bystanders"])[2]
        rows.append(("of those who do nothing, other prediction", percent(changed), share))
    for key, who in (("actors", "change their data"), ("bystanders", "do nothing")) if lost is not None else ():
        had = round((found[key]["wanted_before"] or 0.0) * found[key]["people"])
        rows.append((f"of those who {who} and had the goal, lose it", percent(lost), _part(found[key]["away"], had)))
    if worse is not None:
        (before, after), accuracy = found["own"], found["score"] == "accuracy"
        way, say, fall = ("falls", percent, before - after) if accuracy else ("rises", number, after - before)
        rows.append((f"{found['score']} {way} by", say(worse), say(fall)))
    return joined([tag("h3", "Limits that were asked for"), table(["", "at most", "found"], rows)])


def _changes(row: Facts) -> tuple[str, ...]:
    share = _part(row["changed"], row["people"])
    return number(row["people"]), number(row["changed"]), share, number(row["towards"]), number(row["away"])


def _part(some: float | None, whole: float) -> str:
    """Return which part some are, in two digits, for counts and efforts are rounded; all only where it is all.

    >>> _part(5, 21), _part(5, 9_000), _part(2_990, 3_000), _part(7, 7), _part(0, 0), _part(None, 3)
    ('24 %', '0.06 %', '99 %', '100 %', '0 %', '–')
    """
    if some is None:
        return percent(None)
    if not whole:
        return percent(0.0)
    share = float(f"{some / whole:.2g}")
    return percent(0.99 if some < whole and share >= 1 else share)


def _left_out(facts: Facts, name: str) -> Markup | str:
    return tag("p", facts["left_out"][name], class_="aside") if name in facts["left_out"] else ""


def _few(hidden: bool) -> Markup | str:
    """Say what a dash stands for, where there is one."""
    few = f"fewer than {FEW_PEOPLE} people"
    why = f"A dash stands for what is not told, because it is about {few}, or would tell of them."
    return tag("p", why, class_="aside") if hidden else ""
