"""People of three classes, and people with values, who ask for more than one label."""

import numpy as np

import oar


def three_classes(size=60, seed=0):
    draw = np.random.default_rng(seed)
    labels = draw.choice(["a", "b", "c"], size)
    centres = {"a": [0.0, 0.0], "b": [2.0, 0.0], "c": [0.0, 2.0]}
    return oar.Population(np.array([centres[label] for label in labels]) + draw.normal(size=(size, 2)), labels)


def values(size=40, seed=1):
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(size, 3))
    return oar.Population(rows, rows @ [1.0, -2.0, 0.5] + 0.1 * draw.normal(size=size))


SOFTMAX = oar.SoftmaxRegression(l2=0.05)
