"""`oar plan`: from a file of people to a plan, as a folder of files."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oar.cli import options as given
from oar.cli.inputs.people import check_data
from oar.cli.inputs.problem import ProblemArguments, asked_to_json
from oar.cli.options import Search, option, share_of_time
from oar.cli.terminal import Stage, clear_endings, stages
from oar.errors import NumericsError

if TYPE_CHECKING:
    from oar.cli.inputs.people import Source
    from oar.plans import Result
    from oar.report.plan.deliver import PublishedCard
    from oar.report.plan.small_groups import PooledGroups

FOLDER = Path("oar-plan")
DRAWS = 20  # refits in which some do nothing
MANY, THIRDS = 1_000_000, (1 / 3, 2 / 3, 1.0)  # numbers from which on refits take long, and then fewer are made


@given.asks
@given.searches
def plan(
    asked: ProblemArguments,
    search: Search,
    out: Annotated[Path | None, option(help="Output folder; made if it does not exist.  [default: oar-plan]")] = None,
    group: given.Group = "",
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="A file of held-out people, with the columns of DATA, on whom the model's accuracy is measured."
        ),
    ] = None,
    whom: Annotated[
        str, option(help="How the members' page describes the query subject; by default it does not.")
    ] = "",
    force: given.Force = False,
) -> None:
    """Plan who should change what so that the retrained model predicts the goal for the query, and audit it.

    Writes plan.json (the card for members; nobody's data), moves.csv and moves.parquet (every change, in raw
    units), audit.json, report.html for the organiser, member.html for members, private.json for the auditor, and
    manifest.json, against which all of them are checked. They appear together when all is done. An earlier plan in
    the folder is replaced. Other files there are not touched, except files of these names with --force.
    """
    with clear_endings(), stages() as stage:
        check_data(asked.data, asked.example)
        folder = out or FOLDER
        from oar.referee.witnesses.refits import keeping_unmoved_refits
        from oar.report.files.output_folder import staged
        from oar.report.plan.deliver import FILES, REPORT, check_folder, write_all

        earlier = check_folder(folder, force)
        with staged(folder, REPORT, earlier, ours=FILES) as unfinished, keeping_unmoved_refits():
            result, facts, published = _planned(asked, search, group, held_out, stage)
            stage("writing")
            asks, sha256 = asked_to_json(asked), asked.source.sha256
            name, files = write_all(unfinished, result, facts, published, asked=asks, sha256=sha256, whom=whom)
    typer.echo(_summary(facts, folder, files, name))


def _planned(asked: ProblemArguments, search: Search, group: str, held_out: Path | None, stage: Stage) -> Any:
    """Plan, audit, and collect what is told about it."""
    import oar
    from oar.goals.held_out import held_out_people
    from oar.report.plan.deliver import publish
    from oar.report.plan.facts import Origin, facts_of

    stage("reading")
    source, problem = asked.source, asked.problem
    search.check_has_effect(problem)
    groups = {group: _groups(source, group)} if group else {}
    others, known = (None, 0) if held_out is None else source.others(held_out)
    if others is not None:  # a file that does not fit is told before the work begins
        held_out_people(problem.people, problem.regresses, others)
    stage("planning", own_line=True)
    with share_of_time(2):  # the rest is for what is asked about the plan
        result = _unless_needless(oar.collective(problem))
        late = None if result.proposal.finished else search.told("the search for the plan was")
    stage("trying the card")
    published = publish(result)
    stage("what parts of the plan can do", own_line=True)
    with share_of_time(2):
        power = _power(result, asked.seed)
    stage("how few, and what happens to others")
    origin = Origin(
        command=shlex.join(["oar", *sys.argv[1:]]),
        file=source.file,
        rows=len(source.frame),
        seed=asked.seed,
        settings={key: value for key, value in asdict(asked).items() if value not in (None, (), "")} | search.said,
    )
    facts = facts_of(
        result,
        origin=origin,
        groups=groups,
        power=power,
        collateral=collateral_of(result, others, groups[group].values if group else None),
        card=published.facts,
        answered=_answered(result, published.card),
        robustness=_robustness(result, published, asked.seed),
        shaken="answers" if published.success else "moves",
    )
    facts["asked"]["query_filled"] = source.filled_of(asked.asked_of)
    facts["asked"]["percent"] = [name for name in source.frame.attrs.get("percent", ()) if name in source.frame]
    facts["held_out_left_out"] = known
    facts["late"] = late or search.told("the search for how little suffices was")
    return result, facts, published


def _unless_needless(result: Result) -> Result:
    """Return a result in which nobody moves where the goal is there before: moves cost, and may harm other people."""
    import numpy as np

    from oar.plans import Proposal
    from oar.plans.moves.submitted import given_plan
    from oar.plans.proof import Proof
    from oar.referee import audit

    if not result.audit.success_before:
        return result
    people = result.problem.people
    stay = given_plan(result.problem, np.zeros((people.size, people.dimensions)))
    found = audit(stay)
    if not found.success:
        return result
    nobody = "none, for nobody needs to move"
    proposal = Proposal(stay, nobody, found.loss, gap=math.inf, exact=False, finished=True, steps=0, passes=0)
    return replace(result, proposal=proposal, audit=found, proof=Proof(), evidence=None)


def _groups(source: Source, column: str) -> PooledGroups:
    """Return everyone's value of a column; numbers are cut into quarters, and small groups are put together."""
    from oar.people.groups import grouped
    from oar.report.plan.small_groups import pooled

    return pooled(grouped(source.people, source.groups(column)).set_axis(source.people.index))


def collateral_of(result: Result, others: Any = None, groups: Any = None) -> Any:
    """Return what happens to others; nothing where the model cannot be refitted, which the status says."""
    import oar

    try:
        return oar.questions.collateral(result, held_out=others, groups=groups)
    except NumericsError:
        return None


def _answered(result: Result, card: Any) -> Any:
    """Return what happens to others where everyone answers the card; nothing where there is none."""
    if card is None:
        return None
    followed = replace(result.proposal, plan=result.plan.followed(card))
    return collateral_of(replace(result, proposal=followed))


def _power(result: Result, seed: int) -> Any:
    """Return what parts of the plan can do; nothing where labels change, members leave, or nobody moves."""
    import oar

    if result.problem.levers.given or not result.audit.movers or not result.audit.converged:
        return None
    people = result.problem.people
    shares = THIRDS if people.size * people.dimensions > MANY else None
    budget = result.problem.allowance.budget
    budgets = None if shares is None or not isinstance(budget, float) else [share * budget for share in shares]
    return oar.questions.power(result, shares, budgets, seed=seed)


def _effects(facts: Any) -> list[tuple[str, str]]:
    """Return what becomes of members, of bystanders and of groups, a row each; and if the card is answered."""
    from oar.pictures.numbers import known_rows
    from oar.report.organiser_effects import card_effects, held_out_told, scores_told, standing
    from oar.tolerances import FEW_PEOPLE

    found, card = facts["collateral"], card_effects(facts)
    if found is None:
        return []
    who = [("what it does to members", found["actors"]), ("to people who do nothing", found["bystanders"])]
    who += [(f"to {found['grouped_by']} = {row['group']}", row) for row in found["everyone_by_group"] or ()]
    predicted, goal, ways = "the goal", "the goal", ("go away from", "come nearer to")
    if found["prediction"]:
        predicted, goal, ways = found["prediction"], f"the prediction {found['prediction']}", ("lose", "gain")
    rows = []
    for name, row in who:
        people, away, towards, rate, right = standing(row, found["score"])
        if row["people"] and row["away"] is None:
            rows.append((name, f"of {people} nothing is told, for it would tell of fewer than {FEW_PEOPLE} people"))
        elif row["people"]:
            said = f"of {people}, {away} {ways[0]} {goal} and {towards} {ways[1]} it"
            right = "" if row["score_before"] is None else f"; {found['score']} about them: {right}"
            rows.append((name, f"{said}; predicted {predicted}: {rate}{right}"))
    rows.append((found["score"], scores_told(found["score"], found["own"], found["everyone"])))
    return rows + known_rows(
        (f"{found['score']}, held out", lambda _: held_out_told(found), found["held_out"]),
        ("if the card is answered", str, card),
    )


def _robustness(result: Result, published: PublishedCard, seed: int) -> Any:
    """Return what becomes of a plan of which a random fifth do nothing; nothing where it fails, or refits take long.

    What is tried are members' answers to the card, where they reach the goal: a card is what members get.
    """
    people = result.problem.people
    if not result.success or result.audit.success_before or people.size * people.dimensions > MANY:
        return None
    tried = result.plan.followed(published.card) if published.success and published.card else result.plan
    return tried.robustness(defection=0.2, draws=DRAWS, seed=seed, progress=False)


def _summary(facts: Any, folder: Path, names: list[str], plan: str) -> str:
    """Return what is said at the end."""
    from oar.people.wording import lined_up
    from oar.pictures.numbers import known_rows, loss, number, percent
    from oar.report.organiser_page import CUT, SEARCHED, as_percent
    from oar.report.plan.answer import in_words

    found, least, asked = facts["outcome"], facts["least"], facts["asked"]
    predicted = found["prediction_before"], found["prediction"]
    rows = [("prediction", " → ".join(map(in_words, predicted)))] if asked["several"] is None else []
    before = percent(found["goal_probability_before"])
    rows += known_rows(
        ("probability of the goal", lambda after: f"{before} → {percent(after)}", found["goal_probability"])
    )
    rows.append(("goal loss", f"{loss(found['loss_before'])} → {loss(found['loss'])}"))
    acting = f"{number(found['movers'])} of {number(asked['participants'])} who take part"
    rows.append(("members who move", f"{acting}, effort {number(found['effort'])}"))
    rows += known_rows(
        ("limits", str, asked["limits"]),
        ("read as percent", as_percent, asked.get("percent")),
        ("filled in", str, (asked["imputed"] or {}).get("told")),
        ("filled in of who asks", ", ".join, asked.get("query_filled")),
    )
    if facts.get("held_out_left_out"):
        known = facts["held_out_left_out"]
        rows.append(("held-out", f"{known:,} {'row is' if known == 1 else 'rows are'} among DATA, and left out"))
    rows += _effects(facts)
    cut = not least["proved"] and least["budget_at_most"]
    name, more = (CUT, f" each; {SEARCHED}") if cut else ("budget that suffices", "")
    rows += known_rows(
        (name, lambda far: f"at most {number(far)}{more}", least["budget_at_most"]),
        ("people who suffice", lambda many: least["people_told"] or f"at most {number(many)}", least["people_at_most"]),
    )
    rows.append(("status", f"{facts['status']}: {facts['explanation']}"))
    rows += known_rows(("time", str, facts["late"]))
    rows.append(("card", facts["card"]["worth"] or facts["card"]["told"]))
    rows.append(("plan id", plan))
    if "moves.parquet" not in names:
        rows.append(("moves.parquet", "not written: it needs pyarrow; pip install 'oar-recourse[parquet]'"))
    ways = facts["card"]["ways"]
    done = f"Done. Files in {folder}: {', '.join(names)}"
    return "\n".join([facts["answer"], "", lined_up(rows), "", *([ways] if ways else []), done])
