"""The choice of solver over time: exact where centroids are weighted sums, gradients elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Any

from oar.errors import OptionError
from oar.goals.wishes import Aggregate
from oar.online import OnlineProblem
from oar.plans import Proposal
from oar.plans.rounds.plan import OnlinePlan
from oar.progress import OnStep, silent
from oar.solvers.centroids.exact import unrounded
from oar.solvers.registry import Solver, Task, as_solver, current_effort
from oar.solvers.rounds import centroids as online_centroid
from oar.solvers.rounds.descent import RoundSearchResult, leverage, one_shot, search, why
from oar.solvers.settings import Exact, FrankWolfe, OneShot, ProjectedGradient, given_settings

FEW, MORE = 2_000, 20_000  # moves of all rounds, as numbers
ENDED = {
    "steps": "It took all the steps it may take; allow more with max_steps.",
    "time": "Its time limit was over.",
    "stalled": (
        "No step against the slopes lowers the loss any more, as at a kink or at the precision of refits: more steps "
        "would not help, but restarts may."
    ),
    "closed": "",
}


def propose_online(
    problem: OnlineProblem,
    solver: Any = "auto",
    signal: Any = "auto",
    on_step: OnStep = silent,
    together: Aggregate | None = None,
    by: int | None = None,
) -> Proposal:
    """Plan over time for a smooth loss, as `Problem.training` takes it. Not audited: use `oar.collective` for that."""
    if signal != "auto":
        raise OptionError(
            f"signal: over time the rule itself says how it is differentiated; leave it out, got {signal!r}."
        )
    exact = linear(problem) and online_centroid.attained(problem)
    usual: Any = Exact() if exact else ProjectedGradient()
    kinds = (Exact, ProjectedGradient, FrankWolfe, OneShot) if exact else (ProjectedGradient, FrankWolfe, OneShot)
    if solver == "exact" and not exact:
        raise OptionError(f"solver: 'exact' does not apply here: {_why_not_exact(problem)}; use 'projected-gradient'.")
    chosen = as_solver(solver, usual, kinds)
    if isinstance(chosen, Exact):
        return online_centroid.solve(problem)
    if isinstance(chosen, OneShot):
        _only_smooth(problem)
        searched, signals = one_shot(problem)
        return _proposed(problem, searched, chosen, signals)
    usual = current_effort().loop(_suitable(problem, type(chosen)))
    chosen = dataclasses.replace(chosen, **(usual | given_settings(chosen)))
    return _proposed(problem, search(problem, chosen, on_step, together, by), chosen)


def linear(problem: OnlineProblem) -> bool:
    """Report whether centroids are weighted sums of rows, and one person wants one class: what exactness needs."""
    return problem.model.plain_means and hasattr(problem.rule, "kept_share") and problem.plain


def _proposed(problem: OnlineProblem, found: RoundSearchResult, settings: Any, signals: Any = ()) -> Proposal:
    """Put moves, claims and certificates together."""
    end, stuck = found.best, not problem.radii.any()
    exact = stuck
    if not stuck and linear(problem):
        exact = end.loss <= unrounded(online_centroid.least_loss(problem), end.loss) * (1 + 1e-12)
    plan = OnlinePlan(problem, end.moves + 0.0, signals)
    levers = leverage(problem, found.slopes_before)
    finished = stuck or isinstance(settings, OneShot) or end.ended == "closed"
    return Proposal(
        plan=plan,
        solver={ProjectedGradient: "projected-gradient", FrankWolfe: "frank-wolfe", OneShot: "one-shot"}[
            type(settings)
        ],
        claimed_loss=end.loss,
        gap=end.gap,
        exact=exact,
        finished=finished,
        leverage=levers,
        leverage_left=leverage(problem, end.point.gradient),
        steps=found.steps,
        walks=found.rollouts,
        passes=found.passes,
        why=why(plan, levers),
        ended="" if finished else ENDED[end.ended],
    )


def _why_not_exact(problem: OnlineProblem) -> str:
    if not linear(problem):
        return (
            "it is for nearest centroid whose rule goes a known share of the way to class means (full refit, window, "
            "exponential means, gradient steps, fine-tuning), and one query with one class as goal, got "
            f"{problem.model.name} with {problem.rule.name} and a query for {problem.goal_words}"
        )
    if problem.goal_for != "last":
        return "the goal is for every round, and what is best for one need not be for another"
    return "somebody's shared budget is for rows of different classes"


def _suitable(problem: OnlineProblem, kind: type) -> dict[str, Any]:
    """Return settings that suit the problem: a step walks all rounds, forwards and back."""
    numbers = problem.radii.size * problem.stream.people.dimensions
    if not problem.model.convex:
        return {"max_steps": 20, "tolerance": 1e-5, "restarts": 0}
    if kind is FrankWolfe:
        return {"max_steps": 500, "tolerance": 1e-5, "restarts": 0}
    restarts = 0 if numbers > FEW or not problem.model.quick else 4
    steps, tolerance = (1_000, 1e-7) if numbers <= FEW else (300, 1e-6) if numbers <= MORE else (100, 1e-5)
    return {"max_steps": steps, "tolerance": tolerance, "restarts": restarts}


def _only_smooth(problem: OnlineProblem) -> None:
    if problem.query.several != "mean" or problem.undecided:
        raise OptionError(
            "solver: 'one-shot' publishes the signals of one smooth loss, got a query for the worst or the share of "
            "several, or for any of several classes; use 'projected-gradient'."
        )


class OverRounds(Solver):
    """Plans over several rounds, which choose among themselves by the rule and the goal."""

    requires, serves = frozenset({"rounds"}), frozenset({"goals"})

    def propose(self, task: Task, settings: Any) -> Any:
        """Pass on what was asked: which solvers apply depends on the rule."""
        return propose_online(task.problem, task.solver, task.signal, task.on_step, task.together, task.by)


class ExactOverRounds(OverRounds):
    """The optimum over rounds, for nearest centroid; "auto" finds it by way of `GradientOverRounds`."""

    name, settings, auto = "exact", Exact, False


class GradientOverRounds(OverRounds):
    """Projected gradient through all rounds; asked for "auto", the optimum where it is known."""

    name, settings = "projected-gradient", ProjectedGradient


class FrankWolfeOverRounds(OverRounds):
    """Damped best responses through all rounds."""

    name, settings, auto = "frank-wolfe", FrankWolfe, False


class OneShotOverRounds(OverRounds):
    """One response to the signals before any move."""

    name, settings, auto = "one-shot", OneShot, False
