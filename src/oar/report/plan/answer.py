"""The answer in one sentence, advice in the words of the command, and values as JSON and sentences have them.

A report's reader has options and commands, and no Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oar.errors import Status
from oar.goals import Between
from oar.people.wording import counted
from oar.pictures.numbers import number, percent
from oar.plans import Result
from oar.problem import Problem

NOBODY = "nobody does anything"
FALL, RISE = 0.03, 0.1  # of accuracy, and of a squared error: from there on the first sentence tells of it
# What results advise in the library's words, and what it is called here.
SAID = {
    "Here a collective is not promised to do as well as an individual: compare oar.individual.": (
        "Here a group is not promised to do as well as one person alone: `oar questions` compares them."
    ),
    "let more people act, or try another solver.": "or let more people act.",
    "Standardise the features, or use a table (oar.Population.from_frame), where changes are counted in standard "
    "deviations, and oar.models.Scaled.": "Leave out --plain: then changes are counted in standard deviations.",
    "limits keep them within it (oar.Limits.observed).": "leave --limits none out, or set limits there.",
    "otherwise try another solver.": "otherwise allow larger budgets, or let more people act.",
    "make people with oar.Population.from_frame(df, target=…), whose cards can,": "leave out --plain,",
    "solve again with signal='implicit', or hand members": "hand members",
    "rows of plan.moves(), plan.labels() and plan.leavers()": "rows of moves.csv",
    "rows of plan.labels() and plan.leavers()": "rows of moves.csv",
    "rows of plan.labels(), or plan with Relabel(most=…)": "rows of moves.csv, or plan with --relabel",
    "Allow more of them (most=…)": "Allow more of them (--relabel, --withhold)",
    "rows of plan.moves(), or allow more.": "rows of moves.csv, or allow more with --changed, --lost or --worse.",
    "rows of plan.moves()": "rows of moves.csv",
    "rows of plan.changes()": "rows of moves.csv",
    "leave them out of the limits' `levels`": "leave them out of `levels` in a file of --limits",
}
ARGUMENT = re.compile(r"^plan: ")  # of which a reader knows nothing: it is the plan that is told of
KEEP = re.compile(r"Limit that by oar\.Keep\(([^)]*)\)\.")


def answer(result: Result, caveats: Sequence[str] = (), details: Sequence[str] = ()) -> str:
    """Return the answer in one sentence, which begins with what speaks against it.

    Args:
        result: what was planned and audited.
        caveats: what speaks against the plan, in a few words each: that more are harmed than helped, and the like.
        details: what is to be said of them, at the sentence's end.
    """
    said = _answer(result)
    if not caveats or result.status in (Status.NOT_CONVERGED, Status.REFUSED):
        return said
    first, rest = said.split(":", 1)
    against, joint = ", and ".join(caveats), "but" if result.success else "and"
    if result.status is Status.ALREADY:
        joint, against = "and", against.replace("harmed by it", "harmed by these moves")
    return f"{first}, {joint} {against}:{rest.removesuffix('.')}; {'; '.join(details)}."


def fall_words(score: str, before: float | None, after: float | None) -> str:
    """Say that a model gets much worse about people as they were; nothing where it does not.

    >>> fall_words("accuracy", 0.7177, 0.5553), fall_words("accuracy", 0.72, 0.71)
    ('accuracy about people as they were falls from 71.77 % to 55.53 %', '')
    """
    if before is None or after is None:
        return ""
    if score == "accuracy":
        fell = before - after > FALL
        return f"accuracy about people as they were falls from {percent(before)} to {percent(after)}" if fell else ""
    rose = after > (1 + RISE) * before
    return f"{score} about people as they were rises from {number(before)} to {number(after)}" if rose else ""


def _answer(result: Result) -> str:
    problem = result.problem
    goal, who = problem.goal_words, _acts(result)
    gives, gets, instead = _gets(result)
    asking = "the people who ask" if problem.several else "the person who asks"
    match result.status:
        case Status.ACHIEVED:
            return f"Yes: if {who}, the retrained model {gives}, {instead}."
        case Status.ALREADY if who == NOBODY:
            had = _gives(result, "success_before")
            return f"Nothing is needed: the model {had} before anybody moves, and nobody is asked to; {_more(problem)}."
        case Status.ALREADY:
            had = _gives(result, "success_before")
            after = "and does so after" if had == _gives(result, "success") else f"and {gives} after"
            return f"Nothing is needed: the model {had} before anybody moves, {after}."
        case Status.IMPOSSIBLE:
            return (
                f"No, and that is proved: within these limits no moves lead to {goal}; if {who}, the retrained model "
                f"{gets}."
            )
        case Status.NOT_CONVERGED:
            return "There is no answer: a refit of the model did not come to an end."
        case Status.REFUSED:
            return "There is no answer: the plan that was found breaks a limit."
        case Status.NOT_IMPROVED | Status.NOT_FOUND:
            return f"Not found: no moves were found that lead {asking} nearer to {goal}; the model {gets}."
    nearer = "nearer" if result.loss < result.loss_before else "no nearer"
    return f"Not yet: if {who}, the retrained model {gets}; that is {nearer} to {goal} than before."


def _gets(result: Result) -> tuple[str, str, str]:
    """Return what the model does where the goal is reached, what it does in any case, and what it did before."""
    audit = result.audit
    now, then = (in_words(told(label)) for label in (audit.prediction, audit.prediction_before))
    if result.problem.several:
        gives, had = _gives(result, "success"), sum(one.success_before for one in audit.queries)
        instead = f"instead of {had:,} of them"
        return gives, f"{gives}, {'as before' if gives == _gives(result, 'success_before') else instead}", instead
    if audit.rate is not None and audit.rate_before is not None:
        share, before = (f"{100 * rate.share:.0f} %" for rate in (audit.rate, audit.rate_before))
        gives, instead = f"{_gives(result, 'success')} in {share} of refits", f"instead of in {before}"
        return gives, f"{gives}, {instead}", instead
    if now == then:  # a goal may be more than a prediction: a probability, or a range
        return _gives(result, "success"), f"still predicts {now} for the person who asks", "as it did not before"
    gives, instead = f"predicts {now} for the person who asks", f"instead of {then}"
    return gives, f"{gives}, {instead}", instead


def _gives(result: Result, when: str) -> str:
    """Return whom the model gives what is asked for, "success_before" or after ("success")."""
    goal, queries = result.problem.goal_words, result.audit.queries
    if not result.problem.several:
        return f"gives the person who asks {goal}"
    return f"gives {sum(getattr(one, when) for one in queries):,} of the {len(queries):,} who ask {goal}"


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
    if problem.model.margins:  # whose margins are no probabilities
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
    """Return a value as JSON has it: no NaN and no infinity, which are None there; what JSON has no kind for, as text.

    >>> told({"losses": np.array([1.0, np.nan]), "reached": np.bool_(True), "norm": {2}})
    {'losses': [1.0, None], 'reached': True, 'norm': [2]}
    """
    match value:
        case np.ndarray() | np.generic():
            return told(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case None | str() | int():
            return value
        case Mapping():
            return {str(name): told(part) for name, part in value.items()}
        case list() | tuple() | set() | frozenset():
            return [told(part) for part in value]
    return str(value)


def in_command_words(text: str) -> str:
    """Return an explanation without what only Python can do.

    >>> in_command_words("With a zero budget nothing can move; otherwise try another solver.")
    'With a zero budget nothing can move; otherwise allow larger budgets, or let more people act.'
    >>> in_command_words("Limit that by oar.Keep(lost=…, worse=…).")
    'Plan with --lost or --worse to limit that.'
    """
    text = ARGUMENT.sub("", text)
    for library, command in SAID.items():
        text = text.replace(library, command)
    return KEEP.sub(_options, text)


def _options(found: re.Match[str]) -> str:
    return f"Plan with {' or '.join(f'--{name}' for name in re.findall(r'([a-z]+)=…', found[1]))} to limit that."
