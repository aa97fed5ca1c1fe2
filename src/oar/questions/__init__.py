"""Questions about plans: minimal budgets and coalitions, break-even, leverage, credit, side effects."""

from oar.questions.alternatives import Alternative, Alternatives, alternatives
from oar.questions.collateral import Collateral, collateral
from oar.questions.credit import Credit, credit
from oar.questions.least.break_even import ShareAnswer, break_even
from oar.questions.least.budget import BudgetAnswer, minimal_budget
from oar.questions.least.coalition import CoalitionAnswer, minimal_coalition
from oar.questions.leverage import Leverage, leverage
from oar.questions.power import Power, power
from oar.questions.private_card import PrivateCard, private_card
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
