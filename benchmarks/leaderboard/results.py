"""What the leaderboard says: runs of one problem side by side, as cells of a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.leaderboard.referee import Verdict
from benchmarks.leaderboard.running import Moment, Run

HEADINGS = ("contender", "goal loss", "of the best gain", "time", "time to 99 %", "peak", "passes", "limits", "ended")
NEARLY = 0.99  # of the best gain


@dataclass(frozen=True)
class Problem:
    """A problem's runs.

    Attributes:
        name: of the problem. title: what it is called in print.
        people: how many there are.
        clean: the goal loss without moves.
        runs: one for each contender.
        skipped: why nobody ran; "" where they did.
    """

    name: str
    title: str
    people: int
    clean: float = math.nan
    runs: tuple[Run, ...] = ()
    skipped: str = ""

    @property
    def best(self) -> float:
        """The least loss of all answers within the limits; that of staying put where there is none."""
        answers = [run.moments[-1].verdict for run in self.runs if run.moments]
        return min([verdict.loss for verdict in answers if verdict.kept], default=self.clean)

    def missing(self, loss: float) -> float:
        """Return which share of the best gain a loss leaves."""
        gain = self.clean - self.best
        return (loss - self.best) / gain if gain > 0 else math.nan

    def nearly_there(self, run: Run) -> float | None:
        """Return when the referee first saw this run within a hundredth of the best gain; None if never."""
        close = (moment for moment in run.moments if moment.verdict.kept and self._close(moment))
        return next((moment.seconds for moment in close), None)

    def _close(self, moment: Moment) -> bool:
        return self.missing(moment.verdict.loss) <= 1 - NEARLY

    def ranked(self) -> list[Run]:
        """Return the runs: least loss first, then those that did not run."""
        ran = [run for run in self.runs if run.moments]
        ran.sort(key=lambda run: (not run.moments[-1].verdict.kept, round(run.moments[-1].verdict.loss, 6)))
        return ran + [run for run in self.runs if not run.moments]


def cells(problem: Problem, run: Run) -> tuple[str, ...]:
    """Return what the table shows of a run."""
    if not run.moments:
        return (run.contender, "–", "", "", "", "", "", "", run.skipped)
    answer = run.moments[-1]
    verdict, near = answer.verdict, problem.nearly_there(run)
    audit = run.facts.get("audit_seconds")
    time = seconds(answer.seconds) + ("" if audit is None else f" (+ {seconds(audit)} audit)")
    limits = "kept" if verdict.kept else f"broken: {verdict.longest:.4g} ε"
    return (
        run.contender,
        f"{verdict.loss:.6f}",
        f"{100 * (1 - problem.missing(verdict.loss)):.3f} %",
        time,
        "–" if near is None else seconds(near),
        "–" if run.peak is None else f"{run.peak / 1e6:,.0f} MB",
        f"{answer.passes:,.0f}",
        limits,
        run.ended or "its time was over",
    )


def seconds(value: float) -> str:
    """Write a time with two digits.

    >>> seconds(0.0431), seconds(4.13), seconds(38.7)
    ('0.043 s', '4.1 s', '39 s')
    """
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def as_markdown(problems: list[Problem]) -> str:
    """Return all tables as Markdown."""
    parts = []
    for problem in problems:
        if problem.skipped:
            parts.append(f"### {problem.title}\n\nSkipped: {problem.skipped}.\n")
            continue
        lines = [HEADINGS, ("---", *["---:"] * 6, "---", "---")]
        lines += [cells(problem, run) for run in problem.ranked()]
        rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        about = f"{problem.people:,} people; without moves the goal loss is {problem.clean:.6f}."
        parts.append(f"### {problem.title}\n\n{about}\n\n{rows}\n")
    return "\n".join(parts)


def as_rich(problem: Problem) -> Any:
    """Return one problem's table for a terminal."""
    from rich.table import Table

    table = Table(title=f"{problem.title}: {problem.people:,} people, {problem.clean:.6f} without moves")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if 0 < place < 7 else "left")
    for run in problem.ranked():
        table.add_row(*cells(problem, run))
    return table


def save(path: Path, facts: dict[str, Any], problems: list[Problem]) -> None:
    """Write everything, unrounded; what is not a number is null."""
    content = {**facts, "problems": [dataclasses.asdict(problem) for problem in problems]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_finite(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Read what `save` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    problems = []
    for problem in content.pop("problems"):
        runs = []
        for run in problem.pop("runs"):
            moments = [
                Moment(one["seconds"], one["passes"], Verdict(**_numbers(one["verdict"]))) for one in run.pop("moments")
            ]
            runs.append(Run(**run, moments=moments))
        problems.append(Problem(**_numbers(problem), runs=tuple(runs)))
    return content, problems


def updated(path: Path, facts: dict[str, Any], problems: list[Problem]) -> tuple[dict[str, Any], list[Problem]]:
    """Return what a file holds, with these problems in place of its own or after them; both commands are told."""
    old, kept = load(path)
    again = {problem.name: problem for problem in problems}
    both = {**old, "command": f"{old['command']}; {facts['command']}", "seconds": old["seconds"] + facts["seconds"]}
    new = [problem for problem in problems if problem.name not in {one.name for one in kept}]
    return both, [*(again.get(problem.name, problem) for problem in kept), *new]


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _numbers(content: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in content.items()}
