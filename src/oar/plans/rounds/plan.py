"""Plans over time: everyone's move in every round, and who acts when."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_whole, with_near_names
from oar.errors import DataError, StorageError
from oar.files import replace_atomically
from oar.online.problem import OnlineProblem
from oar.opening import Fields, read_npz
from oar.opening.documents import parsed_json
from oar.opening.fields import said
from oar.people.wording import counted
from oar.plans.cards.card import Card
from oar.plans.fingerprints.behaviour import Behaviour, behaviour
from oar.plans.plan import MemberPlan, as_given
from oar.problem import Problem
from oar.retraining.contribution import Contribution
from oar.typing import FilePath
from oar.version import __version__

Array = NDArray[np.float64]
FORMAT = "oar online plan 3"  # 1 knew functions by their names alone, 2 goals by words of six digits


@dataclass(frozen=True, eq=False, repr=False)
class OnlinePlan(MemberPlan):
    """A move for each row of a stream.

    Attributes:
        problem: the problem of the plan.
        each: (n, d), in the order of `problem.stream.people`; zero rows for those who stay, and for who was there
            before the first round.
        query_move: (d,), the query's own move; zero unless given.
        signals: of a plan by signals alone, for each round the pairs (θ, v), each (p,), from which its members'
            moves follow; empty where moves are handed out themselves.
    """

    problem: OnlineProblem
    query_move: Array = field(default_factory=lambda: np.zeros(0), kw_only=True)
    parameters: Array | None = field(init=False, default=None)
    signal: Array | None = field(init=False, default=None)
    signals: tuple[tuple[tuple[Array, Array], ...], ...] = ()

    def __post_init__(self) -> None:
        """Refuse moves for other people; whether they are allowed is for the audit to say."""
        if np.size(self.query_move) == 0:
            object.__setattr__(self, "query_move", np.zeros(self.problem.people.dimensions))
        super().__post_init__()

    def _check_shape(self, argument: str, shape: tuple[int, ...]) -> None:
        if argument == "each" and np.shape(self.each) not in (shape, ()):
            raise DataError(
                f"{argument}: must have shape {shape}, a row for everyone of every round (and of the history), got "
                f"{np.shape(self.each)}: a plan is for the very stream that it was made for."
            )
        super()._check_shape(argument, shape)

    def still(self) -> OnlinePlan:
        """Return the plan in which nobody moves."""
        return OnlinePlan(self.problem, np.zeros_like(self.each))

    def moves(self, round: int | None = None) -> Any:  # type: ignore[override]  # its people come in rounds
        """Return moves in the units of the features, a DataFrame where people were one, else float64.

        Args:
            round: 0, 1, …: the moves (m, d) of those who arrive in it, in the stream's order. None: of all rows (n, d).
        """
        people = self.problem.stream.people
        rows, last = np.arange(people.size), self.problem.stream.rounds - 1
        if round is not None:
            if not is_whole(round) or not 0 <= round <= last:
                raise DataError(f"round: must be a whole number from 0 to {last}, got {round!r}.")
            rows = self.problem.stream.rows(int(round))
        return as_given(self.each[rows], people.names, people.row_names[rows])

    def handing_in(self, problem: Any, given: Contribution) -> OnlinePlan:
        """Return the plan for a problem with the same stream in which everyone hands in something else."""
        return OnlinePlan(problem, np.asarray(given.moves), query_move=self.query_move)

    def efforts(self) -> Array:
        """Return Σ ‖δ_i‖ of each round (T,)."""
        stream = self.problem.stream
        acts = stream.when >= 0
        lengths = self.problem.lengths(self.each)
        sums = np.bincount(stream.when[acts], weights=lengths[acts], minlength=stream.rounds)
        return sums.astype(np.float64, copy=False)

    def movers(self) -> NDArray[np.intp]:
        """Return how many rows move in each round (T,)."""
        stream = self.problem.stream
        moving = self.each.any(axis=1) & (stream.when >= 0)
        return np.bincount(stream.when[moving], minlength=stream.rounds)

    def who_acts(self) -> Any:
        """Return who acts when: a DataFrame of round, person, row and how far it moves, without those who stay.

        Persons are as `stream.who` calls them; where every row is somebody else, by row, or by the table's index.
        """
        import pandas

        stream = self.problem.stream
        rows = np.flatnonzero(self.each.any(axis=1))
        rows = rows[np.argsort(stream.when[rows], kind="stable")]
        persons = np.asarray(stream.people.row_names) if stream.who is None else stream.who
        lengths = self.problem.lengths(self.each[rows])
        return pandas.DataFrame(
            {"round": stream.when[rows], "person": persons[rows], "row": rows, "effort": lengths},
            index=range(rows.size),
        )

    def card(self) -> Any:
        """Return what can be published: an `oar.results.RoundsCard`, with a card for each round.

        Members answer the card of the round in which they hand in their data. Their answers are tried by running all
        rounds. A DataError says why there is no card.
        """
        self.problem.only_balls("a card of several rounds")
        return super().card()

    def as_published(self, card: Card) -> Any:
        """Return a card for each round."""
        from oar.plans.cards.rounds import in_rounds

        return in_rounds(self, card)

    def followed(self, card: Any) -> OnlinePlan:
        """Return what comes of this plan if everyone answers the card of its round; see `Plan.followed`."""
        from oar.plans.cards.rounds import moves_in_rounds

        self._checked(card.first)
        return OnlinePlan(self.problem, self._with_own(moves_in_rounds(self, card)))

    @with_near_names
    def save(self, path: FilePath) -> None:
        """Write moves and signals to an npz file, with what tells the problem that they are for."""
        found = fingerprint(self.problem)
        if found.unknown is not None:
            raise StorageError(
                f"save: the problem could not be known again, because of {found.unknown}; keep plan.moves() yourself, "
                "or make model and rule of Python functions."
            )
        told = {"problem": found.digest, "compiled_by": found.compiled_by}
        head = json.dumps({"format": FORMAT, "version": __version__} | told)
        arrays: dict[str, Any] = {"head": np.array(head), "each": self.each}
        if self.query_move.any():
            arrays["query_move"] = self.query_move
        for number, pairs in enumerate(self.signals):
            for place, (parameters, signal) in enumerate(pairs):
                arrays[f"signal_{number}_{place}"] = np.stack([parameters, signal])
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        with replace_atomically(Path(path), private=True) as file:
            file.write(buffer.getvalue())

    @classmethod
    @with_near_names
    def load(cls, path: FilePath, problem: OnlineProblem) -> OnlinePlan:
        """Read a plan that was saved, for the problem that it was made for; another problem's is refused."""
        arrays = read_npz(Path(path))
        try:
            head = Fields(parsed_json(str(arrays["head"])))
            form, made_for, compiled_by = head.any("format"), head.get("problem"), head.get("compiled_by")
            each, signals = arrays["each"], _signals(arrays, problem.stream.rounds)
        except (KeyError, ValueError):
            raise StorageError(f"{path} is no plan over time; save one with plan.save(path).") from None
        if form != FORMAT:
            raise StorageError(f"{path} is of the format {said(form)}, and this version reads {FORMAT!r}.")
        found = fingerprint(problem)
        if made_for != found.digest or found.unknown is not None:
            other = f" (or the same under another Python: {said(compiled_by)} then)"
            raise DataError(
                f"problem: must be the one that the plan in {path} was made for, got one with other people, "
                f"model, rule, query, goal or limits{'' if compiled_by == found.compiled_by else other}."
            )
        people = problem.stream.people
        if each.shape != (people.size, people.dimensions) or each.dtype.kind != "f" or not np.isfinite(each).all():
            raise StorageError(
                f"{path} is damaged: its moves must be {people.size:,} × {people.dimensions:,} finite numbers, got "
                f"{each.dtype} of shape {each.shape}."
            )
        own = arrays.get("query_move", np.zeros(people.dimensions))
        if own.shape != (people.dimensions,) or own.dtype.kind != "f" or not np.isfinite(own).all():
            raise StorageError(
                f"{path} is damaged: the query's move must be {people.dimensions:,} finite numbers, got {own.dtype} of "
                f"shape {own.shape}."
            )
        return cls(problem, each, signals, query_move=own)

    def __repr__(self) -> str:
        movers = self.movers()
        acting = [f"{number}: {count:,}" for number, count in enumerate(movers) if count]
        shown = ", ".join(acting[:6]) + (", …" if len(acting) > 6 else "")
        rows, when = counted(int(movers.sum()), "row moves", "rows move"), f" (by round {shown})" if acting else ""
        query = "; the query moves" if self.query_move.any() else ""
        return f"OnlinePlan({counted(movers.size, 'round', 'rounds')}; {rows}{when}{query})"


def member_plan(problem: Problem, query_move: Array, each: Array) -> MemberPlan:
    """Return the plan in which everyone moves as is said, over rounds or not."""
    if not isinstance(problem, OnlineProblem):
        return MemberPlan(problem, query_move, each)
    return OnlinePlan(problem, each, query_move=query_move)


def fingerprint(problem: OnlineProblem) -> Behaviour:
    """Return what tells the people and when they arrive, model and rule, query, goal and limits from others.

    Functions, as of a user's own model, count by what they do.
    """
    stream, query, asked = problem.stream, problem.query, problem.asked
    parts = (
        (stream.people.features, [str(label) for label in stream.people.labels.tolist()], stream.people.weights),
        (stream.when, stream.who),
        (problem.model, problem.rule, problem.start),
        (asked.points, asked.members, [wish.identity for wish in problem.wishes]),
        (query.within, query.probability, query.several, query.share, problem.goal_for),
        (problem.radii, problem.allowance.norm.p, problem.shared),
        *(() if problem.limits is None else ((problem.people.schema, problem.limits),)),
        *(() if problem.kept is None else (tuple(problem.kept),)),
    )
    return behaviour(parts)


def _signals(arrays: dict[str, NDArray], rounds: int) -> tuple[tuple[tuple[Array, Array], ...], ...]:
    """Return the pairs θ, v of every round; raise a ValueError where there are other rounds, or no pairs."""
    found: list[list[tuple[Array, Array]]] = [[] for _ in range(rounds)]
    names = sorted((tuple(map(int, name.split("_")[1:])), name) for name in arrays if name.startswith("signal_"))
    for place, name in names:
        pair = arrays[name]
        known = len(place) == 2 and 0 <= place[0] < rounds
        if not known or pair.dtype.kind != "f" or pair.ndim != 2 or len(pair) != 2 or not np.isfinite(pair).all():
            raise ValueError(f"{name} is no signal")
        found[place[0]].append((pair[0], pair[1]))
    return tuple(map(tuple, found)) if names else ()
