"""Plans: everyone's move, as a function that each can evaluate alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oar.actions.perturb import check_budget, is_single_budget
from oar.actions.sets.norms import Allowance
from oar.checks import real_numbers, with_near_names
from oar.errors import DataError, OptionError
from oar.people import Chunk
from oar.people.labels import Codes, label_array
from oar.people.parts.population import StreamedPopulation
from oar.people.tables.arrays import CHUNK_ROWS, Table, as_table, check_index, index_of_row, is_series, row_values
from oar.people.wording import counted
from oar.plans.cards.card import Card
from oar.plans.cards.publish import class_card, publish
from oar.plans.cards.signals import card_name
from oar.plans.moves.changes_table import changed_cells, encoding_of, features_after, lever_cells
from oar.plans.refits import Refits
from oar.problem import Problem
from oar.progress import Progress
from oar.retraining.contribution import Contribution
from oar.retraining.retraining import RefitResult
from oar.streaming.passes import BLOCK, SignalPath, Spec, in_memory
from oar.typing import FilePath

if TYPE_CHECKING:
    from oar.plans.robustness import Robustness


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Moves for members and query.

    Attributes:
        problem: the problem of the plan.
        query_move: (d,), the query's own move, or (q, d) of several who each make their own; zero in purely collective
            plans.
        files: the stamp that changes when a file that people were read from does; None where nobody can tell.
        contents: a digest of every part of people in files, which the first pass of an audit or of writing is held to.
    """

    problem: Problem
    query_move: NDArray[np.float64]
    files: frozenset | None = field(init=False, default=None)
    contents: tuple[str | None, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Refuse a move of the query of another shape; whether it is allowed is for the audit to say."""
        alone = np.ndim(self.query_move) < 2 or not self.problem.several
        self._check_shape("query_move", (self.problem.people.dimensions,) if alone else self.problem.asked.points.shape)
        if isinstance(self.problem.people, StreamedPopulation):
            object.__setattr__(self, "files", self.problem.people.stamps())
            object.__setattr__(self, "contents", self.problem.people.contents())

    def check_files(self) -> None:
        """Refuse to go on with people whose files have changed since the plan was made, as far as can be seen at once.

        A stamp has size and inode, and the times of the last change of content and owner. All of them can be as they
        were, by another clock or on a disk that keeps no such time: what is read is held to `contents`, too.
        """
        before, now = self.files, self.problem.people.stamps()
        if None in (before, now) or before == now:
            return
        changed = min(path for path, _ in now - before)
        raise DataError(
            f"path: files must stay as they are from the plan to its moves, got {changed}, which has changed since; "
            "make the population and the plan again."
        )

    def _check_shape(self, argument: str, shape: tuple[int, ...]) -> None:
        try:
            moves = real_numbers(getattr(self, argument))
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{argument}: must be numbers of shape {shape}, got something else ({error}).") from None
        if moves.shape != shape:
            raise DataError(
                f"{argument}: must have shape {shape}, got {moves.shape}; a zero is a coordinate that stays."
            )
        object.__setattr__(self, argument, moves)

    def moves(self, features: Any = None, labels: Any = None, budget: Any = None) -> Any:
        """Return (n, d) moves in the units of the features: a DataFrame for a DataFrame, else float64."""
        raise NotImplementedError

    def of_chunk(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the moves of some consecutive people of the problem's population."""
        return self.mover().of_chunk(chunk)

    @with_near_names
    def write_moves(self, folder: FilePath) -> list[Path]:
        """Write everyone's moves to Parquet files in a folder, part by part, and return the files.

        Each has a column `position` and one for each feature. A part is whole or not there, and those that are there
        are not written again: after a full disk or a kill the same call goes on. A folder of another plan is refused.

        Args:
            folder: where to; made if it is not there. Workers of a Dask cluster must see it, too.
        """
        from oar.plans.moves.parquet import write_moves  # which few plans need

        return write_moves(self, folder)

    def signature(self) -> bytes:
        """Return what tells its moves from those of another plan for the same people."""
        raise NotImplementedError

    rows_at_a_time = CHUNK_ROWS
    """Of people in parts: how many a mover likes to be given at a time."""

    def mover(self) -> Any:
        """Return what hands out moves, `of_chunk(chunk)`, and can be sent to another machine."""
        raise NotImplementedError

    def __repr__(self) -> str:
        query = f"the query {'moves' if self.query_move.any() else 'stays'}"
        return f"{type(self).__name__}({'; '.join([*self._actors(), query])})"

    def _actors(self) -> list[str]:
        """Return who of the members does what."""
        return []

    def contribution(self) -> Contribution:
        """Return what everyone hands in if all do as planned: moves and, where they change, targets and weights."""
        return Contribution(self.problem.people.rows_moved(self))

    def still(self) -> Plan:
        """Return the plan in which nobody moves."""
        people = self.problem.people
        return MemberPlan(self.problem, np.zeros(people.dimensions), np.zeros((people.size, people.dimensions)))

    def handing_in(self, problem: Problem, given: Contribution) -> MemberPlan:
        """Return the plan for a problem with the same people in which everyone hands in something else."""
        return MemberPlan(problem, self.query_move, np.asarray(given.moves))

    def table(self) -> Any:
        """Return everyone's values after the plan, for people with a schema: a DataFrame just like the caller's."""
        return encoding_of(self).decode(features_after(self), self.problem.people.index)

    def changes(self) -> Any:
        """Return what changes, for people with a schema: a DataFrame of person, column, before and after.

        Members are called by their index, and the query, which comes last, is "query". A label that changes is a row
        of the target's column (a soft one a dict of classes and shares), and who leaves has a row of the column
        "all data", from "given" to "withheld".
        """
        return changed_cells(self, encoding_of(self))

    def lever_cells(self) -> list[Any]:
        """Return the rows of `changes` that are about labels and leavers, by the positions of people; here none."""
        return []

    def query_row(self) -> Any:
        """Return the query after its own move, for people with a schema: a DataFrame of one row, in their dtypes."""
        point = self.problem.query_features + self.query_move
        return encoding_of(self).decode_row(point, index_of_row(self.problem.query.features)).frame

    def robustness(
        self,
        defection: float = 0.0,
        noise: float = 0.0,
        stale: float = 0.0,
        draws: int = 100,
        seed: int = 0,
        progress: Progress = None,
        time_limit: float | None = None,
    ) -> Robustness:
        """Return what becomes of this plan where people do not do quite what it says, by a refit for each draw.

        The query makes its own move as planned. Refits are by the model's own training, and limits are not checked.

        Args:
            defection: the probability with which each who moves, is relabelled or leaves does nothing.
            noise: the standard deviation of the error in each feature that a member moves, in standard deviations of
                that feature. Of a table, steps stay whole and within limits, and a switch of a category or a
                boolean does not happen with this probability (at most 1). Labels and leavers are exact.
            stale: the probability with which each person, actors included, has gone by the time of the refit, and a
                copy of somebody drawn from all people has come, with features, label and weight from before the plan.
                Of more than 20,000 people in parts, copies in one draw are of so many who are drawn from all.
            draws: how many refits.
            seed: of the draws.
            progress: whether to show draws on stderr; None means "on a terminal". Or a function of step, loss and gap.
            time_limit: seconds after which no further draw is made, and what was found counts; None is no limit.
        """
        from oar.plans.robustness import robustness  # which imports this file

        return robustness(self, defection, noise, stale, draws, seed, progress, time_limit)

    def card(self) -> Card:
        """Return what can be published; raise where this plan has nothing that can be."""
        raise NotImplementedError

    def published(self) -> tuple[Card, RefitResult]:
        """Return the card, and what a refit says if everyone answers it: a goal loss, and whether it is a success.

        That refit is by the model's own training, and no audit: `oar.audit(plan.followed(card))` is.
        """
        card = self.card()
        refits = Refits(self.followed(card))
        return card, refits.verdict(refits.planned)

    @with_near_names
    def followed(self, card: Card) -> MemberPlan:
        """Return what comes of this plan if every participant makes the move that it finds on a card.

        Give it to `oar.audit`: only a refit says what a card is worth. The query moves as planned, and so do members
        who ask, for themselves: that is between them and whoever plans. Nobody moves farther than the card's common
        budget, nor than the problem allows.
        """
        places = self._checked(card)
        if card.rule is not None:
            raise DataError(
                "card: must be of moves alone, as this plan is, got one with a rule for labels; use plan.card()."
            )
        return MemberPlan(self.problem, self.query_move, self._with_own(card.moves_of(self.problem, places)))

    def _checked(self, card: Card) -> NDArray[np.intp]:
        """Return where on a card the coordinates of the people are; raise where it is not for this problem."""
        problem, people = self.problem, self.problem.people
        classes = None if problem.regresses else people.classes
        size = people.dimensions
        ours = (card_name(problem), problem.allowance.norm, classes, size)
        theirs = (card.model, card.norm, card.classes, size if card.schema else card.size)  # levels may be pooled
        if ours != theirs:
            raise DataError(
                "card: must be for the plan's model, norm, classes and number of features, "
                f"{_listed(ours)}, got {_listed(theirs)}; use plan.card()."
            )
        places, goal = card.places_in(people), problem.published_goal
        if goal != card.goal:
            raise DataError(
                f"card: must work towards the plan's goal {goal!r}, got one for {card.goal!r}; use plan.card()."
            )
        return places

    def _with_own(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return everyone's answers to a card (n, d), with members who ask moving as planned, for themselves."""
        return moves


@dataclass(frozen=True, eq=False, repr=False)
class MemberPlan(Plan):
    """A move for each person, one by one.

    Attributes:
        each: (n, d), zero rows for those who stay.
        parameters, signal: θ and v (p,) at the last refit, where the solver has them: what a card publishes.
    """

    each: NDArray[np.float64]
    parameters: NDArray[np.float64] | None = None
    signal: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_shape("each", (self.problem.people.size, self.problem.people.dimensions))

    def moves(self, features: Any = None, labels: Any = None, budget: Any = None) -> Any:
        """Return (n, d) moves of the problem's own people, in their order: a DataFrame for a DataFrame, else float64.

        `features` and `labels` may be given, and must then be those of these people; a plan of this kind does not know
        other people's moves, nor other budgets.
        """
        people = self.problem.people
        if budget is not None:
            raise DataError("budget: this plan has one move for each person as planned, and none for other budgets.")
        if any(given is not None and np.shape(given)[:1] != (people.size,) for given in (features, labels)):
            raise DataError(f"features: must be the plan's own {people.size} people, in order; leave them out.")
        return as_given(self.each.copy(), people.names, people.index)

    def of_chunk(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return their moves."""
        return self.each[chunk.start : chunk.stop]

    def as_published(self, card: Card) -> Any:
        """Return a card as this plan publishes it: as it is, or over rounds one for each."""
        return card

    @property
    def targets_after(self) -> NDArray[np.float64]:
        """Everyone's class shares, or values, after the plan: as they are."""
        return self.problem.people.target_rows(self.problem.regresses)

    def _with_own(self, moves: NDArray[np.float64]) -> NDArray[np.float64]:
        asking = self.problem.asked.members
        if asking is None:
            return moves
        planned = asking[self.each[asking].any(axis=1)]  # who asks and is not planned for may answer as all others do
        moves[planned] = self.each[planned]
        return moves

    def signature(self) -> bytes:
        """Return everyone's moves as bytes."""
        return np.ascontiguousarray(self.each).tobytes()

    def _actors(self) -> list[str]:
        movers = int(np.count_nonzero(self.each.any(axis=1)))
        return [f"{movers:,} of {self.problem.people.size:,} members move"]

    def card(self) -> Card:
        """Return what can be published: the signal (θ, v), average directions, norm and common budget.

        Of a table: the signal, the columns and what may be done to each, links and rules; people's own limits and
        budgets are not on it. Members' answers to it are tried on the problem's own people, by a few refits. A
        DataError says why there is no card: no signal, a model that cannot be written down, averages over too few
        people, limits that ask for neighbours, or moves that do not follow from the signal. The query's own move is
        not on it.
        """
        return publish(self)[0]

    def published(self) -> tuple[Card, RefitResult]:
        """Return the card, and what a refit says if everyone answers it."""
        return publish(self)


@dataclass(frozen=True, eq=False, repr=False)
class LeverPlan(MemberPlan):
    """Everyone's move, everyone's label, and who leaves.

    Attributes:
        targets: class shares (n, k) in the order of the classes, or values (n, m) where those are regressed.
        away: (n,), who takes its data away.
    """

    targets: NDArray[np.float64] = None  # type: ignore[assignment]  # fields before it have defaults
    away: NDArray[np.bool_] = None  # type: ignore[assignment]

    def contribution(self) -> Contribution:
        """Return what everyone hands in if all do as planned: moves, targets and weights."""
        weights = np.where(self.away, 0.0, self.problem.people.row_weights)
        return replace(super().contribution(), targets=self.targets, weights=weights)

    def handing_in(self, problem: Problem, given: Contribution) -> LeverPlan:
        """Return the plan for a problem with the same people in which everyone hands in something else."""
        moves, targets, weights = given.over(self.contribution())
        away = (weights == 0) & (self.problem.people.row_weights > 0)
        return LeverPlan(problem, self.query_move, moves, targets=targets, away=away)

    def labels(self) -> Any:
        """Return everyone's label after the plan, as labels were given: one a person, or rows of shares or values.

        Soft labels that are planned for people with single labels are rows, with a column for each class. With the
        caller's index, where there was one.
        """
        people, rows = self.problem.people, self.targets
        if not people.has_label_rows:
            if self.problem.regresses:
                return people.column(rows[:, 0].copy())
            if np.isin(rows, (0.0, 1.0)).all():
                return people.column(people.relabelled(rows.argmax(axis=1).astype(np.int32)))
        if people.index is None:
            return rows.copy()
        import pandas

        columns = range(rows.shape[1]) if self.problem.regresses else list(people.classes)
        return pandas.DataFrame(rows.copy(), index=people.index, columns=columns)

    def leavers(self) -> Any:
        """Return who leaves: n booleans, a Series where there is an index."""
        return self.problem.people.column(self.away.copy())

    def lever_cells(self) -> list[Any]:
        """Return the rows of `changes` that are about labels and leavers, by the positions of people."""
        return lever_cells(self, self.targets, self.away)

    def _actors(self) -> list[str]:
        people = self.problem.people
        labels = people.target_rows(self.problem.regresses)
        relabelled, leavers = int((labels != self.targets).any(axis=1).sum()), int(self.away.sum())
        return [
            *super()._actors(),
            counted(relabelled, "label changes", "labels change"),
            counted(leavers, "member leaves", "members leave"),
        ]

    @property
    def targets_after(self) -> NDArray[np.float64]:
        """Everyone's class shares, or values, after the plan."""
        return self.targets

    def card(self) -> Card:
        """Return what can be published: a signal, and thresholds by which members know what is asked of their labels.

        Everyone finds with its own values what another label of its, or its leaving, is worth. `card.rule.keeps` is the
        share of the plan's gain that is kept by that, for the plan itself names people one by one. A DataError says
        where that costs too much.
        """
        return self.published()[0]

    def published(self) -> tuple[Card, RefitResult]:
        """Return the card, and what a refit says if everyone answers it."""
        from oar.plans.cards.levers.publish import lever_card  # which few plans need

        return lever_card(self)

    def followed(self, card: Card) -> MemberPlan:
        """Return what comes of this plan if everyone who may be asked does what it finds on a card."""
        from oar.plans.cards.levers.publish import label_moves

        places = self._checked(card)
        if card.rule is None:
            raise DataError("card: must have a rule for labels or leavers, as this plan has, got one of moves alone.")
        moves, targets, away = label_moves(self, card, places)
        return LeverPlan(self.problem, self.query_move, moves, targets=targets, away=away)


@dataclass(frozen=True, eq=False, repr=False)
class ClassPlan(Plan):
    """One direction a class.

    For nearest centroid a member's best move depends only on its class c and its own budget:
    δ_i = ε_i s_c, with one direction s_c, ‖s_c‖_p ≤ 1, for each class (zero means "stay").

    Attributes:
        directions: (k, d), one row a class, in the order of `problem.people.classes`.
    """

    directions: NDArray[np.float64]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_shape("directions", (len(self.problem.people.classes), self.problem.people.dimensions))

    def moves(self, features: Any = None, labels: Any = None, budget: Any = None) -> Any:
        """Return (n, d) moves in the units of the features: a DataFrame for a DataFrame, else float64.

        Without arguments: for the problem's own population. With `features` and `labels`: for these
        people. Where everyone may move equally far they may be any people; where participation or
        budgets differ from person to person they must be the population, in the same order, or their
        budgets must be given (`budget`: one number, or one for each).

        Integer features do not make integer moves: nothing is rounded.
        """
        people = self.problem.people
        given = [each for each in (features, labels) if each is not None]
        if not given:
            everyone = np.empty((people.size, people.dimensions))
            for chunk in people.chunks():
                everyone[chunk.start : chunk.stop] = self.of_chunk(chunk)
            return as_given(everyone, people.names, people.index)
        if len(given) == 1:
            raise DataError("features and labels: must be given together, got only one; give both or neither.")
        table = as_table(features)
        if table.values.shape[1] != people.dimensions:
            raise DataError(f"features: must have {people.dimensions} columns, got {table.values.shape[1]}.")
        if None not in (table.names, people.names) and table.names != people.names:
            raise DataError(f"features: columns must be {list(people.names or ())}, got {list(table.names or ())}.")
        if is_series(labels):
            check_index(labels, table.index, "labels")
        codes = people.coding.encode(label_array(labels))
        size = len(table.values)
        if codes.size != size:
            raise DataError(f"labels: must be one for each of the {size} people, got {codes.size}.")
        radii = self._radii(table, codes, budget)
        return as_given(self.mover().scaled(codes, radii), table.names, table.index)

    def _radii(self, table: Table, codes: Codes, budget: Any) -> float | NDArray[np.float64]:
        size = len(table.values)
        if budget is not None:
            single = is_single_budget(budget)
            return check_budget(budget, "budget") if single else row_values(budget, size, table.index, "budget")
        allowance = self.problem.allowance
        if allowance.same_for_everyone:
            return float(allowance.budget)
        people = self.problem.people
        same_index = any(index is None for index in (table.index, people.index)) or table.index.equals(people.index)
        if size != people.size or not same_index or not np.array_equal(codes, people.codes(0, size)):
            raise DataError(
                f"features: must be the plan's own {people.size} people, in order, because participation or budgets "
                f"differ between them; got {size} others. Give these people's own limits as budget=..."
            )
        return allowance.everyones(size)

    def signature(self) -> bytes:
        """Return the directions as bytes."""
        return np.ascontiguousarray(self.directions).tobytes()

    def mover(self) -> ClassMoves:
        """Return what hands out moves, and can be sent to another machine."""
        return ClassMoves(self.directions, self.problem.allowance)

    def _actors(self) -> list[str]:
        moving = [label for label, way in zip(self.problem.people.classes, self.directions, strict=True) if way.any()]
        return [f"{len(moving)} of {len(self.directions)} classes move"]

    def card(self) -> Card:
        """Return what can be published: directions, norm and common budget, and nobody's data.

        Directions have as few digits as leave the plan its success and 99 % of its gain; one reading of the data tells.
        The query's own move is not on it: that is between the query and whoever planned it. A DataError says why there
        is no card: a class of fewer than five people, or directions that need all their digits.
        """
        return class_card(self)


@dataclass(frozen=True, eq=False)
class ClassMoves:
    """Moves of budget times class direction: directions (k, d), and how far each may go."""

    directions: NDArray[np.float64]
    allowance: Allowance

    def of_chunk(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the moves of some consecutive people."""
        allowance = self.allowance
        same = allowance.same_for_everyone
        return self.scaled(chunk.codes, float(allowance.budget) if same else allowance.of(chunk.start, chunk.stop))

    def scaled(self, codes: NDArray[np.int32], radii: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return moves of people with these codes and radii."""
        if isinstance(radii, float):
            return (radii * self.directions).take(codes, axis=0)
        moves = self.directions.take(codes, axis=0)
        moves *= radii[:, None]
        return moves


@dataclass(frozen=True, eq=False, repr=False)
class SignalPathPlan(Plan):
    """Moves by a walk: every member finds its own from its data, the walk, and its budget.

    Attributes:
        walk: the steps.
        spec: the model, units and limits that they are taken with.
        parameters, signal: θ and v (p,) at the last refit, in the features' own units.
        training: who keeps moves on disk that need not be walked again; None where nobody does.
    """

    walk: SignalPath
    spec: Spec
    parameters: NDArray[np.float64]
    signal: NDArray[np.float64]
    training: Any = None

    rows_at_a_time = BLOCK

    def signature(self) -> bytes:
        """Return the walk's name, and the units that it is walked in."""
        return self.walk.key.encode() + self.spec.centre.tobytes() + self.spec.scale.tobytes()

    def mover(self) -> SignalPathMoves:
        """Return what hands out moves, and can be sent to another machine."""
        return SignalPathMoves(self.spec, self.walk)

    def moves(self, features: Any = None, labels: Any = None, budget: Any = None) -> Any:
        """Refuse: there is no array of them; `write_moves` writes them to files."""
        people = self.problem.people
        assert isinstance(people, StreamedPopulation)
        raise OptionError(
            f"plan: {people.size:,} people's moves are not in memory; use plan.write_moves(folder), which writes them "
            "part by part, or people.loaded() before planning."
        )

    def still(self) -> Plan:
        """Return the plan in which nobody moves."""
        return replace(self, query_move=np.zeros_like(self.query_move), walk=SignalPath())

    def card(self) -> Card:
        """Refuse: whether a card does as well as the walk is not known."""
        raise OptionError("plan: plans for people in parts have no card yet; use plan.write_moves(folder).")

    def _actors(self) -> list[str]:
        move = counted(self.problem.people.size, "member moves", "members move")
        return [f"{move} by a walk of {counted(len(self.walk.strides), 'step', 'steps')}"]


@dataclass(frozen=True, eq=False)
class SignalPathMoves:
    """Moves along a signal path; those that were kept on disk at its end need not be computed again."""

    spec: Spec
    walk: SignalPath

    def of_chunk(self, chunk: Chunk) -> NDArray[np.float64]:
        """Return the moves of some consecutive people."""
        return in_memory(chunk, self.spec).moves(self.walk) + 0.0


def _listed(parts: tuple) -> str:
    model, norm, classes, dimensions = parts
    return f"({model}, p = {norm}, {list(classes or ()) or 'values'}, {dimensions})"


def as_given(moves: NDArray[np.float64], names: tuple[str, ...] | None, index: Any) -> Any:
    """Return moves as a DataFrame where there are names, otherwise as they are."""
    if names is None:
        return moves
    import pandas

    return pandas.DataFrame(moves, index=index, columns=list(names))
