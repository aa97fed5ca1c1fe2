"""Side effects in words: who loses the goal's prediction, who gains it, and which limits would prevent that.

Counts come as plain mappings, so that reports can say the same of counts that they tell, and nothing of those that they
do not: a count of too few people is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oar.people.wording import counted
from oar.problem import Problem

Counts = Mapping[str, Any]


def prediction_words(problem: Problem) -> str | None:
    """Return the prediction that people can lose or gain, as a sentence has it; None where values are predicted."""
    if problem.regresses:
        return None
    return " or ".join(repr(problem.people.classes[code]) for code in problem.wanted_codes)


def harm_words(actors: Counts, bystanders: Counts) -> str:
    """Say of whom more are harmed than helped: of all, of those who act, or of those who do nothing; else nothing."""
    told = [counts for counts in (actors, bystanders) if counts["away"] is not None]
    if sum(counts["away"] - counts["towards"] for counts in told) > 0:
        return "more people are harmed by it than helped"
    if _harmed(actors):
        return "more of the members who act are harmed by it than helped"
    return "more of those who do nothing are harmed by it than helped" if _harmed(bystanders) else ""


def _harmed(counts: Counts) -> bool:
    """Report whether more predictions go away from the goal than towards it; not of counts that are not told."""
    return counts["away"] is not None and counts["away"] > counts["towards"]


def effect_words(prediction: str | None, actors: Counts, bystanders: Counts) -> str:
    """Say what happens to those who act and to those who do nothing; nothing of counts that are not told."""
    said = []
    who = (
        (actors, "member who acts", "members who act"),
        (bystanders, "person who does nothing", "people who do nothing"),
    )
    for counts, one, many in who:
        if counts["away"] is None or not counts["people"]:
            continue
        group = counted(counts["people"], one, many)
        if prediction is None:
            ways = f"predictions of {counts['away']:,} go away from the goal and of {counts['towards']:,} towards it"
        else:
            ways = (
                f"{counts['away']:,} lose the prediction {prediction} that they had and {counts['towards']:,} gain it"
            )
        said.append(f"of {group}, {ways}")
    return "; ".join(said)


def limiting(actors: Counts, bystanders: Counts, values: bool, worse: bool) -> Sequence[str]:
    """Return the names of the limits (`oar.Keep`) on harm of this kind: the surest first.

    Args:
        actors: what happens to them.
        bystanders: what happens to them.
        values: whether values are predicted, of which none can be lost.
        worse: whether the model gets worse.
    """
    if values:
        return ["worse"]
    return ["lost", *(["changed"] if _harmed(bystanders) else []), *(["worse"] if worse else [])]
