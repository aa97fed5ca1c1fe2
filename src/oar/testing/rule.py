"""`check_rule`: does an update rule keep what planning over time relies on?"""

from __future__ import annotations

from typing import Any

import numpy as np

from oar.errors import DataError, OARError, OptionError
from oar.models import SoftmaxRegression
from oar.online import Rule, Stream
from oar.people import Population
from oar.problem import Query
from oar.testing.report import Report, checked
from oar.testing.rule_checks import CHECKS, ROUNDS, RuleCase
from oar.typing import ModelLike

PEOPLE = 9  # in a batch; three classes have three each


def check_rule(
    rule: Rule, model: ModelLike | None = None, *, dimensions: int = 2, seed: int = 0, raises: bool = True
) -> Report:
    """Check an update rule against finite differences through three rounds, and say what it lacks.

    Args:
        rule: what is checked: one of oar.online, or your own.
        model: what it updates; None for softmax regression.
        dimensions: how many features the people have on whom it is checked.
        seed: they are drawn from this.
        raises: whether a failed check raises; otherwise only the report says so.

    Returns:
        The report: `print` it.

    Raises:
        ConformanceError: an OARError that lists every failed check with advice.

    >>> import oar
    >>> check_rule(oar.online.ExponentialMeans(0.3), oar.NearestCentroid()).passed
    True
    """
    if isinstance(rule, type):
        raise DataError(f"rule: must be a rule, got the class {rule.__name__}; call it with its settings.")
    model = SoftmaxRegression(0.1) if model is None else model
    case = _case(rule, model, dimensions, seed)
    return checked(str(getattr(rule, "name", type(rule).__name__)), case, CHECKS, raises, _said)


def _case(rule: Rule, model: Any, dimensions: int, seed: int) -> RuleCase:
    """Draw a history and three rounds; classes overlap, and weights differ."""
    rng = np.random.default_rng(seed)
    reads = getattr(rule, "reads", None)
    if isinstance(reads, int) and reads > ROUNDS + 1:
        raise OptionError(
            f"rule: is checked on {ROUNDS} rounds and a history, got one that reads {reads} batches; check the same "
            f"rule with fewer, at most {ROUNDS + 1}."
        )
    when = np.repeat(np.arange(-1, ROUNDS), PEOPLE)
    codes = np.arange(when.size) % 3
    features = rng.standard_normal((3, dimensions))[codes] + rng.standard_normal((when.size, dimensions))
    values = features @ rng.standard_normal(dimensions) + 0.3 * rng.standard_normal(when.size)
    regresses = model.regresses
    people = Population(features, values if regresses else codes, rng.uniform(0.5, 1.5, when.size))
    place = features.mean(axis=0) + 0.1 * rng.standard_normal(dimensions)
    query = Query(place, float(values.mean()) + 1.0, within=0.1) if regresses else Query(place, 0)
    return RuleCase(rule, model, Stream(people, when), query, seed)


def _said(reason: Exception) -> str:
    """Return what to do about an error: ours say what was wrong, and in which round."""
    if not isinstance(reason, OARError):
        return "The rule's own code raised this; mend it there."
    where = "pull_back" if "pull_back" in str(reason) else "update"
    return f"Look at what the rule's {where} computes in that round."
