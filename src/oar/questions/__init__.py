"""What people really ask: how far must we go, how many of us, is it better than going alone, and whose doing is it?"""

from oar.questions.alternatives import Alternative, Alternatives, alternatives
from oar.questions.answers import BudgetAnswer, CoalitionAnswer, ShareAnswer
from oar.questions.credits.credit import Credit, credit
from oar.questions.effects.collateral import Collateral, collateral
from oar.questions.least.break_even import break_even
from oar.questions.least.budget import minimal_budget
from oar.questions.least.coalition import minimal_coalition
from oar.questions.leverages.leverage import Leverage, leverage
from oar.questions.leverages.worth import Worth, worth
from oar.questions.power import Power, power
from oar.questions.private_card import PrivateCard, private_card
from oar.questions.transfer import Transfer, Transferred, transfer

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
