"""The verbs: everything that may be asked of a problem, by name, each a function of a `Cell`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import oar
from oar.online import OnlineProblem
from oar.report.member_page import member_page

Ask = Callable[["Cell"], Any]
VERBS: dict[str, Ask] = {}


@dataclass(frozen=True)
class Cell:
    """A problem, its plan where a verb asks for one, and a folder for files."""

    problem: Any
    folder: Path

    @cached_property
    def result(self) -> Any:
        """The collective plan, audited."""
        return oar.collective(self.problem)

    @cached_property
    def card(self) -> Any:
        """The card of the plan."""
        return self.result.plan.card()

    @property
    def over_rounds(self) -> bool:
        """Whether the problem has several rounds."""
        return isinstance(self.problem, OnlineProblem)

    def member(self) -> tuple[Any, Any]:
        """Return the features and the label of one member: a row of the table, where people are one."""
        people = self.problem.people
        if people.encoding is not None:
            return people.encoding.decode(np.asarray(people.features[:1])).iloc[0], people.labels[0]
        features = next(iter(people.chunks())).features if people.streamed else people.features
        label = people.classes[0] if people.streamed else people.labels[0]
        return np.asarray(features)[0], label


def verb(name: str) -> Callable[[Ask], Ask]:
    """Register what may be asked under its name in the matrix."""

    def add(ask: Ask) -> Ask:
        VERBS[name] = ask
        return ask

    return add


for one in ("individual", "joint", "minimal_budget", "minimal_coalition", "break_even"):
    verb(one)(lambda cell, name=one: getattr(oar, name)(cell.problem))
for one in ("leverage", "alternatives"):
    verb(one)(lambda cell, name=one: getattr(oar.questions, name)(cell.problem))
for one in ("power", "credit", "collateral"):
    verb(one)(lambda cell, name=one: getattr(oar.questions, name)(cell.result))
verb("collective")(lambda cell: cell.result)
verb("robustness")(lambda cell: cell.result.plan.robustness(defection=0.3, draws=10))
verb("card")(lambda cell: cell.card)
verb("respond")(lambda cell: cell.card.respond(*cell.member(), **({"round": 1} if cell.over_rounds else {})))
verb("member page")(lambda cell: member_page(cell.card))
verb("plot")(lambda cell: cell.result.plot())
verb("notebook view")(lambda cell: cell.result._repr_html_())


@verb("study")
def _(cell: Cell) -> Any:
    found = oar.study(cell.problem, participation=(0.5, 1.0), store=cell.folder / "study.db", progress=False)
    for error in found.table()["error"].dropna():  # a study keeps what went wrong, and goes on
        raise RuntimeError(error)
    return found


@verb("follow")
def _(cell: Cell) -> Any:
    return oar.follow(cell.problem, lambda now: oar.online.Happened(now.expected, now.asked))


ORDER = (
    *("collective", "individual", "joint", "minimal_budget", "minimal_coalition", "break_even", "power", "leverage"),
    *("credit", "collateral", "alternatives", "robustness", "card", "respond", "member page", "plot", "notebook view"),
    *("study", "follow"),
)
