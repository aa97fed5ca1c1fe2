"""WORLDS: an arriving population, an operator who keeps retraining, a collective, and everybody else."""

from oar.worlds.actors import (
    AdvisedIndividuals,
    CompetingCollective,
    Curators,
    FeatureCollision,
    GradientMatching,
    Labellers,
    PlanAnew,
    StrategicIndividuals,
)
from oar.worlds.arrivals import Blobs, FromBatches, FromPopulation
from oar.worlds.collective import Collective, CollectiveView
from oar.worlds.crowds import crowd_of
from oar.worlds.operator import Operator
from oar.worlds.operators_stable import PerformativelyStable
from oar.worlds.operators_strategic import StrategicAware
from oar.worlds.parts import Caps, Crowd, Deed, State, View
from oar.worlds.policies import DoNothing, Individually, OneShot
from oar.worlds.policies_planned import PlanOnce, Replan
from oar.worlds.record import ActorRecord, AdviceRecord, GroupRecord, Round
from oar.worlds.simulate import Simulation, simulate
from oar.worlds.world import World

__all__ = [
    "ActorRecord",
    "AdviceRecord",
    "AdvisedIndividuals",
    "Blobs",
    "Caps",
    "Collective",
    "CollectiveView",
    "CompetingCollective",
    "Crowd",
    "Curators",
    "Deed",
    "DoNothing",
    "FeatureCollision",
    "FromBatches",
    "FromPopulation",
    "GradientMatching",
    "GroupRecord",
    "Individually",
    "Labellers",
    "OneShot",
    "Operator",
    "PerformativelyStable",
    "PlanAnew",
    "PlanOnce",
    "Replan",
    "Round",
    "Simulation",
    "State",
    "StrategicAware",
    "StrategicIndividuals",
    "View",
    "World",
    "crowd_of",
    "simulate",
]
