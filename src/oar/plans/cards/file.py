"""Cards as JSON, in kilobytes. Version 1 holds directions, version 2 a signal besides, version 3 a table's terms.

    {"format": "oar-card", "version": 1, "model": "nearest-centroid", "norm": "2", "budget": 0.5,
     "goal": "yes", "participants": "everyone", "classes": ["no", "yes"], "features": null,
     "directions": [[…], […]], "digits": 2, "oar": "0.1.0"}

    {…, "version": 2, "model": {"name": "softmax-regression", "l2": 0.01}, "outputs": 0, "pull": 0.08,
     "parameters": […], "signal": […]}

Labels are JSON strings, numbers, booleans, or {"tuple": [...]}. Where values are predicted `classes` is null, `outputs`
says how many, and `goal` is a number or such a tuple. A goal of another kind is in words,
{"wanted": "…"}. `usual` is null, or for each feature (or column) null or a range in which most people are, [0, 30000].
`file` says what version 3 is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import check_budget
from oar.actions.sets.norms import Norm
from oar.checks import choose
from oar.errors import DataError, OARError, StorageError
from oar.files import write_text
from oar.goals import GoalText
from oar.models import Differentiable
from oar.models.serialize import drawn_count, parameter_count
from oar.opening import Fields, read_json
from oar.opening.documents import DEEP
from oar.opening.fields import SMALLEST, is_number, said
from oar.plans.cards.card import Broadcast, Card
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.file import (
    label_from_json,
    label_to_json,
    model_from_json,
    model_to_json,
    table_from_json,
    table_to_json,
)
from oar.plans.cards.table.score import linear_in_features
from oar.plans.cards.table.terms import TableTerms
from oar.version import __version__

FORMAT, DIRECTIONS, SIGNAL, TABLE = "oar-card", 1, 2, 3
MOST_DRAWN = 10_000_000  # weights that a card may have everybody draw from a seed
MOST_DIGITS = 20
MOST_SAID = 300  # characters of what is wrong
PARTICIPANTS = ("everyone", "selected")
VALUES = (None,)  # whom a direction is for where values are predicted: everybody
MODELS = ("nearest-centroid",)


def write(card: Card, path: Path) -> None:
    """Write the card as JSON; the file is replaced whole or not at all."""
    write_text(path, json.dumps(as_json(card), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def as_json(card: Card) -> dict[str, Any]:
    """Return what is written: made of dicts, lists, strings, numbers, booleans and None only."""
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
    if card.broadcast is not None:
        if drawn_count(card.broadcast.model, card.directions.shape[1]) > MOST_DRAWN:
            raise DataError(
                f"model: an embedding on a card must have at most {MOST_DRAWN:,} weights, which every member draws "
                "from its seed; give smaller widths, or hand members their rows of plan.moves()."
            )
        content |= {
            "version": SIGNAL,
            "model": model_to_json(card.model, card.broadcast.model),
            "outputs": card.outputs,
            "pull": card.broadcast.pull,
            "parameters": card.broadcast.parameters.tolist(),
            "signal": card.broadcast.signal.tolist(),
        }
    if isinstance(card, TableCard):
        content |= {"version": TABLE, **table_to_json(card.table)}
        for idle in ("features", "directions", "pull"):  # these follow from the columns, or are nothing
            del content[idle]
    return content


def read(path: Path) -> Card:
    """Read a card; a damaged, foreign or newer file raises and says so."""
    content = read_json(path, "card")
    if not (isinstance(content, dict) and content.get("format") == FORMAT):
        raise StorageError(f"card: {path} is not an OAR card.")
    if content.get("version") not in (DIRECTIONS, SIGNAL, TABLE):
        raise StorageError(
            f"card: {path} has version {said(content.get('version'))}, and this oar ({__version__}) reads versions "
            f"{DIRECTIONS} to {TABLE}; install the oar that wrote it ({said(content.get('oar'))})."
        )
    try:
        return _from_json(Fields(content))
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError, OARError) as error:
        reason = DEEP if isinstance(error, RecursionError) else str(error)
        reason = reason if len(reason) <= MOST_SAID else f"{reason[:MOST_SAID]}…"
        raise StorageError(f"card: {path} is damaged ({reason}); ask for a fresh copy.") from None


def _from_json(content: Fields) -> Card:
    version, goal, norm = content.any("version"), _goal_from_json(content.any("goal")), content.text("norm")
    by, with_signal = Norm.of(float(norm) if norm in ("1", "2") else norm), version != DIRECTIONS
    table = table_from_json(content) if version == TABLE else None
    if not with_signal and content.any("model") not in MODELS:
        raise ValueError(f"model {said(content.any('model'))} is not known; this oar knows {', '.join(MODELS)}")
    classes, outputs = _classes(content, goal, with_signal)
    directions = _directions(content, by, table, len(classes or VALUES))
    if table is not None and content.any("outputs") != outputs:
        raise ValueError(f"outputs must be {outputs}, got {said(content.any('outputs'))}")
    name, broadcast = content.any("model"), None
    if with_signal:
        name, model = model_from_json(content.any("model"), None if table is None else table.scaled)
        pull = content.number("pull", 0.0) if table is None else 0.0
        if 0 < pull < SMALLEST:
            raise ValueError(f"pull must be 0 or at least {SMALLEST:g}, got {pull!r}")
        broadcast = _broadcast(content, model, directions.shape, outputs, pull)
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
        "digits": None if content.get("digits") is None else content.whole("digits", 1, MOST_DIGITS),  # older cards
    }
    size = directions.shape[1] if table is None else len(table.columns)
    if table is None:
        return Card(**told, features=_features(content, size), usual=_usual(content, size))
    return TableCard(**told, features=table.encoding.names, usual=_usual(content, size), table=table)


def _directions(content: Fields, norm: Norm, table: TableTerms | None, rows: int) -> NDArray[np.float64]:
    if table is not None:
        return np.zeros((rows, table.encoding.dimensions))
    directions = content.rows("directions", rows)
    if norm.length(directions).max(initial=0.0) > 1 + 1e-9:
        raise ValueError("a direction is longer than the budget allows")
    return directions


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
    known = 0 if content.any("version") == TABLE and linear_in_features(model) else count  # scores do without θ there
    sizes = f"{count:,} finite numbers each" if known else f"none and {count:,} finite numbers"
    try:
        parameters, signal = content.vector("parameters", known), content.vector("signal", count)
    except OARError as error:
        raise ValueError(f"parameters and signal must be {sizes}: {error}") from None
    return Broadcast(model, parameters, signal, pull)
