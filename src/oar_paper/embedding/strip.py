"""A member's move in pixels: decoded digits before and after, and their difference.

A move is a vector in the ten-dimensional embedding; the decoder turns the embedded digit, and the moved one, into
pictures. "Before" is therefore the autoencoder's own picture of the digit, not the scanned image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.datasets import mnist_decoder
from oar.models import NearestCentroid
from oar.people import Population
from oar.recourse import collective
from oar_paper.case import Case
from oar_paper.embedding.vae import decode
from oar_paper.figure2.shares import study_budget

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strip:
    """Some members of every digit, and the query.

    Attributes:
        budget: ε; loss_before, loss, prediction_before, prediction, success: the query's, audited.
        members: rows of the data set; digits: their labels; roles: "goal", "source" or "bystander".
        move_lengths: the norms of their moves.
        before, after: (m, 28, 28) grey levels in [0, 1], rounded to four decimals.
        mean_change: mean absolute change of a pixel, for each member.
        query_picture: (28, 28). The query does not move.
        probabilities_before, probabilities_after: (k,) of the query under the old and the refitted model.
    """

    budget: float
    loss_before: float
    loss: float
    prediction_before: int
    prediction: int
    success: bool
    members: NDArray[np.intp]
    digits: NDArray[np.int64]
    roles: list[str]
    move_lengths: Array
    before: Array
    after: Array
    mean_change: Array
    query_picture: Array
    probabilities_before: Array
    probabilities_after: Array


def picture_strip(case: Case, seed: int) -> Strip:
    """Solve the paper's pair at the study's budget, audit it, and decode some members drawn from the seed."""
    budget, decoder, model = study_budget(case), mnist_decoder(), NearestCentroid()
    problem = case.problem(budget)
    result = collective(problem)
    moves = np.asarray(result.plan.moves())
    features, labels = case.dataset.features, case.dataset.labels
    members = _chosen(case, seed)
    before = _pictures(decoder, features[members])
    after = _pictures(decoder, features[members] + moves[members])
    refitted = model.fit(Population(features + moves, labels))
    roles = {case.pair.goal: "goal", case.pair.source: "source"}
    return Strip(
        budget=budget,
        loss_before=result.loss_before,
        loss=result.loss,
        prediction_before=int(result.audit.prediction_before),
        prediction=int(result.prediction),
        success=result.success,
        members=members,
        digits=labels[members],
        roles=[roles.get(int(label), "bystander") for label in labels[members]],
        move_lengths=np.linalg.norm(moves[members], axis=1),
        before=before,
        after=after,
        mean_change=np.abs(after - before).mean(axis=(1, 2)),
        query_picture=_pictures(decoder, problem.query_features[None])[0],
        probabilities_before=model.probabilities(case.centroids, problem.query_features),
        probabilities_after=model.probabilities(refitted, problem.query_features),
    )


def _chosen(case: Case, seed: int) -> NDArray[np.intp]:
    """Return two members of the goal's class, two of the source's, and one of each other class."""
    generator = np.random.default_rng([seed, 3])
    goal, source = case.pair.goal, case.pair.source
    others = [code for code in range(len(case.people.classes)) if code not in (goal, source)]
    rows = [
        np.sort(generator.choice(np.flatnonzero(case.dataset.labels == code), count, replace=False))
        for code, count in [(goal, 2), (source, 2), *((code, 1) for code in others)]
    ]
    return np.concatenate(rows)


def _pictures(decoder: dict[str, NDArray[np.float32]], codes: Array) -> Array:
    return np.asarray(decode(decoder, codes), dtype=np.float64).round(4)
