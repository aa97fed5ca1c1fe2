"""The paper's heuristic, for softmax regression: python run_paper.py FOLDER.

Creager and Zemel (2021) move every subject once, by its whole budget, against the normalised gradient of the query's
loss. For softmax regression that gradient goes through the refit (`by_hand`); nothing is refitted afterwards.
"""

from __future__ import annotations

import sys

import numpy as np
from by_hand import Few, implicit_gradient
from moving import Task
from threadpoolctl import threadpool_limits


def main(folder):
    task = Task(folder, "numpy")
    stay = np.zeros_like(task.features)

    def counted(passes):
        task.passes += passes

    def probe(threads):
        with threadpool_limits(threads, "blas"):
            Few(task).evaluate(task.classes)

    with threadpool_limits(task.fastest((None, 1), probe), "blas"):
        _, _, gradient = implicit_gradient(task, stay, np.zeros((task.classes, stay.shape[1] + 1)), counted)
    norms = np.linalg.norm(gradient, axis=1, keepdims=True)
    moves = -task.budget * np.divide(gradient, norms, out=np.zeros_like(gradient), where=norms > 0)
    task.finish(moves, "one step is all it takes")


if __name__ == "__main__":
    main(*sys.argv[1:])
