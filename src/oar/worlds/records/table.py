"""Rounds as tables: one row for each round and collective, and long tables by group, actor and advice."""

from __future__ import annotations

from typing import Any

from oar.worlds.deployed.predictions import CollectiveOutcome
from oar.worlds.records.record import ActorRecord, Round

NONE = float("nan")
COLUMNS = {
    "round": "0, 1, …",
    "collective": "its name; None where a world has none",
    "members": "how many of those who arrived are members",
    "acting": "how many of them handed in something else than before, or nothing",
    "prediction": "what the query is predicted after the round (a tuple where several people ask)",
    "loss": "the query's goal loss after the round",
    "success": "whether it has its goal after the round",
    "critical_mass": "the share of members that would have been enough; NaN where all are not, or nobody acted",
    "burden_mean": "how far members moved in the round, on average over all members",
    "burden_max": "the farthest move in the round",
    "burden_total": "how far members moved in the round, added up",
    "heaviest": "the most that one person has moved so far, in all rounds together; of several rows in a round the "
    "farthest counts, or all of them where a total limits them together",
    "filtered": "how many of its members' data the operator did not train on",
    "advice": "how many pieces of advice were given so far, by anybody",
    "validity": "the share of them that is still valid under the model after the round",
    "accuracy": "of the model after the round, on the holdout",
    "accuracy_fall": "by how much that is below the world in which nobody has acted",
    "collateral": "the share of the holdout whose prediction differs from that world",
    "collateral_worst": "the largest such share in a group",
    "shift": "‖θ_t − θ_{t−1}‖",
    "changed": "the share of the holdout whose prediction changed in the round",
    "retrained": "whether the operator updated the model",
}
"""The columns of `Simulation.table()`."""


EMPTY = {
    "collective": tuple(COLUMNS),
    "group": ("round", "group", "people", "accuracy", "changed", "accuracy_fall"),
    "actor": ("round", "actor"),
    "advice": ("round", "actor", "given", "age", "people", "valid"),
}
"""The tables, by what each has a row for in every round, with the columns of one without rows."""


class Tables:
    """Rows of rounds, which become DataFrames on request."""

    def __init__(self) -> None:
        self.seen = 0
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in EMPTY}

    def add(self, one: Round) -> None:
        """Record a round."""
        self.seen += 1
        for name in one.outcomes or (None,):
            self._rows["collective"].append(_row(one, name))
        for group, record in one.groups.items():
            self._rows["group"].append({"round": one.number, "group": group, **vars(record)})
        for actor, done in one.actors.items():
            numbers = {part: value for part, value in vars(done).items() if part != "note"}
            notes = {f"note_{word}": value for word, value in done.note.items()}
            self._rows["actor"].append({"round": one.number, "actor": actor, **numbers, **notes})
        for advice in one.advice:
            self._rows["advice"].append({"round": one.number, **vars(advice)})

    def frame(self, name: str) -> Any:
        """Return a table, by its name in `EMPTY`."""
        import pandas

        return pandas.DataFrame(self._rows[name], columns=None if self._rows[name] else list(EMPTY[name]))


NOBODY = ActorRecord(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0)
NO_OUTCOME = CollectiveOutcome(None, NONE, None, ())  # type: ignore[arg-type]
OF_ACTOR = ("members", "acting", "burden_mean", "burden_max", "burden_total", "heaviest", "filtered")
OF_OUTCOME = ("prediction", "loss", "success")
OF_ROUND = ("validity", "accuracy", "accuracy_fall", "collateral", "shift", "changed", "retrained")


def _row(one: Round, name: str | None) -> dict[str, Any]:
    """Return a round as a collective has it; name is None where a world has no collective."""
    known: Any = name
    found = {
        "round": one.number,
        "collective": name,
        "critical_mass": one.critical_mass.get(known, NONE),
        "advice": sum(advice.people for advice in one.advice),
        "collateral_worst": max(record.changed for record in one.groups.values()),
    }
    outcome, done = one.outcomes.get(known, NO_OUTCOME), one.actors.get(known, NOBODY)
    for parts, of in ((OF_ROUND, one), (OF_OUTCOME, outcome), (OF_ACTOR, done)):
        found |= {part: getattr(of, part) for part in parts}
    return {column: found[column] for column in COLUMNS}
