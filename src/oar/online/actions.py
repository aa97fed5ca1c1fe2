"""What everyone of all rounds may do: one action for all rounds, or one for each, as one action of one population."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.actions import Perturb
from oar.actions.participation import Best, is_share, participation_mask
from oar.errors import DataError, OptionError
from oar.online.stream import HISTORY, Stream

Mask = NDArray[np.bool_]


def everyones_action(stream: Stream, action: Any) -> Perturb:
    """Return what all of the stream's people may do; history takes no part, and who was drawn stays drawn."""
    if isinstance(action, list | tuple):
        return _round_by_round(stream, list(action))
    _check(action, "action")
    mask = _takes_part(stream, action)
    return dataclasses.replace(action, participants=mask, seed=None)


def _check(action: Any, argument: str) -> None:
    if not isinstance(action, Perturb):
        raise OptionError(
            f"{argument}: must be an oar.Perturb(…) over time, or a list with one for each round, got {action!r}."
        )
    if isinstance(action.participants, Best):
        raise OptionError(f"{argument}: oar.Best is not chosen over time, got {action!r}; give a mask or a share.")


def _takes_part(stream: Stream, action: Perturb) -> Mask | None:
    """Return who takes part; None where everybody does. A share is drawn among persons, not among their rows."""
    acting = stream.when > HISTORY
    if is_share(action.participants):
        rows = np.flatnonzero(acting)
        persons = rows if stream.who is None else stream.who[rows]
        _, first, person = np.unique(persons, return_index=True, return_inverse=True)
        drawn = participation_mask(action.participants, action.seed, stream.people.some(rows[first]))
        assert drawn is not None
        mask = np.zeros(stream.people.size, dtype=bool)
        mask[rows] = drawn[person]
        return mask
    given = participation_mask(action.participants, action.seed, stream.people)
    if given is None:
        return None if acting.all() else acting
    return given & acting


def _round_by_round(stream: Stream, actions: list[Any]) -> Perturb:
    """Return one action of all rounds' own budgets and participants; each is read by its own batch."""
    if len(actions) != stream.rounds:
        raise DataError(f"action: must be one, or one for each of {stream.rounds} rounds, got {len(actions)}.")
    for number, one in enumerate(actions):
        _check(one, f"action[{number}]")
        if one.norm != actions[0].norm:
            raise OptionError(
                f"action[{number}]: must have the norm of the first round, {actions[0].norm}, got {one.norm}; "
                "budgets and participants may differ from round to round."
            )
        if one.limits is not None:
            raise OptionError(f"action[{number}]: limits are for tables, which do not come in rounds; leave them out.")
    budgets, mask = np.zeros(stream.people.size), np.zeros(stream.people.size, dtype=bool)
    for number, one in enumerate(actions):
        rows = stream.rows(number)
        try:
            allowance = one.allowance(stream.people.some(rows))
        except DataError as reason:
            raise DataError(f"action[{number}]: in round {number}, {reason}") from None
        budgets[rows] = allowance.budget
        mask[rows] = True if allowance.mask is None else allowance.mask
    return Perturb(budgets, norm=actions[0].norm, participants=mask)
