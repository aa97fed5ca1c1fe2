"""What comes out over time: everyone's move in every round, and who acts when."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, StorageError
from oar.files import read_npz, replace_atomically
from oar.online.problem import OnlineProblem
from oar.people.wording import counted
from oar.plans.online_fingerprint import fingerprint
from oar.version import __version__

Array = NDArray[np.float64]
FORMAT = "oar online plan 1"


@dataclass(frozen=True, eq=False, repr=False)
class OnlinePlan:
    """A move for each row of a stream.

    Attributes:
        problem: what it was made for.
        each: (n, d), in the order of `problem.stream.people`; zero rows for those who stay, and for who was there
            before the first round.
        signals: of a plan by signals alone, for each round the pairs (θ, v), each (p,), from which its members'
            moves follow; empty where moves are handed out themselves.
    """

    problem: OnlineProblem
    each: Array
    signals: tuple[tuple[tuple[Array, Array], ...], ...] = ()

    def __post_init__(self) -> None:
        """Refuse moves for other people; whether they are allowed is for the audit to say."""
        people = self.problem.stream.people
        try:
            each = np.asarray(self.each, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"each: must be numbers, one row for each of {people.size}, got others ({error})."
            ) from None
        if each.shape != (people.size, people.dimensions):
            raise DataError(
                f"each: must have shape {(people.size, people.dimensions)}, a row for everyone of every round (and of "
                f"the history), got {each.shape}: a plan is for the very stream that it was made for."
            )
        object.__setattr__(self, "each", each)

    def moves(self, round: int | None = None) -> Any:
        """Return moves in the units of the features, a DataFrame where people were one, else float64.

        Args:
            round: 0, 1, …: the moves (m, d) of those who arrive in it, in the stream's order. None: of all rows (n, d).
        """
        people = self.problem.stream.people
        if round is None:
            rows = np.arange(people.size)
        else:
            rows = self.problem.stream.rows(self._number(round))
        if people.names is None:
            return self.each[rows].copy()
        import pandas

        index = None if people.index is None else people.index[rows]
        return pandas.DataFrame(self.each[rows], index=index, columns=list(people.names))

    def _number(self, round: Any) -> int:
        rounds = self.problem.stream.rounds
        whole = isinstance(round, int | np.integer) and not isinstance(round, bool)
        if not whole or not 0 <= round < rounds:
            raise DataError(f"round: must be a whole number from 0 to {rounds - 1}, got {round!r}.")
        return int(round)

    def efforts(self) -> Array:
        """Return Σ ‖δ_i‖ of each round (T,)."""
        stream = self.problem.stream
        acts = stream.when >= 0
        lengths = self.problem.everyone.allowance.norm.length(self.each)
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
        names = np.arange(stream.people.size) if stream.people.index is None else np.asarray(stream.people.index)
        persons = names if stream.who is None else stream.who
        lengths = self.problem.everyone.allowance.norm.length(self.each[rows])
        return pandas.DataFrame(
            {"round": stream.when[rows], "person": persons[rows], "row": rows, "effort": lengths},
            index=range(rows.size),
        )

    def save(self, path: Any) -> None:
        """Write moves and signals to an npz file, with what tells the problem that they are for."""
        head = json.dumps({"format": FORMAT, "version": __version__, "problem": fingerprint(self.problem)})
        arrays: dict[str, Any] = {"head": np.array(head), "each": self.each}
        for number, pairs in enumerate(self.signals):
            for place, (parameters, signal) in enumerate(pairs):
                arrays[f"signal_{number}_{place}"] = np.stack([parameters, signal])
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        with replace_atomically(Path(path)) as file:
            file.write(buffer.getvalue())

    @classmethod
    def load(cls, path: Any, problem: OnlineProblem) -> OnlinePlan:
        """Read a plan that was saved, for the problem that it was made for; another problem's is refused."""
        arrays = read_npz(Path(path))
        try:
            head = json.loads(str(arrays["head"]))
            known = head["format"] == FORMAT
            made_for, each = head["problem"], arrays["each"]
        except (KeyError, ValueError, TypeError):
            raise StorageError(f"{path} is no plan over time; save one with plan.save(path).") from None
        if not known:
            raise StorageError(f"{path} is of the format {head['format']!r}, and this version reads {FORMAT!r}.")
        if made_for != fingerprint(problem):
            raise DataError(
                f"problem: must be the one that the plan in {path} was made for, got one with other people, "
                "model, rule, query, goal or limits."
            )
        return cls(problem, each, _signals(arrays, problem.stream.rounds))

    def __repr__(self) -> str:
        """Show who acts when, in one line."""
        movers = self.movers()
        acting = [f"{number}: {count:,}" for number, count in enumerate(movers) if count]
        shown = ", ".join(acting[:6]) + (", …" if len(acting) > 6 else "")
        rows = counted(int(movers.sum()), "row moves", "rows move")
        return (
            f"OnlinePlan({counted(movers.size, 'round', 'rounds')}; {rows}{f' (by round {shown})' if acting else ''})"
        )


def _signals(arrays: dict[str, NDArray], rounds: int) -> tuple[tuple[tuple[Array, Array], ...], ...]:
    found: list[list[tuple[Array, Array]]] = [[] for _ in range(rounds)]
    names = sorted((tuple(map(int, name.split("_")[1:])), name) for name in arrays if name.startswith("signal_"))
    for (number, _), name in names:
        found[number].append((arrays[name][0], arrays[name][1]))
    return tuple(map(tuple, found)) if names else ()
