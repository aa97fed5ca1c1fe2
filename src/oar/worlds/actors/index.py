"""An index of the actors in a world besides its collective."""

from oar.worlds.actors.competitor import CompetingCollective, PlanAnew
from oar.worlds.actors.curators import Curators
from oar.worlds.actors.feature_collision import FeatureCollision
from oar.worlds.actors.gradient_matching import GradientMatching
from oar.worlds.actors.individuals import AdvisedIndividuals, StrategicIndividuals
from oar.worlds.actors.labellers import Labellers

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
