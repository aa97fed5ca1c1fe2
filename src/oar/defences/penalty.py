"""A stronger regulariser: the model follows its data less."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from oar.checks import check_number, with_near_names
from oar.defences.base import Defence
from oar.errors import OptionError
from oar.models import Scaled


@with_near_names
@dataclass(frozen=True)
class StrongerPenalty(Defence):
    """The same model with `l2` times `factor`; for a scaled model, the model behind the scaler has it.

    Args:
        factor: above 1.
    """

    factor: float
    name: ClassVar[str] = "stronger penalty"

    def __post_init__(self) -> None:
        """Refuse factors that weaken the penalty, or change nothing."""
        check_number("factor", self.factor, above=1)

    def model_for(self, model: Any) -> Any:
        """Return the model with its larger penalty; raise where it has none."""
        if isinstance(model, Scaled):
            return dataclasses.replace(model, model=self.model_for(model.model))
        penalty = getattr(model, "l2", 0.0)
        known = dataclasses.is_dataclass(model) and "l2" in {field.name for field in dataclasses.fields(model)}
        if not (known and penalty > 0) or not getattr(model, "train_embedding", True):
            raise OptionError(
                f"defence: a stronger penalty is for models with l2 above 0, got {getattr(model, 'name', model)} "
                "without; give the model some l2, or use another defence."
            )
        return dataclasses.replace(model, l2=self.factor * penalty)
