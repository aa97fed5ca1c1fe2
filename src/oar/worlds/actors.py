"""Who else acts in a world, beside its collective: an index of the actors."""

from oar.worlds.actors_collision import FeatureCollision
from oar.worlds.actors_competitor import CompetingCollective, PlanAnew
from oar.worlds.actors_curators import Curators
from oar.worlds.actors_individuals import AdvisedIndividuals, StrategicIndividuals
from oar.worlds.actors_labellers import Labellers
from oar.worlds.actors_matching import GradientMatching

__all__ = [
    "AdvisedIndividuals",
    "CompetingCollective",
    "Curators",
    "FeatureCollision",
    "GradientMatching",
    "Labellers",
    "PlanAnew",
    "StrategicIndividuals",
]
