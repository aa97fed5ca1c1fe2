"""Submitted plans: moves that somebody else computed, as arrays, tables or Parquet files, to be audited.

Those of people who are not in memory are handed out part by part, as plans do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.checks import real_numbers
from oar.errors import DataError, OptionError, StorageError
from oar.people import Chunk, Population
from oar.people.labels import label_array
from oar.people.parts.parquet import SUFFIXES
from oar.people.tables.arrays import as_vector, is_frame, is_series
from oar.people.tables.files import read_table
from oar.people.wording import nearest, shown
from oar.plans.moves.changes_table import ChangesTable, is_long, read_changes
from oar.plans.moves.parquet import check_moves, columns_of_files, file_moves
from oar.plans.plan import LeverPlan, Plan
from oar.plans.rounds.plan import member_plan
from oar.problem import Problem

Array = NDArray[np.float64]
IN_MEMORY = "moves: a table of changes is for people in memory; give an array or Parquet files."


@dataclass(frozen=True, eq=False, repr=False)
class SubmittedPlan(Plan):
    """Moves by whoever hands them out, `of_chunk(chunk)`."""

    handed: Any

    def mover(self) -> Any:
        """Return what hands out moves, and can be sent to another machine."""
        return self.handed


@dataclass(frozen=True, eq=False)
class ArrayMoves:
    """Moves in an array (n, d), in the order of the people."""

    each: Array
    sent_once: ClassVar[bool] = True

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        found = np.asarray(self.each[chunk.start : chunk.stop], dtype=np.float64)
        check_moves(found, chunk.start)
        return found


class NoMoves:
    """The moves where nobody moves."""

    def of_chunk(self, chunk: Chunk) -> Array:
        """Return the moves of some consecutive people."""
        return np.zeros_like(chunk.features)


def given_plan(
    problem: Problem, moves: Any, after: Any = None, labels: Any = None, leavers: Any = None, query_move: Any = None
) -> Plan:
    """Return the plan in which members do what somebody says they do; what is not allowed is for the audit to tell."""
    said = {"moves": moves, "after": after, "labels": labels, "leavers": leavers, "query_move": query_move}
    given = {name: value for name, value in said.items() if value is not None}
    if not given:
        raise OptionError(
            "moves: must say what members do, got nothing; give moves, or after=, labels=, leavers= or query_move=."
        )
    if {"moves", "after"} <= given.keys():
        raise OptionError("after: says where members come to, and moves by how much they move; leave one out.")
    if isinstance(query_move, Mapping) or is_series(query_move):
        given["query_move"] = as_vector(query_move, problem.people.names, problem.people.dimensions, "query_move")
    plan = (_streamed if problem.people.streamed else _in_memory)(problem, given)
    if problem.asked.among.size and plan.query_move.any():
        raise OptionError(
            "query_move: is for a query who is no member, and here members ask (oar.Members), who move with their "
            "data; give their moves among everybody's."
        )
    return plan


def _in_memory(problem: Problem, given: dict[str, Any]) -> Plan:
    """Return the plan of changes that are read, and of what is given beside them."""
    people, found = problem.people, _changes(problem, given)
    query_move = given.get("query_move", found.query_move)
    if "labels" in given:
        found.levers["targets"] = _targets(problem, given["labels"])
    if "leavers" in given:
        found.levers["away"] = _away(people, given["leavers"])
    if problem.best is not None:  # those who move are the ones who were to be chosen
        movers = found.each.any(axis=1) & problem.allowance.acting(people.size)
        problem = problem.with_action(participants=movers if movers.any() else problem.allowance.mask, seed=None)
    still: dict[str, Any] = {
        "targets": people.target_rows(problem.regresses),
        "away": np.zeros(people.size, dtype=bool),
    }
    idle = problem.over_rounds and all((value == still[name]).all() for name, value in found.levers.items())
    if idle or not found.levers:
        return member_plan(problem, query_move, found.each)
    return LeverPlan(problem, query_move, found.each, **still | found.levers)


def plan_from(problem: Problem, changes: Any) -> Plan:
    """Return the plan in which these changes are made: rows of person, column, before and after."""
    if problem.people.streamed:
        raise OptionError(IN_MEMORY)
    return given_plan(problem, changes)


def _changes(problem: Problem, given: dict[str, Any]) -> ChangesTable:
    people, still = problem.people, np.zeros(problem.people.dimensions)
    if "after" in given:
        return ChangesTable(_places_after(people, given["after"]), still)
    moves = given.get("moves", np.zeros((people.size, people.dimensions)))
    if isinstance(moves, str | PathLike):
        return _from_file(problem, Path(moves))
    if is_frame(moves) and is_long(moves.columns):
        return read_changes(problem, moves)
    return ChangesTable(_wide(people, moves), still)


def _from_file(problem: Problem, path: Path) -> ChangesTable:
    people = problem.people
    if os.path.isfile(path):
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(
                f"moves: must be an array, a DataFrame, or a Parquet file or folder, got the file {str(path)!r}; read "
                "it with pandas.read_csv, and give the table."
            )
        try:
            table = read_table(path)
        except StorageError as error:
            raise DataError(f"moves: {error} Write it again.") from None
        # A DataFrame that somebody wrote, and no plan: as if it were given itself.
        if is_long(table.columns) or columns_of_files(people)[0] not in table.columns:
            return _changes(problem, {"moves": table})
    each = np.vstack(list(map(file_moves(people, path).of_chunk, people.chunks())))
    return ChangesTable(each, np.zeros(people.dimensions))


def _wide(people: Population, moves: Any) -> Array:
    """Return moves (n, d) that are given for everybody, or by name for some."""
    if not is_frame(moves):
        return _array(people, moves, "moves")
    columns, rows = _features_of(people, moves, "moves"), _rows_of(people, moves, "moves")
    try:
        values = columns.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError(
            "moves: must be numbers, by how much each value changes, got texts; values after the moves are given as "
            "after=, and single changes as a table of person, column, before and after."
        ) from None
    check_moves(values, names=columns.columns, called=moves.index)
    each = np.zeros((people.size, people.dimensions))
    each[rows] = values
    return each


def _places_after(people: Population, after: Any) -> Array:
    """Return the moves (n, d) that lead to where people are said to be afterwards."""
    before = np.asarray(people.features, dtype=np.float64)
    if not is_frame(after):
        return _array(people, after, "after") - before
    rows = _rows_of(people, after, "after")
    if people.encoding is not None:
        spare = [name for name in (people.target,) if name in after.columns]  # as the caller's own table has it
        values = people.encoding.encode(after.drop(columns=spare), "after")
    else:
        columns = _features_of(people, after, "after")
        values = columns.to_numpy(dtype=np.float64, na_value=np.nan)
        check_moves(values, names=columns.columns, called=after.index)
    each = np.zeros_like(before)
    each[rows] = values - before[rows]
    return each


def _array(people: Population, given: Any, argument: str) -> Array:
    shape = (people.size, people.dimensions)
    _check_plain(given, argument)
    try:
        found = real_numbers(given)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{argument}: must be numbers of shape {shape}, a DataFrame, or a Parquet file or folder, got something "
            f"else ({error})."
        ) from None
    _check_shape(people, found.shape, argument)
    check_moves(found, names=people.names, called=people.index)
    return found


def _check_shape(people: Population, found: tuple[int, ...], argument: str) -> None:
    shape = (people.size, people.dimensions)
    if found != shape:
        raise DataError(
            f"{argument}: must be {shape[0]:,} people × {shape[1]} features, shape {shape}, got shape {found}; a "
            "row of zeros is somebody who stays."
        )


def _check_plain(given: Any, argument: str) -> None:
    """Refuse what NumPy would turn into numbers without a word: what is masked, complex, or a time."""
    hidden = np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any()
    types = list(given.dtypes) if is_frame(given) else [getattr(given, "dtype", np.dtype(float))]
    others = [kind for kind in types if getattr(kind, "kind", "f") in "cmM"]
    if hidden or others:
        what = "masked ones" if hidden else f"numbers of type {others[0]}"
        raise DataError(f"{argument}: must be plain numbers, got {what}; fill them in, or convert them first.")


def _check_order(people: Population, index: Any, argument: str) -> None:
    """Refuse rows that are numbered as people are, in another order: do they go by their numbers or by their places?"""
    import pandas

    numbers = pandas.RangeIndex(people.size)
    if people.index is None and len(index) == people.size and not index.equals(numbers) and index.isin(numbers).all():
        raise DataError(
            f"{argument}: must be in the order of the people, got rows that are numbered in another one; put them in "
            "order with .sort_index(), or number them anew with .reset_index(drop=True) if they are."
        )


def _features_of(people: Population, frame: Any, argument: str) -> Any:
    """Return a table's columns in the order of people's features; raise where it has others, or no plain numbers."""
    names = list(people.names or range(people.dimensions))
    missing = [name for name in names if name not in frame.columns]
    others = [name for name in frame.columns if name not in names]
    if not missing and not others:
        _check_plain(frame, argument)
        return frame[names]
    hint = "; give single changes as a table of person, column, before and after"
    if people.schema is not None and set(people.schema.names) <= set(frame.columns):
        hint = "; values after the moves, in the table's own words, are given as after="
    what = f"without {shown(missing[0])}" if missing else f"with {shown(others[0])}"
    close = nearest(missing[0], others) if missing else ""
    raise DataError(f"{argument}: must have the columns {names}, got a table {what}{hint}.{close}")


def _rows_of(people: Population, frame: Any, argument: str) -> NDArray[np.intp]:
    """Return whose rows a table's are: by its index where people have one, in their order otherwise."""
    if people.index is None:
        if len(frame) != people.size:
            raise DataError(
                f"{argument}: must have a row for each of the {people.size:,} people, in order, got {len(frame):,}."
            )
        _check_order(people, frame.index, argument)
        return np.arange(people.size)
    return _known(people, frame.index, argument)


def _known(people: Population, names: Any, argument: str) -> NDArray[np.intp]:
    """Return the positions of people by their names."""
    import pandas

    index = people.row_names
    asked = pandas.Index(names)
    twice = asked[asked.duplicated()]
    if len(twice):
        raise DataError(f"{argument}: everybody must be there once, got {shown(twice[0])} twice.")
    places = index.get_indexer(asked)
    if (places < 0).any():
        who = asked[int(np.argmax(places < 0))]
        raise DataError(f"{argument}: must be of these people, got {shown(who)}, who is not among them.")
    return places


def _targets(problem: Problem, labels: Any) -> Array:
    """Return everybody's label (n, k) where all are given, or some by name."""
    people = problem.people
    before = people.target_rows(problem.regresses)
    values: Any
    if isinstance(labels, Mapping):
        rows, values = _known(people, list(labels), "labels"), list(labels.values())
    elif (is_series(labels) or is_frame(labels)) and people.index is not None:
        rows, values = _known(people, labels.index, "labels"), labels.to_numpy()
    else:
        if is_series(labels) or is_frame(labels):
            _check_order(people, labels.index, "labels")
        rows, values = np.arange(people.size), np.asarray(labels) if not is_series(labels) else labels.to_numpy()
    if np.ndim(values) == 0:
        raise DataError(f"labels: must be one for each person, or a dict of some by name, got {labels!r}.")
    if len(values) != len(rows):
        raise DataError(f"labels: must be one for each of the {len(rows):,} people, got {len(values):,}.")
    found = before.copy()
    if np.ndim(values) == 2 or problem.regresses:
        _check_plain(values, "labels")
        given = real_numbers(values).reshape(len(rows), -1)
        if given.shape[1] != before.shape[1] or not np.isfinite(given).all():
            raise DataError(f"labels: must be {len(rows):,} × {before.shape[1]} finite numbers, got {given.shape}.")
        found[rows] = given
    elif len(rows):
        found[rows] = np.eye(len(people.classes))[people.coding.encode(label_array(values))]
    return found


def _away(people: Population, leavers: Any) -> NDArray[np.bool_]:
    """Return who leaves (n,): a mask, or names."""
    if is_series(leavers) and leavers.dtype == bool and people.index is not None:
        leavers = leavers.index[leavers.to_numpy()]
    elif is_series(leavers):
        _check_order(people, leavers.index, "leavers")
    try:
        given = np.asarray(leavers if hasattr(leavers, "dtype") else list(leavers))
    except TypeError:
        raise DataError(f"leavers: must be a list of people, or one yes or no for each, got {leavers!r}.") from None
    if given.dtype == bool:
        if given.shape != (people.size,):
            wanted = f"one yes or no for each of the {people.size:,} people"
            raise DataError(f"leavers: must be {wanted}, got {given.shape}.")
        return given.copy()
    away = np.zeros(people.size, dtype=bool)
    away[_known(people, list(leavers), "leavers")] = True
    return away


def _streamed(problem: Problem, given: dict[str, Any]) -> Plan:
    people, moves = problem.people, given.get("moves")
    query_move = given.get("query_move", np.zeros(people.dimensions))
    for name in (name for name in given if name not in ("moves", "query_move")):
        raise OptionError(f"{name}: people in parts are audited for moves alone; leave it out, or load them first.")
    if moves is None:
        return SubmittedPlan(problem, query_move, NoMoves())
    if isinstance(moves, str | PathLike):
        return SubmittedPlan(problem, query_move, file_moves(people, moves))
    if is_frame(moves):
        if is_long(moves.columns):
            raise OptionError(IN_MEMORY)
        columns = _features_of(people, moves, "moves")
        _check_order(people, columns.index, "moves")
        moves = columns.to_numpy()
    _check_plain(moves, "moves")
    _check_shape(people, np.shape(moves), "moves")
    return SubmittedPlan(problem, query_move, ArrayMoves(moves))
