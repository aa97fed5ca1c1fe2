"""The report's first sections: what changes for who asks, how little would do, and what other groups could do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oar.pictures.charts import Curve, before_after, curves
from oar.pictures.markup import Markup, joined, table, tag
from oar.pictures.numbers import loss, number, percent

Facts = Mapping[str, Any]
MOST_QUERIES = 30
LOSSES = {
    "mean": "goal loss, mean of those who ask",
    "worst": "goal loss of the worst off",
    "share": "share who do not get the goal",
}
CUT = "this plan's moves, cut short"
SEARCHED = "how small a budget will do if it is planned for anew, `oar questions` tells"
OTHERS = (
    "Which members these are, oar.minimal_coalition(problem).members tells in Python; what random shares of the movers "
    "do is in the table below."
)
MOST_LINES = 5  # as many as can be told apart


def outcome(facts: Facts) -> Markup:
    """Tell prediction, probability and goal loss, before and after."""
    found, asked = facts["outcome"], facts["asked"]
    rows = [
        ("goal reached", _yes(found["success_before"]), _yes(found["success"])),
        ("goal loss" if asked["several"] is None else LOSSES[asked["several"]], *_losses(found)),
    ]
    picture: Markup | str = ""
    before, after = found["goal_probability_before"], found["goal_probability"]
    if before is not None and after is not None:
        rows.insert(0, ("probability of the goal", percent(before), percent(after)))
        name = f"probability of {asked['goal_words']}"
        picture = before_after(name, before, after, f"{name}: {percent(before)} before, {percent(after)} after")
    if asked["several"] is None:
        rows.insert(0, ("prediction", _predicted(found["prediction_before"]), _predicted(found["prediction"])))
    else:
        picture = _each(found["queries"])
    moving = f"{number(found['movers'])} of {number(asked['people'])} people move"
    acts = [f"{moving}, at an effort of {number(found['effort'])} in all."]
    if found["relabelled"]:
        acts.append(f"{number(found['relabelled'])} labels change.")
    if found["leavers"]:
        acts.append(f"{number(found['leavers'])} members leave.")
    return joined([table(["", "before", "after"], rows), picture, tag("p", " ".join(acts))])


def _each(queries: Sequence[Facts]) -> Markup:
    """List those who ask, in their order."""
    rows = [
        (
            f"{place + 1}",
            _predicted(one["prediction_before"]),
            _predicted(one["prediction"]),
            percent(one["probability_before"]),
            percent(one["probability"]),
            _yes(one["success"]),
        )
        for place, one in enumerate(queries[:MOST_QUERIES])
    ]
    header = ["person who asks", "before", "after", "probability before", "probability after", "goal reached"]
    more = len(queries) - MOST_QUERIES
    return joined([table(header, rows), tag("p", f"{more:,} more ask; audit.json has them all.") if more > 0 else ""])


def _losses(found: Facts) -> tuple[str, str]:
    return loss(found["loss_before"]), loss(found["loss"])


def least(facts: Facts) -> Markup:
    """Tell the smallest budget and coalition that are known to do, and what is proved about smaller ones."""
    found, cards = facts["least"], []
    if found["budget_at_most"] is not None:
        words = "each: this plan's moves, cut short, still reach the goal" if _is_cut(found) else "budget that suffices"
        cards.append((number(found["budget_at_most"]), words))
    if found["people_at_most"] is not None:
        cards.append((f"{number(found['people_at_most'])} people", "certain ones, suffice at the plan's own budget"))
    if not cards:
        return tag("p", _tried(facts))
    boxes = (tag("div", tag("span", "at most"), tag("strong", value), tag("span", words)) for value, words in cards)
    proved = [tag("p", f"Proved: {sentence}") for sentence in found["proved"]]
    known = [found["people_told"]] if found["people_told"] else []
    if known and facts["power"] is not None:
        known.append(OTHERS)
    if _is_cut(found):
        known.append(f"How far this plan's moves can be cut was seen by refits; {SEARCHED}.")
    told = proved or [tag("p", " ".join(known), class_="aside")]
    return joined([tag("div", *boxes, class_="cards"), *told, _shaken(facts["robustness"])])


def _is_cut(found: Facts) -> bool:
    """Report whether the budget is of this plan's own moves, and not of any plan."""
    return bool(found["budget_at_most"]) and not found["proved"]


def _shaken(found: Facts | None) -> Markup | str:
    """Tell how often the plan holds where some members do nothing."""
    if found is None:
        return ""
    good, part = round(found["success_rate"] * found["draws"]), percent(found["defection"])
    who = "answers the card" if found["of"] == "answers" else "moves"
    said = (
        f"Where each who {who} does nothing with a chance of {part}, {good} of {found['draws']} refits reach the goal."
    )
    return tag("p", said)


def _tried(facts: Facts) -> str:
    """Say what parts of the plan did, where neither its whole budget nor all of its movers are known to suffice."""
    if facts["power"] is None:
        return "Nothing smaller than this plan was tried."
    reached = any(hit for row in facts["power"]["success"] for hit in row)
    if not facts["outcome"]["success"]:
        if not reached:
            return "The goal is not reached by this plan, nor by any part of it that was tried."
        return "The goal is not reached by the whole of this plan, but by some parts of it: see the table below."
    return "What parts of this plan reach is in the table below."


def power(facts: Facts) -> Markup:
    """Draw and list success against participation and budget."""
    found = facts["power"]
    if found is None:
        return tag("p", "It was not computed.")
    chances = facts["outcome"]["loss_is_log_probability"]
    kept = " and limits on side effects kept" if facts["asked"]["keep"] else ""
    what = "probability of the goal" if chances else "goal loss (lower is better)"
    lines = [
        Curve(f"budget {number(budget)}", heights, reached)
        for budget, heights, reached in zip(
            found["budgets"], found["probabilities" if chances else "losses"], found["success"], strict=True
        )
    ]
    some = _spread(len(lines), MOST_LINES)
    picture = curves(
        found["shares"],
        [lines[row] for row in some],
        ("share of the plan's movers who take part", f"up: {what}; a filled mark: goal reached{kept}"),
        f"{what} against participation, for {len(some)} budgets; the table below has the numbers",
        percent if chances else loss,
    )
    rows = [[line.name, *map(_told(chances), line.heights, line.reached)] for line in lines]
    header = ["share of movers", *map(percent, found["shares"])]
    numbers = table(header, rows, f"{what}; ✓ goal reached{kept}, ✗ not")
    return joined([picture, numbers, tag("p", found["note"], class_="aside") if found["note"] else ""])


def _told(chances: bool) -> Callable[[float | None, bool], str]:
    def cell(height: float | None, hit: bool) -> str:
        return f"{'✓' if hit else '✗'} {percent(height) if chances else loss(height)}"

    return cell


def _spread(count: int, most: int) -> list[int]:
    """Return at most so many places, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)})


def _predicted(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _yes(value: bool) -> str:
    return "✓ yes" if value else "✗ no"
