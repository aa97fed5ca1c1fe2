"""One applicant whom the bank refuses, wrongly: what it gets if others help, and what it can do by itself.

**Others help.** A collective moves for it every year, alone or with strategic individuals around.

**By itself.** With a logit a·x + b and S the coordinates that it may change, the shortest way of an applicant who lacks
m = −(a·x + b) is δ_S = m a_S / ‖a_S‖², of length m / ‖a_S‖. It goes in the first year in which the deployed model
refuses it, and stays there: just over the boundary, or along the same way as far as a member of the collective may.
Whether it keeps its credit is judged as others' advice is, by every later refit. What it would have to go in each year,
and whether that would outlast the next refit, is told as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.actions import Perturb
from oar.problem import Query
from oar.worlds.actors.individuals import StrategicIndividuals
from oar.worlds.collective import Collective
from oar.worlds.people.labels import KEEP
from oar.worlds.policies.immediate import OneShot
from oar.worlds.protocol import Array
from oar.worlds.simulate import simulate
from oar_stories.class_probability import chances
from oar_stories.credit.people import GOOD, GOOD_LABEL, NEW, asking, loans

if TYPE_CHECKING:
    from oar.worlds.records.record import Round
    from oar_stories.credit.story import CreditSettings

GAMING, GAIN = 0.5, 1.0  # the share of strategic individuals, and how far each goes for credit, in cost
HELPED = ("nobody", "collective", "collective and strategic individuals")
ITSELF = "itself"
OWN_SHORTEST, AS_A_MEMBER = "its own shortest way", "its own way, as far as a member may"
OWN_WAYS = (OWN_SHORTEST, AS_A_MEMBER)
HAIR = 1e-9  # how much further than to the boundary, on which nobody has credit


def own_way(weights: Array, features: Array) -> Array | None:
    """Return the shortest move (d,) to credit over what can be changed; None where credit is granted, or cannot be."""
    missing = -float(features @ weights[:-1] + weights[-1])
    places = np.concatenate(loans().columns)
    slopes = weights[:-1][places]
    if missing < 0 or not slopes.any():
        return None
    move = np.zeros_like(features)
    move[places] = (missing + HAIR) * slopes / (slopes @ slopes)
    return move


@dataclass
class ByItself:
    """Follows where the applicant has gone by itself.

    Attributes:
        features: where it begins. budget: how far a member of the collective may go.
        places: where it has gone, by kind of way; empty while it has not been refused.
    """

    features: Array
    budget: float
    places: dict[str, Array] = field(default_factory=dict)

    def year(self, model: Any, each: Round) -> Iterator[dict[str, Any]]:
        """Yield what a year brings, for each kind of way.

        `burden` is what going in this year would cost, and `next` whether that holds after the next refit: not known
        where the deployed model grants credit already. `effort` is what it really goes in this year. `first`, `chance`
        and `success` are about where it is then.
        """

        def chance(place: Array) -> float:
            return float(chances(model, each.state.parameters, place[None], GOOD)[0])

        way = own_way(np.asarray(each.deployed.parameters)[0], self.features)
        for kind in OWN_WAYS:
            row: dict[str, Any] = {"advice": kind, "helped": ITSELF, "burden": None, "next": None, "effort": 0.0}
            if way is not None:
                length = float(np.linalg.norm(way))
                goes = length if kind == OWN_SHORTEST else self.budget
                there = self.features + goes / length * way
                row |= {"burden": goes, "next": float(chance(there) > 0.5)}
                if kind not in self.places:
                    self.places[kind], row["effort"] = there, goes
            now = chance(self.places.get(kind, self.features))
            holds = float(now > 0.5)
            yield row | {"first": holds if kind in self.places else None, "chance": now, "success": holds}


def asked(settings: CreditSettings, helped: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what the applicant who asks gets, year by year, if others help, or nobody."""
    query = Query(loans().features[asking()], goal=GOOD_LABEL)
    others = [StrategicIndividuals(GAMING, GOOD_LABEL, GAIN)] if helped == HELPED[2] else []
    collective = Collective("collective", query, Perturb(settings.budget), share=settings.share)
    alone = helped == HELPED[0]
    world = settings.world(NEW, KEEP, others, **({"query": query} if alone else {"collective": collective}))
    policy = None if alone else OneShot()
    for each in simulate(world, policy, rounds=settings.rounds, seed=seed, critical_masses=False):
        (outcome,) = each.outcomes.values()
        yield {
            "part": "applicant",
            "come": NEW,
            "labels": KEEP,
            "helped": helped,
            "year": each.number + 1,
            "accuracy": each.accuracy,
            "chance": float(np.exp(-outcome.loss)),
            "success": float(outcome.success),
            "burden": None if alone else each.actors["collective"].burden_mean,
            "effort": 0.0 if alone else each.actors["collective"].burden_total,
        }
