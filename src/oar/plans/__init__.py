"""Plans and results: plans, the cards published from them, and results."""

from oar.plans.cards.card import Card
from oar.plans.cards.table.terms import Answer
from oar.plans.plan import ClassPlan, LeverPlan, MemberPlan, Plan
from oar.plans.result import Audit, Independence, Proposal, QueryOutcome, Result
from oar.plans.robustness import Robustness

__all__ = [
    "Answer",
    "Audit",
    "Card",
    "ClassPlan",
    "Independence",
    "LeverPlan",
    "MemberPlan",
    "Plan",
    "Proposal",
    "QueryOutcome",
    "Result",
    "Robustness",
]
