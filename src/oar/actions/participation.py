"""Participants (as `oar.Perturb` says who they can be), and how many of them may act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_that, is_number, is_whole, with_near_names
from oar.errors import DataError, OptionError
from oar.people import Population
from oar.people.labels import plain
from oar.people.tables.arrays import check_index, is_series
from oar.people.tables.schema import Column
from oar.people.wording import listed, nearest, shown
from oar.typing import Participants

Mask = NDArray[np.bool_]
MOST_LISTED = 12  # names or levels in a message
ROUNDING = 1e-9  # a share of 0.29 of 100 people is 29 of them, whatever 0.29 * 100 says


@with_near_names
@dataclass(frozen=True, eq=False)
class Best:
    """The most useful members, as participants of `oar.Perturb`, chosen by the solver.

    For nearest centroid on plain features the choice is proved optimal; otherwise it is the best that was found by
    ranking members by their gains, and refitting.

    Args:
        number: how many of them.
        among: the candidates, as any other `participants`; None means everyone.

    >>> Best(3, among={"town": "Zürich"})
    Best(3, among={'town': 'Zürich'})
    """

    number: int
    among: Participants = None

    def __post_init__(self) -> None:
        fits, instead = is_whole(self.number) and self.number >= 1, "for a share of them use participants=share"
        check_that(fits, "Best", "a whole number of members ≥ 1", self.number, instead)
        if isinstance(self.among, Best):
            raise OptionError("among: must be another kind of participants, got another Best; keep the smaller one.")

    def check(self, eligible: int) -> None:
        """Raise where there are too few to choose from."""
        if self.number > eligible:
            raise DataError(
                f"Best: must be at most the number of members who may take part and whose data count, {eligible}, got "
                f"{self.number}; ask for fewer, or choose among more."
            )

    def __repr__(self) -> str:
        among = "" if self.among is None else f", among={brief(self.among)}"
        return f"Best({self.number}{among})"


def participation_mask(participants: Any, seed: int | None, people: Population) -> Mask | None:
    """Return who takes part as a boolean array, or None where everyone does; of Best, whom it chooses from."""
    match participants:
        case None:
            return None
        case Best():
            return participation_mask(participants.among, seed, people)
        case Mapping():
            return _group_mask(participants, people)
    if is_number(participants):  # a share
        return random_members(people.size, float(participants), seed or 0)
    if callable(participants):
        participants = participants(people)
        if participants is None:
            raise DataError("participants: the function must return a boolean mask, got None.")
    if is_series(participants):
        check_index(participants, people.index, "participants")
        participants = participants.to_numpy()
    mask = np.asarray(participants)
    if mask.dtype != bool:
        raise DataError(
            "participants: must be None, a share between 0 and 1, a boolean mask, a group by columns such as "
            '{"column": value}, or a function of the population that returns a mask; got '
            f"{'a ' + type(participants).__name__} of type {mask.dtype}. "
            "For a list of positions, build a mask: mask = numpy.zeros(n, bool); mask[positions] = True."
        )
    if mask.shape != (people.size,):
        raise DataError(f"participants: must have one entry for each of the {people.size} people, got {mask.shape}.")
    return mask.copy()  # the caller may change its own


def members(participants: Any, seed: int | None, people: Population) -> Mask:
    """Return who takes part, a truth value for everybody."""
    mask = participation_mask(participants, seed, people)
    return np.ones(people.size, dtype=bool) if mask is None else mask


def check_participants(participants: Any, seed: int | None, action: str = "Perturb") -> None:
    """Raise for a share outside [0, 1], a group of nothing, and for a seed that would do nothing."""
    if isinstance(participants, Best):
        if action != "Perturb":
            raise OptionError(
                f"participants: oar.Best chooses who moves, so it is for oar.Perturb alone, got it for oar.{action}; "
                "its own limit (most=... or share=...) already picks the most useful ones."
            )
        participants = participants.among
    if isinstance(participants, Mapping):
        _check_group(participants)
    if is_number(participants):  # a share
        if not 0.0 <= participants <= 1.0:
            raise DataError(f"participants: a share must be between 0 and 1, got {participants}.")
        check_that(seed is None or (is_whole(seed) and seed >= 0), "seed", "a whole number ≥ 0", seed)
    elif seed is not None:
        raise OptionError("seed: is only used to draw a random share of participants; leave it out.")


def random_order(size: int, seed: int) -> NDArray[np.intp]:
    """Return a random order of the people; the first m of it are the m drawn for any share."""
    return np.random.default_rng(seed).permutation(size)


def members_in_share(size: int, share: float) -> int:
    """Return how many people a share is, rounded to the nearest."""
    return round(share * size)


def random_members(size: int, share: float, seed: int) -> Mask:
    """Draw a share of the people. Shares of one seed are nested: a larger one contains a smaller one."""
    mask = np.zeros(size, dtype=bool)
    mask[random_order(size, seed)[: members_in_share(size, share)]] = True
    return mask


class SomeOf:
    """An action of some of the participants: of at most so many, or of a share of them."""

    most: int | None
    share: float | None
    participants: Participants
    seed: int | None

    def _check(self, **checks: Callable[[Any], Any]) -> None:
        """Check the one limit that is given, and who takes part; raise unless exactly one is."""
        action = type(self).__name__
        given = [name for name in checks if getattr(self, name) is not None]
        if len(given) != 1:
            raise OptionError(
                f"{action}: must be given exactly one of {', '.join(checks)}, got {' and '.join(given) or 'none'}; say "
                f"for example {action}(most=3)."
            )
        object.__setattr__(self, given[0], checks[given[0]](getattr(self, given[0])))
        check_participants(self.participants, self.seed, action)

    def _quota(self, mask: Mask) -> int:
        """Return how many of these (n,) may act; a share is rounded down, because it is a limit."""
        size = int(mask.sum())
        return int(self.share * size * (1 + ROUNDING) + ROUNDING) if self.share else min(self.most or 0, size)

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value is not None}
        shown = (f"{name}={(brief if name == 'participants' else repr)(value)}" for name, value in given.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def check_most(most: Any) -> int:
    """Return a number of people; raise unless it is a whole number ≥ 0."""
    if not is_whole(most) or most < 0:
        raise DataError(f"most: must be a whole number ≥ 0, got {most!r}; for a share of people use share=...")
    return int(most)


def check_share(share: Any) -> float:
    """Return a share of people; raise unless it is a number between 0 and 1."""
    if not is_number(share) or not 0.0 <= share <= 1.0:
        raise DataError(f"share: must be a number between 0 and 1, got {share!r}; for a number of people use most=...")
    return float(share)


def brief(value: Any) -> str:
    """Return a setting as it is shown: arrays by their size, functions by their name."""
    if np.ndim(value) == 0:
        return getattr(value, "__name__", None) or repr(value)
    return f"<{np.size(value)} values>"


def _check_group(group: Mapping[Any, Any]) -> None:
    """Raise for a group that names no column, or no value of one."""
    if not group:
        raise DataError('participants: a group must name at least one column, got {}; use {"column": value}.')
    for name, wanted in group.items():
        if isinstance(wanted, list | np.ndarray) and not len(wanted):
            raise DataError(f"participants: column {name!r} must have at least one value, got an empty list.")
        if isinstance(wanted, tuple) and (len(wanted) != 2 or not all(map(_is_number, wanted))):
            raise DataError(
                f"participants: column {name!r} as a tuple must be (lowest, highest), two numbers, got {wanted!r}; "
                "use a list for several values."
            )


def _group_mask(group: Mapping[Any, Any], people: Population) -> Mask:
    """Return who has a wanted value in every one of these columns; both ends of a range count."""
    if people.streamed:
        raise OptionError(
            "participants: a group by columns needs everybody in memory, got people in parts; give a mask or a share, "
            "or use people.loaded() if they fit."
        )
    found = np.ones(people.size, dtype=bool)
    for name, wanted in group.items():
        found &= _in_column(people, name, wanted)
    if not found.any():
        raise DataError(
            f"participants: nobody is in the group {dict(group)!r}; leave a column out, or allow more of its values."
        )
    return found


def _in_column(people: Population, name: Any, wanted: Any) -> Mask:
    known = (people.schema or people).names
    if known is None:
        raise OptionError(
            "participants: a group by columns needs people with column names, got a plain array; use a DataFrame, or "
            "give a boolean mask."
        )
    if name not in known:
        raise DataError(
            f"participants: must name columns of the people ({listed(known, MOST_LISTED, shown)}), got {shown(name)}."
            f"{nearest(name, known)}"
        )
    if people.encoding is None:
        return _matches(np.asarray(people.features[:, known.index(name)], dtype=np.float64), name, wanted)
    column, place = people.encoding.schema[name], people.encoding.places[name]
    coordinates = np.asarray(people.features[:, place], dtype=np.float64)
    if not column.levels:
        return _matches(coordinates[:, 0], name, wanted)
    codes = coordinates.argmax(axis=1) if column.kind == "category" else np.rint(coordinates[:, 0]).astype(int)
    return np.isin(codes, [_level(column, value) for value in _several(wanted, name)])


def _level(column: Column, value: Any) -> int:
    """Return the position of a level; 1 is neither True nor "1"."""
    value = plain(value)
    for code, level in enumerate(column.levels):
        if type(level) is type(value) and level == value:
            return code
    raise DataError(
        f"participants: column {column.name!r} has the levels {listed(column.levels, MOST_LISTED, shown)}, got "
        f"{shown(value)}.{nearest(value, column.levels)}"
    )


def _matches(values: NDArray[np.float64], name: Any, wanted: Any) -> Mask:
    if isinstance(wanted, tuple):
        return (values >= wanted[0]) & (values <= wanted[1])
    numbers = _several(wanted, name)
    wrong = [value for value in numbers if not _is_number(value)]
    if wrong or not numbers:
        raise DataError(
            f"participants: column {name!r} holds numbers; must be a number, a list of them or a range "
            f"(lowest, highest), got {shown(wrong[0] if wrong else None)}."
        )
    return np.isin(values, np.array(numbers, dtype=np.float64))


def _several(wanted: Any, name: Any) -> list[Any]:
    if isinstance(wanted, tuple):
        raise DataError(f"participants: column {name!r} has levels, which have no range; use a list of levels.")
    return list(wanted) if isinstance(wanted, list | set | frozenset | np.ndarray) else [wanted]


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.bool_ | np.number) and value == value
