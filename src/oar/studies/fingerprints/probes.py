"""Probes of models made of a user's own code: their answers show what the code alone does not.

A training function may read a file, an environment variable or a clock; then the same code gives other answers. A study
therefore also stores such a model's answers: a black box is trained on a few of the study's own people, always with the
same seed, and queried about them; for a model with a risk, the risk, its gradient and the query's loss are computed at
two sets of parameters, and its own training or closed form, if any, runs on these few people. This happens twice,
unless training is declared not to be random: if the answers differ, they cannot identify the model.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.estimators import BlackBox
from oar.people import Population
from oar.problem import Problem
from oar.progress import check_interrupted

FEW = 24  # people in all, but two of each class
AGREE = 1e-5  # relative: sums are added up in another order elsewhere
NEAR = 0.1  # how far from the start a risk is looked at
SEED = 20_240_229
TRAINED = 1e-6
MORE = 3  # probes where answers differ from those that are known
RANDOM = {"random": True}
Probe = dict[str, Any]


def probed(model: Any, problem: Problem) -> Probe:
    """Return a model's answers, as numbers; `RANDOM` where two answers to the same question differ."""
    first = _answers(model, problem)
    owner_says = isinstance(model, BlackBox) and model.randomised is False
    return first if owner_says or agree(first, _answers(model, problem)) else _said_random(model)


def same(then: Any, now: Probe, model: Any, problem: Problem) -> tuple[bool, Probe]:
    """Report whether a model's answers are unchanged, and what to store: random answers may agree by chance."""
    if then is None or then == RANDOM or now == RANDOM:
        return True, now
    if agree(then, now):
        return True, then
    if all(agree(now, _answers(model, problem)) for _ in range(MORE)):
        return False, now
    return True, _said_random(model)


def agree(one: Any, other: Any) -> bool:
    """Report whether two answers are the same up to the order of summation."""
    if not isinstance(one, dict) or not isinstance(other, dict) or one.keys() != other.keys():
        return False
    try:
        first, second = (np.asarray(each.get("numbers", ()), dtype=np.float64) for each in (one, other))
    except (TypeError, ValueError):
        return False
    if one.get("fails") != other.get("fails") or first.shape != second.shape:
        return False
    return bool(np.allclose(first, second, rtol=AGREE, atol=AGREE * AGREE, equal_nan=True))


def _said_random(model: Any) -> Probe:
    said = (
        f"{model.name} answers otherwise each time that it is trained on the same people with the same seed, so a "
        "study knows it by its code alone: whether a file or a setting that it reads has changed, nobody can say."
    )
    if isinstance(model, BlackBox):
        model.note(said)
    warnings.warn(f"models: {said}", stacklevel=5)
    return dict(RANDOM)


def _answers(model: Any, problem: Problem) -> Probe:
    """Return what a model answers once, or that it fails; what chance there is begins at the same place."""
    with _same_chance():
        try:
            found = _of_box(model, problem) if isinstance(model, BlackBox) else _of_training(model, problem)
        except Exception as error:
            check_interrupted()  # which may be what made it fail
            return {"fails": type(error).__name__}
    # NaN and infinity are no JSON, and what is beyond float32's digits is nobody's behaviour.
    return {"numbers": [float(f"{each:.9g}") if np.isfinite(each) else str(each) for each in found.tolist()]}


def _of_box(box: BlackBox, problem: Problem) -> NDArray[np.float64]:
    people = problem.people
    few = people.some(_few(people, box.regresses))
    try:
        trained = box.train(few, few.features, SEED)
    except Exception:  # some need more: neighbours, folds
        check_interrupted()
        few, trained = people, box.train(people, people.features, SEED)
    found = trained.says(few.features[:FEW]).outputs
    return np.asarray(found, dtype=np.float64).ravel()


def _of_training(model: Any, problem: Problem) -> NDArray[np.float64]:
    people = problem.people
    training = model.training(people)
    rng, start = np.random.default_rng(SEED), np.asarray(training.start(), dtype=np.float64)
    along, found = rng.normal(size=start.size), []
    point = np.asarray(problem.asked.points, dtype=np.float64).reshape(-1, people.dimensions)[0]
    moved = training.moved(None)
    for parameters in (start, start + NEAR * rng.normal(size=start.size)):
        risk, gradient = training.risk_gradient(parameters, moved)
        outputs = np.asarray(training.outputs(parameters, point), dtype=np.float64)
        lost = training.goal(parameters, point, np.eye(outputs.size)[0])[0]
        found += [risk, np.linalg.norm(gradient), gradient @ along, lost, *outputs.ravel()]
    if getattr(model, "train", None) is not None or getattr(model, "closed_form", None) is not None:
        own = model.training(people.some(_few(people, model.regresses)))
        found += own.fit(own.moved(None), own.start(), TRAINED).parameters.ravel()[: 4 * FEW].tolist()
    return np.array(found, dtype=np.float64)


def _few(people: Population, regresses: bool) -> NDArray[np.intp]:
    """Return the positions of a few people, some of each class."""
    if regresses or people.has_label_rows:
        return np.arange(min(FEW, people.size))
    codes = np.asarray(people.codes(0, people.size))
    each = max(2, FEW // len(people.classes))
    return np.sort(np.concatenate([np.flatnonzero(codes == code)[:each] for code in range(len(people.classes))]))


@contextmanager
def _same_chance() -> Iterator[None]:
    """Seed Python's, NumPy's and PyTorch's global generators, and restore their states afterwards."""
    kept, drawn = random.getstate(), np.random.get_state()  # noqa: NPY002 - what users' code draws from
    with ExitStack() as held:
        torch = sys.modules.get("torch")
        if torch is not None:
            held.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(kept)
            np.random.set_state(drawn)  # noqa: NPY002
