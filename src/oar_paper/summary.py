"""The reproduction in words: what was computed, what matches the paper, what does not. Every number is filled in."""

from __future__ import annotations

from dataclasses import dataclass

from oar.report.files.text_formats import markdown_table
from oar.version import __version__
from oar_paper.accuracy import AccuracyTable
from oar_paper.answers import Answers
from oar_paper.comparison import STRICT, Comparison
from oar_paper.embedding.strip import Strip
from oar_paper.figure1 import Figure1
from oar_paper.figure2.drawing import Figure2
from oar_paper.settings import ReproductionSettings


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that a run found; figures, tables and `results.json` are views of it."""

    settings: ReproductionSettings
    figure1: Figure1
    figure2: dict[str, Figure2]
    comparison: dict[str, Comparison]
    accuracy: AccuracyTable
    questions: dict[str, Answers]
    strip: Strip
    class_names: dict[str, tuple[str, ...]]


def summary(findings: Findings) -> str:
    """Return the Markdown."""
    parts = [
        _head(findings),
        _verdicts(findings),
        _figure1(findings.figure1),
        _figure2(findings),
        _accuracy(findings.accuracy),
        _questions(findings),
        _strip(findings.strip),
        _trust(findings),
    ]
    return "\n\n".join(parts) + "\n"


def _head(findings: Findings) -> str:
    settings = findings.settings
    head = f"""# Online algorithmic recourse by collective action: reproduction

Made by `oar reproduce` (oar {__version__}, seed {settings.seed}). Every number behind every figure and table is in
`results.json`; every figure is also there as `.svg` and `.pdf`."""
    if not settings.quick:
        return head
    return f"""{head}

> **QUICK RUN.** Coarse grids, and only some of MNIST's ordered pairs. Run `oar reproduce` without `--quick` for the
> real thing."""


def _verdicts(findings: Findings) -> str:
    rows = []
    for name, data in findings.figure2.items():
        claim = findings.comparison[name]
        strict = f"strictly lower (by more than {STRICT:g}) at every ε > 0 in {claim.strict_pairs} of {claim.pairs}"
        gains = f"{claim.paper_pair_smallest_gain:.2g} to {claim.paper_pair_largest_gain:.2g}"
        rows.append(
            [
                f"{data.title}: the collective's loss is below the individual's at every ε",
                _verdict(claim.never_worse and claim.strict_pairs == claim.pairs, claim.never_worse),
                f"{strict} ordered pairs, {'never' if claim.never_worse else 'sometimes'} higher; "
                f"gain on the paper's pair {gains}, over all pairs up to {claim.largest_gain:.2g}",
            ]
        )
        rows.append(
            [
                f"{data.title}: and it needs a smaller ε to flip the prediction (not claimed, but easily read into it)",
                _verdict(claim.earlier_flips == claim.pairs, True),
                f"smaller minimal budget in {claim.earlier_flips} of {claim.pairs} ordered pairs, the same in the rest",
            ]
        )
    for row in findings.accuracy.rows:
        if row.as_in_the_paper:
            same = abs(row.accuracy - row.paper) < 0.005
            claim_text = f"{row.data}: training accuracy {row.paper:.0%}"
            rows.append([claim_text, _verdict(same, False), f"ours is {row.accuracy:.2%}; see below"])
    first = findings.figure1
    rows.append(
        [
            "Figure 1: the query crosses only if the others move",
            _verdict(first.picture.together.success and not first.picture.alone.success, False),
            "on a chosen instance, with optimal moves on both sides; the collective needs less in "
            f"{first.collective_needs_less:,} of all {first.candidates:,} instances",
        ]
    )
    return "## What matches the paper\n\n" + markdown_table(["claim", "here", "how"], rows)


def _verdict(holds: bool, partly: bool) -> str:
    return "**holds**" if holds else ("holds, with ties" if partly else "**differs**")


def _figure1(data: Figure1) -> str:
    picture, (lower, median, upper) = data.picture, data.ratio_quartiles
    minima = f"collective {data.collective_minimum:.4f}, individual {data.individual_minimum:.4f}"
    return f"""## Figure 1

![Figure 1: individual and collective recourse on twenty Iris flowers](figure1.png)

Twenty flowers, first two features; the query is a real versicolor flower (row {data.query} of Iris, counted from 0)
that was not drawn. Everyone may move by at most ε = {picture.budget:.4f}. The individual lowers its goal loss from
{picture.before.loss:.4f} to {picture.alone.loss:.4f} and keeps the prediction, and no move within ε could change it;
after everybody's moves the refitted model gives {picture.together.loss:.4f} and the goal. Both outcomes are audited.
The collective's moves are proved optimal; the individual's is the best found from many starts.

How it was chosen: there are {data.candidates:,} instances (seeded draws of 7 setosa, 7 versicolor and 6 virginica; each
versicolor left over that the model calls versicolor is a candidate query; the goal is setosa). Of these, {data.clear:,}
can be drawn clearly: no two flowers in one place, ε at most half the way between the two centroids. This one has the
two minimal budgets farthest apart: **{minima}** (exact: the distance to the goal's region). ε is halfway between.

It is a clear picture, not a typical one: the individual needs {data.chosen_ratio:.2f} times the collective's budget
here, and {median:.2f} times in the median instance (quartiles {lower:.2f} and {upper:.2f}). For a query *on* the
segment between two centroids, as in Figure 2, both need the same budget unless a third class stands in the way; the
picture therefore needs a query off the segment."""


def _figure2(findings: Findings) -> str:
    header = [
        "data (pair)",
        "goal loss at ε = 0",
        "minimal budget, collective",
        "minimal budget, individual",
        "flips at: individual",
        "collective",
        "joint",
        "pairs where the collective's minimal budget is smaller",
    ]
    rows = []
    for name, data in findings.figure2.items():
        claim, curves = findings.comparison[name], data.curves
        flips = [curves.curves[way].flip for way in ("individual", "collective", "joint")]
        rows.append(
            [
                f"{data.title} ({curves.pair})",
                f"{curves.loss_before:.3f}",
                f"{curves.collective_minimum:.4f}",
                f"{curves.individual_minimum:.4f}",
                *("not on the grid" if flip is None else f"{flip:.4f}" for flip in flips),
                f"{claim.earlier_flips} of {claim.pairs}",
            ]
        )
    both = findings.figure2.values()
    shares = "; ".join(f"{data.title} ε = {data.shares.budget:.4f}, {_break_even(data)}" for data in both)
    heuristic = "; ".join(
        f"{data.title}: individual {_excess(data, 'individual')}, collective {_excess(data, 'collective')}"
        for data in both
    )
    earlier = "; ".join(f"{data.title}: {_earlier(findings, name)}" for name, data in findings.figure2.items())
    return f"""## Figure 2

![Figure 2: goal loss against budget and participation](figure2.png)

The query is x† = 0.25 μ_goal + 0.75 μ_source. The paper's classes are numbered from 1 (θ = {{μ₁, μ₂, μ₃}}), so its pair
"goal 1, from 2" is read as goal setosa, from versicolor on Iris (four raw features). MNIST's classes are the digits, so
there it is goal 1, from 2.

* **Top row (a–d):** goal loss at the query against ε; marks show where the prediction flips. Beside the paper's pair,
  all ordered pairs: median, middle half, extremes.
* **Middle row (e–h):** what the collective gains over the individual. With everyone taking part this cannot be
  negative: if all members move by −δ, the query gets what its own move δ would give it.
* **Bottom row (i–l):** the same against the share that takes part (random, nested draws), at twice the collective's
  minimal budget for the paper's pair: {shares}.

{markdown_table(header, rows)}

"Minimal budget" is exact: the smallest ε with which *some* move flips the prediction. "Flips at" is where the
*loss-optimal* move does, by bisection of audited runs. For the individual that can be later, because the least loss
and the goal's region are not the same aim.

The collective's minimal budget is smaller where a third class stands in the individual's way: {earlier}.

How much the collective gains depends strongly on the pair. On Iris, pair by pair:

{_iris_pairs(findings)}

The paper computes both curves with one normalised gradient step (dotted in a and c). Its largest excess over the
optimum is, by data set, {heuristic}. The collective's step is exactly optimal up to ε = d_g; from there on it
overshoots the query with the goal's centroid."""


def _iris_pairs(findings: Findings) -> str:
    names, pairs = findings.class_names["iris"], findings.figure2["iris"].pairs
    gains = pairs.losses["individual"] - pairs.losses["collective"]
    rows = [
        [
            names[pair.goal],
            names[pair.source],
            f"{pairs.collective_minimum[row]:.4f}",
            f"{pairs.individual_minimum[row]:.4f}",
            f"{gains[row].max():.4f}",
            f"{pairs.budgets[gains[row].argmax()]:g}",
        ]
        for row, pair in enumerate(pairs.pairs)
    ]
    header = ["goal", "from", "minimal budget, collective", "minimal budget, individual", "largest gain", "at ε"]
    return markdown_table(header, rows)


def _earlier(findings: Findings, name: str) -> str:
    names = findings.class_names[name]
    pairs = findings.comparison[name].earlier_pairs
    return ", ".join(f"{names[goal]} from {names[source]}" for goal, source in pairs) or "none"


def _break_even(data: Figure2) -> str:
    share = data.shares.break_even
    return "where it never breaks even" if share is None else f"where it breaks even at {share:.1%}"


def _excess(data: Figure2, way: str) -> str:
    return f"{(data.curves.heuristic[way] - data.curves.curves[way].losses).max():.2g}"


def _accuracy(table: AccuracyTable) -> str:
    header = ["data", "training accuracy here", "in the paper", "centroids differ by", "labels differ"]
    rows = [
        [
            row.data + (" (as the paper states)" if row.as_in_the_paper else ""),
            f"{row.accuracy:.2%}",
            f"{row.paper:.0%}",
            f"{row.centroid_difference:.1e}",
            row.different_labels,
        ]
        for row in table.rows
    ]
    raw, petals = table.rows[:2]
    how, recorded = table.mnist_training, table.mnist_recorded
    return f"""## Accuracy of the base model

{markdown_table(header, rows)}

The last two columns compare with scikit-learn's own `NearestCentroid`: the largest difference of a centroid's
coordinate, and how many people it predicts another label for.

**Iris.** The paper states d = 4 and {raw.paper:.0%}. Four raw features give {raw.accuracy:.2%}, by our fit and by
scikit-learn's; {petals.accuracy:.2%} is what petal length and width alone give. So the paper's preparation is not the
plain one. The figures here use four raw features, as it states.

**MNIST.** The shipped embedding was trained as the appendix says: {how["epochs"]:g} epochs of SGD at
{how["learning_rate"]:g} with momentum {how["momentum"]:g}, two hidden layers of {how["hidden"]:g}, {how["latent"]:g}
dimensions, encoder means. Its own record says {recorded["train"]:.2%} on the training and {recorded["test"]:.2%} on the
test images, at a final loss of {table.mnist_final_loss:.1f} nats. The paper leaves open the batch size (here
{how["batch_size"]:g}), likelihood, initialisation and activation; each of them changes the embedding. Absolute losses
and budgets on MNIST are therefore not comparable with the paper's figure; the comparison of individual and collective
is."""


def _questions(findings: Findings) -> str:
    header = [
        "data (pair)",
        "minimal budget",
        "ε of what follows",
        "minimal coalition",
        "break-even share",
        "accuracy on everyone's unmoved data, before → after the refit",
    ]
    rows = [
        [
            f"{answer.data} ({answer.pair})",
            "none suffices" if answer.minimal_budget is None else f"{answer.minimal_budget:.4f}",
            f"{answer.budget:.4f}",
            _coalition(answer),
            "never" if answer.break_even is None else f"{answer.break_even:.1%}",
            f"{answer.accuracy_before:.2%} → {answer.accuracy_after:.2%}",
        ]
        for answer in findings.questions.values()
    ]
    return f"""## Three questions

{markdown_table(header, rows)}

How far must everyone be able to go? How few suffice at ε? From which share of each class on does the collective beat
the individual? The first two are exact; the third is exact for the collective and rests on the best individual move
found. The last column is the price: what the refitted model does to everybody else."""


def _coalition(answer: Answers) -> str:
    if answer.coalition is None:
        return "none suffices"
    parts = ", ".join(f"{count:,} of {name}" for name, count in answer.coalition_by_class.items() if count)
    return f"{answer.coalition:,} of {answer.people:,} ({parts})"


def _strip(strip: Strip) -> str:
    return f"""## What a move means in pixels

![Decoded digits before and after their moves](strip.png)

MNIST, goal 1, from 2, ε = {strip.budget:.4f}: the query is predicted {strip.prediction_before} before and
{strip.prediction} after the refit (goal loss {strip.loss_before:.3f} → {strip.loss:.3f}, audited). The pictures are the
decoder's, of randomly drawn members before and after their own moves; on average a pixel changes by
{strip.mean_change.mean():.3f} on a scale from 0 to 1. Look for digits that no longer look like what they are called: a
budget in the embedding says little about what people see."""


def _trust(findings: Findings) -> str:
    header = [
        "data",
        "way",
        "paper's pair, every point: claimed − audited",
        "all pairs, sample: swept − audited",
        "cells in the sample",
    ]
    rows = []
    for data in findings.figure2.values():
        sample = data.pairs.sample
        for way, difference in sample.largest_difference.items():
            curve = data.curves.curves[way]
            claimed = f"{abs(curve.losses - curve.claimed).max():.1e}"
            rows.append([data.title, way, claimed, f"{difference:.1e}", f"{len(sample.cells)} of {sample.of:,}"])
    return f"""## How far the numbers can be trusted

Losses and successes on the paper's pair are never a solver's claims: everyone makes the planned moves, the model is
fitted afresh, and the query is predicted. For all pairs the exact formula (collective) or a batched search (individual,
joint) is used, and a seeded sample of cells is solved again by a harder search and audited. The largest absolute
differences are:

{markdown_table(header, rows)}

The collective's optimum is proved. The individual's and the joint problem are not convex: theirs is the best of many
starts. The individual's true optimum may be lower than shown, though never below the collective's."""
