"""The work of a study: from a cell to its problem, and from cells to answers.

Cells share computations but no bit of their answers, so that the order of cells and the choice of processes make no
difference:

* nearest centroid on plain features: all cells from two passes over the data in each process (`centroids`);
* softmax regression on few people: the random starts of a cell side by side, by a program that is compiled once for all
  cells in each process (`oar.solvers.descent.lanes`);
* cells that differ only in a seed without effect are one question, solved once;
* the audit's refit to unmoved people is done once for each model in each process; so are compiled passes.

A budget's solution is not a start for the next budget: answers would depend on the other budgets. Nor do starts of
several cells share lanes: the last bits of a lane could depend on its place, and so on the remaining cells.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oar.actions import Perturb
from oar.actions.choice import part_of, parts_of
from oar.actions.own_action import Action, can_be_scaled, with_changes
from oar.actions.participation import Best, SomeOf, members_in_share
from oar.checks import is_number
from oar.errors import EngineError, OptionError
from oar.models.fit.one_thread import one_thread
from oar.online.stream import HISTORY
from oar.problem import Problem, Query
from oar.progress import check_interrupted, limited_time
from oar.recourse import audited, collective
from oar.referee import MEMBERS
from oar.referee.witnesses.refits import keeping_unmoved_refits
from oar.solvers.descent import lanes as side_by_side
from oar.solvers.registry import current_effort, default_effort
from oar.solvers.settings import EffortLevel
from oar.studies.cells import Cell, Defaults
from oar.studies.centroids import Classes, has_quick_cells
from oar.studies.rows import Row, row_of

BLOCK = 200  # nearest-centroid cells that are done at once


@dataclass(frozen=True)
class WorkUnit:
    """Cells that one process answers together."""

    cells: tuple[Cell, ...]
    quick: bool

    @property
    def kind(self) -> str:
        """The kind of the cells; cells of one kind take about the same time."""
        return self.cells[0].model

    @property
    def words(self) -> str:
        """What is asked, in a few words."""
        if len(self.cells) > 1:
            return f"{len(self.cells):,} cells of {self.kind}"
        cell, found = self.cells[0], [self.kind]
        for name in ("budget", "participation", "seed", "most"):
            value = getattr(cell, name)
            usual = value is None or (name == "participation" and value == 1)
            found += [] if usual else [f"{name} {value:g}"]
        return ", ".join(found)


@dataclass(eq=False)
class Work:
    """A study's problem with its models and queries by name, ready to answer cells; it can be pickled."""

    problem: Problem
    models: Mapping[str, Any]
    queries: Mapping[str, Query]
    solver: Any
    draws: tuple[tuple[float, int], ...] = ()
    stamps: Any = None
    effort: EffortLevel = field(default_factory=current_effort)
    time_limit: float | None = None  # of each cell
    kept: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out cached values, which are computed again elsewhere."""
        return self.__dict__ | {"kept": {}}

    @property
    def people_changed(self) -> bool:
        """Whether files of people have changed since their fingerprint."""
        return self.problem.people.stamps() != self.stamps

    @property
    def own(self) -> Defaults:
        """The problem's own budget and share."""
        perturb, parts = part_of(self.problem.action, Perturb), parts_of(self.problem.action)
        budget = None if perturb is None else float(perturb.budget) if self.problem.allowance.single else 1.0
        shares = {_share_of(self.problem, part.participants) for part in parts}
        share = shares.pop() if len(shares) == 1 and len({part.seed for part in parts}) == 1 else None
        best = self.problem.best is not None and share is not None
        return Defaults(budget, None if best else share, _no_budgets(self.problem), _no_most(parts), best)

    def problem_of(self, cell: Cell) -> Problem:
        """Return a cell's problem."""
        parts = [self._acting(part, cell) for part in parts_of(self.problem.action)]
        model = _seeded(self.models[cell.model], cell.seed)
        if model is not self.models[cell.model]:  # the same object for the same seed: what is kept goes by objects
            model = self.kept.setdefault(f"{cell.model}/{cell.seed}", model)
        # Over rounds a list would be an action for each round.
        action = parts[0] if len(parts) == 1 else parts
        return dataclasses.replace(self.problem, model=model, query=self.queries[cell.query], action=action)

    def _acting(self, part: Any, cell: Cell) -> Any:
        changes: dict[str, Any] = {}
        if cell.participation == 1.0:
            changes = {"participants": None, "seed": None}
        elif cell.participation is not None:
            own = part.seed if is_number(_among(part.participants)) else None
            changes = {"participants": cell.participation, "seed": own if cell.seed is None else cell.seed}
        if isinstance(part.participants, Best) and changes:
            changes["participants"] = self._best(part, changes)
        if isinstance(part, SomeOf) and cell.most is not None:
            changes |= {"share": None, "most": cell.most}
        allowance = self.problem.allowance
        if isinstance(part, Perturb | Action) and cell.budget is not None:
            own_budgets = np.asarray(part.budget if isinstance(part, Perturb) else allowance.budget)
            changes["budget"] = cell.budget if allowance.single else cell.budget * own_budgets
        if isinstance(part, Action):
            return with_changes(part, allowance, changes)
        return dataclasses.replace(part, **changes)

    def _best(self, part: Any, changes: Mapping[str, Any]) -> Any:
        """Return the best of those who are drawn; all of them where they are not more than are to be chosen."""
        drawn = dataclasses.replace(part, **changes)
        enough = dataclasses.replace(self.problem, action=drawn).allowance.acting(self.problem.people.size).sum()
        number, among = part.participants.number, changes["participants"]
        return Best(number, among) if number < enough else among

    def asks_for(self, cell: Cell) -> Cell:
        """Return the cell without a seed that has no effect: equal questions have equal answers."""
        size = self.problem.people.size
        drawn = cell.participation is not None and 0 < members_in_share(size, cell.participation) < size
        seeded = _seeded(self.models[cell.model], cell.seed) is not self.models[cell.model]
        return cell if drawn or seeded else dataclasses.replace(cell, seed=None)

    def is_quick(self, cell: Cell) -> bool:
        """Report whether class sums alone answer a cell."""
        place = f"quick {cell.model} {cell.query}"
        if place not in self.kept:
            self.kept[place] = has_quick_cells(self.asked(cell), self.solver)
        return self.kept[place] and cell.participation is not None

    def asked(self, cell: Cell) -> Problem:
        """Return the cached problem with a cell's model and query, and an action of its own."""
        place = f"asked {cell.model} {cell.query}"
        if place not in self.kept:
            self.kept[place] = dataclasses.replace(
                self.problem, model=self.models[cell.model], query=self.queries[cell.query]
            )
        return self.kept[place]

    def units(self, cells: Sequence[Cell]) -> list[WorkUnit]:
        """Return the units of cells: those from class sums first, then others in a random order.

        The random order makes the first cells, from which the time left is estimated, a sample of all budgets.
        """
        groups: dict[Any, list[Cell]] = {}
        quick: dict[str, int] = {}
        for cell in cells:
            if self.is_quick(cell):
                number = quick[cell.model] = quick.get(cell.model, -1) + 1
                groups.setdefault((cell.model, number // BLOCK), []).append(cell)
            else:
                groups.setdefault(self.asks_for(cell), []).append(cell)
        found = [WorkUnit(tuple(group), not isinstance(place, Cell)) for place, group in groups.items()]
        shuffled = [found[place] for place in np.random.default_rng(0).permutation(len(found))]
        return sorted(shuffled, key=lambda unit: not unit.quick)

    def drawing(self, cells: Sequence[Cell]) -> Work:
        """Return itself with all shares and seeds, so that one pass over the people serves all of them."""
        quick = [cell for cell in cells if self.is_quick(cell)]
        self.draws = tuple(dict.fromkeys((cell.participation or 0.0, self.seed_of(cell)) for cell in quick))
        return self

    def seed_of(self, cell: Cell) -> int:
        """Return the seed of the draw of participants."""
        if cell.seed is not None:
            return cell.seed
        return (part_of(self.problem.action, Perturb) or Perturb(0.0)).seed or 0

    def answers(self, unit: WorkUnit) -> list[Row]:
        """Answer the cells of a unit, each audited; {"error": text} where there is no answer."""
        if not unit.quick:
            with keeping_unmoved_refits(self.kept.setdefault("unmoved", {})):
                return [self._answered(unit.cells[0])] * len(unit.cells)
        if "classes" not in self.kept:
            self.kept["classes"] = Classes(self.problem.people, self.draws)
        classes: Classes = self.kept["classes"]
        found = []
        for cell in unit.cells:
            row = classes.row(self.asked(cell), cell.budget or 0.0, (cell.participation or 0.0, self.seed_of(cell)))
            found.append(self._answered(cell) if row is None else row)
        return found

    def _answered(self, cell: Cell) -> Row:
        try:
            asked = self.problem_of(cell)
            with limited_time(self.time_limit):
                if self.solver == "auto" and not asked.over_rounds and side_by_side.suits(asked):
                    return row_of(audited(side_by_side.propose(asked), asked, MEMBERS))
                return row_of(collective(asked, solver=self.solver, progress=False))
        except (MemoryError, OSError, OptionError, EngineError):
            raise  # the machine's trouble, which another time may not be there; or options that suit no cell
        except Exception as error:  # a cell that fails is a result like any other, and says why
            check_interrupted()  # unless Ctrl-C is why
            return {"error": f"{type(error).__name__}: {error}"}


def answered(work: Work, unit: WorkUnit, alone: bool = False) -> list[Row]:
    """Answer a unit on one thread of linear algebra; with `alone` this call sets the limit itself."""
    with one_thread() if alone else nullcontext(), default_effort(work.effort):
        return work.answers(unit)


def _among(participants: Any) -> Any:
    """Return who may take part, be it that the best of them are chosen."""
    return participants.among if isinstance(participants, Best) else participants


def _share_of(problem: Any, participants: Any) -> float | None:
    """Return which random share takes part, 1 for everybody; None for participants who are named in another way."""
    who = _among(participants)
    if is_number(who):
        return float(who)
    everybody = who is None or (problem.over_rounds and np.array_equal(who, problem.stream.when > HISTORY))
    return 1.0 if everybody else None


def _no_most(parts: Sequence[Any]) -> str:
    """Return why cells cannot have numbers of labels or leavers, or ""."""
    some = [part for part in parts if isinstance(part, SomeOf)]
    if not some:
        return "is how many labels may change, or members leave, and the problem's action has neither; leave it out."
    if len(some) > 1:
        return "would be of labels and of members who leave, and one number cannot be both; ask about them one by one."
    if getattr(some[0], "soft", None) is not None:
        return "is of labels that are flipped, and the problem's action changes soft labels a little; leave it out."
    return ""


def _no_budgets(problem: Problem) -> str:
    """Return why cells cannot have budgets, or ""."""
    if not problem.moves:
        return "is how far members may move, and the problem's action lets nobody move."
    if problem.own_action is None or can_be_scaled(problem.own_action):
        return ""
    return (
        f"must be of an action with a method scaled(share), got {problem.own_action.name!r} without; let it return the "
        "action with that share of its set."
    )


def _seeded(model: Any, seed: int | None) -> Any:
    """Return a model with another seed, behind a scaler too; as it is where it has none."""
    if seed is None or not dataclasses.is_dataclass(model):
        return model
    names = [part.name for part in dataclasses.fields(model)]
    if "seed" in names:
        with suppress(OptionError):  # with its other settings a seed would do nothing
            return dataclasses.replace(model, seed=seed)  # type: ignore[type-var]
        return model
    behind = getattr(model, "model", None)
    inner = _seeded(behind, seed)
    if inner is behind:
        return model
    changed = copy.copy(model)
    object.__setattr__(changed, "model", inner)
    return changed
