"""Random cards of every family, and people who answer them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from oar.actions.limits.limit import Limits
from oar.actions.sets.norms import Norm
from oar.models import GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, SoftmaxRegression
from oar.models.serialize import parameter_count
from oar.people.tables.schema import Column, Schema
from oar.plans.cards.card import Broadcast, Card
from oar.plans.cards.table.card import TableCard
from oar.plans.cards.table.score import Scaler
from oar.plans.cards.table.terms import ColumnTerms, TableTerms

FAMILIES: dict[str, tuple[Any, int]] = {  # a model, and how many classes or values
    "nearest centroid": (None, 3),
    "softmax, 2 classes": (SoftmaxRegression(), 2),
    "softmax, 3 classes": (SoftmaxRegression(), 3),
    "ridge": (Ridge(), 1),
    "ridge, 2 values": (Ridge(), 2),
    "svm, 2 classes": (LinearSVM(), 2),
    "svm, 3 classes": (LinearSVM(penalise_intercept=True), 3),
    "gaussian": (GaussianNaiveBayes(smoothing=0.1), 3),
    "prototypes": (PrototypeNetwork(), 2),
}


def random_card(model: Any, width: int, size: int, norm: float = 2, seed: int = 0, **changes: Any) -> Card:
    """Draw a card: `width` classes or values, `size` features. Other fields as they are given."""
    rng, ball = np.random.default_rng(seed), Norm.of(norm)
    regresses = model is not None and model.regresses
    broadcast = None
    if model is not None:
        outputs = width if regresses else model.target_rows(np.eye(width)).shape[1]
        theta, signal = rng.normal(size=(2, parameter_count(model, size, outputs)))
        broadcast = Broadcast(model, theta, signal, 10 ** rng.uniform(-4, 0))
    value = 0.5 if width == 1 else (0.5,) * width
    card = Card(
        model="nearest-centroid" if model is None else model.name,
        norm=ball,
        budget=1.0,
        goal=value if regresses else "class 0",
        participants="everyone",
        classes=None if regresses else tuple(f"class {code}" for code in range(width)),
        features=tuple(f"feature {place}" for place in range(size)),
        directions=rng.uniform(0.2, 1) * ball.project(rng.normal(size=(1 if regresses else width, size)), 1.0),
        broadcast=broadcast,
        outputs=width if regresses else 0,
    )
    return dataclasses.replace(card, **changes)


def random_members(card: Card, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw features (n, d), class shares or values (n, k), and radii (n,), some of them 0 and some the whole budget."""
    rng = np.random.default_rng(seed)
    rows = 2 * rng.normal(size=(count, card.directions.shape[1]))
    if card.classes is None:
        targets = rng.normal(size=(count, card.outputs))
    else:
        targets = np.eye(len(card.classes))[rng.integers(0, len(card.classes), count)]
    return rows, targets, np.clip(rng.uniform(-0.05, 1.2, count), 0.0, 1.0)


COLUMNS = (
    Column("income", "number"),
    Column("savings", "number"),
    Column("loans", "integer"),
    Column("owns", "boolean"),
    Column("grade", "ordinal", ("low", "middle", "high", "top")),
    Column("purpose", "category", ("car", "education", "tools")),
    Column("town", "category", ("A", "B", "C", "D")),
    Column("age", "integer"),
)
LINKS = ("savings <= 2 * income", "change(income) + change(loans) <= 1")
RULES = (
    "if purpose == 'car' then income <= 1",
    "if grade >= 'high' then savings > 0",
    "if owns and town != 'A' then loans <= 2",
    "if town == 'B' then savings + income <= 3",
)


def random_table_card(
    model: Any,
    width: int,
    norm: float = 2,
    seed: int = 0,
    links: bool = False,
    rules: bool = False,
    scaled: bool = True,
) -> Card:
    """Draw a card of a table of all kinds of columns: steps, bounds, directions, costs, and one column that stays."""
    rng = np.random.default_rng(seed)
    own = PrototypeNetwork() if model is None else model
    regresses, size = own.regresses, 6 + 3 + 4
    outputs = width if regresses else own.target_rows(np.eye(width)).shape[1]
    theta, signal = rng.normal(size=(2, parameter_count(own, size, outputs)))
    theta = np.empty(0) if isinstance(own, PrototypeNetwork) else theta
    limits = Limits(links=list(LINKS) if links else [], rules=list(RULES) if rules else []).check(Schema(COLUMNS))
    scaler = Scaler.none(size)
    if scaled and model is not None:
        scaler = Scaler(rng.normal(size=size), rng.uniform(0.5, 2, size), *(0.1 * rng.normal(size=(2, size))))
    terms = TableTerms(
        tuple(_random_terms(column, rng) for column in COLUMNS),
        limits.parsed,
        limits.ruled(Schema(COLUMNS)),
        scaler,
        "refitted" if scaled and model is not None else None,
    )
    value = 0.5 if width == 1 else (0.5,) * width
    return TableCard(
        model="nearest-centroid" if model is None else model.name,
        norm=Norm.of(norm),
        budget=3.0,
        goal=value if regresses else "class 0",
        participants="everyone",
        classes=None if regresses else tuple(f"class {code}" for code in range(width)),
        features=None,
        directions=np.zeros((1 if regresses else width, size)),
        broadcast=Broadcast(own, theta, signal, 0.0),
        outputs=width if regresses else 0,
        table=terms,
    )


def _random_terms(column: Column, rng: np.random.Generator) -> ColumnTerms:
    if column.name == "age":
        return ColumnTerms(column, movable=False)
    cost = float(rng.uniform(0.3, 2))
    if column.kind == "category":
        return ColumnTerms(
            column, True, step=1.0, cost=cost, choices=tuple(range(len(column.levels) - rng.integers(2)))
        )
    if column.kind in ("boolean", "ordinal"):
        most = 1.0 if column.kind == "boolean" else len(column.levels) - 1.0
        return ColumnTerms(column, True, 0.0, most, step=1.0, cost=cost)
    lower, upper = (np.copysign(np.inf, edge) if rng.random() < 0.5 else float(edge) for edge in (-2, 3))
    step = float(rng.integers(1, 3)) if column.kind == "integer" else float(rng.choice([0.0, 0.0, 0.25]))
    missing = (1.0, 2.0) if column.name == "loans" else ()
    return ColumnTerms(column, True, lower, upper, rng.choice([None, None, "up", "down"]), step, cost, missing=missing)


def random_row(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a row of the table."""
    return {
        "income": round(float(rng.normal(0, 2)), 3),
        "savings": round(float(rng.normal(0, 2)), 3),
        "loans": int(rng.integers(0, 5)),
        "owns": bool(rng.integers(2)),
        "grade": str(rng.choice(COLUMNS[4].levels)),
        "purpose": str(rng.choice(COLUMNS[5].levels)),
        "town": str(rng.choice(COLUMNS[6].levels)),
        "age": int(rng.integers(18, 80)),
    }


def as_typed(row: dict[str, Any]) -> list[Any]:
    """Return a row as the page reads it: numbers, booleans, and positions of levels."""
    return [column.levels.index(row[column.name]) if column.levels else row[column.name] for column in COLUMNS]
