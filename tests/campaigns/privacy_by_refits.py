"""The attack by refits: who knows all values but one tries out that one, and compares with all that is published.

The attacker has everybody's data but one income, the command as it was typed, which report.html tells, and every file
that may be published: plan.json, member.html, audit.json, report.html, manifest.json, and what `oar audit --out` writes
of the folder and of the card. It puts a guess in the place of the income, does all of it again, refits and all, and
keeps the guess if not one character of these files differs, ids and keyed digests aside. So every number counts, also
those within sentences, together with all others, and so does what a solver's last step leaves behind.

What is measured is how much of an interquartile range the guesses that are kept come to, of those within one such range
of the truth: 2 where nothing at all is told, 0.005 where only the true income itself is kept. A person counts as
singled out where it is less than SINGLED. Rounding cannot rule that out: a plan is no continuous function of an income,
and any number may lie at the edge of its step. docs/privacy.md says that it happens to few; from ENOUGH people in the
table on, more than a share MOST of those who are attacked is a failure. Of smaller tables it is measured, and printed.

    python -m tests.campaigns.privacy --refits [--seed S] [--minutes M | --number N]
    python -m tests.campaigns.privacy --by-steps [--seed S]
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from oar.cli import app

from .tally import Tally

SINGLED, ENOUGH, MOST = 0.05, 200, 0.25
OFFSETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
MODELS = ("softmax", "naive-bayes", "nearest-centroid", "svm")
SIZES = (100, 200, 500, 1000)
PUBLIC = ("plan.json", "member.html", "audit.json", "report.html", "manifest.json")
PLAN_ID = re.compile(r"[0-9a-f]{4}(?:-[0-9a-f]{4}){7}")


class Asked(NamedTuple):
    """Who is attacked, in what data, and what the organiser asked for."""

    frame: pd.DataFrame
    person: int
    query: int
    model: str

    @property
    def spread(self) -> float:
        """Return the interquartile range of incomes."""
        low, high = np.quantile(self.frame.income, [0.25, 0.75])
        return float(high - low)


class Seen(NamedTuple):
    """What is published of a plan, by file, and what its organiser keeps, with all digits."""

    files: Mapping[str, str]
    found: Mapping[str, Any] | None


def drawn(size: int, model: str, seed: int) -> Asked:
    """Return people, one of whom asks and another one is attacked."""
    from .privacy import applicants

    draw = np.random.default_rng(seed)
    frame = applicants(size, draw)
    refused = frame[frame.ok == "no"].sort_values("income").index
    query = int(refused[draw.integers(len(refused) // 4, len(refused) // 2)])
    person = int(draw.choice(frame.index.drop(query)))
    return Asked(frame, person, query, model)


def seen(asked: Asked, income: float, folder: Path) -> Seen:
    """Return what is published where the person has this income; the folder is the same for every guess."""
    frame = asked.frame.copy()
    frame.loc[asked.person, "income"] = income
    data, out = folder / "people.csv", folder / "plan"
    frame.to_csv(data, index=False)
    for each in folder.glob("audited-*.json"):
        each.unlink()
    shutil.rmtree(out, ignore_errors=True)
    common = ["--target", "ok", "--query", asked.query, "--goal", "yes"]
    _run("plan", data, *common, "--budget", 0.3, "--model", asked.model, "--group", "job", "--out", out)
    _run("audit", out, data, "--out", folder / "audited-folder.json")
    if (out / "plan.json").exists():
        _run("audit", out / "plan.json", data, *common, "--out", folder / "audited-card.json")
    paths = [*(out / name for name in PUBLIC), *folder.glob("audited-*.json")]
    files = {path.name: _without_ids(path) for path in paths if path.exists()}
    return Seen(files, json.loads((out / "private.json").read_text()).get("found"))


def _run(*arguments: Any) -> None:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    if done.exit_code:
        raise RuntimeError(f"oar {arguments[0]} ended with {done.exit_code}: {done.output} {done.exception!r}")


def _without_ids(path: Path) -> str:
    """Return a file without what another key would make of it."""
    text = path.read_text()
    if path.name == "manifest.json":
        entries = [each for each in json.loads(text)["files"] if "hmac" not in each and each["name"] != "private.json"]
        text = json.dumps(entries)
    return PLAN_ID.sub("", text)


def guesses(asked: Asked, offsets: Sequence[float] = OFFSETS) -> dict[float, float]:
    """Return guesses at an income, by how many interquartile ranges they are off."""
    truth = float(asked.frame.income[asked.person])
    both = sorted({0.0, *offsets, *(-each for each in offsets)})
    return {each: float(round(truth + each * asked.spread)) for each in both if truth + each * asked.spread >= 1}


def tried(asked: Asked, offsets: Sequence[float] = OFFSETS) -> dict[float, Seen]:
    """Return what is seen of each guess."""
    with tempfile.TemporaryDirectory() as folder:
        return {each: seen(asked, income, Path(folder)) for each, income in guesses(asked, offsets).items()}


def kept(views: Mapping[float, Any]) -> list[float]:
    """Return the guesses that agree with all that the truth, which is off by 0, publishes."""
    return [each for each, view in sorted(views.items()) if view == views[0.0]]


def width(views: Mapping[float, Any]) -> float:
    """Return how many interquartile ranges the guesses that are kept come to: each stands for what is nearest to it."""
    places = sorted(views)
    ends = [places[0], *((low + high) / 2 for low, high in pairwise(places)), places[-1]]
    right = set(kept(views))
    return sum(high - low for place, (low, high) in zip(places, pairwise(ends), strict=True) if place in right)


def telling(views: Mapping[float, Seen]) -> list[str]:
    """Return the files in which the nearest guesses that are not kept differ."""
    wrong = sorted((each for each in views if each not in kept(views)), key=abs)[:2]
    return sorted(
        {name for each in wrong for name, text in views[0.0].files.items() if views[each].files.get(name) != text}
    )


def by_refits(tally: Tally, seed: int) -> None:
    """Attack person after person, and print how far each one's income is known afterwards."""
    widths: dict[int, list[float]] = {}
    singled: list[str] = []
    number = seed * 1_000_003
    while tally.goes_on():
        number += 1
        size, model = SIZES[number % len(SIZES)], MODELS[number // len(SIZES) % len(MODELS)]
        views = tried(drawn(size, model, number))
        by_files = {each: view.files for each, view in views.items()}
        found = width(by_files)
        widths.setdefault(size, []).append(found)
        said = f"{size} people, {model}, seed {number}: {found:.3f} of an interquartile range is left"
        print(said, flush=True)
        if found < SINGLED and size >= ENOUGH:
            singled.append(f"{said}; told by {telling(views)}")
        tally.note(True, said)
    attacked = sum(len(all_) for size, all_ in widths.items() if size >= ENOUGH)
    print(f"{len(singled)} of {attacked} people among {ENOUGH} and more are singled out")
    for each in singled[max(1, int(MOST * attacked)) :]:
        tally.note(False, each)
    for size, all_ in sorted(widths.items()):
        print(f"{size:>5} people: {len(all_)} attacked, least {min(all_):.3f}, median {np.median(all_):.3f}")


def by_steps(seed: int, people: int = 4) -> None:
    """Print what is left where steps of report and audit are other ones: the table of docs/privacy.md."""
    left: dict[tuple[str, int], list[float]] = {}
    for size in SIZES[:3]:
        for number in range(people):
            model = MODELS[number % len(MODELS)]
            views = tried(drawn(size, model, 7_000 * seed + number))
            for name, view in _ways(size):
                shown = {each: view(one.found) for each, one in views.items()}
                left.setdefault((name, size), []).append(width(shown))
            left.setdefault(("card alone", size), []).append(
                width({each: one.files.get("plan.json") for each, one in views.items()})
            )
            left.setdefault(("all files", size), []).append(width({each: one.files for each, one in views.items()}))
    for (name, size), all_ in sorted(left.items()):
        print(
            f"{name:<14}{size:>5} people: least {min(all_):.3f}, median {np.median(all_):.3f} of {len(all_)}",
            flush=True,
        )


def _ways(size: int) -> Iterator[tuple[str, Any]]:
    """Yield ways to publish what was found."""
    from oar.actions.limits import round_steps as rounding
    from oar.report.plan.publishable import publishable

    def cut(value: Any, digits: int) -> Any:
        if isinstance(value, Mapping):
            return {name: cut(part, digits) for name, part in value.items()}
        if isinstance(value, list):
            return [cut(part, digits) for part in value]
        return float(f"{value:.{digits}g}") if isinstance(value, float) else value

    for digits in (6, 4, 3, 2):
        yield f"{digits} digits", lambda found, digits=digits: cut(found, digits)
    chosen = rounding.PEOPLE
    try:
        for steps in (1, 3, 10, 30):
            rounding.PEOPLE = steps
            yield f"steps of {steps}", lambda found: publishable(found, size)
    finally:  # cards are made by it, too
        rounding.PEOPLE = chosen
