"""Figure 1: twenty flowers, two features, and a query that crosses only if the others move.

For a query on the segment between two centroids the individual and the collective need the *same* budget, so the
paper's picture needs a query off that segment. The instance is found by a search that anybody can repeat:

* draw 20 flowers (7 setosa, 7 versicolor, 6 virginica), as often as the settings say, from the seed;
* every versicolor flower that was not drawn, and that the fitted model calls versicolor, may be the query; its goal is
  setosa (the caption's ŷ = 2 and ỹ† = 1, counted from 1);
* leave out what cannot be seen: flowers on top of each other, or a budget of more than half the way from the query's
  centroid to the goal's;
* take the instance whose two minimal budgets lie farthest apart, and put ε halfway between them. Then the individual
  stays as far short of the boundary as the collective gets past it.

This picks a clear picture, not a typical one, so the spread over all candidates is reported beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.datasets import iris
from oar.errors import DataError
from oar.models import NearestCentroid
from oar.people import Population
from oar.problem import Problem, Query
from oar.questions import minimal_budget
from oar.recourse import collective, individual
from oar_paper.figures.recourse_map import RecourseMap, recourse_map
from oar_paper.figures.voronoi_cells import distance_to_cell

Array = NDArray[np.float64]
FLOWERS_OF_CLASS = (7, 7, 6)
GOAL, SOURCE = 0, 1
FEATURES = ("sepal length (cm)", "sepal width (cm)")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One possible instance: which draw, which flowers (rows of Iris), which query, and both minimal budgets."""

    draw: int
    members: NDArray[np.intp]
    query: int
    collective_minimum: float
    individual_minimum: float
    clear: bool

    @property
    def budget(self) -> float:
        """Halfway between the two minimal budgets."""
        return 0.5 * (self.collective_minimum + self.individual_minimum)


@dataclass(frozen=True, eq=False)
class Figure1:
    """The chosen instance, its audited picture, and how it compares with all the others.

    Attributes:
        candidates: how many instances there were; clear: how many of them could be drawn.
        collective_needs_less: in how many of all the collective's minimal budget is strictly smaller.
        ratio_quartiles: of individual over collective minimal budget, over all candidates.
        chosen_ratio: the same ratio for the chosen instance.
    """

    draw: int
    members: NDArray[np.intp]
    query: int
    collective_minimum: float
    individual_minimum: float
    candidates: int
    clear: int
    collective_needs_less: int
    ratio_quartiles: Array
    chosen_ratio: float
    picture: RecourseMap


def figure1(draws: int, seed: int) -> Figure1:
    """Search for the instance, solve it both ways, and have both audited."""
    flowers = iris()
    found = candidates(flowers.features[:, :2], flowers.labels, draws, seed)
    clear = [candidate for candidate in found if candidate.clear]
    if not clear:
        raise DataError(f"draws: must be enough to find an instance that can be drawn, got {draws}; use more.")
    chosen = max(clear, key=lambda candidate: candidate.individual_minimum - candidate.collective_minimum)
    people = Population(flowers.features[chosen.members, :2], flowers.labels[chosen.members])
    query = Query(flowers.features[chosen.query, :2], goal=GOAL)
    problem = Problem(people, NearestCentroid(), query, Perturb(chosen.budget))
    ratios = np.array([candidate.individual_minimum / candidate.collective_minimum for candidate in found])
    return Figure1(
        draw=chosen.draw,
        members=chosen.members,
        query=chosen.query,
        collective_minimum=float(minimal_budget(problem)),
        individual_minimum=chosen.individual_minimum,
        candidates=len(found),
        clear=len(clear),
        collective_needs_less=int(np.count_nonzero(ratios > 1 + 1e-9)),
        ratio_quartiles=np.quantile(ratios, [0.25, 0.5, 0.75]),
        chosen_ratio=chosen.individual_minimum / chosen.collective_minimum,
        picture=recourse_map(individual(problem), collective(problem)),
    )


def candidates(features: Array, labels: NDArray[np.int64], draws: int, seed: int) -> list[Candidate]:
    """Return every instance of every draw, in a fixed order."""
    return [candidate for draw in range(draws) for candidate in _of_draw(features, labels, draw, seed)]


def _of_draw(features: Array, labels: NDArray[np.int64], draw: int, seed: int) -> list[Candidate]:
    generator = np.random.default_rng([seed, draw])
    members = np.concatenate(
        [
            np.sort(generator.choice(np.flatnonzero(labels == code), count, replace=False))
            for code, count in enumerate(FLOWERS_OF_CLASS)
        ]
    )
    centroids = np.array([features[members[labels[members] == code]].mean(axis=0) for code in range(3)])
    far = 0.5 * float(np.linalg.norm(centroids[GOAL] - centroids[SOURCE]))
    found = []
    for query in np.setdiff1d(np.flatnonzero(labels == SOURCE), members):
        distances = np.linalg.norm(centroids - features[query], axis=1)
        if distances.argmin() != SOURCE:
            continue
        together = 0.5 * float(distances[GOAL] - np.delete(distances, GOAL).min())
        alone = distance_to_cell(centroids, features[query], GOAL)
        shown = features[[*members, query]]
        apart = len(np.unique(shown, axis=0)) == len(shown)
        clear = apart and together + alone <= 2 * far
        found.append(Candidate(draw, members, int(query), together, alone, clear))
    return found
