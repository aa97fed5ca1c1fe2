"""Direct search: true trainings tell which of a policy's points is best, chosen by the covariance matrix adaptation.

Staying put comes first, then the surrogates' plan, then generations of `cma` around it. Where training is deterministic
all losses can be compared, and the least one seen counts. Where it is random, points of a generation share a seed, so
that they differ by what they do and not by luck, and finalists are staying put, the surrogates' plan, the best of the
last generations, and the middle of the search. The audit has other seeds again.

What is searched over are *policies* of few numbers, from a point to what every member does within its own limits:

    classes   δ_i = P_i(m_i + b_iᵀ S)       m the moves it starts from, b_i the person's class (of values: 1 and the
                                            standardised value), S one shift a class, P_i the person's own limits
    signal    δ_i = answer_i(Σ_j a_j v_j)   the surrogates' signals, each member's best response to their sum

On a table moves are whole: there b_iᵀ S is added to the slopes that members respond to. Numbers are scaled so that 1 is
a move of about everyone's budget, and a search may start with steps of about 0.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oar.checks import check_seed, check_that, choose, is_number, with_near_names
from oar.errors import OptionError
from oar.estimators.black_box import Calls
from oar.models.training import Array
from oar.plans import Plan, Proposal
from oar.problem import Problem
from oar.progress import OnStep, silent
from oar.retraining.black_box import Candidate, NoTrainingsLeft, Trials, best_of, kept_for_finals
from oar.signals.base import check_count
from oar.solvers.black_box.answers import Answers, ProxySignal
from oar.solvers.black_box.surrogate import Outlook, Surrogate
from oar.solvers.settings import Usual

STEP = 0.3  # of a policy's unit: the first steps of the search
FOUND = 2  # of the search, among the finalists
FRESH = 1_000_000  # the first number of a seed that no search has seen
POLICIES = ("auto", "classes", "signal")
NAMES = {"signal": "answers to the surrogates' signals", "classes": "shifts of the classes"}
LITTLE = 1e-12  # a loss so low cannot be lowered further
ENTRIES = 12  # of a linear surrogate's signal, up to which each is searched over


@with_near_names
@dataclass(frozen=True)
class DirectSearch:
    """Zeroth-order search by true trainings over a policy of few parameters, with `cma`, from the surrogates' plan.

    No moves and the surrogates' plan are tried first, so the result is never worse than either in the trainings of the
    search. Where training is random, all candidates of one generation share a seed, each generation has its own, and
    finalists are compared over several fresh seeds.

    Args:
        refits: the largest number of trainings of the black box for planning; those of audits are additional. 20 with
            effort="quick", 240 with "thorough".
        policy: what is searched over: "classes", a shift for each class that is added to the start's moves and brought
            back into everyone's own limits (for values: one for all, and one that grows with the value); "signal",
            the weights with which the surrogates' signals are added up, which members answer within their limits, and
            of a small linear surrogate the signal's own entries. "auto" is "signal", and "classes" if half of the
            trainings have found nothing better, or where there are no surrogates.
        start: "surrogate", a `Surrogate(…)`, or "nothing" (no moves).
        time_limit: seconds; no training is begun that would end later if it took as long as the longest so far.
        seed: of the search.
    """

    refits: int = Usual(60)
    policy: str = "auto"
    start: str | Surrogate = "surrogate"
    time_limit: float = np.inf
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("refits", self.refits)
        choose("policy", self.policy, POLICIES)
        if not isinstance(self.start, Surrogate):
            if not isinstance(self.start, str):
                raise OptionError(
                    f"start: must be 'surrogate', 'nothing' or an oar.solvers.Surrogate(…), got {self.start!r}."
                )
            choose("start", self.start, ("surrogate", "nothing"))
        if self.policy == "signal" and self.start == "nothing":
            raise OptionError("start: signals are those of surrogates, so policy='signal' cannot start from 'nothing'.")
        limit = self.time_limit
        check_that(is_number(limit) and limit >= 0, "time_limit", "a number of seconds ≥ 0", limit)
        check_seed(self.seed)

    @property
    def surrogate(self) -> Surrogate | None:
        """What it starts from; None where that is nothing."""
        if isinstance(self.start, Surrogate):
            return self.start
        return Surrogate(seed=self.seed) if self.start == "surrogate" else None


@dataclass(frozen=True, eq=False)
class DirectSearchResult:
    """The end of a search: everyone's contribution, its loss by the trainings that were seen, and generations.

    The loss is a mean over few seeds where training is random, and NaN without any. Why it ended is a sentence, ""
    where nothing was left to gain; the policy is what was searched over.
    """

    candidate: Candidate
    loss: float
    steps: int
    random: bool
    ended: str
    policy: str


def search(
    problem: Problem,
    settings: DirectSearch,
    trials: Trials,
    outlook: Outlook,
    first: Sequence[Candidate] = (),
    query: bool = False,
    on_step: OnStep = silent,
) -> DirectSearchResult:
    """Search from staying put, what surrogates plan, and before that `first`, whose labels and weights then stay."""
    starts = [*first, *([outlook.candidate] if outlook.planned else [])]
    begun = [trials.stay, *starts]
    start = (starts or begun)[0]
    answers = Answers.of(problem, start.targets)
    name, ended = "what everyone does", ""
    try:
        random = trials.is_random()
    except NoTrainingsLeft as why:
        return DirectSearchResult(start, np.nan, 0, False, str(why), name)
    searching, held = _Searching(trials, begun, random, on_step), kept_for_finals(trials, random)
    try:
        for candidate in begun:
            searching.seen.append((trials.loss(candidate, 0), candidate))
        if answers.width and answers.budgets.any():
            for name, policy in policies(settings.policy, answers, outlook):  # the last one that was tried is told
                points, patient = _Points(problem, policy, start, query), settings.policy == "auto" and name == "signal"
                searching.generations(points, settings, held, patient)
    except NoTrainingsLeft as why:
        ended = str(why)
    candidate, loss = searching.best()
    return DirectSearchResult(candidate, loss, searching.steps, random, ended, NAMES.get(name, name))


class _Points:
    """A policy's moves beside labels and weights that stay, and after them the query's own move if it has one."""

    def __init__(self, problem: Problem, policy: ClassShifts | SignalAnswers, start: Candidate, query: bool) -> None:
        self._policy, self._like, self._norm = policy, start, problem.allowance.norm
        self._budget = problem.query_budget if query else 0.0
        width = problem.people.dimensions if query else 0
        own = (np.zeros(problem.people.dimensions) + start.query_move)[:width]
        self._scale = (self._budget or 1.0) / np.sqrt(max(width, 1))
        self.start = np.concatenate([policy.start, own / self._scale])

    def candidate(self, point: Array) -> Candidate:
        """Return what everyone does; who has left does not move."""
        members, own = np.split(point, [self._policy.start.size])
        found = self._like.with_moves(self._policy.moves(members)).leavers_stay()
        if not own.size:
            return found
        return replace(found, query_move=self._norm.project(self._scale * own[None], np.array([self._budget]))[0])


class _Searching:
    """One run: what was seen, and what comes into the final comparison."""

    def __init__(self, trials: Trials, begun: list[Candidate], random: bool, on_step: OnStep) -> None:
        self._trials, self._begun, self._random, self._on_step = trials, begun, random, on_step
        self.seen: list[tuple[float, Candidate]] = []
        self._recent: list[Candidate] = []
        self._middle: list[Candidate] = []
        self.steps = 0

    def generations(self, policy: _Points, settings: DirectSearch, held: int, patient: bool) -> None:
        """Ask and tell, until trainings run short; if `patient`, until half are gone and nothing was better."""
        began, half = len(self.seen), self._trials.left // 2
        for points, tell in asked_of_cma(policy.start, settings.seed):
            if self._random and self._trials.left - len(points) < held:
                raise NoTrainingsLeft(
                    f"Of the trainings it may take ({self._trials.most:,}), it needs those that are left to compare "
                    "finalists; allow more with refits."
                )
            before, since = ([loss for loss, _ in some] for some in (self.seen[:began], self.seen[began:]))
            if not self._random and min(before + since) <= LITTLE:
                raise NoTrainingsLeft("")
            if patient and not self._random and self._trials.left < half and not min(since) < min(before):
                return
            guides, first = [], len(self.seen)
            for candidate in map(policy.candidate, points):
                loss, guide = self._trials.guided(candidate, self.steps if self._random else 0)
                guides.append(guide)
                self.seen.append((loss, candidate))
            self.steps += 1
            least, best = min(self.seen[first:], key=lambda one: one[0])
            self._recent.append(best)
            self._middle = [policy.candidate(tell(guides))]
            self._on_step(self.steps, least, np.inf)

    def best(self) -> tuple[Candidate, float]:
        """Return the least loss seen; of random training, the best of the finalists over fresh seeds."""
        comparable = self.seen
        if self._random:
            others = [*self._middle, *self._recent[::-1]]
            best, mean = best_of(self._trials, self._begun, others[:FOUND], FRESH)
            if not np.isnan(mean):
                return best, mean
            comparable = self.seen[: len(self._begun)]  # too few trainings for that: these have one seed
        loss, least = min(comparable, key=lambda one: one[0], default=(np.nan, self._begun[-1]))
        return least, loss


def asked_of_cma(start: Array, seed: int) -> Iterator[tuple[list[Array], Callable[[list[float]], Array]]]:
    """Yield generations of points from `cma`, with what to call with their losses; that returns the search's middle."""
    import cma  # type: ignore[import-untyped]

    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    # `cma` asks for two dimensions at least; the second does nothing where a policy has one number.
    size = start.size
    begin = start if size > 1 else np.append(start, 0.0)
    # Nothing is printed or written, and no global state is touched
    options = {"verbose": -9, "verb_log": 0, "verb_disp": 0, "seed": np.nan, "randn": normal}
    strategy = cma.CMAEvolutionStrategy(begin, STEP, options)
    while True:
        points = strategy.ask()

        def tell(losses: list[float], points: list[Array] = points) -> Array:
            worst = max((loss for loss in losses if np.isfinite(loss)), default=0.0)
            strategy.tell(points, [loss if np.isfinite(loss) else worst + 1.0 for loss in losses])
            return np.asarray(strategy.mean)[:size]

        yield [np.asarray(point)[:size] for point in points], tell


class ClassShifts:
    """A policy: a shift for each class, added to the moves that the search starts from."""

    def __init__(self, answers: Answers, outlook: Outlook) -> None:
        self._answers, problem = answers, answers.problem
        size, width = len(answers.features), answers.width
        if problem.regresses:
            values = answers.labels.mean(axis=1)
            spread = float(values.std()) or 1.0
            self._basis = np.column_stack([np.ones(size), (values - values.mean()) / spread])
        else:
            self._basis = answers.labels
        self.start = np.zeros(self._basis.shape[1] * width)
        self._base, self._scale = np.zeros((size, width)), 1.0
        if not answers.on_table:
            self._base, self._scale = outlook.moves, float(answers.budgets.max(initial=0.0)) / np.sqrt(width)
        elif outlook.moved:
            slopes = answers.in_cost(answers.scored(outlook.moved, outlook.moves)[1])
            self._base = slopes / (np.abs(slopes).mean() or 1.0)

    def moves(self, point: Array) -> Array:
        """Return everyone's move."""
        shifts = self._basis @ point.reshape(self._basis.shape[1], -1)
        aims, answers = self._base + self._scale * shifts, self._answers
        if not answers.on_table:
            return answers.problem.allowance.norm.project(aims, answers.budgets)
        return answers.respond(aims)


class SignalAnswers:
    """A policy: weights of signals, or one's entries; members answer their sum, once from where the plan left them."""

    def __init__(self, answers: Answers, outlook: Outlook) -> None:
        self._answers, self._at = answers, outlook.moves
        signals = (*outlook.moved, *outlook.still) if outlook.moves.any() else outlook.moved
        entries = outlook.moved[0].entries()
        spread = [self._slopes(one) for one in signals]
        if len(entries) <= ENTRIES:
            spread += [self._slopes(one, self._at) for one in entries]
        sizes = np.array([np.abs(one).mean() for one in spread])
        felt = sizes > 0  # a signal that nobody feels cannot be answered
        self._spread = np.array([one / size for one, size in zip(spread, sizes, strict=True) if size > 0])
        # The plan's own signal: a sum of all surrogates' slopes, as large as they are beside each other
        start = np.where(np.arange(sizes.size) < len(outlook.moved), sizes, 0.0)
        self.start = start[felt] / max(start.max(), np.finfo(float).tiny)

    def _slopes(self, signal: ProxySignal, moves: Array | float = 0.0) -> Array:
        return self._answers.in_cost(self._answers.scored([signal], moves)[1])

    def moves(self, point: Array) -> Array:
        """Return everyone's move."""
        # Without BLAS: its threads would wait for those that the black box's training has left spinning.
        return self._answers.respond(np.einsum("j,jnr->nr", point, self._spread))


def policies(kind: str, answers: Answers, outlook: Outlook) -> Iterator[tuple[str, ClassShifts | SignalAnswers]]:
    """Yield the policy that is asked for, with its name; for "auto" signals where there are any, and then shifts."""
    if kind in ("auto", "signal") and outlook.moved:
        answered = SignalAnswers(answers, outlook)
        if answered.start.size:
            yield "signal", answered
            if kind == "signal":
                return
    yield "classes", ClassShifts(answers, outlook)


def unproved(plan: Plan, solver: str, loss: float, calls: Calls, **said: Any) -> Proposal:
    """Return what was found by trainings and questions alone, which prove nothing."""
    return Proposal(plan, solver, loss, np.inf, exact=False, passes=calls.fits, calls=calls, **said)
