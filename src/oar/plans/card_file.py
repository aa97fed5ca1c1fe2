"""Cards as JSON, in kilobytes. Version 1 holds directions, version 2 a signal besides, version 3 a table's terms.

    {"format": "oar-card", "version": 1, "model": "nearest-centroid", "norm": "2", "budget": 0.5,
     "goal": "yes", "participants": "everyone", "classes": ["no", "yes"], "features": null,
     "directions": [[…], […]], "oar": "0.1.0"}

    {…, "version": 2, "model": {"name": "softmax-regression", "l2": 0.01}, "outputs": 0, "pull": 0.08,
     "parameters": […], "signal": […]}

Labels are JSON strings, numbers, booleans, or {"tuple": [...]}. Where values are predicted `classes` is null, `outputs`
says how many, and `goal` is a number or such a tuple. `table_card_file` says what version 3 is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from oar.actions.norms import Norm
from oar.actions.perturb import check_budget
from oar.errors import OARError, StorageError, choose
from oar.files import replace_atomically
from oar.models import Differentiable
from oar.models.spec import from_spec, parameter_count, to_spec
from oar.plans.card import Array, Broadcast, Card
from oar.plans.labels_file import label_from_json, label_to_json
from oar.plans.table_card_file import model_from_json, model_to_json, table_from_json, table_to_json
from oar.plans.table_score import linear_in_features
from oar.version import __version__

FORMAT, DIRECTIONS, SIGNAL, TABLE = "oar-card", 1, 2, 3
PARTICIPANTS = ("everyone", "selected")
MODELS = ("nearest-centroid",)


def write(card: Card, path: Path) -> None:
    """Write the card as JSON; the file is replaced whole or not at all."""
    text = json.dumps(as_json(card), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    with replace_atomically(path) as file:
        file.write(text.encode())


def as_json(card: Card) -> dict[str, Any]:
    """Return what is written: made of dicts, lists, strings, numbers, booleans and None only."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": DIRECTIONS,
        "oar": __version__,
        "model": card.model,
        "norm": f"{card.norm.p:g}",
        "budget": card.budget,
        "goal": label_to_json(card.goal),
        "participants": card.participants,
        "classes": None if card.classes is None else [label_to_json(label) for label in card.classes],
        "features": None if card.features is None else [str(name) for name in card.features],
        "directions": card.directions.tolist(),
    }
    if card.broadcast is not None:
        content |= {
            "version": SIGNAL,
            "model": to_spec(card.broadcast.model),
            "outputs": card.outputs,
            "pull": card.broadcast.pull,
            "parameters": card.broadcast.parameters.tolist(),
            "signal": card.broadcast.signal.tolist(),
        }
    if card.table is not None:
        assert card.broadcast is not None
        content |= {"version": TABLE, "model": model_to_json(card.model, card.broadcast.model)}
        content |= table_to_json(card.table)
        for idle in ("features", "directions", "pull"):  # these follow from the columns, or are nothing
            del content[idle]
    return content


def read(path: Path) -> Card:
    """Read a card; a damaged, foreign or newer file raises and says so."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"card: cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"card: {path} is damaged or truncated ({error}); ask for a fresh copy.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StorageError(f"card: {path} is not an OAR card.")
    if content.get("version") not in (DIRECTIONS, SIGNAL, TABLE):
        raise StorageError(
            f"card: {path} has version {content.get('version')!r}, and this oar ({__version__}) reads versions "
            f"{DIRECTIONS} to {TABLE}; install the oar that wrote it ({content.get('oar')})."
        )
    try:
        return (_table_card if content["version"] == TABLE else _from_json)(content)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, OARError) as error:
        raise StorageError(f"card: {path} is damaged ({error}); ask for a fresh copy.") from None


def _from_json(content: dict) -> Card:
    with_signal = content["version"] == SIGNAL
    goal = label_from_json(content["goal"])
    directions = np.asarray(content["directions"], dtype=np.float64)
    norm = Norm.of(float(content["norm"]))
    if not with_signal and content["model"] not in MODELS:
        raise ValueError(f"model {content['model']!r} is not known; this oar knows {', '.join(MODELS)}")
    classes, outputs = _classes(content, goal, with_signal)
    rows = 1 if classes is None else len(classes)
    features = _features(content["features"])
    if directions.ndim != 2 or len(directions) != rows or not np.isfinite(directions).all():
        raise ValueError(f"directions must be {rows} rows of finite numbers")
    if features is not None and len(features) != directions.shape[1]:
        raise ValueError(f"{len(features)} feature names for {directions.shape[1]} features")
    if norm.length(directions).max() > 1 + 1e-9:
        raise ValueError("a direction is longer than the budget allows")
    broadcast = _broadcast(content, from_spec(content["model"]), directions, outputs) if with_signal else None
    return Card(
        model=content["model"] if broadcast is None else broadcast.model.name,
        norm=norm,
        budget=None if content["budget"] is None else check_budget(content["budget"], "budget"),
        goal=goal,
        participants=choose("participants", content["participants"], PARTICIPANTS),
        classes=classes,
        features=features,
        directions=directions,
        broadcast=broadcast,
        outputs=outputs,
    )


def _table_card(content: dict) -> Card:
    goal = label_from_json(content["goal"])
    table = table_from_json(content)
    name, model = model_from_json(content["model"], table.scaled)
    classes, outputs = _classes(content, goal, with_signal=True)
    if content["outputs"] != outputs:
        raise ValueError(f"outputs must be {outputs}, got {content['outputs']!r}")
    directions = np.zeros((1 if classes is None else len(classes), table.encoding.dimensions))
    return Card(
        model=name,
        norm=Norm.of(float(content["norm"])),
        budget=None if content["budget"] is None else check_budget(content["budget"], "budget"),
        goal=goal,
        participants=choose("participants", content["participants"], PARTICIPANTS),
        classes=classes,
        features=table.encoding.names,
        directions=directions,
        broadcast=_broadcast(content | {"pull": 0.0}, model, directions, outputs),
        outputs=outputs,
        table=table,
    )


def _classes(content: dict, goal: Any, with_signal: bool) -> tuple[tuple | None, int]:
    """Return the classes, or None and the number of values."""
    if with_signal and content["classes"] is None:
        outputs = content["outputs"]
        size = len(goal) if isinstance(goal, tuple) else 1
        if type(outputs) is not int or outputs < 1 or size != outputs:
            raise ValueError(f"outputs must be as many as the goal's values, got {outputs!r} for {size}")
        return None, outputs
    classes = tuple(label_from_json(label) for label in content["classes"])
    if len(set(classes)) != len(classes):
        raise ValueError("a class is named twice")
    if goal not in classes:
        raise ValueError(f"goal {goal!r} is not one of the classes")
    return classes, 0


def _features(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature names must be a list of texts")
    if len(set(names)) != len(names):
        raise ValueError("a feature is named twice")
    return tuple(names)


def _broadcast(content: dict, model: Differentiable, directions: Array, outputs: int) -> Broadcast:
    if model.regresses != (outputs > 0):
        raise ValueError(
            f"{model.name} with these settings {'predicts' if model.regresses else 'does not predict'} values"
        )
    width = outputs or model.target_rows(np.eye(len(directions))).shape[1]
    count = parameter_count(model, directions.shape[1], width)
    parameters, signal = (np.asarray(content[name], dtype=np.float64) for name in ("parameters", "signal"))
    known = 0 if content["version"] == TABLE and linear_in_features(model) else count  # scores do without θ there
    for vector, size in ((parameters, known), (signal, count)):
        if vector.shape != (size,) or not np.isfinite(vector).all():
            sizes = f"{count} finite numbers each" if known else f"none and {count} finite numbers"
            raise ValueError(f"parameters and signal must be {sizes}")
    return Broadcast(model, parameters, signal, check_budget(content["pull"], "pull"))
