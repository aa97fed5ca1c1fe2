"""The fingerprint of a study: everything that its answers depend on besides the cells themselves.

It is stored part by part, so that a refusal can name the part that differs. Models and queries are stored by name: a
later call may add more of them, and more budgets, shares and seeds, but may not change the meaning of a name. People
are read chunk by chunk, so that they need not be in memory; their division into parts belongs to the fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from oar.actions import Action, Perturb
from oar.actions.choice import parts_of
from oar.actions.participation import Best, participation_mask
from oar.errors import StorageError
from oar.people.wording import shown
from oar.plans.fingerprints.behaviour import behaviour
from oar.problem import Problem, Query
from oar.solvers.registry import registered_by_users
from oar.solvers.settings import EFFORTS, EffortLevel
from oar.studies.cells import Defaults
from oar.studies.fingerprints.probes import probed, same

KIND = 3  # 1 knew functions by their names alone, 2 goals by words of six digits
ASKED = ("budget", "within", "probability", "several", "share")
MOST_SHOWN = 3  # places in which two models differ
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(
    problem: Problem,
    own: Defaults,
    solver: Any,
    models: Mapping[str, Any],
    queries: Mapping[str, Problem],
    effort: EffortLevel = EFFORTS["normal"],
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Return a digest of each part, and a short description of each for messages; what is usual is not stored."""
    solving, said = _solving(solver), repr(solver)
    if effort != EFFORTS["normal"]:
        solving, said = (solving, effort), f"{solver} with effort {effort.name}"
    if time_limit is not None:
        solving, said = (solving, float(time_limit)), f"{said}, {time_limit:g} s for a cell"
    return {
        "kind": KIND,
        "people": _arriving(problem),
        "action": _part(_acting(problem, own), repr(problem.action)),
        "solver": _part(solving, said),
        "models": {name: _model(model, problem) for name, model in models.items()},
        "queries": {name: _part(_asking(one), _words(one.query)) for name, one in queries.items()},
    }


def check_same(
    known: dict[str, Any], now: dict[str, Any], store: Any, models: Mapping[str, Any], problem: Problem
) -> dict[str, Any]:
    """Return the stored parts with the new ones; raise where a part has changed, or cannot be compared."""
    if known.get("kind") != KIND:
        what = "goals by their first six digits" if known.get("kind") == 2 else "functions by their names alone"
        raise StorageError(
            f"store: {store} was begun by an older version of oar, which knew {what}, so that nobody can say whether "
            "it is a study of this problem. Its table can still be read (oar.results.Study.open, or "
            f"`oar study {store}`); name another store to go on."
        )
    differ = _differences(known, now)
    if differ:
        raise StorageError(
            f"store: {store} holds a study of another problem, whose fingerprint differs in {'; '.join(differ)}. Name "
            "another store, or ask as you did then."
        )
    unknown = [f"{name} holds {now['unknown']}" for name, _, now in _compared(known, now) if "unknown" in now]
    if unknown:
        raise StorageError(
            f"store: {store} holds a study that cannot be gone on with, because nobody can say whether this problem is "
            f"the same: {'; '.join(unknown)}. Name another store, or use Python functions and plain settings."
        )
    for name, model in models.items():
        then, one = known["models"].get(name, {}).get("probe"), now["models"][name]
        if "probe" in one:
            alike, one["probe"] = same(then, one["probe"], model, problem)
            if not alike:
                raise StorageError(
                    f"store: {store} holds a study of another problem: the model {name!r} ({one['words']}) has "
                    "the same code as then, but trained on the same people with the same seed it answers otherwise. "
                    "Something that it reads has changed: a file, an environment variable, a setting of a library. "
                    "Name another store, or put it back as it was."
                )
    return now | {part: known[part] | now[part] for part in ("models", "queries")}


def is_same(known: dict[str, Any], now: dict[str, Any]) -> bool:
    """Report whether every stored part is unchanged."""
    return known.get("kind") == KIND and not _differences(known, now)


def _compared(known: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every part that both have: its name, its stored value, and its new value."""
    for part in ("people", "action", "solver"):
        yield part, known[part], now[part]
    for part, singular in (("models", "model"), ("queries", "query")):
        for name, one in now[part].items():
            if name in known[part]:
                yield f"{singular} {name!r}", known[part][name], one


def _differences(known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name} {_then_and_now(was, one)}"
        for name, was, one in _compared(known, now)
        if was["digest"] != one["digest"]
    ]


def _then_and_now(then: dict[str, Any], now: dict[str, Any]) -> str:
    if then["words"] != now["words"]:
        return f"({then['words']} then, {now['words']} now)"
    if then.get("compiled_by") != now.get("compiled_by"):
        compiled = f"{then.get('compiled_by', 'none')} then, {now.get('compiled_by', 'none')} now"
        return f"({now['words']}, whose functions are compared as they are compiled: by {compiled})"
    were, are = then.get("places", {}), now.get("places", {})
    places = [place for place in are if place in were and were[place] != are[place]]
    inner = [place for place in places if not any(other.startswith(f"{place}.") for other in places)]
    where = f": {', '.join(inner[:MOST_SHOWN])}{', …' if len(inner) > MOST_SHOWN else ''}" if inner else ""
    return f"({now['words']} then and now, but with other contents{where})"


def _arriving(problem: Problem) -> dict[str, Any]:
    """Return the part of the people and, over rounds, of when they arrive and how the model is updated then."""
    if not problem.schedule:
        return _part(problem.people, repr(problem.people))
    return _part((problem.people, problem.schedule), repr(problem))


def _model(model: Any, problem: Problem) -> dict[str, Any]:
    """Return a model's part, with its answers if it has code of the user's own."""
    part = _part(model, repr(model))
    answers = "compiled_by" in part and "unknown" not in part and not problem.people.streamed
    return part | {"probe": probed(model, problem)} if answers else part


def _part(value: Any, words: str) -> dict[str, Any]:
    """Return a digest with a few words, and what may be said where it differs from another."""
    found = behaviour(value)
    more = {"compiled_by": found.compiled_by, "unknown": found.unknown, "places": found.places}
    said = shown(ADDRESS.sub("", words)).strip("'\"")
    return {"digest": found.digest, "words": said} | {name: one for name, one in more.items() if one}


def _acting(problem: Problem, own: Defaults) -> Any:
    """Return what members may do, less what cells say: budgets that all share, and random shares.

    The seed of the problem's own draws is not among that: cells without a seed have it.
    """
    parts = []
    for action in parts_of(problem.action):
        settings = {name: value for name, value in vars(action).items() if name != "participants"}
        settings["seed"] = action.seed or 0
        if isinstance(action, Perturb):
            settings |= {"norm": action.norm.p, "budget": None if problem.allowance.single else action.budget}
        if own.participation is None:  # whoever it names, by mask, column or function, they are these
            best = action.participants.number if isinstance(action.participants, Best) else None
            settings["participants"] = participation_mask(action.participants, action.seed, problem.people), best
        # Of an action of one's own its code is part of what members may do.
        kind: Any = (type(action).__name__, type(action)) if isinstance(action, Action) else type(action).__name__
        parts.append((kind, settings))
    kept = problem.kept
    if kept is None:
        return parts, None
    groups = None if kept.group is None else [str(value) for value in kept.group]
    shares = kept.limits.changed if kept.limits.lost is None else (kept.limits.changed, kept.limits.lost)
    return parts, (shares, kept.limits.worse, groups, None if kept.scored is None else tuple(kept.scored))


def _solving(solver: Any) -> Any:
    """Return what solves: of solvers that users have registered, which are asked first, their code, too."""
    own = [type(one) for one in registered_by_users() if one.takes(solver)]
    return (solver, own) if own else solver


def _asking(problem: Problem) -> Any:
    asked, among = problem.asked, problem.asked.among if problem.asked.among.size else None
    who = asked.points, asked.members, among, [wish.identity for wish in problem.wishes]
    return who, {name: getattr(problem.query, name) for name in ASKED}


def _words(query: Query) -> str:
    features: Any = query.features
    return f"goal {query.goal!r}, {features!r}" if np.ndim(features) < 2 else f"goal {query.goal!r}, several people"
