"""Attacks on what a plan publishes: can anybody find out one person's data?

The attacker has two cards of one plan, with a person and without, knows how many people there are, and in the attack by
gradients everybody else's data, too. It tries

* *means*: n·m − (n − 1)·m' of whatever average a card holds, of scalers and of classes;
* *spreads*: the same of squares, from costs, scales and variances: |x − mean|;
* *gradients*: at a refit all gradients add up to the penalty's, so what the others' leave is the person's own, and its
  row is the ratio of that to the intercept's;
* *bounds*: whose leaving moves a bound that was read off the data, and whether that tells its value;
* *names*: whether a level that one person has is named in any file that is published;
* *digests*: whether any file that is published holds one, by which a guess at an unknown cell could be confirmed;
* *refits*: what all published files together leave of one unknown income (`privacy_by_refits`).

A person counts as found out where the estimate of its numbers (those of columns that nobody may change, which no move
blurs; for spreads those that have a cost) is within NEAR standard deviations on average (root mean square), and at
least twice as near as the mean of the others, or of the class, is by itself: with three columns or more, luck has odds
of thousands to one against that. One column alone is that near by luck now and then: no more than LUCK of all columns
may be. Whoever moves a bound must be one of FEW or more who do: then it tells that this person is one of these. Where
the report says beforehand that a card is so fine that it tells on people, that is what it says, and no failure; such
cases are counted, and printed.

    python -m tests.campaigns.privacy [--seed S] [--minutes M | --number N]
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import oar
from oar.models import GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Scaled, SoftmaxRegression
from oar.plans.cards.disclosure import telling
from oar.plans.cards.file import as_json

from .privacy_by_refits import by_refits, by_steps
from .tally import Tally, parser

NEAR, BETTER, LUCK = 0.05, 0.5, 0.15
# Who must be able to move a bound, each alone, and who are tried. Five carry a bound; where the one who stands at it
# leaves, the next may take its place on the same step.
FEW, OUTERMOST = 4, 15
TABLES = 6  # whose bounds are attacked
MODELS: dict[str, Any] = {
    "scaled naive Bayes": Scaled(GaussianNaiveBayes()),
    "naive Bayes": GaussianNaiveBayes(),
    "scaled softmax": Scaled(SoftmaxRegression(0.01)),
    "scaled SVM": Scaled(LinearSVM(0.01)),
    "scaled prototypes": Scaled(PrototypeNetwork()),
    "plain softmax": SoftmaxRegression(0.01),
    "plain naive Bayes": GaussianNaiveBayes(),
    "plain prototypes": PrototypeNetwork(),
}
FIXED = ("age", "years", "rent", "children")


class Case(NamedTuple):
    """One person, and two cards: with it, and without."""

    name: str
    with_: Any
    without: Any
    plan: Any
    person: int
    warned: bool


def applicants(size: int, draw: np.random.Generator) -> pd.DataFrame:
    """Return a table of incomes; some columns depend on each other."""
    income = draw.lognormal(8, 0.5, size)
    frame = pd.DataFrame(
        {
            "income": income.round(),
            "debt": (income * draw.uniform(0, 3, size)).round(2),
            "savings": draw.exponential(4_000, size).round(2),
            "age": draw.integers(18, 80, size),
            "years": draw.gamma(2, 4, size).round(1),
            "rent": (income * draw.uniform(0.1, 0.5, size)).round(),
            "children": draw.poisson(1.4, size),
            "job": draw.choice(["clerk", "cook", "driver", "nurse"], size),
        }
    )
    score = 2 * np.log(frame.income) - frame.debt / 4_000 + frame.age / 40 + (frame.job == "nurse")
    score += draw.normal(0, 0.6, size)
    frame["ok"] = np.where(score > np.quantile(score, draw.uniform(0.3, 0.7)), "yes", "no")
    return frame


def asked(name: str, frame: pd.DataFrame, query: Any) -> Any:
    """Return the problem for a model; plain ones are of the numbers alone, in standard deviations."""
    if name.startswith("plain"):
        numbers = frame[["income", "debt", *FIXED]].to_numpy(dtype=float) / SCALES
        people = oar.Population(numbers, frame.ok.to_numpy())
        row = query[["income", "debt", *FIXED]].to_numpy(dtype=float) / SCALES
        return oar.Problem(people, MODELS[name], oar.Query(row, "yes"), oar.Perturb(0.02))
    people = oar.Population.from_frame(frame, target="ok")
    limits = {column: oar.Limit(immutable=True) for column in FIXED}
    return oar.Problem(people, MODELS[name], oar.Query(query, "yes"), oar.Perturb(0.3, limits=limits))


SCALES = np.array([2_000.0, 5_000.0, 15.0, 6.0, 900.0, 1.2])


def case(name: str, size: int, seed: int) -> Case | None:
    """Return two cards; None where there is none of either."""
    found = plans(name, size, seed)
    return None if found is None else published_case(name, *found)


def plans(name: str, size: int, seed: int) -> tuple[Any, Any, int] | None:
    """Return two plans, with a person and without, and the person; None where there is none of either."""
    draw = np.random.default_rng(seed)
    frame = applicants(size, draw)
    refused = frame[frame.ok == "no"].drop(columns="ok").sort_values("income")
    query = refused.iloc[int(draw.integers(len(refused) // 4, len(refused) * 3 // 4))]
    person = int(draw.integers(size))
    try:
        both = [oar.collective(asked(name, each, query)).plan for each in (frame, frame.drop(index=person))]
    except oar.errors.OARError:
        return None
    return both[0], both[1], person


def published_case(name: str, plan: Any, other: Any, person: int) -> Case | None:
    """Return the cards of two plans; None where there is none of either."""
    try:
        cards = plan.card(), other.card()
    except oar.errors.OARError:
        return None
    return Case(name, *cards, plan, person, any(telling(card, plan.problem) for card in cards))


def means_and_squares(card: Any, code: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield averages and variances (d,) that a card holds, in the units of the features: of all, or of one class."""
    content = as_json(card)
    d = card.directions.shape[1]
    scaler = content.get("scaler") or {"centres": [0.0] * d, "scales": [1.0] * d}
    centres, scales = np.array(scaler["centres"]), np.array(scaler["scales"])
    if card.table is not None:
        yield "everyone", centres, scales**2
    theta, model = np.array(content.get("parameters", [])), card.broadcast.model if card.broadcast else None
    if isinstance(model, GaussianNaiveBayes):
        classes = theta.size // (1 + 2 * d)
        logs, means = theta[classes:].reshape(2, classes, d)
        yield "class", centres + scales * means[code], scales**2 * np.exp(logs[code])
    elif isinstance(model, PrototypeNetwork) and theta.size:
        yield "class", centres + scales * theta.reshape(-1, d)[code], np.full(d, np.nan)


def costs_squared(card: Any) -> np.ndarray:
    """Return variances (d,) by what a change of each column costs; NaN where it costs nothing."""
    found = np.full(card.directions.shape[1], np.nan)
    for each, place in zip(card.table.columns, card.table.places, strict=True):
        if each.movable and each.column.kind in ("number", "integer"):
            found[place.start] = each.cost**-2
    return found


def by_gradients(found: Case) -> np.ndarray | None:
    """Return the person's features as the others' gradients tell them; of softmax regression with two classes."""
    card, plan, person = found.with_, found.plan, found.person
    model = plan.problem.model
    inner = getattr(model, "model", model)
    if not isinstance(inner, SoftmaxRegression) or len(card.classes) != 2:
        return None
    people = plan.problem.people
    moved = np.asarray(people.features, dtype=float) + plan.each
    theta = card.broadcast.parameters
    size, d = moved.shape
    if card.table is not None:
        if card.directions.shape[1] != d:
            return None
        by = card.table.scaler
        slopes, intercept = theta[:d] / by.scales, theta[d] - (theta[:d] / by.scales) @ by.centres
    else:
        slopes, intercept = theta[:d], theta[d]
    centres, scales = np.zeros(d), np.ones(d)
    if isinstance(model, Scaled):
        numbers = people.encoding.scaled
        centres, scales = np.where(numbers, moved.mean(axis=0), 0.0), np.where(numbers, moved.std(axis=0), 1.0)
    seen = (moved - centres) / scales
    left = 1 / (1 + np.exp(-(moved @ slopes + intercept))) - people.class_rows()[:, 1]
    left[person] = 0.0
    own = -left.sum()
    return centres + scales * (-(left @ seen) - size * inner.l2 * slopes * scales) / own if own else None


def estimates(found: Case) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield attacks: a name, the estimate (d,), what is true, and what a mere guess is; NaN where nothing is said."""
    people = found.plan.problem.people
    features = np.asarray(people.features, dtype=float)
    code = int(people.class_rows()[found.person].argmax())
    same = people.class_rows()[:, code] == 1
    others = np.arange(people.size) != found.person
    truth = features[found.person]
    d = features.shape[1]
    if found.with_.directions.shape[1] != d or found.without.directions.shape[1] != d:
        return
    fixed = np.ones(d, dtype=bool)
    if found.with_.table is not None:
        names = people.encoding.names
        fixed = np.array([name in FIXED for name in names])
    only = np.where(fixed, 0.0, np.nan)
    pairs = zip(means_and_squares(found.with_, code), means_and_squares(found.without, code), strict=True)
    for (what, mean, square), (_, mean_2, square_2) in pairs:
        group = np.ones(people.size, dtype=bool) if what == "everyone" else same
        n, guess = int(group.sum()), features[group & others].mean(axis=0)
        yield f"means of {what}", n * mean - (n - 1) * mean_2 + only, truth, guess
        about = np.sqrt(np.maximum(n * square - (n - 1) * square_2, 0.0) * n / (n - 1))
        usual = features[group & others].std(axis=0)
        yield f"spreads of {what}", about + only, np.abs(truth - guess), usual
    if found.with_.table is not None:
        n, guess = people.size, features[others].mean(axis=0)
        squares = n * costs_squared(found.with_) - (n - 1) * costs_squared(found.without)
        about = np.sqrt(np.maximum(squares, 0.0) * n / (n - 1))
        yield "costs", about, np.abs(truth - guess), features[others].std(axis=0)
    inverted = by_gradients(found)
    if inverted is not None:
        yield "gradients", inverted + only, truth, features[same & others].mean(axis=0)


class Found(NamedTuple):
    """How near an attack came, and a guess: root mean squares in standard deviations, and columns by themselves.

    Attributes:
        attack, error, guess: which, and root mean squares.
        cells, near: columns, and those within NEAR and twice as near as the guess.
        median: error of a column.
    """

    attack: str
    error: float
    guess: float
    cells: int
    near: int
    median: float

    @property
    def out(self) -> bool:
        """Whether the person is found out."""
        return self.error <= NEAR and self.error <= BETTER * self.guess


def attacked(found: Case) -> list[Found]:
    """Return what all attacks on a pair of cards find."""
    spreads = np.asarray(found.plan.problem.people.features, dtype=float).std(axis=0)
    results = []
    for attack, estimate, truth, guess in estimates(found):
        told = np.isfinite(estimate) & (spreads > 0)
        if told.sum() < 3:
            continue
        errors, usual = (np.abs(each - truth)[told] / spreads[told] for each in (estimate, guess))
        root, by_itself = (float(np.sqrt(np.mean(each**2))) for each in (errors, usual))
        near = (errors <= NEAR) & (errors <= BETTER * usual)
        results.append(Found(attack, root, by_itself, int(told.sum()), int(near.sum()), float(np.median(errors))))
    return results


def bounds(seed: int, size: int) -> Iterator[tuple[str, float, list[float]]]:
    """Yield each bound that leaving people move: its column, it, and how far from it they are, in deviations."""
    frame = applicants(size, np.random.default_rng(seed))[["income", "debt", "savings", "rent"]]
    for name in frame:
        column = frame[[name]]
        limit, values = oar.Limits.observed(column).columns[name], column[name].to_numpy()
        for end, outwards in (("lower", -1), ("upper", 1)):
            bound, movers = getattr(limit, end), []
            for one in np.argsort(-outwards * values)[:OUTERMOST]:
                other = oar.Limits.observed(column.drop(index=one)).columns[name]
                if getattr(other, end) != bound:
                    movers.append(float(abs(values[one] - bound) / values.std()))
            if movers:
                yield str(name), bound, movers


def by_bounds(tally: Tally, seed: int) -> None:
    """Attack the bounds of some tables."""
    all_: list[float] = []
    for number in range(TABLES):
        size = (100, 150, 400, 1000)[number % 4]
        for name, bound, movers in bounds(1_000 * seed + number, size):
            all_ += movers
            told = f"{name} {bound:g} of {size} people, seed {seed}: moved by {len(movers)} people alone"
            tally.note(len(movers) >= FEW, told)
    near = float(np.mean(np.array(all_) <= NEAR)) if all_ else 0.0
    tally.note(near <= 2 * LUCK, f"bounds: {near:.1%} of those who move one are within {NEAR} of it")
    print(f"bounds of {TABLES} tables: {len(all_)} people move one, {near:.1%} of them within {NEAR} of it")


def published(folder: Path, seed: int) -> list[tuple[bool, str]]:
    """Return whether names and digests stay out of what `oar plan` publishes."""
    from typer.testing import CliRunner

    from oar.cli import app

    draw = np.random.default_rng(seed)
    frame = applicants(200, draw)
    frame.loc[7, "job"] = "astronaut"
    data = folder / "people.csv"
    frame.to_csv(data, index=False)
    row = str(int(np.flatnonzero(frame.ok == "no")[0]))
    arguments = ["plan", str(data), "--target", "ok", "--query", row, "--goal", "yes", "--budget", "0.3"]
    limits = folder / "limits.toml"
    limits.write_text("[columns.job]\nimmutable = true\n")
    arguments += ["--limits", str(limits), "--group", "job", "--out", str(folder / "plan")]
    done = CliRunner().invoke(app, arguments)
    if done.exit_code:
        return [(False, f"oar plan ended with {done.exit_code}: {done.output} {done.exception!r}")]
    content, results = data.read_bytes(), []
    digests = [hashlib.new(each, content) for each in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s")]
    for path in sorted((folder / "plan").glob("*")):
        if path.suffix not in (".json", ".html") or path.name not in PUBLIC:
            continue
        text = path.read_text()
        results.append(("astronaut" not in text, f"{path.name} names the level of one person (seed {seed})"))
        told = any(each.hexdigest() in text or base64.b64encode(each.digest()).decode() in text for each in digests)
        told |= bool(re.search("[0-9a-f]{32}", text))
        results.append((not told, f"{path.name} holds a digest (seed {seed})"))
    return results


PARTS = ("cells", "near")
PUBLIC = ("plan.json", "member.html", "audit.json", "report.html")


def by_digits(seed: int, people: int = 12) -> None:
    """Print how near attacks come where cards are forced to have so many digits: the table of docs/privacy.md."""
    from oar.plans.cards import publish

    chosen, enough = publish.FEWEST_FIRST, publish.ENOUGH
    try:
        publish.ENOUGH = -np.inf
        for name, size in (("scaled naive Bayes", 150), ("scaled naive Bayes", 1000)):
            solved = [plans(name, size, 7_000 * seed + number) for number in range(people)]
            for digits in (1, 2, 3, 4, 6, 10):
                publish.FEWEST_FIRST = (digits,)
                cases = [published_case(name, *each) for each in solved if each is not None]
                found: dict[str, list[Found]] = {}
                for one in (each for each in cases if each is not None):
                    for each in attacked(one):
                        found.setdefault(each.attack, []).append(each)
                for attack in ("means of class", "costs", "gradients"):
                    if attack in found:
                        print(
                            f"{name:<20}{size:>5} people {digits:>3} digits  {_summed(attack, found[attack])}",
                            flush=True,
                        )
    finally:
        publish.FEWEST_FIRST, publish.ENOUGH = chosen, enough


def by_costs(seed: int, tables: int = 5) -> None:
    """Print how near costs come, of all people and by column, with other steps: the table of docs/privacy.md.

    Costs are functions of columns alone, so no plan is made.
    """
    from oar.actions.limits.round_steps import share_of
    from oar.plans.cards.digits import FINEST, dear

    names = ["income", "debt", "savings", "rent"]
    for size in (100, 300, 1000):
        for finer in (1.0, 0.3, 0.1, 0.01, 1e-4):
            share, errors, usual = finer * share_of(size, FINEST), [], []
            for number in range(tables):
                values = applicants(size, np.random.default_rng(7_000 * seed + number))[names].to_numpy(dtype=float)
                squares = np.array([dear(float(1 / spread), share) ** -2 for spread in values.std(axis=0)])
                for person in range(size):
                    others = np.delete(values, person, axis=0)
                    spreads = others.std(axis=0)
                    without = np.array([dear(float(1 / spread), share) ** -2 for spread in spreads])
                    about = np.sqrt(np.maximum(size * squares - (size - 1) * without, 0.0) * size / (size - 1))
                    truth = np.abs(values[person] - others.mean(axis=0))
                    errors.append(np.abs(about - truth) / spreads)
                    usual.append(np.abs(spreads - truth) / spreads)
            near = (np.array(errors) <= NEAR) & (np.array(errors) <= BETTER * np.array(usual))
            print(
                f"{size:>5} people, costs in steps of {10 * finer:g}/n: {near.mean():.1%} of columns found, "
                f"{near.any(axis=1).mean():.1%} of people in one or more, median error {np.median(errors):.2g}",
                flush=True,
            )


def _summed(attack: str, all_: list[Found]) -> str:
    """Say how near an attack came: to people, and to columns by themselves."""
    if not all_:
        return f"{attack}: no card"
    out, near, cells = (sum(part) for part in zip(*((e.out, e.near, e.cells) for e in all_), strict=True))
    rows, columns = (np.median([getattr(each, name) for each in all_]) for name in ("error", "median"))
    return (
        f"{attack:<16}{out:>3} of {len(all_)} people found out, median error {rows:.2g}; {near} of {cells} columns, "
        f"median error {columns:.2g}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Attack until the time is up."""
    parsing = parser("privacy", __doc__.splitlines()[0])
    parsing.add_argument("--by-digits", action="store_true", help="print how near attacks come by digits, and end")
    parsing.add_argument("--by-costs", action="store_true", help="print how near costs come by their steps, and end")
    parsing.add_argument("--by-steps", action="store_true", help="print how near refits come by steps, and end")
    parsing.add_argument("--refits", action="store_true", help="attack by refits alone")
    given = parsing.parse_args(arguments)
    for asked_for, table in ((given.by_digits, by_digits), (given.by_costs, by_costs), (given.by_steps, by_steps)):
        if asked_for:
            table(given.seed)
            return 0
    minutes = 5.0 if given.minutes is None and given.number is None else given.minutes
    half = minutes if minutes is None or given.refits else minutes / 2
    refits = Tally("privacy", minutes=half, number=given.number)
    by_refits(refits, given.seed)
    if given.refits:
        return refits.close()
    tally = Tally("privacy", minutes=half, number=given.number)
    with tempfile.TemporaryDirectory() as folder:
        for held, what in published(Path(folder), given.seed):
            tally.note(held, what)
    by_bounds(tally, given.seed)
    counts: dict[tuple[str, str, bool], list[Found]] = {}
    digits: dict[str, list[int]] = {}
    number = given.seed * 1_000_003
    while tally.goes_on():
        number += 1
        name = list(MODELS)[number % len(MODELS)]
        size = int(np.random.default_rng(number).choice([60, 150, 400, 1000]))
        found = case(name, size, number)
        if found is None:
            continue
        digits.setdefault(name, []).append(getattr(found.with_, "digits", None) or 17)
        for each in attacked(found):
            counts.setdefault((name, each.attack, found.warned), []).append(each)
            tally.note(not each.out or found.warned, f"{each.attack} on {name}, {size} people, seed {number}: {each}")
    for (name, attack, warned), all_ in sorted(counts.items()):
        print(f"{name:<20}{'warned' if warned else '':<8}{_summed(attack, all_)}")
    cells, near = (sum(getattr(e, part) for key, all_ in counts.items() if not key[2] for e in all_) for part in PARTS)
    tally.note(near <= LUCK * cells + 3, f"{near} of {cells} columns by themselves were found")
    for name, all_ in sorted(digits.items()):
        print(f"{name:<20}digits {dict(zip(*np.unique(all_, return_counts=True), strict=True))}")
    tally.tried, tally.failures = tally.tried + refits.tried, [*refits.failures, *tally.failures]
    return tally.close()


if __name__ == "__main__":
    raise SystemExit(main())
