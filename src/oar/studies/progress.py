"""Progress of a study and the time left, on stderr; on a terminal the line is removed when the study is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oar.progress import is_shown, live_line

BETWEEN = 10.0  # seconds between lines where there is no terminal


class Pace:
    """The time that cells of each kind took and that those `left` will take: known once some of a kind are finished."""

    def __init__(self, left: dict[str, int]) -> None:
        self.left, self._spent, self._done = dict(left), dict[str, float](), dict[str, int]()

    def learn(self, kind: str, seconds: float, cells: int = 1) -> None:
        """Record the time of some cells together, in this run or an earlier one."""
        self._spent[kind] = self._spent.get(kind, 0.0) + seconds
        self._done[kind] = self._done.get(kind, 0) + cells

    def finish(self, kind: str, seconds: float, cells: int) -> None:
        """Record finished cells."""
        self.learn(kind, seconds, cells)
        self.left[kind] = max(0, self.left.get(kind, 0) - cells)

    @property
    def work(self) -> float:
        """The remaining seconds of work in cells of known kinds."""
        known = (kind for kind, number in self.left.items() if number and self._done.get(kind))
        return sum(self.left[kind] * self._spent[kind] / self._done[kind] for kind in known)

    @property
    def unknown(self) -> int:
        """The number of remaining cells of kinds without a finished one."""
        return sum(number for kind, number in self.left.items() if number and not self._done.get(kind))

    def words(self, workers: int) -> str:
        """Return the remaining time, as far as it is known.

        >>> pace = Pace({"softmax": 4, "mlp": 2})
        >>> pace.words(1)
        'time left not known so far'
        >>> pace.finish("softmax", 60.0, 2)
        >>> pace.words(1), pace.words(2)
        ('1 min left so far, 2 cells not known', '30 s left so far, 2 cells not known')
        >>> pace.finish("mlp", 2.0, 2)
        >>> pace.words(1)
        'about 1 min left'
        """
        if self.unknown and not self.work:
            return "time left not known so far"
        left = duration(self.work / max(1, min(workers, sum(self.left.values()))))
        return f"{left} left so far, {self.unknown} cells not known" if self.unknown else f"about {left} left"


def duration(seconds: float) -> str:
    """Return a time in a few words.

    >>> duration(0.2), duration(75), duration(7_300), duration(200_000)
    ('1 s', '1 min', '2 h', '2 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"


@contextmanager
def told(shown: bool | None) -> Iterator[Any]:
    """Yield a function that shows a line; it does nothing if progress is off."""
    if not is_shown(shown):
        yield lambda line: None
        return
    with live_line(BETWEEN) as tell:
        yield tell
