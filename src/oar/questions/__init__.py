"""What people really ask: how far must we go, how many of us, is it better than going alone, and whose doing is it?"""

from oar.questions.alternatives import Alternative, Alternatives, alternatives
from oar.questions.answers import BudgetAnswer, CoalitionAnswer, ShareAnswer
from oar.questions.budget import minimal_budget
from oar.questions.coalition import minimal_coalition
from oar.questions.collateral import Collateral, collateral
from oar.questions.credit import Credit, credit
from oar.questions.leverage import Leverage, leverage
from oar.questions.power import Power, power
from oar.questions.privately import PrivateCard, private_card
from oar.questions.shares import break_even
from oar.questions.transfer import Transfer, Transferred, transfer
from oar.questions.worth import Worth, worth

__all__ = [
    "Alternative",
    "Alternatives",
    "BudgetAnswer",
    "CoalitionAnswer",
    "Collateral",
    "Credit",
    "Leverage",
    "Power",
    "PrivateCard",
    "ShareAnswer",
    "Transfer",
    "Transferred",
    "Worth",
    "alternatives",
    "break_even",
    "collateral",
    "credit",
    "leverage",
    "minimal_budget",
    "minimal_coalition",
    "power",
    "private_card",
    "transfer",
    "worth",
]
