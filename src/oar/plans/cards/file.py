"""Cards as JSON, in kilobytes. Version 1 holds directions, version 2 a signal besides, version 3 a table's terms.

Version 4 is for what these cannot say: plain features that a model sees through a scaler, and a model that is retrained
and cannot be written down, so that members answer another one's signal, or directions alone.

    {"format": "oar-card", "version": 1, "model": "nearest-centroid", "norm": "2", "budget": 0.5,
     "goal": "yes", "participants": "everyone", "classes": ["no", "yes"], "features": null,
     "directions": [[…], […]], "digits": 2, "oar": "0.1.0"}

    {…, "version": 2, "model": {"name": "softmax-regression", "l2": 0.01}, "outputs": 0, "pull": 0.08,
     "parameters": […], "signal": […]}

Labels are JSON strings, numbers, booleans, or {"tuple": [...]}. Where values are predicted `classes` is null, `outputs`
says how many, and `goal` is a number or such a tuple. A goal of another kind is in words,
{"wanted": "…"}. `usual` is null, or for each feature (or column) null or a range in which most people are, [0, 30000].
A card of version 3 is that of a table:

    {"format": "oar-card", "version": 3, "oar": "0.1.0", "norm": "2", "budget": 1.0, "goal": "yes",
     "participants": "everyone", "classes": ["no", "yes"], "outputs": 0,
     "model": {"name": "softmax-regression", "l2": 0.001}, "scaled": "refitted", "parameters": […], "signal": […],
     "columns": [
       {"name": "income", "kind": "number", "levels": [], "movable": true, "lower": null, "upper": 9000,
        "direction": "up", "step": 50, "cost": 0.0017, "choices": [], "pooled": false,
        "per_spread": 1, "missing": [-999]},
       {"name": "purpose", "kind": "category", "levels": ["car", "education"], "movable": true, "lower": null,
        "upper": null, "direction": null, "step": 1, "cost": 1, "choices": [0, 1], "pooled": false,
        "per_spread": null, "missing": []}],
     "links": [{"text": "savings <= 5 * income", "values": {"savings": 1, "income": -5}, "changes": {}, "constant": 0}],
     "rules": [{"text": "if purpose == 'car' then income <= 1000", "columns": ["income", "purpose"],
                "ways": [[{"column": "income", "low": null, "high": 1000, "open": false, "levels": null,
                           "whole": false}],
                         [{"column": "purpose", …, "levels": [1], "whole": true}]]}],
     "scaler": {"centres": […], "scales": […], "shift": […], "spread": […]}}

Coordinates (d) are those of the columns in their order: an ordinal's rank, 0 or 1 of a boolean, and of a category one
for each level. `norm` is "1", "2" or "inf". `model.name` may be "nearest-centroid" here too; `scaled` is null,
"refitted" or "frozen"; `scaler` is there in any case, with round numbers by which θ and v are said. Where `pooled`, the
last level stands for all that are not named. `table.score` says what `parameters` and `signal` are, and
`table.terms.ColumnTerms` what a column's fields are; `cost` is of one unit of the coordinate, or of a switch, rounded
up where it is `per_spread` by everyone's standard deviation.

A card of version 4 is like one of version 3 where it has `columns`, and else like one of version 2, with `scaled` and
`scaler` as above. `retrained` is the name of the model that is retrained, where `model` is a plain one in its place;
where `model` is null there are directions alone. A card of version 5 has a rule for labels besides (`levers.rule`):

    {…, "version": 5, "rule": {"thresholds": [{"label": 0, "to": 1, "least": 3.5}, {"label": 0, "to": null, …}],
                               "keeps": 0.9}}

Labels are positions among the classes, and `to` is null for leaving. A card of version 6 has one of these for each
round:

    {"format": "oar-card", "version": 6, "oar": "0.1.0", "rounds": [{…}, …]}

A link is kept where Σ values·after + Σ changes·(after − before) + constant is at most 0, or at most what it was before
any move. A rule is kept where none of its columns has changed, or where some way holds: all of its parts do. A part is
a link (at most 0), or a column's value between `low` and `high` (null is no edge; the edges do not belong to it if
`open`), or the position of its level among `levels`. `text` is what Python goes by; whatever else is said must agree.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oar.actions.limits.limit import DIRECTIONS as UP_OR_DOWN
from oar.actions.limits.limit import Limits
from oar.actions.limits.links import Link, parse_links
from oar.actions.limits.rules import EncodedRule, Range
from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import choose
from oar.errors import DataError, OARError, StorageError
from oar.files import write_text
from oar.goals import GoalText
from oar.models import Differentiable
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.serialize import drawn_count, from_spec, parameter_count, to_spec
from oar.opening import Fields, read_json
from oar.opening.documents import DEEP
from oar.opening.fields import SMALLEST, is_number, said
from oar.people.tables.schema import Column, Schema
from oar.plans.cards.card import Broadcast, Card
from oar.plans.cards.levers.rule import AWAY, LabelRule, Threshold
from oar.plans.cards.rounds import RoundsCard
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.score import Scaler, linear_in_features
from oar.plans.cards.table.terms import ColumnTerms, TableTerms
from oar.version import __version__

FORMAT, DIRECTIONS, SIGNAL, TABLE, FURTHER, RULE, ROUNDS = "oar-card", 1, 2, 3, 4, 5, 6
MOST_DRAWN = 10_000_000  # weights that a card may have everybody draw from a seed
MOST_DIGITS = 20
MOST_SAID = 300  # characters of what is wrong
PARTICIPANTS = ("everyone", "selected")
VALUES = (None,)  # whom a direction is for where values are predicted: everybody
CENTROIDS = "nearest-centroid"
SCALED = {None: "", "refitted": "scaled ", "frozen": "frozen-scaled "}  # how models are called, by their scaler
VECTORS = ("centres", "scales", "shift", "spread")


def write(card: Card | RoundsCard, path: Path) -> None:
    """Write the card as JSON; the file is replaced whole or not at all."""
    write_text(path, json.dumps(as_json(card), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def as_json(card: Card | RoundsCard) -> dict[str, Any]:
    """Return what is written: made of dicts, lists, strings, numbers, booleans and None only."""
    if isinstance(card, RoundsCard):
        return {"format": FORMAT, "version": ROUNDS, "oar": __version__, "rounds": list(map(as_json, card.cards))}
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": DIRECTIONS,
        "oar": __version__,
        "model": card.model,
        "norm": f"{card.norm.p:g}",
        "budget": card.budget,
        "goal": {"wanted": card.goal.text} if isinstance(card.goal, GoalText) else label_to_json(card.goal),
        "participants": card.participants,
        "classes": card.classes and [label_to_json(label) for label in card.classes],
        "features": card.features and [str(name) for name in card.features],
        "directions": card.directions.tolist(),
        "digits": card.digits,
        "usual": card.usual and [one and list(one) for one in card.usual],
    }
    sent, retrained = card.broadcast, _retrained(card)
    if sent is not None:
        if drawn_count(sent.model, card.directions.shape[1]) > MOST_DRAWN:
            raise DataError(
                f"model: an embedding on a card must have at most {MOST_DRAWN:,} weights, which every member draws "
                "from its seed; give smaller widths, or hand members their rows of plan.moves()."
            )
        content |= {
            "version": SIGNAL if sent.seen is None else FURTHER,
            "model": {"name": CENTROIDS} if card.model == CENTROIDS else to_spec(sent.model),
            "outputs": card.outputs,
            "pull": sent.pull,
            "parameters": sent.parameters.tolist(),
            "signal": sent.signal.tolist(),
        }
        if sent.seen is not None:
            content |= {"scaled": sent.scaled, "scaler": _scaler_to_json(sent.seen)}
    if isinstance(card, TableCard):
        content |= {"version": TABLE, **_table_to_json(card.table)}
        for idle in ("features", "directions", "pull"):  # these follow from the columns, or are nothing
            del content[idle]
    if retrained is not None:
        content |= {"version": FURTHER, "retrained": retrained, "outputs": card.outputs}
        content["model"] = content["model"] if sent else None
    if card.rule is not None:
        content |= {"version": RULE, "rule": _rule_to_json(card.rule)}
    return content


def _rule_to_json(rule: LabelRule) -> dict[str, Any]:
    each = [
        {"label": one.label, "to": None if one.to == AWAY else one.to, "least": one.least} for one in rule.thresholds
    ]
    return {"thresholds": each, "keeps": rule.keeps}


def _label_rule(content: Fields, classes: int) -> LabelRule:
    told, found = content.inner("rule"), []
    for each in told.each("thresholds"):
        label, to = each.whole("label", 0, classes - 1), AWAY
        if each.any("to") is not None:
            to = each.whole("to", 0, classes - 1)
        if label == to:
            raise ValueError("a rule asks for the label that is there")
        found.append(Threshold(label, to, each.number("least", -math.inf)))
    keeps = None if told.any("keeps") is None else told.number("keeps", 0.0)
    return LabelRule(tuple(found), keeps)


def _retrained(card: Card) -> str | None:
    """Return the name of the model that is retrained, where it is not the one whose settings are on the card."""
    sent = card.broadcast
    own = CENTROIDS if sent is None or card.model == CENTROIDS else f"{SCALED[card.terms.scaled]}{sent.model.name}"
    return None if own == card.model else card.model


def read(path: Path) -> Any:
    """Read a card; a damaged, foreign or newer file raises and says so."""
    content = read_json(path, "card")
    if not (isinstance(content, dict) and content.get("format") == FORMAT):
        raise StorageError(f"card: {path} is not an OAR card.")
    if content.get("version") not in range(DIRECTIONS, ROUNDS + 1):
        raise StorageError(
            f"card: {path} has version {said(content.get('version'))}, and this oar ({__version__}) reads versions "
            f"{DIRECTIONS} to {ROUNDS}; install the oar that wrote it ({said(content.get('oar'))})."
        )
    try:
        told = Fields(content)
        return _rounds(told) if content["version"] == ROUNDS else _from_json(told)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError, OARError) as error:
        reason = DEEP if isinstance(error, RecursionError) else str(error)
        reason = reason if len(reason) <= MOST_SAID else f"{reason[:MOST_SAID]}…"
        raise StorageError(f"card: {path} is damaged ({reason}); ask for a fresh copy.") from None


def _rounds(content: Fields) -> RoundsCard:
    """Return a card for each round; they must agree in all that is the same in every round."""
    each = list(content.each("rounds"))
    if not each or any(one.any("version") not in range(DIRECTIONS, ROUNDS) for one in each):
        raise ValueError("there must be rounds, each with a card")
    cards = tuple(map(_from_json, each))
    if len({(one.model, one.norm, one.goal, one.classes, one.features, one.size, one.outputs) for one in cards}) > 1:
        raise ValueError("its rounds are of different plans")
    return RoundsCard(cards)


def _from_json(content: Fields) -> Card:
    version, goal, norm = content.any("version"), _goal_from_json(content.any("goal")), content.text("norm")
    by, further = Norm.of(float(norm) if norm in ("1", "2") else norm), version in (FURTHER, RULE)
    with_signal = version != DIRECTIONS and content.any("model") is not None
    table = _table_from_json(content) if version == TABLE or (further and "columns" in content) else None
    if version == DIRECTIONS and content.any("model") != CENTROIDS:
        raise ValueError(f"model {said(content.any('model'))} is not known; this oar knows {CENTROIDS}")
    classes, outputs = _classes(content, goal, version != DIRECTIONS)
    rows = len(classes or VALUES)
    if table is None:
        directions = content.rows("directions", rows)
        if by.length(directions).max(initial=0.0) > 1 + 1e-9:
            raise ValueError("a direction is longer than the budget allows")
    else:
        directions = np.zeros((rows, table.encoding.dimensions))
        if content.any("outputs") != outputs:
            raise ValueError(f"outputs must be {outputs}, got {said(content.any('outputs'))}")
    name, broadcast = content.any("model"), None
    if with_signal:
        seen, scaled = (None, None) if table is not None or not further else _seen(content, directions.shape[1])
        name, model = _model_from_json(content.any("model"), scaled if table is None else table.scaled)
        pull = content.number("pull", 0.0) if table is None else 0.0
        if 0 < pull < SMALLEST:
            raise ValueError(f"pull must be 0 or at least {SMALLEST:g}, got {pull!r}")
        broadcast = replace(_broadcast(content, model, directions.shape, outputs, pull), seen=seen, scaled=scaled)
    if further and content.get("retrained") is not None:
        name = content.text("retrained")
    told: dict[str, Any] = {
        "model": name,
        "norm": by,
        "budget": None if content.any("budget") is None else check_budget(content.number("budget", 0.0), "budget"),
        "goal": goal,
        "participants": choose("participants", content.any("participants"), PARTICIPANTS),
        "classes": classes,
        "directions": directions,
        "broadcast": broadcast,
        "outputs": outputs,
        "rule": _label_rule(content, rows) if version == RULE else None,
        "digits": None if content.get("digits") is None else content.whole("digits", 1, MOST_DIGITS),  # older cards
    }
    size = directions.shape[1] if table is None else len(table.columns)
    if table is None:
        return Card(**told, features=_features(content, size), usual=_usual(content, size))
    return TableCard(**told, features=table.encoding.names, usual=_usual(content, size), table=table)


def _features(content: Fields, size: int) -> tuple[str, ...] | None:
    if content.any("features") is None:
        return None
    features = tuple(content.texts("features"))
    if len(features) != size:
        raise ValueError(f"{len(features)} feature names for {size} features")
    if len(set(features)) != len(features):
        raise ValueError("a feature is named twice")
    return features


def _usual(content: Fields, size: int) -> tuple[tuple[float, float] | None, ...] | None:
    """Return the ranges in which most people are; a card of an earlier version has none."""
    if content.get("usual") is None:
        return None
    ranges = content.listed("usual")
    if len(ranges) != size:
        raise ValueError(f"usual must be [low, high], or null, for each of the {size} columns")
    for one in ranges:
        match one:
            case None:
                continue
            case [low, high] if is_number(low) and is_number(high) and low <= high:
                continue
        raise ValueError(f"usual must be [low, high], or null, for each of the columns, got {said(one)}")
    return tuple(one and (float(one[0]), float(one[1])) for one in ranges)


def _goal_from_json(goal: Any) -> Any:
    match goal:
        case {"wanted": str(text)}:
            return GoalText(text)
        case {"wanted": _}:
            raise ValueError("a goal in words must be text")
    return label_from_json(goal)


def _classes(content: Fields, goal: Any, with_signal: bool) -> tuple[tuple | None, int]:
    """Return the classes, or None and the number of values."""
    if with_signal and content.any("classes") is None:
        outputs = content.any("outputs")
        in_words = isinstance(goal, GoalText)
        values = goal if isinstance(goal, tuple) else (goal,)
        if type(outputs) is not int or outputs < 1 or not (in_words or len(values) == outputs):
            raise ValueError(f"outputs must be as many as the goal's values, got {said(outputs)} for {len(values)}")
        if not (in_words or all(map(is_number, values))):
            raise ValueError("a goal must be a number, or several, where values are predicted")
        return None, outputs
    classes = tuple(label_from_json(label) for label in content.listed("classes"))
    if not classes:
        raise ValueError("there must be classes")
    if len(set(classes)) != len(classes):
        raise ValueError("a class is named twice")
    if not isinstance(goal, GoalText) and goal not in classes:
        raise ValueError(f"goal {said(goal)} is not one of the classes")
    return classes, 0


def _broadcast(content: Fields, model: Differentiable, shape: tuple[int, ...], outputs: int, pull: float) -> Broadcast:
    """Return the signal for so many classes and features; sizes are compared before anything of that size is made."""
    if model.regresses != (outputs > 0):
        does = "predicts" if model.regresses else "does not predict"
        raise ValueError(f"{model.name} with these settings {does} values")
    classes, dimensions = shape
    width = outputs or model.target_rows(np.empty((0, classes))).shape[1]
    count = parameter_count(model, dimensions, width)
    if drawn_count(model, dimensions) > MOST_DRAWN:
        raise ValueError(f"an embedding must have at most {MOST_DRAWN:,} weights")
    # What goes by scalers does without θ there
    known = 0 if content.any("version") in (TABLE, FURTHER, RULE) and linear_in_features(model) else count
    sizes = f"{count:,} finite numbers each" if known else f"none and {count:,} finite numbers"
    try:
        parameters, signal = content.vector("parameters", known), content.vector("signal", count)
    except OARError as error:
        raise ValueError(f"parameters and signal must be {sizes}: {error}") from None
    return Broadcast(model, parameters, signal, pull)


def _table_to_json(terms: TableTerms) -> dict[str, Any]:
    return {
        "scaled": terms.scaled,
        "columns": [
            {
                "name": each.column.name,
                "kind": each.column.kind,
                "levels": [label_to_json(level) for level in each.column.levels],
                "movable": each.movable,
                "lower": _edge(each.lower),
                "upper": _edge(each.upper),
                **{name: getattr(each, name) for name in ("direction", "step", "cost")},
                "choices": list(each.choices),
                "pooled": each.pooled,
                "per_spread": each.per_spread or None,
                "missing": list(each.missing),
            }
            for each in terms.columns
        ],
        "links": [_link(link) for link in terms.links],
        "rules": [_rule(rule) for rule in terms.rules],
        "scaler": _scaler_to_json(terms.scaler),
    }


def _table_from_json(content: Fields) -> TableTerms:
    columns = tuple(_column(each) for each in content.each("columns"))
    if not columns:
        raise ValueError("there must be columns")
    schema = Schema(tuple(each.column for each in columns))
    rules = [each.text("text") for each in content.each("rules")]
    limits = Limits(links=_link_texts(list(content.each("links"))), rules=rules).check(schema)
    dimensions = sum(len(column.levels) if column.kind == "category" else 1 for column in schema)
    scaler, scaled = _seen(content, dimensions)
    terms = TableTerms(columns, limits.parsed, limits.ruled(schema), scaler, scaled)
    for name, ours in (("links", [_link(each) for each in terms.links]), ("rules", [_rule(e) for e in terms.rules])):
        if ours != content.any(name):
            raise ValueError(f"the {name} are not what their texts say")
    return terms


def _scaler_to_json(scaler: Scaler) -> dict[str, Any]:
    return {name: getattr(scaler, name).tolist() for name in VECTORS}


def _seen(content: Fields, dimensions: int) -> tuple[Scaler, str | None]:
    """Return how the model sees features, and whether its scaler is refitted or frozen, if there is one."""
    scaled = content.any("scaled")
    if scaled not in list(SCALED):
        choose("scaled", scaled, filter(None, SCALED))
    scaler = Scaler(*(content.inner("scaler").vector(name, dimensions) for name in VECTORS))
    if not (scaler.scales >= SMALLEST).all():
        raise ValueError(f"scales must be above 0 (and at least {SMALLEST:g})")
    return scaler, scaled


def _model_from_json(spec: Any, scaled: str | None) -> tuple[str, Differentiable]:
    """Return a card's name of the model, and the model behind the scaler; of nearest centroid a prototype network."""
    if spec == {"name": CENTROIDS}:
        if scaled:
            raise ValueError("nearest centroid has no scaler")
        return CENTROIDS, PrototypeNetwork()
    model = from_spec(spec)
    return f"{SCALED[scaled]}{model.name}", model


def _column(told: Fields) -> ColumnTerms:
    levels = tuple(label_from_json(level) for level in told.listed("levels"))
    column = Column(told.text("name"), told.text("kind"), levels)
    movable, choices = told.flag("movable"), tuple(told.listed("choices"))
    ends = (("lower", -math.inf), ("upper", math.inf), ("step", -1.0), ("cost", -1.0))
    lower, upper, step, cost = (told.perhaps(name, end) for name, end in ends)
    pooled = "pooled" in told and told.flag("pooled")  # these three are not on older cards
    per_spread = told.perhaps("per_spread", 0.0, SMALLEST) if "per_spread" in told else 0.0
    missing = tuple(told.vector("missing", len(told.listed("missing")))) if "missing" in told else ()
    direction = told.any("direction")
    countable = movable and column.kind not in ("boolean", "category")
    if per_spread and not countable:
        raise ValueError(f"per_spread of {column.name!r} must be null, got {per_spread!r}")
    if pooled and (column.kind != "category" or len(column.levels) - 1 in choices):
        raise ValueError(f"the pooled level of {column.name!r} must be that of a category, and is nobody's choice")
    if direction is not None:
        choose(f"{column.name} direction", direction, UP_OR_DOWN)
    if 0 != step < SMALLEST or not (cost >= SMALLEST if movable else cost == 0):
        raise ValueError(
            f"step and cost of {column.name!r} must be numbers of at least {SMALLEST:g}, or a step of 0, and what may "
            "move has a cost above 0"
        )
    if movable and column.whole and (step < 1 or step != math.floor(step)):
        raise ValueError(f"{column.name!r} has whole values, and its step must be whole, got {step}")
    if lower > upper:
        raise ValueError(f"the bounds of {column.name!r} contradict each other")
    _check_choices(column, movable, choices, lower, upper)
    return ColumnTerms(column, movable, lower, upper, direction, step, cost, choices, pooled, per_spread, missing)


def _check_choices(column: Column, movable: bool, choices: tuple, lower: float, upper: float) -> None:
    """Refuse levels that are not there, and bounds beyond the levels that are."""
    if column.kind == "category":
        if any(type(each) is not int or not 0 <= each < len(column.levels) for each in choices):
            raise ValueError(f"choices of {column.name!r} must be positions of its levels")
        return
    if choices:
        raise ValueError(f"choices are for categories, and {column.name!r} is none")
    most = {"boolean": 1.0, "ordinal": len(column.levels) - 1.0}.get(column.kind, math.inf)
    if movable and most < math.inf and (lower < 0 or upper > most):
        raise ValueError(f"{column.name!r} must have bounds from 0 to {most:g}")


def _link_texts(told: list[Fields]) -> list[str]:
    """Return the links' texts: one text can state several links, which follow each other."""
    texts, at = [], 0
    while at < len(told):
        texts.append(told[at].text("text"))
        at += len(parse_links(texts[-1]))
    return texts


def _link(link: Link) -> dict[str, Any]:
    told = link.expression
    return {"text": link.text, "values": told.values, "changes": told.changes, "constant": told.constant}


def _rule(rule: EncodedRule) -> dict[str, Any]:
    return {
        "text": rule.text,
        "columns": list(rule.names),
        "ways": [[_link(part) if isinstance(part, Link) else _part(part) for part in way] for way in rule.ways],
    }


def _part(part: Range) -> dict[str, Any]:
    return {
        "column": part.name,
        "low": _edge(part.low),
        "high": _edge(part.high),
        "open": part.open,
        "levels": None if part.levels is None else list(part.levels),
        "whole": part.whole,
    }


def _edge(bound: float) -> float | None:
    """Return a bound as JSON has it: null where it is infinite, and there is none."""
    return bound if math.isfinite(bound) else None


def label_to_json(label: Any) -> Any:
    """Return a label as JSON can hold it; raise a DataError for any other."""
    if isinstance(label, tuple):
        return {"tuple": [label_to_json(part) for part in label]}
    if isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label)):
        return label
    raise DataError(
        f"labels: a card can hold strings, numbers, booleans and tuples of them, got {label!r} of type "
        f"{type(label).__name__}; use such labels if you want to publish the plan."
    )


def label_from_json(label: Any) -> Any:
    """Return the label; raise a ValueError for what is none."""
    match label:
        case dict():
            return tuple(label_from_json(part) for part in Fields(label, "label").listed("tuple"))
        case list() | None:
            raise ValueError(f"a label cannot be {said(label)}")
    return label
