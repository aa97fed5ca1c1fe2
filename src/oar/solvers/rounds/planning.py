"""Which solver plans over time: exact where centroids are weighted sums, gradients elsewhere."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import OptionError
from oar.goals import ClassWish
from oar.goals.wishes import Aggregate, failing, mean, worst
from oar.models.linear.losses import Linear
from oar.online import OnlineProblem, Rollout
from oar.plans.rounds.plan import OnlinePlan
from oar.plans.rounds.result import OnlineProposal
from oar.progress import OnStep
from oar.solvers.centroids.reach import unrounded
from oar.solvers.rounds import centroids as online_centroid
from oar.solvers.rounds import one_shot as online_one_shot
from oar.solvers.rounds.gradient import RoundSearchResult, search
from oar.solvers.rounds.timing import leverage, why
from oar.solvers.settings import Exact, FrankWolfe, OneShot, ProjectedGradient, as_solver, current_effort

Array = NDArray[np.float64]
FEW, MORE = 2_000, 20_000  # moves of all rounds, as numbers
STAND_IN = "What is not smooth was planned for by a smooth stand-in, so that no certificate speaks of it."
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
    problem: OnlineProblem, solver: Any = "auto", signal: Any = "auto", on_step: OnStep | None = None
) -> OnlineProposal:
    """Plan over time. Not audited: use `oar.collective` for that."""
    if signal != "auto":
        raise OptionError(
            f"signal: over time the rule itself says how it is differentiated; leave it out, got {signal!r}."
        )
    exact = online_centroid.linear(problem) and online_centroid.attained(problem)
    usual: Any = Exact() if exact else ProjectedGradient()
    kinds = (Exact, ProjectedGradient, FrankWolfe, OneShot) if exact else (ProjectedGradient, FrankWolfe, OneShot)
    if solver == "exact" and not exact:
        raise OptionError(f"solver: 'exact' does not apply here: {_why_not_exact(problem)}; use 'projected-gradient'.")
    chosen = as_solver(solver, usual, kinds)
    if isinstance(chosen, Exact):
        return online_centroid.solve(problem)
    if isinstance(chosen, OneShot):
        _only_smooth(problem)
        searched, signals = online_one_shot.solve(problem)
        return _proposed(problem, searched, chosen, signals)
    given = {name: value for name, value in vars(chosen).items() if value is not None}
    chosen = dataclasses.replace(chosen, **(current_effort().loop(_suitable(problem, type(chosen))) | given))
    kinds_of_loss = _together(problem)
    if len(kinds_of_loss) == 1:
        together, by = kinds_of_loss[0]
        return _proposed(problem, search(problem, chosen, on_step, together, by), chosen)
    found = [search(problem, chosen, on_step, together, by) for together, by in kinds_of_loss]
    best = min(found, key=lambda one: _value(problem, one.best.moves))
    smooth = problem.everyone.undecided
    steps, rollouts, passes = (sum(getattr(one, name) for one in found) for name in ("steps", "rollouts", "passes"))
    proposal = _proposed(problem, dataclasses.replace(best, steps=steps, rollouts=rollouts, passes=passes), chosen)
    claimed = _value(problem, best.best.moves)[0]
    if not smooth:  # gradients are of the stand-in
        proposal = dataclasses.replace(proposal, gap=0.0 if proposal.exact else np.inf)
    return dataclasses.replace(
        proposal,
        claimed_loss=claimed,
        finished=proposal.finished and smooth,
        ended=proposal.ended if smooth else STAND_IN,
    )


def _proposed(problem: OnlineProblem, found: RoundSearchResult, settings: Any, signals: Any = ()) -> OnlineProposal:
    """Put moves, claims and certificates together."""
    end, stuck = found.best, not problem.radii.any()
    exact = stuck
    if not stuck and online_centroid.linear(problem):
        exact = end.loss <= unrounded(online_centroid.least_loss(problem), end.loss) * (1 + 1e-12)
    plan = OnlinePlan(problem, end.moves + 0.0, signals)
    levers = leverage(problem, found.slopes_before)
    finished = stuck or isinstance(settings, OneShot) or end.ended == "closed"
    return OnlineProposal(
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
    if not online_centroid.linear(problem):
        return (
            "it is for nearest centroid whose rule goes a known share of the way to class means (full refit, window, "
            "exponential means, gradient steps, fine-tuning), and one query with one class as goal, got "
            f"{problem.model.name} with {problem.rule.name} and a query for {problem.everyone.goal_words}"
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
    quick = not hasattr(problem.model, "linear") or isinstance(problem.model, Linear)
    restarts = 0 if numbers > FEW or not quick else 4
    steps, tolerance = (1_000, 1e-7) if numbers <= FEW else (300, 1e-6) if numbers <= MORE else (100, 1e-5)
    return {"max_steps": steps, "tolerance": tolerance, "restarts": restarts}


def _only_smooth(problem: OnlineProblem) -> None:
    everyone = problem.everyone
    if everyone.query.several != "mean" or everyone.undecided:
        raise OptionError(
            "solver: 'one-shot' publishes the signals of one smooth loss, got a query for the worst or the share of "
            "several, or for any of several classes; use 'projected-gradient'."
        )


def _together(problem: OnlineProblem) -> list[tuple[Aggregate | None, int | None]]:
    """Return the smooth losses that are planned for: one, or several of which the best plan counts."""
    everyone = problem.everyone
    if everyone.undecided:
        wish = everyone.wishes[0]
        assert isinstance(wish, ClassWish)
        return [(None, code) for code in wish.codes]
    if everyone.query.several == "mean":
        return [(None, None)]
    if everyone.query.several == "share":
        return [(mean, None), (failing(_edges(problem)), None)]
    return [(mean, None), (worst(_each(problem, None)[-1]), None)]


def _edges(problem: OnlineProblem) -> Array:
    """Return the loss (q,) at which each query is about to get its goal."""
    from oar.solvers.outer.several_queries import edges

    return edges(problem.everyone)


def _each(problem: OnlineProblem, moves: Array | None) -> list[Array]:
    """Return each query's loss (q,) after each round."""
    seen: list[Array] = []

    def noted(losses: Array) -> tuple[float, Array]:
        seen.append(losses.copy())
        return mean(losses)

    Rollout(problem, noted).forward(moves)
    return seen


def _shares_without(problem: OnlineProblem, moves: Array) -> list[float]:
    """Return the share of those who ask that do not get their goal, after each round."""
    walk, everyone = Rollout(problem), problem.everyone
    path, asked = walk.forward(moves), everyone.asked
    points = asked.points if asked.members is None else asked.points + moves[asked.members]
    seen = [walk.outputs(theta, points, number) for number, theta in enumerate(path.parameters)]
    return [
        1 - float(np.mean([wish.reached(outputs) for wish, outputs in zip(everyone.wishes, rows, strict=True)]))
        for rows in seen
    ]


def _value(problem: OnlineProblem, moves: Array) -> tuple[float, float]:
    """Return what is asked for, to be lowered, and the mean loss, which decides between equals."""
    kind, each = problem.everyone.query.several, _each(problem, moves)
    if kind == "share":
        asked = _shares_without(problem, moves)
    else:
        asked = [float(losses.max() if kind == "worst" else losses.mean()) for losses in each]
    means = [float(losses.mean()) for losses in each]
    return float(problem.weights @ asked), float(problem.weights @ means)
