"""What tells one study from another: everything that its answers depend on beside the cells themselves.

It is kept part by part, so that a refusal can say which part differs. Models and queries are kept by name: a study may
be given more of them later, and more budgets, shares and seeds, but no other thing under a name that it knows.
People are read chunk by chunk, so that they need not be in memory; where they are in parts, these are among it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.actions.participation import Best, participation_mask
from oar.errors import DataError, StorageError
from oar.estimators import BlackBox
from oar.goals.keep import Kept
from oar.people import Population
from oar.people.streamed import StreamedPopulation
from oar.people.wording import shown
from oar.plans.online_fingerprint import told
from oar.problem import Problem, Query
from oar.studies.cells import Own

BOX = ("estimator", "sees", "labels", "regresses", "randomised", "refits", "at_least", "confidence", "seed")
ASKED = ("budget", "within", "probability", "several", "share")


def fingerprint(
    problem: Problem, own: Own, solver: Any, models: Mapping[str, Any], queries: Mapping[str, Problem]
) -> dict[str, Any]:
    """Return a digest of each part, and a few words on each for who is refused.

    Args:
        problem: the study's.
        own: its own budget and share, which are the cells' business.
        solver: of all cells.
        models: by name.
        queries: a problem for each, by name.
    """
    return {
        "people": _part(people_digest(problem.people), repr(problem.people)),
        "action": _part(_digest(_acting(problem, own)), repr(problem.action)),
        "solver": _part(_digest(solver), repr(solver)),
        "models": {name: _part(_digest(_settled(model)), repr(model)) for name, model in models.items()},
        "queries": {name: _part(_digest(_asking(one)), _words(one.query)) for name, one in queries.items()},
    }


def check_same(known: dict[str, Any], now: dict[str, Any], store: Any) -> dict[str, Any]:
    """Return what is known with what is new; raise where a part is not what it was."""
    differ = _differences(known, now)
    if differ:
        raise StorageError(
            f"store: {store} holds a study of another problem, whose fingerprint differs in {'; '.join(differ)}. Name "
            "another store, or ask as you did then."
        )
    return now | {part: known[part] | now[part] for part in ("models", "queries")}


def is_same(known: dict[str, Any], now: dict[str, Any]) -> bool:
    """Report whether every part is what it was, as far as it is known."""
    return not _differences(known, now)


def _differences(known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    differ = [
        f"{part} {_then_and_now(known[part], now[part])}"
        for part in ("people", "action", "solver")
        if known[part]["digest"] != now[part]["digest"]
    ]
    for part, singular in (("models", "model"), ("queries", "query")):
        differ += [
            f"{singular} {name!r} {_then_and_now(known[part][name], one)}"
            for name, one in now[part].items()
            if name in known[part] and known[part][name]["digest"] != one["digest"]
        ]
    return differ


def _then_and_now(then: dict[str, str], now: dict[str, str]) -> str:
    if then["words"] == now["words"]:
        return f"({now['words']} then and now, but with other contents)"
    return f"({then['words']} then, {now['words']} now)"


def people_digest(people: Population) -> str:
    """Return a digest of everyone's features, labels and weights, and of the parts that they are in; one pass."""
    features, codes, values, weights = (hashlib.sha256() for _ in range(4))
    for chunk in people.chunks():
        features.update(np.ascontiguousarray(chunk.features, dtype="<f8").data)
        codes.update(np.ascontiguousarray(chunk.codes, dtype="<i4").data)
        if chunk.values is not None and not people.classed:  # type: ignore[attr-defined]
            values.update(np.ascontiguousarray(chunk.values, dtype="<f8").data)
        if chunk.weights is not None:
            weights.update(np.ascontiguousarray(chunk.weights, dtype="<f8").data)
    rows = people.value_rows() if people.has_label_rows else None
    classes = people.classes if getattr(people, "classed", True) else ()
    # People in parts are solved otherwise than people in memory, and sums over other parts differ in their last bits.
    cut = [part.size for part in people.parts] if isinstance(people, StreamedPopulation) else None
    parts = (people.size, people.dimensions, people.names, [repr(label) for label in classes], people.schema, cut)
    return _digest((parts, [one.hexdigest() for one in (features, codes, values, weights)], rows))


def _part(digest: str, words: str) -> dict[str, str]:
    return {"digest": digest, "words": shown(words).strip("'\"")}


def _digest(value: Any) -> str:
    digest = hashlib.sha256()
    try:
        for part in told(value):
            digest.update(part)
    except RecursionError:
        raise DataError(
            f"study: {type(value).__name__} cannot be told apart from others, because it is made of itself; use models "
            "and settings that are plain."
        ) from None
    return digest.hexdigest()


def _settled(model: Any) -> Any:
    """Return what a model is made of; of a black box not what it counted, of a network what it has learned before."""
    if isinstance(model, BlackBox):
        return type(model).__name__, {name: getattr(model, name) for name in BOX}
    learned = getattr(getattr(model, "module", None), "state_dict", None)
    if callable(learned):
        return model, {name: np.asarray(value.detach().cpu()) for name, value in learned().items()}
    return model


def _acting(problem: Problem, own: Own) -> Any:
    """Return what members may do, less what cells say: budgets that all share, and random shares.

    The seed of the problem's own draws is not among that: cells without a seed have it.
    """
    parts = []
    for action in problem.action if isinstance(problem.action, tuple) else (problem.action,):
        settings = {name: value for name, value in vars(action).items() if name != "participants"}
        settings["seed"] = action.seed or 0
        if isinstance(action, Perturb):
            settings |= {"norm": action.norm.p, "budget": None if problem.allowance.single else action.budget}
        if own.participation is None:  # whoever it names, by mask, column or function, they are these
            settings["participants"] = _who(problem, action)
        parts.append((type(action).__name__, settings))
    return parts, None if problem.kept is None else _keeping(problem.kept)


def _keeping(kept: Kept) -> Any:
    groups = None if kept.group is None else [str(value) for value in kept.group]
    return kept.limits.changed, kept.limits.worse, groups, None if kept.scored is None else tuple(kept.scored)


def _who(problem: Problem, action: Any) -> Any:
    mask = participation_mask(action.participants, action.seed, problem.people)
    best = action.participants.number if isinstance(action.participants, Best) else None
    return mask, best


def _asking(problem: Problem) -> Any:
    asked, query = problem.asked, problem.query
    return (
        (asked.points, asked.members, asked.among, problem.goal_words),
        {name: getattr(query, name) for name in ASKED},
    )


def _words(query: Query) -> str:
    features = query.features
    return f"goal {query.goal!r}, {features!r}" if np.ndim(features) < 2 else f"goal {query.goal!r}, several people"
