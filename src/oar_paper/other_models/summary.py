"""The extended figure in words and numbers: a section of `summary.md`, and a block of `results.json`."""

from __future__ import annotations

from typing import Any

from oar.report.files.text_formats import markdown_table
from oar_paper.other_models.study import Cell, Extended


def extended_results(extended: Extended) -> dict[str, Any]:
    """Return what `results.json` holds of the extended figure."""
    settings = extended.settings
    return {
        "quick": settings.quick,
        "seed": settings.seed,
        "budgets": settings.budgets,
        "share_budget": settings.share_budget,
        "shares": settings.shares,
        "models": {one.key: repr(one.model) for one in settings.contenders},
        "solvers": {
            one.key: {"individual": str(one.alone), "collective": str(one.together), "one_shot": str(one.one_shot)}
            for one in settings.contenders
        },
        "data": extended.data,
        "cells": extended.cells,
    }


def extended_section(extended: Extended) -> str:
    """Return the Markdown section."""
    settings = extended.settings
    quick = "> **QUICK RUN.** Iris only, few points, few steps a solve.\n\n" if settings.quick else ""
    grid = ", ".join(f"{budget:g}" for budget in settings.budgets)
    return f"""## Beyond nearest centroid

![Goal loss against budget and participation for every model](extended.png)

{quick}Figure 2's question for other models: x† = 0.25 μ_goal + 0.75 μ_source, the paper's pair. Left of each pair of
columns: goal loss against ε, everyone takes part. Right: against the share that takes part (random, nested draws), at
ε = {settings.share_budget:g}; the individual needs nobody, so its loss is a level line. Every point is audited: the
moves are made, the model is refitted from scratch, the query is predicted. Iris is standardised here, because penalties
and one budget for all features need comparable scales; the scaler does not follow the moves. MNIST's embedding is taken
as it ships; where the table says so, the model is trained on a seeded random sample of it.

{extended_table(extended)}

"Flips at" is the smallest ε of the grid ({grid}) with an audited success. "Break-even" is the
smallest share tried from which on the collective's loss is below the individual's, with the largest one tried where it
was not. "Claim" is the largest difference between what a solver expected and what the audit found. "Open" counts the
collective's solves that ended before their certificate closed: more steps might gain more. For nearest centroid
"one-shot" is the paper's heuristic.

{_verdict(extended)}"""


def extended_table(extended: Extended) -> str:
    """Return the numbers: one row a model and data set."""
    header = [
        "data",
        "model",
        "people",
        "ε = 0",
        f"individual, ε = {extended.settings.share_budget:g}",
        "collective",
        "one-shot",
        "flips at: individual",
        "collective",
        "break-even",
        "claim",
        "open",
    ]
    return markdown_table(header, [_row(extended, cell) for cell in extended.cells])


def _row(extended: Extended, cell: Cell) -> list[str]:
    at = {way: next(point for point in row if point.place == cell.share_budget) for way, row in cell.budgets.items()}
    even = cell.break_even
    together = [*cell.budgets["collective"], *(point for point in cell.shares["collective"] if point.place < 1)]
    return [
        extended.data[cell.data]["title"],
        " ".join(cell.title.split()),
        f"{cell.people:,}" + (" (sample)" if cell.sampled else ""),
        f"{cell.before:.3f}",
        *(f"{at[way].loss:.3f}" for way in ("individual", "collective", "one_shot")),
        *(_flip(cell, way) for way in ("individual", "collective")),
        "none" if even is None else f"{even.at:.1%} (not at {even.above:.1%})",
        f"{max(abs(point.claimed - point.loss) for point in cell.points):.0e}",
        f"{sum(not point.finished for point in together)} of {len(together)}",
    ]


def _flip(cell: Cell, way: str) -> str:
    places = [point.place for point in cell.budgets[way] if point.success]
    return f"{min(places):g}" if places else "—"


def _verdict(extended: Extended) -> str:
    """Say, in counts, where the collective beats the individual."""
    pairs = [
        (cell, alone, together)
        for cell in extended.cells
        for alone, together in zip(cell.budgets["individual"], cell.budgets["collective"], strict=True)
    ]
    # Below this both have lost their meaning: probabilities within 1e-6 of 1.
    worse = [(cell, alone) for cell, alone, together in pairs if together.loss > alone.loss + 1e-6]
    flips = [together.success and not alone.success for _, alone, together in pairs]
    lost = [alone.success and not together.success for _, alone, together in pairs]
    listed = ", ".join(f"{' '.join(cell.title.split())} at ε = {alone.place:g}" for cell, alone in worse)
    return f"""With everyone taking part the collective's audited loss is at most the individual's in
{len(pairs) - len(worse)} of {len(pairs)} comparisons{f" (not: {listed})" if listed else ""}. Only the collective
reaches the goal in {sum(flips)} of them, only the individual in {sum(lost)}. Where training is translation-equivariant
(all models here but the MLP) the first is a theorem; for the MLP it is an observation,
made with this network and this penalty."""
