"""One action or several: moves, other labels and a strike may go together, each at most once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from oar.actions.own_action import Action
from oar.actions.perturb import Perturb
from oar.actions.relabel import NO_LABELS, Relabel, RelabelLimits
from oar.actions.withhold import NO_LEAVERS, Withhold, WithholdLimits
from oar.checks import is_text
from oar.errors import DataError

KINDS = (Perturb, Relabel, Withhold)
Kind = TypeVar("Kind", Perturb, Relabel, Withhold)


@dataclass(frozen=True, eq=False)
class Levers:
    """Levers besides moving; those that are not given let nobody do anything; `given` where there is any."""

    relabel: RelabelLimits = NO_LABELS
    withhold: WithholdLimits = NO_LEAVERS
    given: bool = field(init=False)

    def __post_init__(self) -> None:
        """Tell whether there is any."""
        object.__setattr__(self, "given", self.relabel.given or self.withhold.given)

    @property
    def counted(self) -> bool:
        """Whether all that is given is a number of people: labels that are flipped, and leavers."""
        return self.given and self.relabel.soft is None


def as_action(action: Any) -> Any:
    """Return an action, or several as a tuple; raise for what is none, or given twice."""
    known = ", ".join(f"oar.{kind.__name__}(…)" for kind in KINDS)
    several = isinstance(action, list | tuple)
    alone = action[0] if several and len(action) == 1 else action
    if isinstance(alone, Action):
        return _own(alone)
    for one in action if several else (action,):
        if not isinstance(one, KINDS):
            raise DataError(
                f"action: must be an oar.Perturb(…), one or a list of {known}, or one of your own, a dataclass derived "
                f"from oar.actions.Action, which goes alone; got an object of type {type(one).__name__}."
            )
    if not several:
        return action
    if not action:
        raise DataError(f"action: must name at least one action, got an empty list; use one or more of {known}.")
    for kind in KINDS:
        number = sum(isinstance(one, kind) for one in action)
        if number > 1:
            raise DataError(f"action: must hold each kind at most once, got {number} of {kind.__name__}; merge them.")
    return action[0] if len(action) == 1 else tuple(action)


def _own(action: Action) -> Action:
    """Return an author's own action; raise where it has no name, or could not be changed a little."""
    kind = type(action)
    if not is_text(kind.name):
        raise DataError(f"action: {kind.__name__} must have a name, a string that is not empty; got {kind.name!r}.")
    maker = next(one for one in kind.__mro__ if "__init__" in vars(one))
    if "__dataclass_params__" not in vars(maker):
        raise DataError(
            f"action: {kind.__name__} must be a dataclass; decorate it with @dataclass(frozen=True, eq=False)."
        )
    return action


def parts_of(action: Any) -> tuple[Any, ...]:
    """Return the actions that go together: several, or the only one."""
    return action if isinstance(action, tuple) else (action,)


def part_of(action: Any, kind: type[Kind]) -> Kind | None:
    """Return the action of one kind, None where there is none."""
    return next((part for part in parts_of(action) if isinstance(part, kind)), None)
