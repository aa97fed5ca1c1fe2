"""Small problems whose labels may change or whose people may leave, for every model."""

import numpy as np

import oar
from oar.models import (
    MLP,
    Custom,
    GaussianNaiveBayes,
    LinearSVM,
    PrototypeNetwork,
    Ridge,
    Scaled,
    SoftmaxRegression,
)
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import OwnTraining
from oar.solvers.discrete.ground import EMPTY, RefittedGround


def _own_loss(weights, features, target):
    import jax

    return -target @ jax.nn.log_softmax(weights @ features)


def _own_penalty(weights):
    return 0.05 * (weights**2).sum()


CUSTOM = Custom(
    loss=_own_loss,
    init=lambda dimensions, outputs: np.zeros((outputs, dimensions)),
    outputs=lambda weights, features: weights @ features,
    penalty=_own_penalty,
    name="own",
    convex=True,
)
CLASSIFIERS = {
    "softmax": SoftmaxRegression(0.05),
    "svm": LinearSVM(0.05),
    "bayes": GaussianNaiveBayes(1e-2),
    "prototypes": PrototypeNetwork(),
    "custom": CUSTOM,
    "scaled": Scaled(SoftmaxRegression(0.05)),
    "frozen": Scaled(SoftmaxRegression(0.05), frozen=True),
    "scaled bayes": Scaled(GaussianNaiveBayes(1e-2)),
}
REGRESSORS = {"ridge": Ridge(0.05), "scaled ridge": Scaled(Ridge(0.05))}
NETWORK = MLP((3,), l2=0.05)


def people_of(seed, classes=2, size=16, values=False):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % classes
    features = rng.normal(0, 1.5, (classes, 2))[codes] + rng.normal(size=(size, 2))
    labels = features @ rng.normal(size=2) + rng.normal(size=size) if values else codes
    return features, labels, rng.random(size) + 0.3, rng.normal(size=2), int(rng.integers(classes))


def problem_of(seed, model, action, classes=2, size=16, weighted=True):
    regresses = getattr(model, "regresses", False)
    features, labels, weights, query, goal = people_of(seed, classes, size, regresses)
    asked = oar.Query(query, 3.0, within=0.1) if regresses else oar.Query(query, goal)
    return oar.Problem(oar.Population(features, labels, weights if weighted else None), model, asked, action)


def before_of(problem):
    """Return what people hand in as they are."""
    return Contribution.of(problem.people, problem.regresses)


def refitted_ground(problem):
    """Return a ground of true refits."""
    return RefittedGround(OwnTraining(problem, 1e-9, EMPTY), before_of(problem))
