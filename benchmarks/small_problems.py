"""Small random problems, solved by `oar` and by a slow solver that shares nothing with it: is OAR's answer as good?

    python -m benchmarks.small_problems --first 0 --count 40 --model softmax

Goal losses have several local minima, so no solver can be sure of the least one. The independent solver takes its time:
an implicit gradient written by hand, a non-monotone spectral projected gradient (Birgin, Martínez and Raydan 2000, with
the line search of Grippo, Lampariello and Lucidi 1986), and some fourteen starts. Both answers are judged by a tight
refit on the moved data: scikit-learn's, and for the support vector machine the one below, checked against LinearSVC.
Every problem where OAR is worse gets a line; the last line counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import oar

Array = NDArray[np.float64]
Terms = tuple[Array, Array, Array]
SAME = 1e-6  # losses that differ by a smaller share are equal;
FLOOR = 1e-3  # the share is of the loss, or of this much of the loss before anybody moved: a loss can be 0
TIGHT = 1e-11  # norm of a refitted model's gradient
LOOSEST = 1e-4  # by which LinearSVC's outputs may differ: it cannot leave the intercept wholly without a penalty
MEMORY, STEPS = 8, 250  # of the spectral projected gradient
SUFFICIENT = 1e-4  # share of the decrease that the slope promises, for line searches


def softmax_terms(outputs: Array, targets: Array) -> Terms:
    """Return cross-entropies (n,), their slopes p − y (n, o) and curvatures diag p − p pᵀ (n, o, o).

    A single output is the second class's logit, measured against 0.
    """
    single = outputs.shape[1] == 1
    logits = np.column_stack([np.zeros(len(outputs)), outputs]) if single else outputs
    total = logsumexp(logits, axis=1)
    shares = np.exp(outputs - total[:, None])
    curvatures = np.eye(outputs.shape[1]) * shares[:, None, :] - shares[:, :, None] * shares[:, None, :]
    return total - (targets * outputs).sum(axis=1), shares - targets, curvatures


def hinge_terms(outputs: Array, targets: Array) -> Terms:
    """Return the same for Σ max(0, 1 − t z)² with t = 2y − 1."""
    signs = 2 * targets - 1
    short = np.maximum(1 - signs * outputs, 0.0)
    return (short**2).sum(axis=1), -2 * signs * short, np.eye(outputs.shape[1]) * 2.0 * (short > 0)[:, None, :]


def square_terms(outputs: Array, targets: Array) -> Terms:
    """Return the same for ½‖z − y‖²."""
    missed, width = outputs - targets, outputs.shape[1]
    return 0.5 * (missed**2).sum(axis=1), missed, np.broadcast_to(np.eye(width), (len(outputs), width, width))


TERMS = {"softmax": softmax_terms, "svm": hinge_terms, "ridge": square_terms}


@dataclass(frozen=True)
class Draw:
    """A problem in plain arrays: o outputs, fitted to `targets` (n, o) by weights that sum to 1, are to be near `goal`.

    `labels` and `label` say the same to a library: class codes, or values. `free` intercepts have no penalty.
    """

    model: str
    features: Array
    labels: NDArray[Any]
    targets: Array
    weights: Array
    query: Array
    label: Any
    goal: Array
    l2: float
    free: bool
    budget: float
    norm: float

    def problem(self) -> oar.Problem:
        """Return it as OAR wants it."""
        people = oar.Population(self.features, self.labels, self.weights)
        query = oar.Query(self.query, self.label, within=0.1 if self.model == "ridge" else None)
        model: oar.models.Differentiable = oar.SoftmaxRegression(self.l2)
        if self.model == "svm":
            model = oar.models.LinearSVM(self.l2, penalise_intercept=not self.free)
        elif self.model == "ridge":
            model = oar.models.Ridge(self.l2)
        return oar.Problem(people, model, query, oar.Perturb(self.budget, norm=self.norm))


def draw(seed: int, model: str) -> Draw:
    """Draw normal clouds of random size, with the query near a class that is not the goal.

    For ridge every class has a height, of one or two numbers, and values lie around it. Norms take turns, and so does
    whether a support vector machine penalises its intercept.
    """
    random = np.random.default_rng(seed)
    size, width, classes = (int(random.integers(low, high)) for low, high in ((12, 61), (2, 6), (2, 5)))
    codes = np.concatenate([np.arange(classes), random.integers(0, classes, size - classes)])
    centres = random.normal(size=(classes, width)) * random.uniform(0.3, 2.0)
    features = centres[codes] + random.normal(size=(size, width))
    weights = random.uniform(0.1, 3.0, size)
    l2, budget = (float(np.exp(random.uniform(*np.log(ends)))) for ends in ((3e-3, 0.3), (0.05, 1.0)))
    goal = int(random.integers(classes))
    other = (goal + int(random.integers(1, classes))) % classes
    query = centres[other] + 0.5 * random.normal(size=width)
    if model == "ridge":
        heights = 2.0 * random.normal(size=(classes, 1 + seed % 2))
        targets = heights[codes] + 0.5 * random.normal(size=(size, heights.shape[1]))
        labels, label, wanted = targets.squeeze(), heights[goal], heights[goal]
    else:
        ones = np.eye(classes)[:, 1:] if classes == 2 else np.eye(classes)
        labels, targets, label, wanted = codes, ones[codes], goal, ones[goal]
    free, norm = model != "svm" or seed % 2 == 0, (1, 2, np.inf)[seed % 3]
    common = features, labels, targets, weights / weights.sum(), query, label, wanted
    return Draw(model, *common, l2, free, budget, norm)


class Retrained:
    """The model refitted to moved people, and everyone's gradient of the goal loss through that refit."""

    def __init__(self, task: Draw) -> None:
        """Prepare the penalty; where softmax has several logits, their intercepts must not all rise alike."""
        self.task, self.terms = task, TERMS[task.model]
        self.shape = task.targets.shape[1], task.features.shape[1] + 1
        self.parameters = np.zeros(self.shape)  # of the last refit: the next one starts there
        held = np.append(np.full(self.shape[1] - 1, task.l2), 0.0 if task.free else task.l2)
        self.penalty = np.diag(np.tile(held, self.shape[0]))
        if task.model == "softmax" and self.shape[0] > 1:
            rise = np.tile(np.append(np.zeros(self.shape[1] - 1), 1.0), self.shape[0])
            self.penalty += np.outer(rise, rise) / self.shape[0] ** 2

    def risk(self, rows: Array, parameters: Array) -> float:
        """Return the penalised mean loss."""
        losses = self.terms(rows @ parameters.T, self.task.targets)[0]
        return float(self.task.weights @ losses + 0.5 * parameters.ravel() @ self.penalty @ parameters.ravel())

    def refit(self, rows: Array) -> tuple[Array, Array, Terms]:
        """Minimise the risk by damped Newton steps; return its gradient and Hessian there, and everyone's terms."""
        (outputs, width), weights = self.shape, self.task.weights
        pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        for _ in range(200):
            terms = _, slopes, curvatures = self.terms(rows @ self.parameters.T, self.task.targets)
            gradient = ((weights[:, None] * slopes).T @ rows).ravel() + self.penalty @ self.parameters.ravel()
            blocks = (weights[:, None, None] * curvatures).reshape(len(rows), -1).T @ pairs
            hessian = blocks.reshape(outputs, outputs, width, width).swapaxes(1, 2).reshape(self.penalty.shape)
            hessian += self.penalty
            if np.linalg.norm(gradient) <= TIGHT:
                break
            step = -np.linalg.solve(hessian + 1e-14 * np.eye(len(hessian)), gradient)
            slope, way, length = float(gradient @ step), step.reshape(self.shape), 1.0
            enough = self.risk(rows, self.parameters) + 1e-14  # but for rounding
            while self.risk(rows, self.parameters + length * way) > enough + SUFFICIENT * length * slope:
                length /= 2
            self.parameters = self.parameters + length * way
        return gradient, hessian, terms

    def loss(self, moves: Array) -> tuple[float, Array]:
        """Return the goal loss L after a refit, and dL/dδ = −w̄ (Vᵀa + Wᵀ B u) with V = H⁻¹∇L and u = V (x, 1)."""
        rows = with_ones(self.task.features + moves)
        _, hessian, (_, slopes, curvatures) = self.refit(rows)
        query = with_ones(self.task.query[None])
        (loss,), pull, _ = self.terms(query @ self.parameters.T, self.task.goal[None])
        signal = np.linalg.solve(hessian, np.outer(pull, query).ravel()).reshape(self.shape)
        bent = np.einsum("nab,nb->na", curvatures, rows @ signal.T)
        everyones = slopes @ signal[:, :-1] + bent @ self.parameters[:, :-1]
        return float(loss), -self.task.weights[:, None] * everyones


def with_ones(features: Array) -> Array:
    return np.column_stack([features, np.ones(len(features))])


def project(moves: Array, budget: float, norm: float) -> Array:
    """Return the nearest moves within the budget."""
    if norm == np.inf:
        return np.clip(moves, -budget, budget)
    if norm == 2:
        return moves * np.minimum(1.0, budget / np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-300))
    falling = -np.sort(-np.abs(moves), axis=1)
    levels = (falling.cumsum(axis=1) - budget) / np.arange(1, moves.shape[1] + 1)
    last = (falling > levels).sum(axis=1, keepdims=True) - 1
    level = np.maximum(np.take_along_axis(levels, last, axis=1), 0.0)
    return np.sign(moves) * np.maximum(np.abs(moves) - level, 0.0)


def furthest(ways: Array, budget: float, norm: float) -> Array:
    """Return the moves within the budget that go furthest along everyone's way."""
    if norm == np.inf:
        return budget * np.sign(ways)
    if norm == 2:
        return budget * ways / np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
    steepest = np.arange(ways.shape[1]) == np.abs(ways).argmax(axis=1)[:, None]
    return budget * np.sign(ways) * steepest


def spectral(model: Retrained, moves: Array) -> tuple[float, Array]:
    """Descend by the spectral projected gradient; return the least loss met, and its moves.

    Gradients are taken per unit of weight, so that light people move as fast as heavy ones: it is steepest descent in
    the metric of the weights, in which each person's ball stays a ball.
    """
    budget, norm, weights = model.task.budget, model.task.norm, model.task.weights[:, None]
    loss, gradient = model.loss(moves)
    recent, best = [loss], (loss, moves)
    length = 10 * budget / max(np.abs(gradient / weights).max(), 1e-300)
    for _ in range(STEPS):
        way = project(moves - length * gradient / weights, budget, norm) - moves
        slope, part = float((gradient * way).sum()), 1.0
        if -slope <= 1e-11 * loss:
            break
        loss, after = model.loss(moves + way)
        while loss > max(recent[-MEMORY:]) + SUFFICIENT * part * slope and part > 1e-8:
            part /= 2
            loss, after = model.loss(moves + part * way)
        bend = part * float((way * (after - gradient)).sum())
        square = part**2 * float((weights * way**2).sum())
        moves, gradient = moves + part * way, after
        length = square / bend if bend > 0 else 1e4 * budget / max(np.abs(gradient / weights).max(), 1e-300)
        recent.append(loss)
        if loss < best[0]:
            best = loss, moves
    return best


def opened(model: Retrained, free: Array) -> Array:
    """Run L-BFGS-B without bounds over δ = εu/√(1+|u|²), from u; for the norm ∞ every number has a ball of its own."""
    task, (size, width) = model.task, free.shape
    together = 1 if task.norm == np.inf else width
    scale = np.repeat(np.sqrt(task.weights * size), width // together)[:, None]  # variables scale · u count alike

    def evaluate(flat: Array) -> tuple[float, Array]:
        u = flat.reshape(-1, together) / scale
        length = np.sqrt(1 + (u**2).sum(axis=1, keepdims=True))
        loss, everyones = model.loss((task.budget * u / length).reshape(free.shape))
        gradient = everyones.reshape(u.shape)
        inward = u * (gradient * u).sum(axis=1, keepdims=True) / length**2
        return size * loss, (size * task.budget / length * (gradient - inward) / scale).ravel()

    start, options = (scale * free.reshape(-1, together)).ravel(), {"maxiter": 150, "ftol": 1e-13, "gtol": 1e-10}
    found = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    u = found.x.reshape(-1, together) / scale
    return (task.budget * u / np.sqrt(1 + (u**2).sum(axis=1, keepdims=True))).reshape(free.shape)


def starts(model: Retrained, random: np.random.Generator) -> Iterator[Array]:
    """Yield fourteen places to start from; the norm-1 ball has no smooth opening, so more of its corners are tried."""
    budget, norm, shape = model.task.budget, model.task.norm, model.task.features.shape
    stay = np.zeros(shape)
    yield stay
    yield furthest(-model.loss(stay)[1], budget, norm)
    for _ in range(6 if norm == 1 else 3):
        yield furthest(random.normal(size=shape), budget, norm)
    for _ in range(3):
        yield project(0.3 * budget * random.normal(size=shape), budget, norm)
    for _ in range(3):
        yield furthest(np.tile(random.normal(size=shape[1]), (shape[0], 1)), budget, norm)
    for width in () if norm == 1 else (0.0, 0.3, 1.0):
        yield opened(model, width * random.normal(size=shape))


def independent_moves(task: Draw, seed: int) -> Array:
    model = Retrained(task)
    ends = [spectral(model, moves) for moves in starts(model, np.random.default_rng(seed))]
    return min(ends, key=lambda end: end[0])[1]


def judged_loss(task: Draw, moves: Array) -> float:
    """Return the goal loss after a tight refit from scratch; moves beyond the budget are no answer."""
    length = np.linalg.norm(moves, ord=task.norm, axis=1).max()
    if not length <= task.budget * (1 + 1e-9):
        raise RuntimeError(f"a move of length {length} is beyond the budget {task.budget}")
    moved = task.features + moves
    if task.model == "svm":
        outputs = _machines(task, moved)
    elif task.model == "ridge":
        outputs = Ridge(alpha=task.l2).fit(moved, task.labels, task.weights).predict(task.query[None])
    else:
        classifier = LogisticRegression(C=1 / task.l2, solver="newton-cholesky", tol=TIGHT, max_iter=2_000)
        outputs = classifier.fit(moved, task.labels, task.weights).decision_function(task.query[None])
    return float(TERMS[task.model](outputs.reshape(1, -1), task.goal[None])[0][0])


def _machines(task: Draw, moved: Array) -> Array:
    """Return outputs at the query of machines that were refitted here, after a look at LinearSVC's.

    LinearSVC always penalises its intercept; a wide `intercept_scaling` makes that small.
    """
    model = Retrained(replace(task, features=moved))
    gradient, *_ = model.refit(with_ones(moved))
    outputs = with_ones(task.query[None]) @ model.parameters.T
    wide = 1e3 if task.free else 1.0
    witness = LinearSVC(C=1 / task.l2, dual=False, tol=1e-12, max_iter=10_000, intercept_scaling=wide)
    theirs = witness.fit(moved, task.labels, task.weights).decision_function(task.query[None])
    apart = np.abs(outputs - theirs.reshape(1, -1)).max()
    if np.linalg.norm(gradient) > 100 * TIGHT or apart > LOOSEST:
        raise RuntimeError(f"refit not trusted: gradient {np.linalg.norm(gradient):.1e}, {apart:.1e} from LinearSVC")
    return outputs


def main() -> None:
    """Solve both ways, judge, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_problems", description="OAR, checked.")
    parser.add_argument("--first", type=int, default=0, help="the first problem's seed")
    parser.add_argument("--count", type=int, default=40, help="how many problems")
    parser.add_argument("--model", choices=TERMS, default="softmax")
    options = parser.parse_args()
    oar.solvers.propose_collective(draw(options.first, options.model).problem())  # imports are nobody's time
    tally, seconds = {"worse": 0, "better": 0, "equal": 0}, np.zeros(2)
    for seed in range(options.first, options.first + options.count):
        task = draw(seed, options.model)
        began = time.perf_counter()
        proposal = oar.solvers.propose_collective(task.problem())
        between = time.perf_counter()
        moves = independent_moves(task, seed)
        seconds += between - began, time.perf_counter() - between
        before, ours, theirs = (
            judged_loss(task, some) for some in (np.zeros_like(moves), np.asarray(proposal.plan.moves()), moves)
        )
        gap = (ours - theirs) / max(theirs, FLOOR * before)
        tally["worse" if gap > SAME else "better" if gap < -SAME else "equal"] += 1
        if gap > SAME:
            (size, width), outputs = task.features.shape, len(task.goal)
            about = f"{size} × {width}, {outputs} outputs, norm {task.norm}, l2 {task.l2:.2g}, budget {task.budget:.2g}"
            losses = f"oar {ours:.9g} (claimed {proposal.claimed_loss:.9g}), independent {theirs:.9g}"
            print(f"seed {seed}: {about}: {losses}, {gap:.1e} above", flush=True)
    counted = ", ".join(f"{name} {number}" for name, number in tally.items())
    print(f"{counted} of {options.count}; oar {seconds[0]:.1f} s, independent {seconds[1]:.1f} s")


if __name__ == "__main__":
    main()
