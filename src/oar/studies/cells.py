"""The cells of a study: single questions, in grids or lists.

A cell is (model, query, budget, participation, seed, most). Its key, the same text in every process, identifies it in
a store, and contains everything that distinguishes its answer from another cell's of the same study.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from oar.actions.participation import check_most
from oar.actions.perturb import check_budget
from oar.checks import check_that, choose, is_listing, is_number, is_whole
from oar.errors import DataError, OptionError

AXES = ("model", "query", "budget", "participation", "seed")
MOST = "most"  # which a key names only where it is set, so that stores from before there was such an axis go on
PARTS = (*AXES, MOST)


@dataclass(frozen=True)
class Cell:
    """One question of a study: model and query by name, and what is None where it is the problem's own.

    The budget is common, or a factor on everyone's own where those differ. The participating share is drawn at random;
    the seed is that of this draw, and of a model that has one. `most` is how many labels may change, or members leave.
    """

    model: str
    query: str
    budget: float | None
    participation: float | None
    seed: int | None
    most: int | None = None

    @property
    def key(self) -> str:
        """The cell's identity: its parts as JSON, always in the same order and words."""
        more = (MOST,) * (self.most is not None)
        parts = {name: getattr(self, name) for name in (*AXES, *more)}
        return json.dumps(parts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Defaults:
    """The problem's own values, for axes that are left out; `no_…` says why other budgets or numbers are impossible."""

    budget: float | None
    participation: float | None
    no_budgets: str = ""
    no_most: str = ""
    of_best: bool = False  # shares are of those among whom the most useful are chosen


def grid(
    names: tuple[Sequence[str], Sequence[str]],
    own: Defaults,
    budgets: Any = None,
    participation: Any = None,
    seeds: Any = None,
    most: Any = None,
) -> list[Cell]:
    """Return every combination, in the order of the table; `names` are the names of models and of queries."""
    return [
        Cell(*parts)
        for parts in product(
            *names,
            _axis("budgets", budgets, own.budget, lambda value: _budget(value, own, "budgets")),
            _axis("participation", participation, own.participation, lambda value: _share(value, own)),
            _axis("seeds", seeds, None, _seed),
            _axis(MOST, most, None, lambda value: _most(value, own, MOST)),
        )
    ]


def listed(cells: Any, names: tuple[Sequence[str], Sequence[str]], own: Defaults) -> list[Cell]:
    """Return the cells of a list of dicts; missing values are the problem's own, or the only model or query."""
    several = isinstance(cells, Sequence) and not isinstance(cells, Mapping | str) and len(cells)
    check_that(several, "cells", "a list of dicts such as {'budget': 0.5, 'seed': 1}", cells)
    found = []
    for place, given in enumerate(cells):
        check_that(isinstance(given, Mapping), f"cells[{place}]", "a dict such as {'budget': 0.5, 'seed': 1}", given)
        for name in given:
            choose(f"cells[{place}]", name, PARTS)
        found.append(
            Cell(
                _named("model", given.get("model"), names[0], place),
                _named("query", given.get("query"), names[1], place),
                _budget(given["budget"], own, f"cells[{place}] budget") if "budget" in given else own.budget,
                _share(given["participation"], own) if "participation" in given else own.participation,
                _seed(given["seed"]) if given.get("seed") is not None else None,
                _most(given[MOST], own, f"cells[{place}] {MOST}") if MOST in given else None,
            )
        )
    return list(dict.fromkeys(found))


def _named(part: str, name: Any, known: Sequence[str], place: int) -> str:
    if name is None:
        if len(known) > 1:
            raise DataError(f"cells[{place}] {part}: must be one of {', '.join(map(repr, known))}, got none.")
        return known[0]
    return choose(f"cells[{place}] {part}", str(name) if isinstance(name, int) else name, known)


def _axis(argument: str, values: Any, own: Any, read: Any) -> list[Any]:
    """Return the values of an axis, each once; the default is the problem's own."""
    if values is None:
        return [own]
    check_that(is_listing(values), argument, "a list of numbers", values)
    found = list(dict.fromkeys(read(value) for value in values))
    if not found:
        raise DataError(f"{argument}: must be at least one number, got none; leave it out for the problem's own.")
    return found


def _budget(value: Any, own: Defaults, argument: str) -> float:
    if own.no_budgets:
        raise OptionError(f"{argument}: {own.no_budgets}")
    return check_budget(value, argument) + 0.0  # −0 is 0


def _most(value: Any, own: Defaults, argument: str) -> int:
    if own.no_most:
        raise OptionError(f"{argument}: {own.no_most}")
    return check_most(value)


def _share(value: Any, own: Defaults) -> float:
    if own.participation is None and not own.of_best:
        raise OptionError(
            "participation: is a random share of everyone, and the problem's action says who takes part; leave out "
            "either this or its participants."
        )
    check_that(is_number(value) and 0 <= value <= 1, "participation", "shares between 0 and 1", value)
    return float(value) + 0.0


def _seed(value: Any) -> int:
    check_that(is_whole(value) and 0 <= value < 2**63, "seeds", "whole numbers ≥ 0 (below 2⁶³)", value)
    return int(value)
