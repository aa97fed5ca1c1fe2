"""Random cards of every family, and people who answer them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from oar.actions.norms import Norm
from oar.models import GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, SoftmaxRegression
from oar.models.spec import parameter_count
from oar.plans.card import Broadcast, Card

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
