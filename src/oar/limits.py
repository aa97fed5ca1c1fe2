"""Limits of columns: how a table's columns may change, and importers for the limits of other tools."""

from oar.actions.limits.importers import from_actionable_recourse, from_dice
from oar.actions.limits.limit import Limit, Limits
from oar.actions.limits.plausible import Plausible

__all__ = ["Limit", "Limits", "Plausible", "from_actionable_recourse", "from_dice"]
