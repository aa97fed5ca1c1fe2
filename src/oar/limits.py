"""LIMITS OF COLUMNS: what may be done to a table's columns, and other tools' words for it."""

from oar.actions.limits.importers import from_actionable_recourse, from_dice
from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.plausible import Plausible

__all__ = ["Limit", "Limits", "Plausible", "from_actionable_recourse", "from_dice"]
