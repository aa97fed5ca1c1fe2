"""What people really ask: how far must we go, how many of us, and when is it better than going alone?"""

from oar.questions.answers import BudgetAnswer, CoalitionAnswer, ShareAnswer
from oar.questions.budget import minimal_budget
from oar.questions.coalition import minimal_coalition
from oar.questions.power import Power, power
from oar.questions.shares import break_even

__all__ = [
    "BudgetAnswer",
    "CoalitionAnswer",
    "Power",
    "ShareAnswer",
    "break_even",
    "minimal_budget",
    "minimal_coalition",
    "power",
]
