"""A study as a TOML file: what `oar plan` has as options, and the axes of a grid.

Keys at the top are the options of `oar plan` by their names there; [axes] are lists of budgets, participation, queries,
models, seeds and numbers of labels or leavers (`most`), or [[cells]] a list of cells in place of a grid. Files are
looked for beside the TOML file.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.checks import check_that, choose, is_flag, is_listing, is_number, is_text, is_whole
from oar.cli.error_words import in_options
from oar.cli.inputs.problem import MODELS, NO_LIMITS, ProblemArguments, model_called
from oar.cli.options import about_files, about_people
from oar.errors import DataError, OptionError, StorageError
from oar.opening import read_toml
from oar.studies.cells import PARTS

if TYPE_CHECKING:
    from oar.problem import Problem

FILES = ("data", "schema", "limits")
LISTS = ("leave-out", "feature", "goal", "not", "na")
TEXTS = ("target", "id", "weights", "missing", "sep", "encoding", "decimal", "thousands", "sheet",
         "example", "query", "norm", "model", "participants",
         "several")  # fmt: skip
NUMBERS = ("budget", "share", "probability", "within", "changed", "lost", "worse")
WHOLE = ("relabel", "withhold", "seed")
FLAGS = ("plain", "move-too")
OPTIONS = (*FILES, *LISTS, *TEXTS, *NUMBERS, *WHOLE, *FLAGS)
KINDS: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (FLAGS, "true or false", is_flag),
    (NUMBERS, "a number", is_number),
    (WHOLE, "a whole number ≥ 0", lambda value: is_whole(value) and value >= 0),
    (LISTS, "a text, or a list of them", lambda value: not isinstance(value, dict)),
    (("query", "norm"), "a text", lambda value: is_text(value) or is_whole(value)),
    ((*FILES, *TEXTS), "a text", is_text),
)
FILE_OPTIONS = tuple(inspect.signature(about_files).parameters)
AXES = ("budgets", "participation", "queries", "models", "seeds", "most")
SETTINGS = ("store", "solver")
CALLED = {"id": "name", "not": "barred", "leave-out": "leave_out", "move-too": "move_too"}  # as `about_people` does


@dataclass(frozen=True)
class StudyFile:
    """The contents of a study's file."""

    path: Path
    asked: ProblemArguments
    axes: dict[str, Any]
    cells: list[dict[str, Any]] | None
    store: Path
    solver: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `oar.study` besides the problem."""
        numbers = {name: self.axes.get(name) for name in ("budgets", "participation", "seeds", "most")}
        return numbers | {
            "cells": self._told_cells,
            "models": {name: model_called(name, self.asked.layout.plain, self.asked.seed) for name in self._models},
            "queries": {text: self._asking(text).asking for text in self._queries},
            "solver": self.solver,
        }

    @property
    def _told_cells(self) -> list[dict[str, Any]] | None:
        """The cells; where some name a query or a model, the others have those at the top."""
        if self.cells is None:
            return None
        tops = {"query": lambda: str(self.asked.asked_of), "model": lambda: self.asked.model}
        named = {name: top() for name, top in tops.items() if len({name in one for one in self.cells}) > 1}
        return [named | one for one in self.cells]

    @cached_property
    def problem(self) -> Problem:
        """The problem, with the first model and query."""
        first = self._asking(self._queries[0])
        budget = first.budget
        if budget is None and not first.example and first.relabel is None and first.withhold is None:
            # One to make the problem with, where only cells say how far members may go.
            budget = next(iter(self._named("budgets", "budget")), None)
        return first.but(budget=budget).problem

    @property
    def _models(self) -> list[str]:
        named = self._named("models", "model") or [self.asked.model]
        names = list(dict.fromkeys(choose("models", name, MODELS) for name in named))
        if "ridge" in names and len(names) > 1:
            raise OptionError("models: ridge predicts values, and the others classes; give them studies of their own.")
        return names

    @property
    def _queries(self) -> list[str]:
        return list(dict.fromkeys(map(str, self._named("queries", "query") or [self.asked.asked_of])))

    def _named(self, axis: str, part: str) -> list[Any]:
        """Return what an axis has, or else the cells; nothing where neither says anything of it."""
        return self.axes.get(axis) or [one[part] for one in self._told_cells or () if part in one]

    def _asking(self, query: str) -> ProblemArguments:
        beside = self.path.parent / query
        text = str(beside) if beside.suffix and os.path.isfile(beside) else query
        return self.asked.but(query=text, model=self._models[0])


def read_study(path: Path) -> StudyFile:
    """Read a study's file; raise for what it cannot say, with the nearest word that it can."""
    said = read_toml(path, "STUDY")
    axes, cells = said.pop("axes", {}), said.pop("cells", None)
    for name in said:
        if name in AXES:
            raise OptionError(f"{name}: is an axis; write it below a line [axes], as a list: {name} = […].")
        choose(path.name, name, (*OPTIONS, *SETTINGS, "axes", "cells"))
    _check_axes(axes)
    if cells is not None:
        if axes:
            raise OptionError("cells: are a list in place of a grid, and [axes] are a grid; leave one out.")
        cells = _read_cells(cells)
    options = {name: _option(name, said[name], path.parent) for name in OPTIONS if name in said}
    called = {CALLED.get(name, name): value for name, value in options.items()}
    written = about_files(**{name: called.pop(name) for name in FILE_OPTIONS if name in called})
    asked = about_people(**called, written=written)
    store, solver = said.get("store", path.with_suffix(".db").name), said.get("solver", "auto")
    for name, value in (("store", store), ("solver", solver)):
        check_that(is_text(value), name, "a text", value)
    if not asked.example:  # which has a query and a budget
        _check_said(said, axes, cells or [])
    return StudyFile(path, asked, axes, cells, path.parent / store, solver)


def _check_axes(axes: Any) -> None:
    check_that(isinstance(axes, dict), "axes", "a table, [axes]", axes)
    for name, values in axes.items():
        if name in (*OPTIONS, *SETTINGS):
            raise OptionError(f"[axes]: {name} is no axis; write it above the line [axes], where the file begins.")
        choose("[axes]", name, AXES)
        filled = isinstance(values, list) and values
        check_that(filled, name, "a list with something in it, such as [1, 2]", values)


def _read_cells(cells: Any) -> list[dict[str, Any]]:
    """Return cells whose keys are known, and whose queries are texts."""
    tables = isinstance(cells, list) and all(isinstance(one, dict) for one in cells)
    check_that(tables, "cells", "tables, each under [[cells]]", cells)
    for place, one in enumerate(cells):
        for name in one:
            choose(f"cells[{place}]", name, PARTS)
    return [one | {name: str(one[name]) for name in ("query",) if name in one} for one in cells]


def _check_said(said: dict[str, Any], axes: dict[str, Any], cells: list[dict[str, Any]]) -> None:
    """Raise where nobody asks, or where it is not said how far members may go."""
    if not ("query" in said or "queries" in axes or any("query" in one for one in cells)):
        raise OptionError(
            "query: must say who asks, a row of the data or a file, got none; add query = … at the top, queries = […] "
            "in [axes], or query = … to [[cells]]."
        )
    if any(name in said for name in ("budget", "relabel", "withhold")) or "budgets" in axes:
        return
    without = [place for place, one in enumerate(cells) if "budget" not in one]
    if without or not cells:
        where = f"cells[{without[0]}] budget" if without else "budget"
        raise OptionError(
            f"{where}: must say how far members may go, got none; add budget = … at the top, budgets = […] in [axes], "
            "or budget = … to all [[cells]]; or use relabel or withhold."
        )


@contextmanager
def in_its_own_words() -> Iterator[None]:
    """Restate errors in the file's keys where `oar plan` names its options: --model ridge is model = "ridge"."""
    try:
        yield
    except (DataError, OptionError) as error:  # no others: what storage says has paths in it
        text = re.sub(r"(?<!\S)--(example|missing|model|encoding) ([\w-]+)", r'\1 = "\2"', in_options(str(error)))
        text = re.sub(r"(?<!\S)--(id|leave-out|feature|sep|na) '?([^',;.]+)'?", r'\1 = "\2"', text)
        text = re.sub(rf"(?<!\S)--({'|'.join(OPTIONS)})\b", r"\1", text)
        text = re.sub(r"^DATA(?=:)|(?<= of )DATA\b", "data", text)
        if text == str(error):
            raise
        raise type(error)(text) from error


def _option(name: str, value: Any, folder: Path) -> Any:
    """Return an option's value as the command line would give it."""
    kind, fits = next((kind, fits) for names, kind, fits in KINDS if name in names)
    check_that(fits(value), name, kind, value)
    if name in LISTS:
        return [str(each) for each in (value if is_listing(value) else [value])]  # true is True, as in a table
    value = str(value) if name in (*FILES, *TEXTS) else value
    if name == "limits" and value == str(NO_LIMITS):
        return NO_LIMITS
    if name in ("limits", "schema") and not os.path.isfile(folder / value):
        raise StorageError(f"{name}: must be a TOML file, got {value!r}, which is not there ({folder / value}).")
    return folder / value if name in FILES else value
