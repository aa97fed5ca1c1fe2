"""WHAT COMES OUT: plans, the cards published from them, and results."""

from oar.plans.card import Card
from oar.plans.plan import ClassPlan, MemberPlan, Plan
from oar.plans.result import Audit, Proposal, Result

__all__ = ["Audit", "Card", "ClassPlan", "MemberPlan", "Plan", "Proposal", "Result"]
