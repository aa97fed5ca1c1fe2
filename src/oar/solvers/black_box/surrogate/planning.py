"""Plans for a black box by surrogates: auxiliary models that are planned for in its place.

Where the surrogates' training data are the people themselves, their plan is the members'. Otherwise members answer the
signals that were found among the public people after the plan there, each with its own features, label and limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.errors import NumericsError, OptionError
from oar.models import Ensemble
from oar.people import Population
from oar.plans import LeverPlan, Proposal
from oar.plans.refits import RefitResult, Refits
from oar.problem import Problem
from oar.solvers.black_box.settings import Surrogate
from oar.solvers.black_box.surrogate.families import able, ensemble, families
from oar.solvers.black_box.surrogate.public_people import public_people, public_problem, themselves, with_labels
from oar.solvers.black_box.surrogate.signals import Answers, ProxySignal, signals_at
from oar.solvers.black_box.trials import TrialContribution, Trials

Array = NDArray[np.float64]
Propose = Callable[[Problem, bool], Proposal]
"""Plans for a model that can be differentiated; the query moves, too, where the second argument says so."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """What surrogates make of a problem.

    Attributes:
        problem: the true one; where the most useful members were to be chosen, with those.
        deed: what everyone is to do.
        before, predicted: what the surrogates say of the query, before and after.
        still, moved: their signals, as people are and after the plan; empty where there are none.
        models: which they were; None where none could be used.
        told: sentences on what they could not do.
        asked: what was planned for in the black box's place.
    """

    problem: Problem
    deed: TrialContribution
    before: RefitResult
    predicted: RefitResult
    still: tuple[ProxySignal, ...] = ()
    moved: tuple[ProxySignal, ...] = ()
    models: Ensemble | None = None
    told: tuple[str, ...] = ()
    asked: Problem | None = None

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
        refits = Refits(found.plan)
        before, predicted = refits.verdict(refits.before, query_moves=False), refits.verdict(refits.planned)
        own = found.plan.problem  # with those members who were chosen
        still, moved = signals_at(own, None), signals_at(own, refits.planned)
    except NumericsError as reason:
        return _nothing(problem, [*told, f"The surrogates could not be planned for: {reason}"])
    chosen = problem
    if problem.best is not None:
        chosen = _with_chosen(problem, surrogates, found, moved)
    deed = _deed(chosen, public, found, moved)
    assert isinstance(surrogates.model, Ensemble)
    return Outlook(chosen, deed, before, predicted, still, moved, surrogates.model, tuple(told), own)


def _nothing(problem: Problem, told: list[str]) -> Outlook:
    everyone = np.zeros((problem.people.size, problem.people.dimensions))
    nothing = RefitResult(np.nan, False)
    if problem.best is not None:
        told = [*told, "The members were chosen by their position, as nothing is known of their use."]
        able_ = np.flatnonzero(problem.allowance.everyones(problem.people.size) > 0)[: problem.best.number]
        problem = _with_members(problem, able_)
    return Outlook(problem, TrialContribution(everyone), nothing, nothing, told=tuple(told))


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


def _deed(problem: Problem, public: Population, found: Proposal, signals: tuple[ProxySignal, ...]) -> TrialContribution:
    plan, people = found.plan, problem.people
    own = plan.query_move if plan.query_move.any() else None
    if themselves(people, public, alike=True) or problem.levers is not None:
        moves = np.array(plan.moves(), dtype=np.float64)
        if not isinstance(plan, LeverPlan):
            return TrialContribution(moves, query_move=own)
        weights = people.row_weights
        return TrialContribution(moves, plan.targets, np.where(plan.away, 0.0, weights))
    return TrialContribution(Answers(problem).to(signals), query_move=own)


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
