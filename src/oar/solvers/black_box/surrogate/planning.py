"""Plans for a black box by surrogates: auxiliary models that are planned for in its place.

Where the surrogates' training data are the people themselves, their plan is the members'. Otherwise members answer the
signals that were found among the public people after the plan there, each with its own features, label and limits.

What surrogates are planned for is not the truth, so that other starts and the last digits of a minimum, which
`retrained` looks for, are not worth the time that the black box's own training should have: wherever one descent from
where everybody stands is possible, that is the plan (`quick_plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError
from oar.models import Ensemble
from oar.people import Population
from oar.plans import MemberPlan, Proposal
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.retraining.own_training import OwnTraining
from oar.retraining.retraining import FAILED, RefitResult
from oar.signals import as_signal
from oar.solvers.black_box.settings import Surrogate
from oar.solvers.black_box.surrogate.signals import Answers, ProxySignal, signals_at
from oar.solvers.black_box.surrogate.surrogates import (
    able,
    ensemble,
    families,
    public_people,
    public_problem,
    themselves,
    with_labels,
)
from oar.solvers.black_box.trials import Candidate, Trials
from oar.solvers.descent.descent import DescentSettings, descend
from oar.solvers.descent.single_refit import SingleRefit
from oar.solvers.feasible.sets import FeasibleBalls

Array = NDArray[np.float64]
STEPS, FEWER_STEPS = 12, 8  # of a quick plan, with one minimum of training, and where every refit starts from scratch
TOLERANCE = 1e-3
Propose = Callable[[Problem, bool], Proposal]
"""Plans for a model that can be differentiated; the query moves, too, where the second argument says so."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What surrogates make of a problem.

    Attributes:
        problem: the true one; where the most useful members were to be chosen, with those.
        candidate: what everyone is to do.
        before, predicted: what the surrogates say of the query, before and after.
        still, moved: their signals, as people are and after the plan; empty where there are none.
        models: which they were; None where none could be used.
        told: sentences on what they could not do.
        asked: what was planned for in the black box's place.
    """

    problem: Problem
    candidate: Candidate
    before: RefitResult
    predicted: RefitResult
    still: tuple[ProxySignal, ...] = ()
    moved: tuple[ProxySignal, ...] = ()
    models: Ensemble | None = None
    told: tuple[str, ...] = ()
    asked: Problem | None = None

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
        may_act = self.problem.levers is not None or self.problem.allowance.everyones(self.problem.people.size).any()
        unable = may_act and not (self.predicted.loss < self.before.loss or self.predicted.success)
        failing = "The surrogates themselves are not moved towards the goal by it: they cannot represent this problem."
        return " ".join([said, *([failing] if unable else []), *self.told])


def outlook(problem: Problem, settings: Surrogate, trials: Trials, propose: Propose, query: bool = False) -> Outlook:
    """Plan for surrogates; true trainings only where labels are to be distilled."""
    public = public_people(settings, problem)
    told: list[str] = []
    if settings.distil:
        public, told = _distilled(problem, public, trials)
    models, unable = able(families(settings, problem), problem, public)
    told += unable
    if not models:
        return _nothing(problem, [*told, "No surrogate could be fitted, so that it plans nothing."])
    surrogates = public_problem(problem, public, ensemble(models, settings.number, settings.seed))
    try:
        found = propose(surrogates, query)
        own = found.plan.problem  # with those members who were chosen
        retraining, planned = OwnTraining(own), found.plan.contribution()
        before, predicted = retraining.verdict(Contribution()), retraining.verdict(planned, found.plan.query_move)
        still, moved = signals_at(own, Contribution()), signals_at(own, planned)
    except NumericsError as reason:
        return _nothing(problem, [*told, f"The surrogates could not be planned for: {reason}"])
    chosen = problem
    if problem.best is not None:
        chosen = _with_chosen(problem, surrogates, found, moved)
    candidate = _candidate(chosen, public, found, moved)
    assert isinstance(surrogates.model, Ensemble)
    return Outlook(chosen, candidate, before, predicted, still, moved, surrogates.model, tuple(told), own)


def _nothing(problem: Problem, told: list[str]) -> Outlook:
    everyone = np.zeros((problem.people.size, problem.people.dimensions))
    if problem.best is not None:
        told = [*told, "The members were chosen by their position, as nothing is known of their use."]
        able_ = np.flatnonzero(problem.allowance.everyones(problem.people.size) > 0)[: problem.best.number]
        problem = _with_members(problem, able_)
    return Outlook(problem, Candidate(everyone), FAILED, FAILED, told=tuple(told))


def _with_members(problem: Problem, members: NDArray[np.intp]) -> Problem:
    mask = np.zeros(problem.people.size, dtype=bool)
    mask[members] = True
    return problem.with_action(participants=mask, seed=None)


def _with_chosen(problem: Problem, surrogates: Problem, found: Proposal, signals: tuple[ProxySignal, ...]) -> Problem:
    """Return the problem with the most useful members: the surrogates' own choice, or else by what answers gain."""
    assert problem.best is not None
    if themselves(problem.people, surrogates.people, alike=True):
        mask = found.plan.problem.allowance.mask
        assert mask is not None
        return problem.with_action(participants=mask, seed=None)
    answers = Answers(problem)
    moves = answers.to(signals)
    gains = answers.scored(signals, moves)[0] - answers.scored(signals)[0]
    gains = np.where(answers.budgets > 0, gains, -np.inf)
    return _with_members(problem, np.argsort(-gains, kind="stable")[: problem.best.number])


def _candidate(problem: Problem, public: Population, found: Proposal, signals: tuple[ProxySignal, ...]) -> Candidate:
    own = found.plan.query_move if found.plan.query_move.any() else None
    if not themselves(problem.people, public, alike=True) and problem.levers is None:
        return Candidate(Answers(problem).to(signals), query_move=own)
    moves, targets, weights = found.plan.contribution().parts
    if weights is not None:  # of a share of the people the others weigh nothing, and have not left
        weights = np.where(found.plan.away, 0.0, problem.people.row_weights)  # type: ignore[attr-defined]
    return Candidate(moves, targets, weights, own)


def _distilled(problem: Problem, public: Population, trials: Trials) -> tuple[Population, list[str]]:
    """Return public people with the labels that the black box predicts for them."""
    if problem.levers is not None:
        raise OptionError(
            "distil: gives people other labels, so it does not go with Relabel or Withhold; leave it out."
        )
    box = trials.unmoved(0)
    said = box.predictions(np.asarray(public.features, dtype=np.float64))
    if problem.regresses:
        return with_labels(problem, public, np.asarray(said, dtype=np.float64)), []
    rows = np.eye(len(public.classes))[said]
    weights = public.row_weights
    if not (weights @ rows > 0).all():
        lacking = [public.classes[code] for code in np.flatnonzero(weights @ rows <= 0)]
        return public, [f"The black box never predicts {lacking[0]!r} on the public data, so labels stayed their own."]
    return with_labels(problem, public, rows), []


def suits(problem: Problem) -> bool:
    """Report whether a quick plan can be made: moves alone, on plain features, for a smooth sum of goals."""
    alone = problem.levers is None and problem.limits is None and problem.keep is None and problem.best is None
    smooth = problem.query.several == "mean" and not problem.undecided
    return alone and smooth


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
