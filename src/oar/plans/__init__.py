"""WHAT COMES OUT: plans, the cards published from them, and results."""

from oar.plans.card import Card
from oar.plans.plan import Plan
from oar.plans.result import Audit, Proposal, Result

__all__ = ["Audit", "Card", "Plan", "Proposal", "Result"]
