"""Types of results: results and their audits, plans and the cards published from them, advice, studies.

They are returned by functions such as `oar.collective`, or loaded from files. Results over several rounds are in
`oar.online`, answers to questions in `oar.questions`, a simulation's records in `oar.worlds`.
"""

from oar.errors import Status
from oar.plans import Answer, Audit, Card, Independence, LeverPlan, Plan, QueryOutcome, Result, Robustness
from oar.plans.cards.rounds import RoundsCard
from oar.plans.individual.advice import Advice
from oar.studies import Study

__all__ = [
    "Advice",
    "Answer",
    "Audit",
    "Card",
    "Independence",
    "LeverPlan",
    "Plan",
    "QueryOutcome",
    "Result",
    "Robustness",
    "RoundsCard",
    "Status",
    "Study",
]
