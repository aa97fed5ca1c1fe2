"""Gradient matching with the Adversarial Robustness Toolbox: python run_art.py FOLDER, in an environment of its own.

Witches' Brew (Geiping et al., 2020) as ART has it moves members of the goal's class only, within a box, so that their
training gradient points like the query's; nothing is refitted and no loss of a refit is looked at. It is given all of
that class, in one batch (which is what its paper matches), and one trial of its 250 epochs. The ball of our problem
is not a box, so the box that holds the ball is searched and its corners are drawn back onto the ball, which
leaves it more room than the box within the ball. ART works in float32.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from art.attacks.poisoning import GradientMatchingAttack
from art.estimators.classification import PyTorchClassifier
from moving import Task


class TimeIsOver(Exception):
    """Raised between epochs, because the attack has no clock."""


class Watched(GradientMatchingAttack):
    """The attack, with somebody who looks at it after every epoch."""

    def __init__(self, *given, after_epoch, **settings):
        """Keep whom to tell."""
        super().__init__(*given, **settings)
        self.after_epoch = after_epoch

    def _initialize_poison(self, *given):
        super()._initialize_poison(*given)
        schedule, own_step = self.lr_schedule, self.lr_schedule.step

        def step():
            own_step()
            weights = self.backdoor_model.noise_embedding.embedding_layer.weight
            self.after_epoch(lambda: torch.tanh(weights.detach()).numpy() * self.epsilon)

        schedule.step = step


def main(folder):
    task = Task(folder, "torch", "adversarial-robustness-toolbox")
    (size, width), members = task.features.shape, np.flatnonzero(task.labels == task.goal)
    torch.manual_seed(0)

    def whole(part):
        """Return everyone's moves from those of the goal's class, drawn onto the ball in float64."""
        moves = np.zeros((size, width))
        moves[members[order]] = part
        return moves / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True) / task.budget, 1.0)

    def after_epoch(part):
        nonlocal latest
        latest = part
        task.passes += 3 * len(members) / size  # forward, its gradient, and back through both; of these rows only
        task.record(lambda: whole(part()))
        if task.over:
            raise TimeIsOver

    model = trained(task)
    classifier = PyTorchClassifier(model, torch.nn.CrossEntropyLoss(), (width,), task.classes)
    attack = Watched(
        classifier,
        percent_poison=1.0,
        epsilon=task.budget,
        max_trials=1,
        batch_size=len(members),
        clip_values=(-np.inf, np.inf),  # features are no pixels
        verbose=0,
        after_epoch=after_epoch,
    )
    # The attack takes members in an order that it draws from NumPy's global generator; so it is drawn twice.
    np.random.seed(0)  # noqa: NPY002
    order = np.random.permutation(len(members))  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    latest, ended = (lambda: np.zeros((len(members), width))), "all epochs done"
    rows = task.features.astype(np.float32)
    try:
        attack.poison(rows_of(task.query), np.array([task.goal]), rows[members], task.labels[members])
    except TimeIsOver:
        ended = ""
    task.finish(whole(latest()), ended)


def rows_of(query):
    """Return the query as a table of one row."""
    return query.astype(np.float32)[None]


def trained(task):
    """Return the operator's model before anyone moves, fitted tightly by L-BFGS, in float32 as ART wants it."""
    model = torch.nn.Linear(task.features.shape[1], task.classes)
    features, labels = torch.from_numpy(task.features).double(), torch.from_numpy(task.labels)
    model.double()
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=500, tolerance_grad=1e-7, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        task.passes += 1
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        loss = loss + 0.5 * task.l2 * model.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return model.float()


if __name__ == "__main__":
    main(*sys.argv[1:])
