"""Rounds as tables: one row for each round and collective, and long tables by group, actor and advice."""

from __future__ import annotations

from typing import Any

from oar.worlds.deployed.predictions import CollectiveOutcome
from oar.worlds.records.record import ActorRecord, Round

NONE = float("nan")
FIRST = ("round", "collective", "members", "acting")
OF_OUTCOME = ("prediction", "loss", "success")
OF_BURDEN = ("burden_mean", "burden_max", "burden_total", "heaviest", "filtered")
OF_MODEL = ("validity", "accuracy", "accuracy_fall", "collateral")
OF_UPDATE = ("shift", "changed", "retrained")
COLUMNS = (*FIRST, *OF_OUTCOME, "critical_mass", *OF_BURDEN, "advice", *OF_MODEL, "collateral_worst", *OF_UPDATE)
"""The columns of `Simulation.table()`; the documentation's page on simulation says what each is."""
EMPTY = {
    "collective": COLUMNS,
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
    for parts, of in ((OF_MODEL + OF_UPDATE, one), (OF_OUTCOME, outcome), (FIRST[2:] + OF_BURDEN, done)):
        found |= {part: getattr(of, part) for part in parts}
    return {column: found[column] for column in COLUMNS}
