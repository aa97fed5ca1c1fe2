"""What may be done to a table's columns, and other tools' words for it."""

from oar.actions.limits import Limit, Limits
from oar.actions.other_words import from_actionable_recourse, from_dice
from oar.actions.plausible import Plausible

__all__ = ["Limit", "Limits", "Plausible", "from_actionable_recourse", "from_dice"]
