"""The outer loop of the contenders that bring a gradient through training, but no constraints: one for all of them."""

from __future__ import annotations

import numpy as np
from moving import Patience

MOST_STEPS = 500


def descend(task, evaluate, step, stay, as_array=np.asarray):
    """Normalised projected gradient until nothing is gained or the time is over; keep the best moves.

    Step t is 2ε/(t + 2) long for everybody, the textbook's rule for Frank–Wolfe: the first is a full response, and the
    sum of all has no bound. Moves that were not refitted are never an answer: a step counts once the next evaluation
    has judged it.

    Args:
        task: what is asked.
        evaluate: from moves to their loss after a refit, and its gradient.
        step: from moves, gradient and length to the next moves.
        stay: no moves.
        as_array: from moves to an array of NumPy.
    """
    moves, best, least, patience, ended = stay, stay, np.inf, Patience(), "all steps taken"
    for number in range(MOST_STEPS):
        loss, gradient = evaluate(moves)
        loss = float(loss)
        if loss < least:
            best, least = moves, loss
            task.record(lambda found=best: as_array(found))
        if patience.lost(loss):
            ended = "nothing gained over ten steps"
            break
        if task.over:
            ended = ""
            break
        moves = step(moves, gradient, 2.0 * task.budget / (number + 2))
    task.finish(as_array(best), ended, claimed=least, steps=number)
