"""WHAT EACH MAY DO: norms, budgets, participation."""

from oar.actions.norms import Norm
from oar.actions.perturb import Allowance, Perturb

__all__ = ["Allowance", "Norm", "Perturb"]
