"""The fingerprint of a problem over time: everything that a plan for it depends on, as one short text."""

from __future__ import annotations

from oar.online.problem import OnlineProblem
from oar.plans.fingerprints.behaviour import Behaviour, behaviour


def fingerprint(problem: OnlineProblem) -> Behaviour:
    """Return what tells the people and when they arrive, model and rule, query, goal and limits from others.

    Functions, as of a user's own model, count by what they do.
    """
    stream, everyone, query = problem.stream, problem.everyone, problem.query
    parts = (
        (stream.people.features, [str(label) for label in stream.people.labels.tolist()], stream.people.weights),
        (stream.when, stream.who),
        (problem.model, problem.rule, problem.start),
        (everyone.asked.points, everyone.asked.members, [wish.identity for wish in everyone.wishes]),
        (query.within, query.probability, query.several, query.share, problem.goal_for),
        (problem.radii, everyone.allowance.norm.p, problem.shared),
    )
    return behaviour(parts)
