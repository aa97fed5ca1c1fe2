"""Simulated worlds: an arriving population, an operator who keeps retraining, a collective, and other actors."""

from oar.worlds.actors.choosing import Curators, Labellers
from oar.worlds.actors.competitor import CompetingCollective, PlanAnew
from oar.worlds.actors.feature_collision import FeatureCollision
from oar.worlds.actors.gradient_matching import GradientMatching
from oar.worlds.actors.individuals import AdvisedIndividuals, StrategicIndividuals
from oar.worlds.collective import Collective, CollectiveView
from oar.worlds.operators.plain import Operator
from oar.worlds.operators.stable import PerformativelyStable
from oar.worlds.operators.strategic import StrategicAware
from oar.worlds.people.arrivals import Blobs, FromBatches, FromPopulation
from oar.worlds.people.crowds import crowd_of
from oar.worlds.policies.immediate import DoNothing, Individually, OneShot
from oar.worlds.policies.planned import PlanOnce, Replan
from oar.worlds.protocol import Caps, Crowd, Deed, State, View
from oar.worlds.records.record import ActorRecord, AdviceRecord, GroupRecord, Round
from oar.worlds.simulate import Simulation, simulate
from oar.worlds.world import World

__all__ = ["Simulation", "World", "simulate"]
__all__ += ["Caps", "Crowd", "Deed", "State", "View", "crowd_of"]
__all__ += ["Blobs", "FromBatches", "FromPopulation"]
__all__ += ["Operator", "PerformativelyStable", "StrategicAware"]
__all__ += ["Collective", "CollectiveView", "DoNothing", "Individually", "OneShot", "PlanAnew", "PlanOnce", "Replan"]
__all__ += ["AdvisedIndividuals", "StrategicIndividuals", "CompetingCollective", "Curators", "Labellers"]
__all__ += ["FeatureCollision", "GradientMatching"]
__all__ += ["ActorRecord", "AdviceRecord", "GroupRecord", "Round"]
