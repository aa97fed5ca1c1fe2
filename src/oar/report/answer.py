"""The answer in one sentence, and values as JSON and sentences have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from oar.errors import Status
from oar.goals import Between
from oar.models import LinearSVM
from oar.models.scaled import unscaled
from oar.people.wording import counted
from oar.pictures.numbers import number
from oar.plans import Result
from oar.problem import Problem

NOBODY = "nobody does anything"


def answer(result: Result, harm: str = "", effects: str = "") -> str:
    """Return the answer in one sentence; where more people are harmed than helped, it says so first.

    Args:
        result: what was planned and audited.
        harm: of whom more are harmed than helped, in words; empty where there are none such.
        effects: how many lose and gain what is asked for, and what limits that.
    """
    said = _answer(result)
    if not harm or result.status in (Status.NOT_CONVERGED, Status.REFUSED):
        return said
    first, rest = said.split(":", 1)
    joint = "but" if result.success else "and"
    if result.status is Status.ALREADY:
        joint, harm = "and", harm.replace("harmed by it", "harmed by these moves")
    return f"{first}, {joint} {harm}:{rest.removesuffix('.')}; {effects}."


def _answer(result: Result) -> str:
    audit, problem = result.audit, result.problem
    goal, who = problem.goal_words, _acts(result)
    now, then = (in_words(told(label)) for label in (audit.prediction, audit.prediction_before))
    gets, instead = f"predicts {now} for the person who asks", f"instead of {then}"
    stays, asking = f"it stays {now}", "the person who asks"
    if now == then:  # a goal may be more than a prediction: a probability, or a range
        gets, instead = f"gives the person who asks {goal}", "as it did not before"
    if problem.several:
        had, have = (sum(getattr(one, when) for one in audit.queries) for when in ("success_before", "success"))
        gets, instead = f"gives {have:,} of the {len(audit.queries):,} who ask {goal}", f"instead of {had:,}"
        stays, asking = f"{have:,} of {len(audit.queries):,} get it", "the people who ask"
    match result.status:
        case Status.ACHIEVED:
            return f"Yes: if {who}, the retrained model {gets}, {instead}."
        case Status.ALREADY if who == NOBODY:
            return (
                f"Nothing is needed: the model {gets} before anybody moves, and nobody is asked to; {_more(problem)}."
            )
        case Status.ALREADY:
            return f"Nothing is needed: the model {gets} before anybody moves, and does so after."
        case Status.IMPOSSIBLE:
            return f"No, and that is proved: within these limits no moves lead to {goal}; if {who}, {stays}."
        case Status.NOT_CONVERGED:
            return "There is no answer: a refit of the model did not come to an end."
        case Status.REFUSED:
            return "There is no answer: the plan that was found breaks a limit."
        case Status.NOT_IMPROVED | Status.NOT_FOUND:
            return f"Not found: no moves were found that lead {asking} nearer to {goal}; {stays}."
    nearer = "nearer" if result.loss < result.loss_before else "no nearer"
    return f"Not yet: if {who}, the retrained model {gets}; that is {nearer} to {goal} than before."


def in_words(label: Any) -> str:
    """Return a prediction as a sentence has it."""
    if isinstance(label, list):  # one value for each output
        return f"({', '.join(map(in_words, label))})"
    return number(label) if isinstance(label, float) else repr(label)


def _acts(result: Result) -> str:
    audit = result.audit
    acts = [counted(audit.movers, "member moves", "members move")] if audit.movers else []
    acts += [counted(audit.relabelled, "label changes", "labels change")] if audit.relabelled else []
    acts += [counted(audit.leavers, "member leaves", "members leave")] if audit.leavers else []
    return " and ".join(acts) or NOBODY


def _more(problem: Problem) -> str:
    """Say which option asks for more than what is there before anybody moves."""
    if isinstance(problem.goal_label, Between):
        return "a narrower --goal asks for more"
    if problem.regresses:
        return "a smaller --within asks for more"
    if isinstance(unscaled(problem.model), LinearSVM):  # whose margins are no probabilities
        return "--probability asks for more, with another --model"
    return f"{'' if problem.query.probability is None else 'a higher '}--probability asks for more"


def unable_words(people: int) -> str:
    """Say how many cannot answer a card, and what they do.

    >>> unable_words(12)
    '12 people have missing values, for which the card has no answer, and stay as they are'
    """
    gaps = "missing values, for which the card has no answer, and"
    return counted(people, f"person has {gaps} stays", f"people have {gaps} stay") + " as they are"


def told(value: Any) -> Any:
    """Return a value as JSON has it: no NaN and no infinity, which are None there."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): told(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [told(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
