"""Members' actions: move (norms, budgets), be relabelled, leave; and who takes part."""

from oar.actions.own_action import Action, Who
from oar.actions.perturb import Perturb
from oar.actions.relabel import Relabel
from oar.actions.sets.norms import Allowance, Norm
from oar.actions.withhold import Withhold

__all__ = ["Action", "Allowance", "Norm", "Perturb", "Relabel", "Who", "Withhold"]
