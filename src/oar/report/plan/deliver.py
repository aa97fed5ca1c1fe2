"""A plan as a folder of files: the card, everyone's moves, the audit, the organiser's report and the member's page."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oar.errors import OARError, Status, StorageError
from oar.files import write_text
from oar.opening import read_json
from oar.people.wording import counted
from oar.plans import Card, Result
from oar.plans.cards.disclosure import telling
from oar.plans.cards.file import as_json
from oar.plans.cards.table.card import without_answer
from oar.plans.moves.changes_table import changes_of, write_csv, write_parquet
from oar.report.files.manifest import MANIFEST, NO_ID, PRIVATE, seal, write_private
from oar.report.files.output_folder import finish, is_ours
from oar.report.files.text_formats import json_text
from oar.report.member_page import member_page
from oar.report.organiser_page import organiser_page
from oar.report.plan.answer import in_command_words, told, unable_words
from oar.report.plan.facts import FORMAT
from oar.report.plan.publishable import names_of, publishable, rounding_words

CARD, MOVES_CSV, MOVES_PARQUET, AUDIT = "plan.json", "moves.csv", "moves.parquet", "audit.json"
REPORT, MEMBER = "report.html", "member.html"
FILES = (CARD, MOVES_PARQUET, MOVES_CSV, AUDIT, REPORT, MEMBER, PRIVATE, MANIFEST)


@dataclass(frozen=True, eq=False)
class PublishedCard:
    """The card of a plan and what a refit says of it, or why there is none."""

    card: Card | None
    why_not: str = ""
    loss: float = math.nan
    success: bool = False
    tells: tuple[str, ...] = ()  # what of it is so fine that one person shows in it
    unasked: tuple[str, ...] = ()  # columns that the plan's own moves change, and no answer to the card does
    unable: int = 0  # how many of those who take part have a gap, and so no answer
    opposite: int = 0  # how many are to change a column one way by the moves, and the other way by the card
    planned: tuple[bool, float] = (False, math.nan)  # whether the moves reach the goal, and their goal loss

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the report tells about it."""
        if self.card is None:
            why = f"There is no card, so {CARD} and {MEMBER} were not written: {self.why_not}"
            return {"written": False, "told": why} | dict.fromkeys(("worth", "loss", "success", "unable", "ways"))
        asked = "" if self.card.participants == "everyone" else " who is asked to take part"
        can = f" who can ({unable_words(self.unable)})" if self.unable else ""
        danger = (
            f" It has {' and '.join(self.tells)}, which for so few people is enough to find out a person's data from "
            "two cards, with this person and without: publish one, and no other for nearly the same people."
        )
        unasked = (
            f" Who answers it changes nothing in {', '.join(self.unasked)}, where {MOVES_CSV} does: a change costs "
            "more than the card's budget, or bounds cannot be told without telling the values of few people."
        )
        return {
            "written": True,
            "told": f"{CARD} holds what members need to find their own moves, and nobody's row."
            f"{danger if self.tells else ''}{unasked if self.unasked else ''}",
            "worth": f"If everyone{asked} answers the card{can}: {_achieved(self.success, self.loss)}.",
            "loss": told(self.loss),
            "success": None if math.isnan(self.loss) else self.success,
            "unable": self.unable,
            "ways": self.ways,
        }

    @property
    def ways(self) -> str:
        """Say that the moves and the card are two plans, and what each of them achieves."""
        found = (MOVES_CSV, *self.planned), (f"{MEMBER} (or `oar respond` with {CARD})", self.success, self.loss)
        each = ", or ".join(f"{name}: {_achieved(success, loss)}" for name, success, loss in found)
        against = counted(self.opposite, "person", "people")
        turned = f"; {against} would go one way in a column by the one, and the other way by the other"
        return (
            f"There are two ways to take part, which may ask different things of the same person"
            f"{turned if self.opposite else ''}. Everyone follows the same one: {each}."
        )


def _achieved(success: bool, loss: float) -> str:
    if math.isnan(loss):
        return "not known, because the model could not be refitted"
    return f"goal {'reached' if success else 'missed'}, goal loss {loss:.4g}, by a refit"


def publish(result: Result) -> PublishedCard:
    """Return a plan's card, and what it is worth; where there is none, or none that can be written, why."""
    if result.status is Status.ALREADY:  # moves would cost people something, and others perhaps a good decision
        return PublishedCard(None, "the goal is reached before anybody moves, so nobody is asked to move.")
    try:
        card, verdict = result.plan.published()
        as_json(card)
    except OARError as error:
        return PublishedCard(None, in_command_words(str(error)))
    planned, answered = (np.sign(np.asarray(plan.moves())) for plan in (result.plan, result.plan.followed(card)))
    unasked = [each.column.name for each in card.terms.columns if not each.asked(card.most)]
    return PublishedCard(
        card,
        loss=float(verdict.loss),
        success=bool(verdict.success),
        tells=telling(card, result.problem),
        unasked=tuple(name for name in unasked if planned[:, result.problem.people.table.places[name]].any()),
        unable=int(without_answer(result.problem).sum()),
        opposite=int((planned * answered < 0).any(axis=1).sum()),
        planned=(result.success, float(result.loss)),
    )


def check_folder(out: Path, force: bool) -> list[str]:
    """Return which files in a folder an earlier plan delivered: these may be replaced, or removed.

    Raises:
        StorageError: for a folder with other files and no plan, and for a file of somebody's own where one of the
            plan's would be; not with `force`, which writes over such a file.
    """
    if not os.path.isdir(out):
        return []
    finish(out, FILES)
    earlier = _delivered(out / AUDIT)
    there = sorted(path.name for path in out.iterdir() if not is_ours(path.name))
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
        content = read_json(path)
        files = content["files"] if content["format"] == FORMAT else []
        return [name for name in FILES if name in files]
    except (StorageError, KeyError, TypeError):
        return []


def write_all(
    folder: Path,
    result: Result,
    facts: Mapping[str, Any],
    published: PublishedCard,
    *,
    asked: dict[str, Any],
    sha256: str,
    whom: str = "",
) -> tuple[str, list[str]]:
    """Write every file that there is something for; return the plan's id and their names, which audit.json lists.

    private.json keeps all digits of the facts, and what was asked, for the auditor; every other file has the facts as
    `publishable` does. Of the data's sha256 only a keyed digest is kept.
    """
    people, found = result.problem.people, dict(facts)
    known = {"plan": NO_ID, "rounding": rounding_words(people.size)}
    facts = publishable(facts, people.size, names_of(people)) | known
    key = secrets.token_bytes(32)
    changes = changes_of(result.plan)
    write_csv(changes, folder / MOVES_CSV)
    parquet = write_parquet(changes, folder / MOVES_PARQUET)
    write_text(folder / REPORT, organiser_page(facts))
    missing = set() if parquet else {MOVES_PARQUET}
    if published.card is None:
        missing |= {CARD, MEMBER}
    else:
        published.card.save(folder / CARD)
        told = {"outcome": people.target, "note": _note(result, published)}
        write_text(folder / MEMBER, member_page(published.card, **told, facts=facts, whom=whom))
    names = [name for name in FILES if name not in missing]
    write_text(folder / AUDIT, json_text({**facts, "files": names}))
    write_private(folder, key, asked, dict(facts["repeat"]["data"]), sha256, found)
    return seal(folder, key), names


def _note(result: Result, published: PublishedCard) -> str | None:
    """Say to members what the audit found where their moves would be in vain, without a word on who asks."""
    if published.success:
        return None
    if math.isnan(published.loss):
        return "The organiser’s audit: it is not known whether the goal is reached if members follow this page."
    if not result.success:
        return "The organiser’s audit: this plan alone does not reach its goal."
    return (
        "The organiser’s audit: if everyone follows this page, the goal is missed, as a refit of the model found. It "
        f"is reached only by the organiser’s list of changes ({MOVES_CSV}): ask for your row of it."
    )
