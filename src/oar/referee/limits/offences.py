"""Broken limits in words: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable

from oar.people import Population

MOST = 5  # that are put into words


class Offences:
    """Sentences, of which the first few are kept and all are counted.

    >>> offences = Offences()
    >>> for person in range(42):
    ...     offences.add(f"person {person} moves too far")
    >>> offences.told[-1], len(offences.told)
    ('and 37 more', 6)
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.first: list[str] = []
        self.more = 0

    def __bool__(self) -> bool:
        """Report whether there are any."""
        return bool(self.first)

    def add(self, sentence: str) -> None:
        """Keep one, or count it."""
        if len(self.first) < MOST:
            self.first.append(sentence)
        else:
            self.more += 1

    def add_all(self, sentences: Iterable[str], number: int) -> None:
        """Keep the first of so many, which are not put into words beyond that, and count the others."""
        room = MOST - len(self.first)
        if room > 0:
            self.first += [sentence for sentence, _ in zip(sentences, range(room), strict=False)]
        self.more += max(0, number - max(room, 0))

    @property
    def told(self) -> tuple[str, ...]:
        """The first few, and in a last sentence how many more."""
        return (*self.first, *((f"and {self.more:,} more",) if self.more else ()))


def person(people: Population, row: int) -> str:
    """Return what somebody is called in sentences: by the table's index where there is one, by number otherwise."""
    return f"person {row if people.index is None else people.index[row]}"
