"""WHAT COMES OUT: plans, the cards published from them, and results."""

from oar.plans.card import Card
from oar.plans.independence import Independence
from oar.plans.lever_plan import LeverPlan
from oar.plans.plan import ClassPlan, MemberPlan, Plan
from oar.plans.result import Audit, Proposal, QueryOutcome, Result
from oar.plans.robustness import Robustness
from oar.plans.table_terms import Answer

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
