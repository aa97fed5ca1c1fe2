"""Retrain from scratch and check. The only place that may say "it worked".

The audit takes a plan, has everyone make the very moves that the plan hands out, refits the model on the moved data
and looks at the query. It shares no code with the solvers, and it measures every move again, against its own mover's
limit.
"""

from typing import overload

from oar.audit.centroids import audit_centroids
from oar.audit.online import audit_online
from oar.audit.outside import audit_outside
from oar.audit.retrained import audit_retrained
from oar.audit.streamed import audit_streamed
from oar.estimators.black_box import BlackBox
from oar.models import NearestCentroid
from oar.plans import Audit, Plan
from oar.plans.online_plan import OnlinePlan
from oar.plans.online_result import OnlineAudit

__all__ = ["audit"]


@overload
def audit(plan: Plan) -> Audit: ...


@overload
def audit(plan: OnlinePlan) -> OnlineAudit: ...


def audit(plan: Plan | OnlinePlan) -> Audit | OnlineAudit:
    """Refit before and after the plan's moves, and report what the query gets; over time, after every round."""
    if isinstance(plan, OnlinePlan):
        return audit_online(plan)
    if plan.problem.people.streamed:
        return audit_streamed(plan)
    if isinstance(plan.problem.model, NearestCentroid):
        return audit_centroids(plan)
    if isinstance(plan.problem.model, BlackBox):
        return audit_outside(plan)
    return audit_retrained(plan)
