"""The part of a card's JSON, from version 3 on, that is about a table: written and read; plain numbers and lists alone.

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
last level stands for all that are not named. `score` says what
`parameters` and `signal` are, `table_terms.ColumnTerms` what a column's fields are; `cost` is of one unit of the
coordinate, or of a switch, rounded up where it is `per_spread` by everyone's standard deviation.

A link is kept where Σ values·after + Σ changes·(after − before) + constant is at most 0, or at most what it was before
any move. A rule is kept where none of its columns has changed, or where some way holds: all of its parts do. A part is
a link (at most 0), or a column's value between `low` and `high` (null is no edge; the edges do not belong to it if
`open`), or the position of its level among `levels`. `text` is what Python goes by; whatever else is said must agree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.limits.limit import DIRECTIONS, Limits
from oar.actions.limits.links import Link, parse_links
from oar.actions.limits.rules import EncodedRule, Range
from oar.checks import choose
from oar.errors import DataError
from oar.models import Differentiable
from oar.models.centroid.prototypes import PrototypeNetwork
from oar.models.serialize import from_spec, to_spec
from oar.opening import Fields
from oar.opening.fields import SMALLEST, said
from oar.people.tables.schema import Column, Schema
from oar.plans.cards.table.score import Scaler
from oar.plans.cards.table.terms import ColumnTerms, TableTerms

Array = NDArray[np.float64]
CENTROIDS = "nearest-centroid"
MODELS = {None: "", "refitted": "scaled ", "frozen": "frozen-scaled "}  # how they are called, by their scaler
VECTORS = ("centres", "scales", "shift", "spread")


def table_to_json(terms: TableTerms) -> dict[str, Any]:
    """Return what a card says of its table."""
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
                "direction": each.direction,
                "step": each.step,
                "cost": each.cost,
                "choices": list(each.choices),
                "pooled": each.pooled,
                "per_spread": each.per_spread or None,
                "missing": list(each.missing),
            }
            for each in terms.columns
        ],
        "links": [_link(link) for link in terms.links],
        "rules": [_rule(rule) for rule in terms.rules],
        "scaler": {name: getattr(terms.scaler, name).tolist() for name in VECTORS},
    }


def table_from_json(content: Fields) -> TableTerms:
    """Return what a card says of its table; raises for anything that cannot be."""
    columns = tuple(_column(each) for each in content.each("columns"))
    if not columns:
        raise ValueError("there must be columns")
    schema = Schema(tuple(each.column for each in columns))
    rules = [each.text("text") for each in content.each("rules")]
    limits = Limits(links=_link_texts(list(content.each("links"))), rules=rules).check(schema)
    scaled = content.any("scaled")
    if scaled not in list(MODELS):
        choose("scaled", scaled, filter(None, MODELS))
    dimensions = sum(len(column.levels) if column.kind == "category" else 1 for column in schema)
    scaler = Scaler(*(content.inner("scaler").vector(name, dimensions) for name in VECTORS))
    if not (scaler.scales >= SMALLEST).all():
        raise ValueError(f"scales must be above 0 (and at least {SMALLEST:g})")
    terms = TableTerms(columns, limits.parsed, limits.ruled(schema), scaler, scaled)
    for name, ours in (("links", [_link(each) for each in terms.links]), ("rules", [_rule(e) for e in terms.rules])):
        if ours != content.any(name):
            raise ValueError(f"the {name} are not what their texts say")
    return terms


def model_to_json(name: str, model: Differentiable) -> dict[str, Any]:
    """Return a model's name and settings; nearest centroid on a table is a prototype network of that name."""
    return {"name": name} if name == CENTROIDS else to_spec(model)


def model_from_json(spec: Any, scaled: str | None) -> tuple[str, Differentiable]:
    """Return a card's name of the model, and the model behind the scaler."""
    if spec == {"name": CENTROIDS}:
        if scaled:
            raise ValueError("nearest centroid has no scaler")
        return CENTROIDS, PrototypeNetwork()
    model = from_spec(spec)
    return f"{MODELS[scaled]}{model.name}", model


def _column(said: Fields) -> ColumnTerms:
    levels = tuple(label_from_json(level) for level in said.listed("levels"))
    column = Column(said.text("name"), said.text("kind"), levels)
    movable, choices = said.flag("movable"), tuple(said.listed("choices"))
    ends = (("lower", -math.inf), ("upper", math.inf), ("step", -1.0), ("cost", -1.0))
    lower, upper, step, cost = (said.perhaps(name, end) for name, end in ends)
    pooled = "pooled" in said and said.flag("pooled")  # these three are not on older cards
    per_spread = said.perhaps("per_spread", 0.0, SMALLEST) if "per_spread" in said else 0.0
    missing = tuple(said.vector("missing", len(said.listed("missing")))) if "missing" in said else ()
    direction = said.any("direction")
    countable = movable and column.kind not in ("boolean", "category")
    if per_spread and not countable:
        raise ValueError(f"per_spread of {column.name!r} must be null, got {per_spread!r}")
    if pooled and (column.kind != "category" or len(column.levels) - 1 in choices):
        raise ValueError(f"the pooled level of {column.name!r} must be that of a category, and is nobody's choice")
    if direction is not None:
        choose(f"{column.name} direction", direction, DIRECTIONS)
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


def _link_texts(said: list[Fields]) -> list[str]:
    """Return the links' texts: one text can state several links, which follow each other."""
    texts, at = [], 0
    while at < len(said):
        texts.append(said[at].text("text"))
        at += len(parse_links(texts[-1]))
    return texts


def _link(link: Link) -> dict[str, Any]:
    said = link.expression
    return {"text": link.text, "values": said.values, "changes": said.changes, "constant": said.constant}


def _rule(rule: EncodedRule) -> dict[str, Any]:
    return {
        "text": rule.text,
        "columns": list(rule.names),
        "ways": [[_link(part) if isinstance(part, Link) else _range(part) for part in way] for way in rule.ways],
    }


def _range(part: Range) -> dict[str, Any]:
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
