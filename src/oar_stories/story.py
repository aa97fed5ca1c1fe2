"""The parts of a scenario: settings, a run, and its outcome as a table, facts, a picture and an animation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import choose
from oar.errors import OptionError

if TYPE_CHECKING:
    from oar.pictures.figures import Figure

OnStage = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and of how many."""


@dataclass(frozen=True, eq=False)
class Told:
    """The outcome of a scenario.

    Attributes:
        rows: the tidy table, one row a measurement of a year, an arm and a repetition.
        facts: what else goes into results.json: numbers by arm and year, averaged over repetitions.
        header, lines: a small table for a terminal.
        summary: a few sentences, what did not come out among them.
        still: draws the picture.
        film: draws frame 0, 1, …. frames: how many there are. pace: milliseconds a frame.
    """

    rows: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]
    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    summary: Sequence[str]
    still: Callable[[], Figure]
    film: Callable[[int], Figure]
    frames: int
    pace: int = 900


@dataclass(frozen=True)
class Scenario:
    """A story that can be run.

    Attributes:
        name: as the command knows it. about: in one line.
        settings: its settings as they are by default, a frozen dataclass.
        quick: settings that differ in a quick run.
        run: from settings, a seed and a callback for progress to what came of it.
        parts: of a story whose rows are of unlike kinds, what the column `part` says of each; every part is written
            as a table of its own. Empty where all rows are one table.
    """

    name: str
    about: str
    settings: Any
    quick: Mapping[str, Any]
    run: Callable[[Any, int, OnStage], Told]
    parts: tuple[str, ...] = ()

    def with_settings(self, given: Mapping[str, Any], quick: bool = False) -> Any:
        """Return the settings with those that are given (not None); raise for those that it does not have."""
        has = [field.name for field in fields(self.settings) if field.name in given]
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in chosen:
            if name not in has:
                listing = ", ".join(f"--{each}" for each in has)
                raise OptionError(f"--{name}: does nothing for the scenario {self.name}, which knows {listing}.")
        return replace(self.settings, **{**(self.quick if quick else {}), **chosen})


def averages(rows: Sequence[Mapping[str, Any]], by: Sequence[str], of: Sequence[str]) -> dict[tuple[Any, ...], Any]:
    """Return mean, least and greatest of some columns, for every combination of others, over the repetitions.

    What is not known of a repetition (None or NaN) does not count; where it is known of none, all three are NaN.
    """
    found: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in rows:
        place = found.setdefault(tuple(row[name] for name in by), {name: [] for name in of})
        for name in of:
            if row[name] is not None and math.isfinite(row[name]):
                place[name].append(float(row[name]))
    return {key: {name: spread(values) for name, values in columns.items()} for key, columns in found.items()}


def known(measured: Mapping[str, Mapping[str, float]]) -> dict[str, Mapping[str, float]]:
    """Return averages without those of which nothing is known."""
    return {name: part for name, part in measured.items() if not math.isnan(part["mean"])}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the mean, the least and the greatest of some numbers."""
    if not values:
        return {"mean": math.nan, "least": math.nan, "greatest": math.nan}
    return {"mean": float(np.mean(values)), "least": min(values), "greatest": max(values)}


def scenario_called(name: str, known: Mapping[str, Scenario]) -> Scenario:
    """Return a scenario by its name; raise with the known ones."""
    return known[choose("scenario", name, known)]
