"""The card: a plan as it is published to members. A few kilobytes of JSON, and nobody's data.

    {"format": "oar-card", "version": 1, "model": "nearest-centroid", "norm": "2", "budget": 0.5,
     "goal": "yes", "participants": "everyone", "classes": ["no", "yes"], "features": null,
     "directions": [[…], […]], "oar": "0.1.0"}

Labels are JSON strings, numbers, booleans, or {"tuple": [...]}.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.norms import Norm
from oar.actions.perturb import check_budget
from oar.errors import DataError, OARError, StorageError, choose
from oar.files import replace_atomically
from oar.people.labels import plain
from oar.people.tables import as_vector, is_series
from oar.version import __version__

FORMAT, VERSION = "oar-card", 1
PARTICIPANTS = ("everyone", "selected")
MODELS = ("nearest-centroid",)


@dataclass(frozen=True, eq=False)
class Card:
    """What a member needs to compute its own move: its class's direction, and how far it may go.

    Attributes:
        model: the model family that the plan was made for.
        norm: the norm that bounds a move.
        budget: the common budget, or None where members have budgets of their own.
        goal: the prediction that the plan works towards.
        participants: "everyone", or "selected": then the plan was audited with chosen members moving and all
            others staying where they are, and only those who were asked should respond.
        classes: the labels, in the order of `directions`.
        features: column names, or None.
        directions: (k, d), each of norm at most 1; a zero row means "stay".
    """

    model: str
    norm: Norm
    budget: float | None
    goal: Any
    participants: str
    classes: tuple
    features: tuple[str, ...] | None
    directions: NDArray[np.float64]

    def respond(self, features: Any, label: Any, budget: float | None = None) -> Any:
        """Return the move of one member, in the units of its features.

        For members who take part; where `participants` is "selected" those are the ones who were asked.

        Args:
            features: the member's own (d,) features; a Series or a dict is matched by name.
            label: the member's own label.
            budget: how far this member is willing to go; None means the card's common budget.
        """
        as_vector(features, self.features, self.directions.shape[1], "features")
        matches = [position for position, known in enumerate(self.classes) if known == plain(label)]
        if not matches:
            raise DataError(f"label: must be one of the card's classes {list(self.classes)}, got {label!r}.")
        if budget is None:
            if self.budget is None:
                raise DataError("budget: this card has no common budget, so give your own, got none.")
            budget = self.budget
        budget = check_budget(budget, "budget")
        if self.budget is not None and budget > self.budget:
            raise DataError(
                f"budget: must be at most the plan's own {self.budget:g}, got {budget:g}; "
                "going farther than planned can miss the goal."
            )
        move = budget * self.directions[matches[0]]
        if self.features is not None and is_series(features):
            import pandas

            return pandas.Series(move, index=list(self.features))
        return move

    def save(self, path: str | Path) -> None:
        """Write the card as JSON; the file is replaced whole or not at all."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "oar": __version__,
            "model": self.model,
            "norm": f"{self.norm.p:g}",
            "budget": self.budget,
            "goal": _label_to_json(self.goal),
            "participants": self.participants,
            "classes": [_label_to_json(label) for label in self.classes],
            "features": None if self.features is None else [str(name) for name in self.features],
            "directions": self.directions.tolist(),
        }
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        with replace_atomically(Path(path)) as file:
            file.write(text.encode())

    @staticmethod
    def load(path: str | Path) -> Card:
        """Read a card; a damaged, foreign or newer file raises and says so."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StorageError(f"card: cannot read {path}: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise StorageError(f"card: {path} is damaged or truncated ({error}); ask for a fresh copy.") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise StorageError(f"card: {path} is not an OAR card.")
        if content.get("version") != VERSION:
            raise StorageError(
                f"card: {path} has version {content.get('version')!r}, and this oar ({__version__}) reads version "
                f"{VERSION}; install the oar that wrote it ({content.get('oar')})."
            )
        try:
            return _from_json(content)
        except (KeyError, TypeError, ValueError, RecursionError, OARError) as error:
            raise StorageError(f"card: {path} is damaged ({error}); ask for a fresh copy.") from None


def _from_json(content: dict) -> Card:
    classes = tuple(_label_from_json(label) for label in content["classes"])
    goal = _label_from_json(content["goal"])
    features = content["features"]
    directions = np.asarray(content["directions"], dtype=np.float64)
    norm = Norm.of(float(content["norm"]))
    if content["model"] not in MODELS:
        raise ValueError(f"model {content['model']!r} is not known; this oar knows {', '.join(MODELS)}")
    if len(set(classes)) != len(classes):
        raise ValueError("a class is named twice")
    if features is not None:
        if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
            raise ValueError("feature names must be a list of texts")
        if len(set(features)) != len(features):
            raise ValueError("a feature is named twice")
    if directions.ndim != 2 or len(directions) != len(classes) or not np.isfinite(directions).all():
        raise ValueError(f"directions must be {len(classes)} rows of finite numbers")
    if features is not None and len(features) != directions.shape[1]:
        raise ValueError(f"{len(features)} feature names for {directions.shape[1]} features")
    if goal not in classes:
        raise ValueError(f"goal {goal!r} is not one of the classes")
    if norm.length(directions).max() > 1 + 1e-9:
        raise ValueError("a direction is longer than the budget allows")
    return Card(
        model=str(content["model"]),
        norm=norm,
        budget=None if content["budget"] is None else check_budget(content["budget"], "budget"),
        goal=goal,
        participants=choose("participants", content["participants"], PARTICIPANTS),
        classes=classes,
        features=None if features is None else tuple(features),
        directions=directions,
    )


def _label_to_json(label: Any) -> Any:
    if isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label)):
        return label
    if isinstance(label, tuple):
        return {"tuple": [_label_to_json(part) for part in label]}
    raise DataError(
        f"labels: a card can hold strings, numbers, booleans and tuples of them, got {label!r} of type "
        f"{type(label).__name__}; use such labels if you want to publish the plan."
    )


def _label_from_json(label: Any) -> Any:
    if isinstance(label, dict):
        return tuple(_label_from_json(part) for part in label["tuple"])
    if isinstance(label, list) or label is None:
        raise ValueError(f"a label cannot be {label!r}")
    return label
