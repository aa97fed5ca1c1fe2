"""`oar audit FOLDER`: a plan as it was delivered, file by file, and what a refit makes of its moves and of its card."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.cli.inputs.problem import asked_from_json
from oar.errors import OARError, OptionError, StorageError

if TYPE_CHECKING:
    from oar.cli.terminal import Stage
    from oar.plans import Audit, Plan
    from oar.problem import Problem
    from oar.questions.collateral import Collateral


@dataclass(frozen=True, eq=False)
class FolderAudit:
    """The audit of a plan's folder: what `differs` from its delivery, audits of moves and card, and others' effects.

    `asked` has goal and budget in words; `others` is what moves do to others, `answered` what answers to the card do.
    """

    plan: str | None
    differs: tuple[str, ...]
    same_data: bool
    problem: Problem
    asked: list[tuple[str, str]]
    moves: Audit
    others: Collateral | None
    card: Audit | None
    answered: Collateral | None = None

    def __str__(self) -> str:
        from oar.people.wording import lined_up
        from oar.plans.cards.table.card import without_answer
        from oar.report.plan.answer import unable_words

        data = "the file that the plan was made of" if self.same_data else "NOT the file that the plan was made of"
        files = "NOT as delivered: " + "; ".join(self.differs) if self.differs else "as they were delivered"
        rows = [("plan id", self.plan or "none, without a manifest"), ("files", files), ("data", data), *self.asked]
        parts = [lined_up(rows), "", "The moves of moves.csv:", f"{self.moves}"]
        parts += [lined_up(rows) for rows in [_effects(self.others)] if rows]
        if self.card is not None:
            unable = int(without_answer(self.problem).sum())
            gaps = f", who can ({unable_words(unable)})" if unable else ""
            parts += ["", f"If everyone who takes part answers the card, plan.json{gaps}:", f"{self.card}"]
        parts += [lined_up(rows) for rows in [_effects(self.answered)] if rows]
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs, with numbers as they may be published."""
        from oar.report.plan.answer import told
        from oar.report.plan.publishable import names_of, participants, publishable, rounding_words
        from oar.tolerances import FEW_PEOPLE

        def outcome(found: Audit | None) -> Any:
            return None if found is None else {each.name: told(getattr(found, each.name)) for each in fields(found)}

        people = self.problem.people
        found = {
            "asked": {**dict(self.asked), "people": people.size, "participants": participants(self.problem)},
            "outcome": outcome(self.moves),
            "card": outcome(self.card),
            "others": dict(_effects(self.others, FEW_PEOPLE)) or None,
            "others_of_card": dict(_effects(self.answered, FEW_PEOPLE)) or None,
            "rounding": rounding_words(people.size),
        }
        whole = {"plan": self.plan, "differs": list(self.differs), "same_data": self.same_data}
        return whole | publishable(found, people.size, names_of(people))


def audited_folder(folder: Path, data: Path | None, stage: Stage) -> FolderAudit:
    """Check a plan's files, then its moves and its card, with nothing said again."""
    from oar.referee import audit
    from oar.report.files.manifest import check, keyed, read_private
    from oar.report.files.output_folder import check_settled
    from oar.report.plan.deliver import CARD

    stage("reading")
    check_settled(folder)
    checked, private = check(folder), read_private(folder)
    try:
        with tempfile.TemporaryDirectory(prefix="oar-audit-") as place:
            asked = asked_from_json(private["asked"], data, Path(place))
            if data is None and not asked.example:
                raise OptionError(
                    "DATA: must be the file that the plan was made of, got none; name it after the folder."
                )
            asked = replace(asked, layout=replace(asked.layout, left_out_if_there=True))
            problem = asked.problem
            same = private["data"]["hmac"] == keyed(bytes.fromhex(private["key"]), asked.source.sha256)
        plan = _moved(problem, folder)
    except OARError as error:
        if not checked.told:
            raise
        # Files that are not as they were delivered may be why.
        raise StorageError(f"{folder}: {'; '.join((*checked.told, str(error)))}") from None
    stage("refitting")
    heard = audit(plan)
    found = FolderAudit(checked.plan, checked.told, same, problem, _words(plan), heard, _others(plan, heard), None)
    if not (folder / CARD).is_file():
        return found
    stage("trying the card")
    try:
        return _with_card(found, plan, folder / CARD)
    except OARError as error:
        return replace(found, differs=(*found.differs, f"{CARD} is not for this plan ({error})"))


def _moved(problem: Any, folder: Path) -> Plan:
    import pandas

    from oar.opening.documents import naming
    from oar.people.tables.spreadsheet import restored
    from oar.plans.moves.submitted import plan_from
    from oar.report.plan.deliver import MOVES_CSV

    path = folder / MOVES_CSV
    if not path.is_file():
        raise StorageError(f"{path} does not exist, so there is nothing to be audited; ask for a fresh copy.")
    try:
        rows = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise StorageError(f"{path} is damaged ({error}); ask for a fresh copy.") from None
    with naming(path):
        return plan_from(problem, rows.map(restored))


def _words(plan: Plan) -> list[tuple[str, str]]:
    """Return goal and budget as the plan's own problem has them."""
    from oar.pictures.numbers import number

    problem, allowance = plan.problem, plan.problem.allowance
    rows = [("goal", problem.goal_words)]
    if problem.moves:
        each = f"{number(float(allowance.budget))} each" if allowance.single else "each one's own"
        rows.append(("budget", f"{each}, norm {allowance.norm}"))
    if problem.levers.given:
        rows.append(("may do", repr(problem.action)))
    return rows


def _others(plan: Plan, found: Audit) -> Collateral | None:
    from oar.cli.commands.plan import collateral_of
    from oar.plans import Proposal, Result

    proposal = Proposal(  # nobody claims anything about the moves of a file
        plan, "files", found.loss, gap=0.0, exact=False, finished=True, steps=0, passes=0
    )
    return collateral_of(Result(plan.problem, proposal, found))


def _effects(others: Collateral | None, fewest: int = 0) -> list[tuple[str, str]]:
    """Return what happens to people who do not ask, but of fewer than that, and how right the model is, if known."""
    from oar.report.organiser_effects import scores_told
    from oar.report.plan.answer import in_command_words

    if others is None:
        return []
    own, everyone = (others.own_before, others.own_after), others.everyone._asdict()
    if any(0 < some.people < fewest for some in (others.actors, others.bystanders)):
        everyone["score_before"] = None  # what everyone's is less that of all but few would tell theirs
    return [
        ("collateral", in_command_words(others.told_unless_few(fewest))),
        (others.score, scores_told(others.score, own, everyone)),
    ]


def _with_card(found: FolderAudit, plan: Plan, path: Path) -> FolderAudit:
    from oar.plans import Card
    from oar.referee import audit

    card, allowance, differs = Card.load(path), plan.problem.allowance, found.differs
    budget = float(allowance.budget) if allowance.single else math.inf
    if (card.budget or 0.0) > budget * (1 + 1e-9):
        differs += (f"{path.name} lets members go {card.budget:g} far, and the plan {budget:g}",)
    followed = plan.followed(card)
    heard = audit(followed)
    return replace(found, differs=differs, card=heard, answered=_others(followed, heard))
