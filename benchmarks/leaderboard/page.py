"""The measured part of docs/leaderboard.md: tables, versions and commands between two marks; the rest is prose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.leaderboard.figure import draw
from benchmarks.leaderboard.results import Problem, as_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(facts: dict[str, Any], problems: list[Problem], docs: Path = DOCS) -> None:
    """Redraw the figure, and put what was measured between the marks of the page."""
    draw(problems, docs / "figures" / "leaderboard.png")
    page = docs / "leaderboard.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page}: must have the lines {BEGIN!r} and {END!r}, got none; put them back.")
    measured = f"{BEGIN}\n\n{_made_with(facts, problems)}\n\n{as_markdown(problems)}\n{END}"
    page.write_text(before + measured + after, encoding="utf-8")


def _made_with(facts: dict[str, Any], problems: list[Problem]) -> str:
    machine = facts["machine"]
    used: dict[str, dict[str, str]] = {}
    for problem in problems:
        for run in problem.runs:
            if run.versions:
                used.setdefault(run.contender, run.versions)
    versions = "\n".join(
        f"| {name} | {', '.join(f'{package} {number}' for package, number in numbers.items())} |"
        for name, numbers in used.items()
    )
    judge = machine["versions"]
    load = f"load {machine['load']:.1f} at the start, {facts['load_at_the_end']:.1f} at the end"
    return (
        f"Made by `{facts['command']}` in {facts['seconds'] / 60:.0f} minutes, with a time limit of "
        f"{facts['allowed']:g} seconds for each contender (twice that from 300,000 people on, unless a command "
        f"sets another number), on {machine['cpus']} cores ({machine['processor']}; {load}). "
        f"Referee: scikit-learn {judge['scikit-learn']}, NumPy {judge['numpy']}, scipy {judge['scipy']}.\n\n"
        f"| contender | versions |\n| --- | --- |\n{versions}"
    )
