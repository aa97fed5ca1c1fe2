"""report.html: one file for the organiser, made of facts alone. It has no script, loads nothing, and prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from oar.pictures.charts import Curve, before_after, curves
from oar.pictures.markup import Markup, joined, pairs, source_hash, table, tag
from oar.pictures.numbers import known_rows, loss, number, percent
from oar.report.organiser_effects import burden, collateral, glance, moves
from oar.report.plan.facts import COSTS

Facts = Mapping[str, Any]
FOOTER = (
    "Success means that an audit found it: the model was refitted from scratch on the moved data. “What is proved” "
    "states how independent this refit is of the solver. This file has no member's row; audit.json has the same "
    "numbers for programs."
)
# What the page may do: nothing but have this one style.
POLICY = "default-src 'none'; style-src {}; base-uri 'none'; form-action 'none'"
OPTION = re.compile(r"(--[a-z-]+)")
REACHED = ("achieved", "already")
MOST_QUERIES = 30
LOSSES = {
    None: "goal loss",
    "mean": "mean goal loss of the queries",
    "worst": "largest goal loss of a query",
    "share": "share of queries that do not reach the goal",
}
CUT = "this plan's moves, cut short"
SEARCHED = "for the smallest budget with a plan of its own, use `oar questions`"
OTHERS = (
    "In Python, oar.minimal_coalition(problem).members lists these members. The table below is for random shares of "
    "the movers."
)
MOST_LINES = 5  # as many as can be told apart


def as_percent(columns: list[str]) -> str:
    """Return how columns of percentages were read."""
    return f"{', '.join(columns)}: 5% is the number 5"


def organiser_page(facts: Facts, *, title: str | None = None) -> str:
    """Return the report of what `facts_of` collected as HTML, with a title above the answer, or else the goal."""
    asked = facts["asked"]
    target = f"{asked['target']} = " if asked["target"] else ""
    heading = title or f"Plan towards {target}{asked['goal_words']}"
    style = files("oar.report").joinpath("pages", "organiser.css").read_text(encoding="utf-8")
    good = facts["status"] in REACHED and not facts["caveats"]
    body = [
        tag("h1", heading),
        tag("p", _with_options(facts["answer"]), class_="answer" if good else "answer no"),
        glance(facts),
        *(tag("p", text, class_="aside") for text in (facts["explanation"], facts.get("late")) if text),
        _asked(asked),
        *(tag("section", tag("h2", name), write(facts), id=key) for key, name, write in SECTIONS),
        tag("footer", *(tag("p", text) for text in (facts.get("rounding"), FOOTER) if text)),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY.format(source_hash(style))),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", heading),
        Markup(f"<style>{style}</style>"),
    ]
    page = tag("html", tag("head", *head), tag("body", tag("main", *body)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _with_options(answer: str) -> Markup:
    """Return a sentence in which options of the command are not broken across lines."""
    parts = OPTION.split(answer)
    return joined(tag("span", part, class_="option") if part.startswith("--") else part for part in parts)


def _asked(asked: Facts) -> Markup:
    near = "" if asked["within"] is None else f" ± {number(asked['within'])}"
    told = [
        ("goal", f"{asked['goal_words']}{near}"),
        ("people", f"{asked['people']:,}, of whom {asked['participants']:,} take part"),
        ("columns", f"{asked['columns']:,} ({asked['features']:,} features of the model)"),
        ("model", _model(asked)),
    ]
    unit = f"({asked['budget_unit']}; norm {asked['norm']})"
    more = known_rows(
        ("budget of each member", lambda budget: f"{number(budget)} {unit}", asked["budget"]),
        ("limits", str, asked["limits"]),
        ("read as percent", as_percent, asked.get("percent")),
        ("imputed values", str, (asked["imputed"] or {}).get("told")),
        ("filled in of who asks", ", ".join, asked.get("query_filled")),
        ("what members may do", str, asked["levers"]),
    )
    return pairs([*told, *more])


def _model(asked: Facts) -> str:
    """Return what would have to be fitted to find the same numbers."""
    settings = (item for item in asked["model_settings"].items() if item[0] != "scaler_refitted")
    told = list(filter(None, [asked["model"], ", ".join(f"{name} = {_word(value)}" for name, value in settings)]))
    if asked["standardised"]:
        of_table = asked["budget_unit"] == COSTS
        what = "numbers and ordered levels are standardised, flags and categories are not"
        scaler = "refitted too" if asked["model_settings"]["scaler_refitted"] else "kept as it was"
        told.append(f"{what if of_table else 'all columns are standardised'}, and the scaler is {scaler}")
    return "; ".join(told)


def outcome(facts: Facts) -> Markup:
    """Tell prediction, probability and goal loss, before and after."""
    found, asked = facts["outcome"], facts["asked"]
    rows = [
        ("goal reached", _yes(found["success_before"]), _yes(found["success"])),
        (LOSSES[asked["several"]], loss(found["loss_before"]), loss(found["loss"])),
    ]
    picture: Markup | str = ""
    before, after = found["goal_probability_before"], found["goal_probability"]
    if None not in (before, after):
        rows.insert(0, ("probability of the goal", percent(before), percent(after)))
        name = f"probability of {asked['goal_words']}"
        picture = before_after(name, before, after, f"{name}: {percent(before)} before, {percent(after)} after")
    if asked["several"]:
        picture = _each(found["queries"])
    else:
        rows.insert(0, ("prediction", _word(found["prediction_before"]), _word(found["prediction"])))
    moving = f"{number(found['movers'])} of {number(asked['people'])} people move"
    acts = [f"{moving}, at an effort of {number(found['effort'])} in all."]
    others = (("relabelled", "labels change"), ("leavers", "members leave"))
    acts += [f"{number(found[name])} {what}." for name, what in others if found[name]]
    return joined([table(["", "before", "after"], rows), picture, tag("p", " ".join(acts))])


def _each(queries: Sequence[Facts]) -> Markup:
    """List those who ask, in their order."""
    rows = []
    for place, one in enumerate(queries[:MOST_QUERIES], 1):
        predicted = (_word(one[name]) for name in ("prediction_before", "prediction"))
        chances = (percent(one[name]) for name in ("probability_before", "probability"))
        rows.append((str(place), *predicted, *chances, _yes(one["success"])))
    header = ["query", "before", "after", "probability before", "probability after", "goal reached"]
    more = len(queries) - MOST_QUERIES
    return joined([table(header, rows), tag("p", f"{more:,} more: see audit.json.") if more > 0 else ""])


def least(facts: Facts) -> Markup:
    """Tell the smallest budget and coalition that are known to do, and what is proved about smaller ones."""
    found = facts["least"]
    is_cut = bool(found["budget_at_most"]) and not found["proved"]  # of this plan's own moves, and not of any plan
    words = "each: this plan's moves, cut short, still reach the goal" if is_cut else "budget that suffices"
    many = "certain ones, suffice at the plan's own budget"
    cards = known_rows(
        (words, number, found["budget_at_most"]),
        (many, lambda people: f"{number(people)} people", found["people_at_most"]),
    )
    if not cards:
        return tag("p", _tried(facts))
    boxes = (tag("div", tag("span", "at most"), tag("strong", value), tag("span", words)) for words, value in cards)
    proved = [tag("p", f"Proved: {sentence}") for sentence in found["proved"]]
    known = [found["people_told"]] if found["people_told"] else []
    if known and facts["power"]:
        known.append(OTHERS)
    if is_cut:
        known.append(f"Refits determined how far this plan's moves can be shortened; {SEARCHED}.")
    told = proved or [tag("p", " ".join(known), class_="aside")]
    return joined([tag("div", *boxes, class_="cards"), *told, _shaken(facts["robustness"])])


def _shaken(found: Facts | None) -> Markup | str:
    """Tell how often the plan holds where some members do nothing."""
    if found is None:
        return ""
    good, part = round(found["success_rate"] * found["draws"]), percent(found["defection"])
    who, tried = "answers the card" if found["of"] == "answers" else "moves", found["draws"]
    return tag(
        "p", f"Where each who {who} does nothing with a chance of {part}, {good} of {tried} refits reach the goal."
    )


def _tried(facts: Facts) -> str:
    """Say what parts of the plan did, where neither its whole budget nor all of its movers are known to suffice."""
    if not facts["power"]:
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
    what, say = ("probability of the goal", percent) if chances else ("goal loss (lower is better)", loss)
    heights = found["probabilities" if chances else "losses"]
    names = (f"budget {number(budget)}" for budget in found["budgets"])
    lines = list(map(Curve, names, heights, found["success"]))
    # All of them, or as many with the first and the last among them
    some = sorted({round(place * (len(lines) - 1) / (MOST_LINES - 1)) for place in range(MOST_LINES)})
    picture = curves(
        found["shares"],
        [lines[row] for row in some],
        ("share of the plan's movers who take part", f"up: {what}; a filled mark: goal reached{kept}"),
        f"{what} against participation, for {len(some)} budgets; the table below has the numbers",
        say,
    )
    rows = []
    for line in lines:
        reached = zip(line.heights, line.reached, strict=True)
        rows.append([line.name, *(f"{'✓' if hit else '✗'} {say(height)}" for height, hit in reached)])
    header = ["share of movers", *map(percent, found["shares"])]
    numbers = table(header, rows, f"{what}; ✓ goal reached{kept}, ✗ not")
    return joined([picture, numbers, tag("p", found["note"], class_="aside") if found["note"] else ""])


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _yes(value: bool) -> str:
    return "✓ yes" if value else "✗ no"


def certificate(facts: Facts) -> Markup:
    """Tell what the planner claims, what the audit found, and what neither proves."""
    proof, found, card = facts["certificate"], facts["outcome"], facts["card"]
    open_ = "not proved: the best plan that was found; another one may be better"
    best = "proved: no moves within these limits have a lower goal loss" if proof["exact"] else open_
    rows = [
        ("optimal", best),
        ("goal loss, audited", loss(found["loss"])),
        ("goal loss, claimed by the solver", loss(proof["claimed_loss"])),
        ("proved lower bound on the goal loss", loss(proof["bound"])),
        ("first-order gap", f"at most {number(proof['gap'])}" if proof["gap"] is not None else "no certificate"),
        _lead(found, not facts["asked"]["classes"]),
        ("limits", "; ".join(found["violations"]) or "all kept, checked person by person"),
        ("refitted by", found["witness"]),
        ("independence of the refit", found["independence"]),
        ("training gradient after the refit", number(found["residual"])),
        ("solver", f"{proof['solver']}, at most {number(proof['steps'])} steps"),
    ]
    notes = [proof[name] for name in ("note", "suffices", "ended") if proof[name]]
    if not proof["promised"]:
        notes.append("Here the collective is not guaranteed to do as well as the individual.")
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
    if margin is None:
        return "inside what is wanted by", loss(None)
    inside = margin > 0 or found["success"]  # a margin may be rounded to 0
    return f"{'inside' if inside else 'outside'} what is wanted by", loss(abs(margin))


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
