"""Plans for a black box by surrogates: auxiliary models that are planned for in its place.

Families take turns, from the second turn on on bootstrap draws; those that cannot represent the goal are left out. They
are trained on public people, with the same query, limits and budget. Where these are the people themselves, the plan is
the members'. Otherwise members answer the signals that were found among the public people after the plan there, each
with its own features, label and limits.

What surrogates are planned for is not the truth, so that other starts and the last digits of a minimum, which
`retrained` looks for, are not worth the time that the black box's own training should have: wherever one descent from
where everybody stands is possible, that is the plan (`quick_plan`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.choice import part_of
from oar.checks import check_flag, check_seed, is_number, with_near_names
from oar.errors import DataError, NumericsError, OptionError
from oar.models import Differentiable, Ensemble, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.models.training import Array
from oar.people import Population
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.retraining.black_box import Candidate, Trials
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import FAILED, OwnTraining, RefitResult, predictions
from oar.signals import as_signal
from oar.signals.base import check_count
from oar.solvers.black_box.answers import Answers, ProxySignal, signals_at
from oar.solvers.descent.descent import DescentSettings, SingleRefit, descend
from oar.solvers.feasible.sets import FeasibleBalls
from oar.solvers.registry import Task, propose
from oar.solvers.settings import ProjectedGradient
from oar.typing import ModelLike, PeopleLike

FITTED = 1e-6  # the gradient norm to which a family is tried
LOOKED_AT = 500  # public people whose predictions are looked at
STEPS, FEWER_STEPS = 12, 8  # of a quick plan, with one minimum of training, and where every refit starts from scratch
TOLERANCE = 1e-3
ENOUGH = 3_000  # people times outputs: more teach linear surrogates little that is new, and take longer


@with_near_names
@dataclass(frozen=True)
class Surrogate:
    """Surrogate models: plan for models trained on public data, so that the plan may transfer to the black box.

    A plan for several surrogates minimises the mean of their goal losses. Where the public data are not the people
    themselves, the plan is made for the public people, with the same limits and budget, and members then respond to the
    signals found there, each within its own limits.

    Args:
        models: the families, models of `oar.models`; None for softmax regression and a linear SVM behind a scaler
            (values: ridge regression behind a scaler).
        public: what the surrogates are trained on: 1.0 for the people themselves, a share of them, drawn by the seed,
            or an oar.Population of others, with the same features and classes. None is 1.0 for up to some 3,000
            people, and as many of more.
        number: the number of surrogates; None for one of each family. Families take turns, and from the second turn on
            each is trained on a bootstrap sample of the public data (networks from other initial weights as well).
        seed: of all draws.
        distil: whether public people get the labels that the black box, trained on the unmoved people, predicts for
            them, rather than their own. This takes one training and one call for predictions.
    """

    models: str | ModelLike | Sequence[str | ModelLike] | None = None
    public: float | PeopleLike | None = None
    number: int | None = None
    seed: int = 0
    distil: bool = False

    def __post_init__(self) -> None:
        given: Any = self.models
        if given is not None:
            models = tuple(given) if isinstance(given, list | tuple) else (given,)
            if not models or not all(isinstance(model, Differentiable) and not model.plain_means for model in models):
                raise DataError(
                    f"models: must be models of oar.models that are trained, got {self.models!r}; for centroids use "
                    "oar.models.PrototypeNetwork()."
                )
            object.__setattr__(self, "models", models)
        share = 1.0 if isinstance(self.public, Population | None) else self.public
        if not is_number(share) or not 0 < share <= 1:
            raise DataError(
                f"public: must be a share of the people above 0 and at most 1, or an oar.Population, got {share!r}."
            )
        if self.number is not None:
            check_count("number", self.number)
        check_seed(self.seed)
        check_flag("distil", self.distil)


def families(settings: Surrogate, problem: Problem) -> tuple[Differentiable, ...]:
    """Return the families that are asked for, or the usual ones."""
    models: Any = settings.models
    if models is not None:
        wrong = [model for model in models if bool(model.regresses) != problem.regresses]
        if wrong:
            what = "values" if problem.regresses else "classes"
            raise DataError(f"models: must predict {what}, as {problem.model.name} does, got {wrong[0].name}.")
        return tuple(models)
    if problem.regresses:
        return (Scaled(Ridge(1e-2)),)
    softmax = Scaled(SoftmaxRegression(1e-2))
    # A linear SVM's outputs are margins, of which no probability can be asked.
    return (softmax,) if problem.query.probability is not None else (softmax, Scaled(LinearSVM(1e-2)))


def ensemble(models: tuple[Differentiable, ...], number: int | None, seed: int) -> Ensemble:
    """Return so many surrogates: families in turns, from the second turn on on bootstrap draws."""
    number, kinds = number or len(models), len(models)
    chosen = tuple(_turned(models[place % kinds], place // kinds) for place in range(number))
    drawn = np.random.SeedSequence([seed, 1]).generate_state(number).tolist()
    return Ensemble(chosen, tuple(one if place >= kinds else None for place, one in enumerate(drawn)))


def _turned(model: Differentiable, turn: int) -> Differentiable:
    """Return a family for its next turn: what starts from a seed starts from another one."""
    if isinstance(model, Scaled):
        return replace(model, model=_turned(model.model, turn))
    if not turn or not hasattr(model, "seed"):
        return model
    turned: Any = copy.copy(model)  # settings are frozen, so that they are set as a dataclass sets them
    object.__setattr__(turned, "seed", model.seed + turn)
    return turned


def able(models: tuple[Differentiable, ...], problem: Problem, public: Population) -> tuple[tuple[Any, ...], list[str]]:
    """Return the families that can represent the goal on public data, and a sentence on each that cannot.

    One that cannot be fitted, or that never predicts the goal of any public person, nor for who asks, says nothing
    about how to get there. Where that is so of all that can be fitted, they are kept, and it is said.
    """
    kept, fitted, told = [], [], []
    for model in models:
        try:
            training = model.training(public)
            fit = training.fit(training.moved(None), training.start(), FITTED)
            predicts = problem.regresses or _predicts(model, training.parameters(fit.parameters), problem, public)
        except (NumericsError, DataError) as reason:
            told.append(f"Surrogate {model.name} cannot be fitted to the public data and was left out: {reason}")
            continue
        fitted.append(model)
        if predicts:
            kept.append(model)
        else:
            told.append(
                f"Surrogate {model.name} never predicts {problem.goal_words} on the public data: it cannot represent "
                "the goal."
            )
    if fitted and not kept:
        return tuple(fitted), [*told, "No other surrogate was there, so that little is to be expected of this plan."]
    return tuple(kept), told


def _predicts(model: Differentiable, parameters: Any, problem: Problem, public: Population) -> bool:
    """Report whether somebody's goal is predicted of anybody."""
    some = np.linspace(0, public.size - 1, min(public.size, LOOKED_AT)).astype(np.intp)
    rows = np.vstack([np.asarray(public.features, dtype=np.float64)[some], problem.asked.points])
    codes = predictions(model, parameters, rows)
    return bool(np.isin(codes, problem.wanted_codes).any())


def public_people(settings: Surrogate, problem: Problem) -> Population:
    """Return whom surrogates are trained on: others, the people themselves, or those of them who are drawn.

    Where labels, leavers, members who ask or limits on others tie everyone together, those who are not drawn stay, and
    weigh nothing.
    """
    people = problem.people
    public: Any = settings.public
    if isinstance(public, Population):
        return _checked(problem, public)
    apart = problem.just_moves and not problem.asked.among.size
    if public is None:
        outputs = people.size * (1 if problem.regresses else len(people.classes) - 1)
        public = min(1.0, ENOUGH / outputs) if apart else 1.0
    if public == 1.0:
        return people
    weights = people.row_weights
    drawn = np.zeros(people.size, dtype=bool)
    rng = np.random.default_rng([settings.seed, 2])
    codes = np.zeros(people.size) if problem.regresses else people.codes(0, people.size)
    for code in np.unique(codes):  # as many of each class as can be, and of each somebody
        mine = rng.permutation(np.flatnonzero((codes == code) & (weights > 0)))
        drawn[mine[: max(1, round(float(public) * mine.size))]] = True
    if apart:
        return people.some(np.flatnonzero(drawn))
    return Contribution(weights=np.where(drawn, weights, 0.0)).handed_in(people, problem.regresses)


def themselves(people: Population, public: Population, alike: bool = False) -> bool:
    """Report whether public people are the people, one by one, maybe with other labels; `alike`, with their weights."""
    one, other = people.features, public.features
    same = one.shape == other.shape and one.strides == other.strides and one.ctypes.data == other.ctypes.data
    return (public is people or same) and (not alike or public.weights is people.weights)


def public_problem(problem: Problem, public: Population, model: Ensemble) -> Problem:
    """Return the same question of surrogates: of the people themselves or a share of them, with all their limits.

    Other people have the members' common budget (else the median one), as many participants, and limits on columns,
    but nobody's own.
    """
    people = problem.people
    if public is people:
        return problem.of_model(model)
    perturb = part_of(problem.action, Perturb) or Perturb(0.0)
    if themselves(people, public):  # with those participants who were drawn
        action = problem.action if perturb.participants is None else problem.with_action().action
        return replace(problem, people=public, model=model, action=action)
    if problem.asked.among.size:
        raise OptionError(
            "public: must be the people themselves, or a share of them, where members ask, got others; leave it out."
        )
    problem.only_moves("a plan among other people")
    budgets = problem.allowance.everyones(people.size)
    acting = budgets > 0
    budget = float(np.median(budgets[acting])) if acting.any() else 0.0
    limits = perturb.limits and replace(perturb.limits, own={})
    share = float(acting.mean())
    participants: Any = None if share in (0.0, 1.0) else share
    action = replace(perturb, budget=budget, limits=limits, participants=participants, seed=0 if participants else None)
    return replace(problem, people=public, model=model, action=action, keep=None)


def _checked(problem: Problem, public: Population) -> Population:
    people = problem.people
    if public.dimensions != people.dimensions or public.schema != people.schema:
        raise DataError(
            f"public: must have the people's features ({people.dimensions} of them, and of a table the same columns "
            f"and levels), got others ({public.dimensions}); make both with the same schema."
        )
    if not problem.regresses and public.classes != people.classes:
        raise DataError(f"public: must have the people's classes {people.classes}, got {public.classes}.")
    return public


@dataclass(frozen=True, eq=False)
class Outlook:
    """The surrogates' view of a problem."""

    problem: Problem  # the true one; where the most useful members were to be chosen, with those
    candidate: Candidate  # what everyone is to do
    before: RefitResult  # before, predicted: what the surrogates say of the query, before and after
    predicted: RefitResult
    still: tuple[ProxySignal, ...] = ()  # their signals, if there are any: as people are,
    moved: tuple[ProxySignal, ...] = ()  # and after the plan
    models: Ensemble | None = None  # which they were; None where none could be used
    told: tuple[str, ...] = ()  # sentences on what they could not do
    asked: Problem | None = None  # what was planned for in the black box's place
    planned: bool = True  # whether there was anything to plan with

    @classmethod
    def empty(cls, problem: Problem) -> Outlook:
        """Return what is known where surrogates are not asked."""
        stay = Candidate(np.zeros((problem.people.size, problem.people.dimensions)))
        return cls(problem, stay, FAILED, FAILED, planned=False)

    @property
    def moves(self) -> Array:
        """Everyone's move (n, d)."""
        return self.candidate.parts[0]

    @property
    def note(self) -> str:
        """What was planned for, and what that said, in sentences."""
        if self.models is None:
            return " ".join(self.told)
        said = (
            f"Planned for an {self.models.name}, which predicts a goal loss of {self.predicted.loss:.4g} "
            f"(before any move: {self.before.loss:.4g}) and {'the goal' if self.predicted.success else 'not the goal'}."
        )
        may_act = self.problem.levers.given or self.problem.allowance.everyones(self.problem.people.size).any()
        unable = may_act and not (self.predicted.loss < self.before.loss or self.predicted.success)
        failing = "The surrogates themselves are not moved towards the goal by it: they cannot represent this problem."
        return " ".join([said, *([failing] if unable else []), *self.told])


def outlook(problem: Problem, settings: Surrogate, trials: Trials, query: bool = False) -> Outlook:
    """Plan for surrogates; true trainings only where labels are to be distilled."""
    public = public_people(settings, problem)
    told: list[str] = []
    if settings.distil:
        public, told = _distilled(problem, public, trials)
    models, unable = able(families(settings, problem), problem, public)
    told += unable
    if not models:
        return _nothing(problem, [*told, "No surrogate could be fitted, so that it plans nothing."])
    ensembled = ensemble(models, settings.number, settings.seed)
    surrogates = public_problem(problem, public, ensembled)
    try:
        found = _planned(surrogates, query)
        own = found.plan.problem  # with those members who were chosen
        retraining, planned = OwnTraining(own), found.plan.contribution()
        before, predicted = retraining.verdict(Contribution()), retraining.verdict(planned, found.plan.query_move)
        still, moved = signals_at(own, Contribution()), signals_at(own, planned)
    except NumericsError as reason:
        return _nothing(problem, [*told, f"The surrogates could not be planned for: {reason}"])
    if problem.best is not None:
        problem = _with_chosen(problem, problem.best.number, surrogates, found, moved)
    candidate = _candidate(problem, public, found, moved)
    return Outlook(problem, candidate, before, predicted, still, moved, ensembled, tuple(told), own)


def _nothing(problem: Problem, told: list[str]) -> Outlook:
    if problem.best is not None:
        told = [*told, "The members were chosen by their position, as nothing is known of their use."]
        able_ = np.flatnonzero(problem.allowance.everyones(problem.people.size) > 0)[: problem.best.number]
        problem = _with_members(problem, able_)
    return replace(Outlook.empty(problem), told=tuple(told), planned=True)


def _with_members(problem: Problem, members: NDArray[np.intp]) -> Problem:
    return problem.with_action(participants=np.isin(np.arange(problem.people.size), members), seed=None)


def _with_chosen(
    problem: Problem, number: int, surrogates: Problem, found: Proposal, signals: tuple[ProxySignal, ...]
) -> Problem:
    """Return the problem with the most useful members: the surrogates' own choice, or else by what answers gain."""
    if themselves(problem.people, surrogates.people, alike=True):
        mask = found.plan.problem.allowance.acting(problem.people.size)
        return problem.with_action(participants=mask, seed=None)
    answers = Answers.of(problem)
    gains = answers.scored(signals, answers.to(signals))[0] - answers.scored(signals)[0]
    gains = np.where(answers.budgets > 0, gains, -np.inf)
    return _with_members(problem, np.argsort(-gains, kind="stable")[:number])


def _candidate(problem: Problem, public: Population, found: Proposal, signals: tuple[ProxySignal, ...]) -> Candidate:
    own = found.plan.query_move
    if not themselves(problem.people, public, alike=True) and not problem.levers.given:
        return Candidate(Answers.of(problem).to(signals), query_move=own)
    moves, targets, weights = found.plan.contribution().parts
    if weights is not None:  # of a share of the people the others weigh nothing, and have not left
        weights = np.where(found.plan.away, 0.0, problem.people.row_weights)  # type: ignore[attr-defined]
    return Candidate(moves, targets, weights, own)


def _distilled(problem: Problem, public: Population, trials: Trials) -> tuple[Population, list[str]]:
    """Return public people with the labels that the black box predicts for them."""
    if problem.levers.given:
        raise OptionError(
            "distil: gives people other labels, so it does not go with Relabel or Withhold; leave it out."
        )
    box = trials.unmoved(0)
    said = box.predictions(np.asarray(public.features, dtype=np.float64))
    if problem.regresses:
        return Contribution(targets=np.asarray(said, dtype=np.float64)).handed_in(public, True), []
    rows = np.eye(len(public.classes))[said]
    weights = public.row_weights
    if not (weights @ rows > 0).all():
        lacking = [public.classes[code] for code in np.flatnonzero(weights @ rows <= 0)]
        return public, [f"The black box never predicts {lacking[0]!r} on the public data, so labels stayed their own."]
    return Contribution(targets=rows).handed_in(public, False), []


def _planned(problem: Problem, query: bool) -> Proposal:
    """Plan for models that stand in for a black box: quickly for moves alone and a smooth sum of goals."""
    solver: Any = "auto"
    smooth = problem.query.several == "mean" and not problem.undecided
    if problem.just_moves and problem.within_balls and smooth:
        return quick_plan(problem, query)
    if problem.moves and problem.within_balls:
        solver = ProjectedGradient(max_steps=100 if problem.model.convex else 20, tolerance=1e-4, restarts=0)
    found: Proposal = propose(Task(problem, "joint" if query else "collective", solver))
    return found


def quick_plan(problem: Problem, query: bool) -> Proposal:
    """Move the members, and the query too if `query`."""
    people, training = problem.people, problem.training()
    maker, _ = as_signal("auto", training)
    radii = np.append(problem.allowance.everyones(people.size), problem.query_budget if query else 0.0)
    limits = FeasibleBalls(problem.allowance.norm, radii, np.append(training.weights, 1.0))
    convex = problem.model.convex
    settings = DescentSettings("spectral", STEPS if convex else FEWER_STEPS, TOLERANCE, np.inf)
    objective = SingleRefit(training, maker, problem.first_query, problem.goal_target, from_scratch=not convex)
    stay = np.zeros((people.size + 1, people.dimensions))
    reached = descend(objective, limits, stay, settings)
    return Proposal(
        plan=MemberPlan(problem, reached.moves[-1] + 0.0, reached.moves[:-1] + 0.0),
        solver="projected-gradient",
        claimed_loss=reached.loss,
        gap=reached.gap,
        exact=False,
        finished=reached.ended == "closed",
        steps=reached.steps,
        passes=training.passes,
    )
