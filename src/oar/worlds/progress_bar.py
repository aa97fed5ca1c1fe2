"""A progress bar of rounds on stderr: on a terminal it disappears at the end, elsewhere it is printed in lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oar.progress import is_shown


@contextmanager
def round_line(rounds: int, done: int, shown: bool | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of every finished round."""
    if not is_shown(shown) or done >= rounds:
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda number: console.print(f"round {number + 1} of {rounds}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("rounds", total=rounds, completed=done)
        yield lambda number: bar.update(task, completed=number + 1)
