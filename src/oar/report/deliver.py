"""A plan as a folder of files: the card, everyone's moves, the audit, the organiser's report and the member's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oar.errors import OARError, StorageError
from oar.files import replace_atomically
from oar.plans import Card, Result
from oar.plans.card_file import as_json
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
    """The card of a plan, or why there is none."""

    card: Card | None
    why_not: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the report tells about it."""
        if self.card is None:
            return {
                "written": False,
                "told": f"There is no card, so {CARD} and {MEMBER} were not written: {self.why_not}",
            }
        return {"written": True, "told": f"{CARD} holds what members need to find their own moves, and nobody's row."}


def publish(result: Result) -> Published:
    """Return a plan's card; where there is none, or none that can be written, why."""
    try:
        card = result.plan.card()
        as_json(card)
    except OARError as error:
        return Published(None, str(error))
    return Published(card)


def check_folder(out: Path, force: bool) -> None:
    """Raise where a folder holds files that are not of an earlier plan, unless `force`."""
    if force or not out.is_dir():
        return
    others = sorted(path.name for path in out.iterdir() if not path.name.startswith(HIDDEN))
    if others and not _ours(out / AUDIT):
        raise StorageError(
            f"out: {out} holds other files ({others[0]}{', …' if len(others) > 1 else ''}); choose another folder, or "
            "add --force to write among them."
        )


def _ours(path: Path) -> bool:
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        return False


def write_all(folder: Path, result: Result, facts: Mapping[str, Any], published: Published) -> list[str]:
    """Write every file that there is something for; return their names, those that are missing left out."""
    changes = changes_of(result.plan)
    write_csv(changes, folder / MOVES_CSV)
    parquet = write_parquet(changes, folder / MOVES_PARQUET)
    _write(folder / AUDIT, json_text(facts))
    _write(folder / REPORT, organiser_page(facts))
    if published.card is not None:
        published.card.save(folder / CARD)
        _write(folder / MEMBER, member_page(published.card))
    return [name for name in FILES if (folder / name).exists() and (parquet or name != MOVES_PARQUET)]


def _write(path: Path, text: str) -> None:
    with replace_atomically(path) as file:
        file.write(text.encode())
