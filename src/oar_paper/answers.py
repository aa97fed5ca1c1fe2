"""The three questions that people ask, answered for the paper's pairs, and what success costs everybody else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oar.models import NearestCentroid
from oar.people import Population
from oar.questions import break_even, minimal_budget, minimal_coalition
from oar.recourse import collective
from oar_paper.case import Case
from oar_paper.figure2.shares import study_budget


@dataclass(frozen=True)
class Answers:
    """Answers for one data set, in numbers and in words; each rests on an audited result.

    Attributes:
        people: how many data subjects there are.
        minimal_budget: None where no budget suffices.
        budget: ε of the other two questions.
        coalition: the fewest members that suffice at ε, and coalition_by_class: how many of each class.
        break_even: the share of each class from which on the collective beats the individual.
        break_even_at_most: the same if the individual were as good as its proved bound.
        accuracy_before, accuracy_after: of the model on everyone's unmoved features, fitted to them and refitted to
            the moved ones: what the collective's moves at ε do to everybody else.
    """

    data: str
    pair: str
    people: int
    minimal_budget: float | None
    minimal_budget_in_words: str
    budget: float
    coalition: int | None
    coalition_by_class: dict[str, int]
    coalition_in_words: str
    break_even: float | None
    break_even_at_most: float | None
    break_even_in_words: str
    accuracy_before: float
    accuracy_after: float


def answers(case: Case) -> Answers:
    """Ask all three about the paper's pair."""
    budget = study_budget(case)
    problem = case.problem(budget)
    least, fewest, even = minimal_budget(problem), minimal_coalition(problem), break_even(problem)
    features, labels, model = case.dataset.features, case.dataset.labels, NearestCentroid()
    moved = features + np.asarray(collective(problem).plan.moves())
    refitted = model.fit(Population(moved, labels))
    return Answers(
        data=case.title,
        pair=case.describe(case.pair),
        people=case.people.size,
        minimal_budget=least.value if np.isfinite(least.value) else None,
        minimal_budget_in_words=least.explanation,
        budget=budget,
        coalition=fewest.size,
        coalition_by_class={case.name(label): count for label, count in fewest.by_class.items()},
        coalition_in_words=fewest.explanation,
        break_even=even.share,
        break_even_at_most=even.at_most,
        break_even_in_words=even.explanation,
        accuracy_before=float(np.mean(model.predict(case.centroids, features) == labels)),
        accuracy_after=float(np.mean(model.predict(refitted, features) == labels)),
    )
