"""A cheap change for models that are not linear: no proof, but every answer reaches the goal.

1. Starts: the person as they are, and the cheapest changes to what other people are who have the goal.
2. From each, linear programmes in a row: leads are linearised where we stand, a mixed-integer programme finds the
   cheapest change whose linearised leads suffice (what is lacking costs a lot), and a box around where we stand grows
   where the model agreed and shrinks where it did not.
3. What reached the goal is shortened: columns are put back one by one, whole steps taken back, levels exchanged,
   numbers brought as near to their start as the goal allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.models import Differentiable, Scaled
from oar.models.differentiable import need_jax_functions
from oar.models.training import Array
from oar.people import Population
from oar.problem import Problem
from oar.progress import is_late
from oar.solvers.cheapest.highs import CheapestChange
from oar.solvers.cheapest.milp import Programme, solve
from oar.solvers.cheapest.space import Leads, Space

STARTS = 2  # people whose place is a start,
MORE_STARTS = 8  # where changes must end among people, which programmes know nothing of
STEPS = 15
LACKING = 1e3  # what a lead that is lacking costs, by the size of outputs
NARROWEST = 1e-3
CORRECTIONS = 2
SLIGHT = 0.1  # share of the outputs' size
HALVINGS = 30
MOST_SHORTENINGS = 200
BATCH = 64


@dataclass(frozen=True, eq=False)
class Outputs:
    """A fitted model's outputs (m, o) for rows (m, d), their slopes (o, d), and a scaler's centres and scales (d,)."""

    many: Callable[[Array], Any]
    slopes: Callable[[Array], Any]
    centres: Array
    scales: Array

    @staticmethod
    def of(model: Differentiable, people: Population) -> Outputs:
        """Fit the model to people, behind its scaler if it has one."""
        need_jax_functions(model.unscaled, "oar.cheapest")
        import jax

        centres, scales, seen = np.zeros(people.dimensions), np.ones(people.dimensions), people
        if isinstance(model, Scaled):
            features = np.asarray(people.features, dtype=np.float64)
            weights = people.row_weights
            weights, columns = weights / weights.sum(), model.columns(people)
            centres = np.where(columns, weights @ features, 0.0)
            spreads = np.sqrt(weights @ (features - centres) ** 2)
            scales = np.where(columns & (spreads > 1e-9 * np.abs(centres)), spreads, 1.0)
            seen, model = people.with_features((features - centres) / scales), model.model
        parameters = model.fit(seen)
        with jax.enable_x64(True):
            own = jax.tree.map(jax.numpy.asarray, parameters)
        many = jax.jit(jax.vmap(lambda row: model.outputs(own, row)))
        slopes = jax.jit(jax.jacrev(lambda row: model.outputs(own, row)))
        return Outputs(many, slopes, centres, scales)

    def at(self, rows: Array) -> Array:
        """Return the outputs (m, o); rows are filled up so that few sizes are compiled."""
        import jax

        count = len(rows)
        filled = -(-count // BATCH) * BATCH if count > 1 else 1
        padded = np.vstack([rows, np.repeat(rows[-1:], filled - count, axis=0)])
        with jax.enable_x64(True):
            return np.asarray(self.many((padded - self.centres) / self.scales))[:count]

    def slope(self, row: Array) -> Array:
        """Return how the outputs change with one person's coordinates, (o, d)."""
        import jax

        with jax.enable_x64(True):
            return np.asarray(self.slopes((row - self.centres) / self.scales)) / self.scales


@dataclass(frozen=True, eq=False)
class PersonTask:
    """One person's search: what they may change, and how far the goal is."""

    space: Space
    worst: Callable[[Array], Array]  # by how much (m,) the least lead is above its margin, after changes (m, v)
    linear: Callable[[Array], Leads | None]  # as linearised at a change, seen from the start; None without slopes there

    def reached(self, changes: Array) -> NDArray[np.bool_]:
        """Report which changes reach the goal and keep every limit."""
        if not len(changes):
            return np.zeros(0, dtype=bool)
        good = self.worst(changes) > 0
        good[good] = [self.space.allows(change) for change in changes[good]]
        return good


def task_of_outputs(space: Space, outputs: Outputs, problem: Problem, margin: float) -> PersonTask:
    """Return the search with outputs as leads of the goal, in units in which what matters is about 1."""

    def differences(values: Array) -> Array:  # the goal's output less each rival's, or values to either side (m, r)
        if problem.regresses:
            return np.hstack([-values, values])
        if values.shape[1] == 1:  # the second class's logit, measured against 0
            values = np.hstack([np.zeros_like(values), values])
        return values[:, [problem.goal]] - np.delete(values, problem.goal, axis=1)

    def leads_at(points: Array) -> tuple[Array, Array]:  # (m, r), and the size (m,) of what they are differences of
        values = outputs.at(points)
        if not problem.regresses:
            return differences(values), 1 + np.abs(values).max(axis=1)
        off, target = values - problem.goal_target, problem.goal_target
        return problem.within + differences(off), 1 + np.abs(target).max() + np.abs(off).max(axis=1)

    def worst(changes: Array) -> Array:
        leads, sizes = leads_at(space.start + changes @ space.basis.T)
        least = leads.min(axis=1) / sizes - (min(margin, problem.within) if problem.regresses else margin)
        return np.nan_to_num(least, nan=-np.inf, posinf=np.inf, neginf=-np.inf)  # NaN counts as far below

    def linear(change: Array) -> Leads | None:
        offset = space.basis @ change
        leads, sizes = leads_at((space.start + offset)[None])
        slopes = differences(outputs.slope(space.start + offset).T).T
        if not (np.isfinite(slopes).all() and np.isfinite(leads).all()):
            return None
        scales = np.full(len(slopes), sizes[0])
        return Leads(slopes, leads[0] - slopes @ offset, 2 * margin * scales, scales)

    return PersonTask(space, worst, linear)


def task_of_leads(space: Space, goal: Leads) -> PersonTask:
    """Return the search with linear leads, where a programme alone cannot know what is allowed."""

    def worst(changes: Array) -> Array:
        leads = goal.leads + changes @ space.basis.T @ goal.slopes.T
        # Where there is no rival there is nothing to be short of.
        return ((leads - goal.margins) / goal.scales).min(axis=1, initial=np.inf)

    return PersonTask(space, worst, lambda change: goal)


def search(task: PersonTask, examples: Array) -> CheapestChange:
    """Return a cheap change v that reaches the goal, if one is found; a cheaper one may exist.

    Where the time for searches is over, no more steps are made, and what is found by then counts.
    """
    space, best = task.space, CheapestChange(bound=0.0)

    def shortened(changes: list[Array], best: CheapestChange) -> CheapestChange:
        for change in changes:
            shorter = _shortened(task, change)
            if space.cost(shorter) < best.cost:
                best = CheapestChange(shorter, space.cost(shorter), 0.0)
        return best

    for start in [np.zeros(space.size), *_places_of_others(task, examples)]:
        if best.found and is_late():  # what others are is no programme: the first that reaches the goal is an answer
            return best
        best = shortened(_in_a_row(task, start), best)
    if not best.found or is_late():
        return best
    reach = 1 + best.cost
    if space.kind == "l0":  # where going far is free
        reach = 3 * (1 + float(np.abs(best.change).max()))
    return shortened(_in_a_row(task, best.change, width=reach, exact=True), best)


def _places_of_others(task: PersonTask, examples: Array) -> list[Array]:
    """Return the cheapest changes to what others are, as far as limits allow, that reach the goal."""
    space = task.space
    main = space.basis.argmax(axis=0)  # a level's own coordinate, not that of the level which is given up
    sizes = space.basis[main, np.arange(space.size)]
    changes = np.array([space.tidy(change) for change in (examples[:, main] - space.start[main]) / sizes])
    changes = np.unique(changes[task.reached(changes)], axis=0)
    order = np.argsort([space.cost(change) for change in changes], kind="stable")
    most = MORE_STARTS if space.where.bounded else STARTS
    return list(changes[order[:most]])


def _in_a_row(task: PersonTask, start: Array, width: float = 1.0, exact: bool = False) -> list[Array]:
    """Walk by linearised programmes (of the cost itself if `exact`, else "l1"); return the cheapest that gets there."""
    here, found = start, []
    value, lack = _merit(task, here)
    if lack == 0 and here.any():
        found.append(here)
    for _ in range(STEPS):
        ahead = None if is_late() else _programme(task, here, width, exact)
        if ahead is None:
            break
        there, lack = _merit(task, ahead)
        for _ in range(CORRECTIONS if exact else 0):  # leads bend: what lacks a little there is made good from there
            corrected = _programme(task, ahead, width, exact) if 0 < lack < SLIGHT else None
            if corrected is None:
                break
            ahead = corrected
            there, lack = _merit(task, ahead)
        if lack == 0 and task.space.allows(ahead):
            found.append(ahead)
        if there < value - 1e-9 * (1 + abs(value)):
            here, value, width = ahead, there, 2 * width
        else:
            width /= 4
        if width < NARROWEST:
            break
    return sorted(found, key=task.space.cost)[:1]


def _merit(task: PersonTask, change: Array) -> tuple[float, float]:
    """Return the cost with what is lacking added, and what is lacking."""
    lack = max(-float(task.worst(change[None])[0]), 0.0)
    return task.space.cost(change) + LACKING * lack, lack


def _programme(task: PersonTask, here: Array, width: float, exact: bool) -> Array | None:
    """Return the cheapest change for linearised leads, within a box around where we stand that includes the start."""
    space, linear = task.space, task.linear(here)
    if linear is None:
        return None
    room = np.where(space.whole, np.maximum(np.floor(width / space.prices), 1.0), width)
    wide = space.switches
    high = np.where(wide, space.high, np.minimum(space.high, np.maximum(here + room, 0.0)))
    low = np.where(wide, space.low, np.maximum(space.low, np.minimum(here - room, 0.0)))
    if exact and space.kind != "l1":
        found = solve(replace(space, low=low, high=high), linear)
        if found.found:
            return found.change
    none = Leads(np.zeros((0, space.start.size)), np.zeros(0), np.zeros(0), np.zeros(0))
    programme = Programme(space, none)
    owner = programme.owner
    slopes = linear.slopes @ space.basis / linear.scales[:, None]
    # −slopes·v − lacking ≤ (leads − margins) / scales, with one number for what the worst lead lacks
    rows = np.hstack([-slopes[:, programme.up], slopes[:, programme.down], -np.ones((len(slopes), 1))])
    costs = np.concatenate([space.prices[owner], [LACKING]])
    found = programme.run(costs, rows, (linear.leads - linear.margins) / linear.scales, bounds=(high, low))
    return found.change if found.found else None


def _shortened(task: PersonTask, change: Array) -> Array:
    """Return a change that costs no more and still reaches the goal: no single step back does any longer."""
    for _ in range(MOST_SHORTENINGS):
        if is_late():
            return change
        tries = _steps_back(task.space, change)
        costs = np.array([task.space.cost(each) for each in tries])
        cheaper = costs < task.space.cost(change) * (1 - 1e-9)
        tries, costs = tries[cheaper], costs[cheaper]
        good = task.reached(tries)
        if not good.any():
            break
        change = tries[good][costs[good].argmin()]
    return _numbers_back(task, change)


def _steps_back(space: Space, change: Array) -> Array:
    """Return changes with one entry nearer to 0, or one level exchanged for another (m, v)."""
    found = []
    for entry in np.flatnonzero(change):
        sizes, own = [0.0], change[entry]
        if space.whole[entry] and abs(own) > 1:
            sizes += [own - np.sign(own), np.trunc(0.5 * own)]
        elif not space.whole[entry]:
            sizes += [0.5 * own, 0.9 * own]
        one = np.arange(space.size) == entry
        found += [np.where(one, size, change) for size in sizes]
        for other in np.flatnonzero((space.column == space.column[entry]) & ~one):
            found.append(np.where(one, 0.0, change))
            found[-1][other] = 1.0
    return np.array(found).reshape(len(found), space.size)


def _numbers_back(task: PersonTask, change: Array) -> Array:
    """Bring numbers nearer to 0 by halving: all together, and then one by one."""
    numbers = np.flatnonzero(~task.space.whole & (change != 0))
    for some in [numbers, *numbers[:, None]]:
        if not len(some):
            continue
        enough, short = 1.0, 0.0
        for _ in range(HALVINGS):
            middle = 0.5 * (enough + short)
            tried = change.copy()
            tried[some] *= middle
            if task.reached(tried[None])[0]:
                enough = middle
            else:
                short = middle
        change = change.copy()
        change[some] *= enough
    return change
