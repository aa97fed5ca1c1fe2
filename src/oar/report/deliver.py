"""A plan as a folder of files: the card, everyone's moves, the audit, the organiser's report and the member's page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oar.errors import OARError, Status, StorageError
from oar.files import replace_atomically
from oar.pictures.numbers import number
from oar.plans import Card, Result
from oar.plans.card_file import as_json
from oar.report.answer import told
from oar.report.facts import FORMAT
from oar.report.member_page import member_page
from oar.report.moves_out import changes_of, write_csv, write_parquet
from oar.report.organiser import organiser_page
from oar.report.outputs import HIDDEN
from oar.report.plain import json_text

CARD, MOVES_CSV, MOVES_PARQUET, AUDIT = "plan.json", "moves.csv", "moves.parquet", "audit.json"
REPORT, MEMBER = "report.html", "member.html"
FILES = (CARD, MOVES_PARQUET, MOVES_CSV, AUDIT, REPORT, MEMBER)


@dataclass(frozen=True, eq=False)
class Published:
    """The card of a plan and what a refit says of it, or why there is none."""

    card: Card | None
    why_not: str = ""
    loss: float = math.nan
    success: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the report tells about it."""
        if self.card is None:
            return {
                "written": False,
                "told": f"There is no card, so {CARD} and {MEMBER} were not written: {self.why_not}",
                "worth": None,
                "loss": None,
                "success": None,
            }
        return {
            "written": True,
            "told": f"{CARD} holds what members need to find their own moves, and nobody's row.",
            "worth": self.worth,
            "loss": told(self.loss),
            "success": self.success,
        }

    @property
    def worth(self) -> str:
        """Say what comes of it if the card is answered."""
        assert self.card is not None
        who = "everyone" if self.card.participants == "everyone" else "everyone who is asked to take part"
        if math.isnan(self.loss):
            return f"If {who} answers the card: not known, because the model could not be refitted."
        reached = "reached" if self.success else "missed"
        return f"If {who} answers the card: goal {reached}, goal loss {number(self.loss)}, by a refit."


def publish(result: Result) -> Published:
    """Return a plan's card, and what it is worth; where there is none, or none that can be written, why."""
    try:
        card, verdict = result.plan.published()
        as_json(card)
    except OARError as error:
        return Published(None, str(error))
    return Published(card, loss=float(verdict.loss), success=bool(verdict.success))


def check_folder(out: Path, force: bool) -> list[str]:
    """Return which files in a folder an earlier plan delivered: these may be replaced, or removed.

    Raises:
        StorageError: for a folder with other files and no plan, and for a file of somebody's own where one of the
            plan's would be; not with `force`, which writes over such a file.
    """
    if not out.is_dir():
        return []
    earlier = _delivered(out / AUDIT)
    there = sorted(path.name for path in out.iterdir() if not path.name.startswith(HIDDEN))
    others = [name for name in there if name not in earlier and (name in FILES or not earlier)]
    if others and not force:
        raise StorageError(
            f"out: {out} holds other files ({others[0]}{', …' if len(others) > 1 else ''}); choose another folder, or "
            "add --force to write among them, and over those that have the same names."
        )
    return [name for name in there if name in earlier]


def _delivered(path: Path) -> list[str]:
    """Return the files that an audit.json says it was delivered with; none where it is not a plan's."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = content["files"] if content["format"] == FORMAT else []
        return [name for name in FILES if name in files]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def write_all(folder: Path, result: Result, facts: Mapping[str, Any], published: Published) -> list[str]:
    """Write every file that there is something for; return their names, which audit.json lists."""
    changes = changes_of(result.plan)
    write_csv(changes, folder / MOVES_CSV)
    parquet = write_parquet(changes, folder / MOVES_PARQUET)
    _write(folder / REPORT, organiser_page(facts))
    if published.card is not None:
        published.card.save(folder / CARD)
        _write(
            folder / MEMBER,
            member_page(published.card, outcome=result.problem.people.target, note=_note(result, published)),
        )
    missing = {MOVES_PARQUET: not parquet, CARD: published.card is None, MEMBER: published.card is None}
    names = [name for name in FILES if not missing.get(name)]
    _write(folder / AUDIT, json_text({**facts, "files": names}))
    return names


def _note(result: Result, published: Published) -> str | None:
    """Say to members what the audit found where their moves would be in vain, without a word on who asks."""
    if result.status is Status.ALREADY:
        return "The organiser’s audit: the goal is reached before anybody moves, so no move is needed."
    if not result.success:
        return "The organiser’s audit: this plan alone does not reach its goal."
    if not published.success:
        return "The organiser’s audit: the plan reaches its goal, but answers by this page may miss it."
    return None


def _write(path: Path, text: str) -> None:
    with replace_atomically(path) as file:
        file.write(text.encode())
