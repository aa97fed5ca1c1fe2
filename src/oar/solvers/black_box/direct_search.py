"""Direct search: true trainings tell which of a policy's points is best, chosen by the covariance matrix adaptation.

Staying put comes first, then the surrogates' plan, then generations of `cma` around it. Where training is deterministic
all losses can be compared, and the least one seen counts. Where it is random, a generation shares one seed, so that
its points differ by what they do and not by luck; the next generation has another seed; and finalists (staying put,
the surrogates' plan, the best of the last generations, the middle of the search) are compared over fresh seeds. The
audit has other seeds again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oar.problem import Problem
from oar.progress import OnStep
from oar.solvers.black_box.policies import Policy, policies
from oar.solvers.black_box.settings import DirectSearch
from oar.solvers.black_box.surrogate.planning import Outlook
from oar.solvers.black_box.surrogate.signals import Answers
from oar.solvers.black_box.trials import NoTrainingsLeft, TrialContribution, Trials, best_of, kept_for_finals

Array = NDArray[np.float64]
STEP = 0.3  # of a policy's unit: the first steps of the search
FOUND = 2  # of the search, among the finalists
FRESH = 1_000_000  # the first number of a seed that no search has seen
NAMES = {"signal": "answers to the surrogates' signals", "classes": "shifts of the classes"}
LITTLE = 1e-12  # a loss so low cannot be lowered further


@dataclass(frozen=True, eq=False)
class DirectSearchResult:
    """Where a search ended: what everyone does, its (mean) loss, steps, and why it ended.

    Attributes:
        deed: the best that was seen.
        loss: by the trainings that were seen; NaN where there was none.
        steps: generations.
        random: whether training is random, so that the loss is a mean over few seeds.
        ended: why, in a sentence; "" where nothing was left to gain.
        policy: what was searched over.
    """

    deed: TrialContribution
    loss: float
    steps: int
    random: bool
    ended: str
    policy: str


def search(
    problem: Problem,
    settings: DirectSearch,
    trials: Trials,
    outlook: Outlook | None,
    first: TrialContribution | None = None,
    query: bool = False,
    on_step: OnStep | None = None,
) -> DirectSearchResult:
    """Search from staying put and from what surrogates plan.

    Labels and weights are those of `first`, where there are any; it is the start then.
    """
    people = problem.people
    stay = TrialContribution(np.zeros((people.size, people.dimensions)))
    start = first or (None if outlook is None else outlook.deed)
    answers = Answers(problem, None if start is None else start.rows)
    begun = [stay, *(one for one in (first, None if outlook is None else outlook.deed) if one is not None)]
    searching = _Searching(trials, begun, on_step)
    name = "what everyone does"
    try:
        random = searching.random = trials.is_random()
    except NoTrainingsLeft as why:
        return DirectSearchResult(start or stay, np.nan, 0, False, str(why), name)
    held = kept_for_finals(trials, random)
    ended = ""
    try:
        searching.begin()
        if answers.width and answers.budgets.any():
            for name, policy in policies(settings.policy, answers, outlook):  # the last one that was tried is told
                tried = _MovesAndQuery(problem, policy, start) if query else _Moves(policy, start)
                searching.generations(tried, settings, held, settings.policy == "auto" and name == "signal")
    except NoTrainingsLeft as why:
        ended = str(why)
    deed, loss = searching.best(random)
    return DirectSearchResult(deed, loss, searching.steps, random, ended, NAMES.get(name, name))


class _Moves:
    """A policy's moves beside labels and weights that stay."""

    def __init__(self, policy: Policy, start: TrialContribution | None) -> None:
        self.policy, self._like, self.start = policy, start or TrialContribution(np.zeros((0, 0))), policy.start

    def deed(self, point: Array) -> TrialContribution:
        """Return what everyone does; who has left does not move."""
        moves = self.policy.moves(point)
        if self._like.weights is not None:
            moves = np.where(self._like.weights[:, None] > 0, moves, 0.0)
        return replace(self._like, moves=moves)


class _MovesAndQuery:
    """A policy, and the query's own move after it, within its budget."""

    def __init__(self, problem: Problem, policy: Policy, start: TrialContribution | None) -> None:
        self._policy, self._norm, self._budget = policy, problem.allowance.norm, problem.query_budget
        own = np.zeros(problem.people.dimensions) if start is None or start.query_move is None else start.query_move
        self._scale = (self._budget or 1.0) / np.sqrt(own.size)
        self.start = np.concatenate([policy.start, own / self._scale])

    def deed(self, point: Array) -> TrialContribution:
        """Return members' moves and the query's own."""
        members, own = np.split(point, [self._policy.start.size])
        query_move = self._norm.project(self._scale * own[None], np.array([self._budget]))[0]
        return TrialContribution(self._policy.moves(members), query_move=query_move)


class _Searching:
    """One run: what was seen, and what comes into the final comparison."""

    def __init__(self, trials: Trials, begun: list[TrialContribution], on_step: OnStep | None) -> None:
        self._trials, self._begun, self._on_step = trials, begun, on_step
        self._seen: list[tuple[float, TrialContribution]] = []
        self._first: list[tuple[float, TrialContribution]] = []  # with the first seed
        self._recent: list[TrialContribution] = []
        self._middle: TrialContribution | None = None
        self.random, self.steps = False, 0

    def begin(self) -> None:
        """Try staying put, and what it starts from."""
        for deed in self._begun:
            self._seen.append((self._trials.loss(deed, 0), deed))
            self._first.append(self._seen[-1])

    def generations(self, policy: _Moves | _MovesAndQuery, settings: DirectSearch, held: int, patient: bool) -> None:
        """Ask and tell, until trainings run short; if `patient`, until half are gone and nothing was better."""
        began, half = len(self._seen), self._trials.left // 2
        for points, tell in asked_of_cma(policy.start, settings.seed):
            if self.random and self._trials.left - len(points) < held:
                raise NoTrainingsLeft(
                    f"It may take {self._trials.refits:,} trainings, and needs those that are left to compare "
                    "finalists; allow more with refits."
                )
            before, since = ([loss for loss, _ in some] for some in (self._seen[:began], self._seen[began:]))
            if not self.random and min(before + since) <= LITTLE:
                raise NoTrainingsLeft("")
            if patient and not self.random and self._trials.left < half and not min(since) < min(before):
                return
            losses, guides, deeds = [], [], []
            for point in points:
                deeds.append(policy.deed(point))
                loss, guide = self._trials.judged(deeds[-1], self.steps if self.random else 0, guided=True)
                losses.append(loss)
                guides.append(guide)
                self._seen.append((loss, deeds[-1]))
            self.steps += 1
            self._recent.append(deeds[int(np.argmin(losses))])
            middle = tell(guides)
            self._middle = policy.deed(middle)
            if self._on_step is not None:
                self._on_step(self.steps, float(min(losses)), np.inf)

    def best(self, random: bool) -> tuple[TrialContribution, float]:
        """Return the least loss seen; of random training, the best of the finalists over fresh seeds."""
        if not random:
            if not self._seen:
                return self._begun[-1], np.nan
            loss, deed = min(self._seen, key=lambda one: one[0])
            return deed, loss
        others = [*([] if self._middle is None else [self._middle]), *self._recent[::-1]]
        safe = self._begun
        deed, mean = best_of(self._trials, safe, others[:FOUND], FRESH)
        if np.isnan(mean):  # too few trainings for that: those of one seed can be compared
            mean, deed = min(self._first, key=lambda one: one[0], default=(np.nan, self._begun[-1]))
        return deed, mean


def asked_of_cma(start: Array, seed: int) -> Iterator[tuple[list[Array], Callable[[list[float]], Array]]]:
    """Yield generations of points from `cma`, with what to call with their losses; that returns the search's middle.

    Nothing is printed or written, and no global state is touched: random numbers come from a generator of its own.
    """
    import cma  # type: ignore[import-untyped]

    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    # `cma` asks for two dimensions at least; the second does nothing where a policy has one number.
    size = start.size
    begin = start if size > 1 else np.append(start, 0.0)
    options = {"verbose": -9, "verb_log": 0, "verb_disp": 0, "seed": np.nan, "randn": normal}
    strategy = cma.CMAEvolutionStrategy(begin, STEP, options)
    while True:
        points = strategy.ask()

        def tell(losses: list[float], points: list[Array] = points) -> Array:
            worst = max((loss for loss in losses if np.isfinite(loss)), default=0.0)
            strategy.tell(points, [loss if np.isfinite(loss) else worst + 1.0 for loss in losses])
            return np.asarray(strategy.mean)[:size]

        yield [np.asarray(point)[:size] for point in points], tell
