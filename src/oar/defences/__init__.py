"""Operators' defences: changes of data, model or calendar before they retrain."""

from oar.defences.base import Defence, Prepared, Together, as_defence
from oar.defences.calendar import Delayed, RandomRetraining
from oar.defences.clipping import ClippedInfluence
from oar.defences.distance import DistanceFilter
from oar.defences.penalty import StrongerPenalty
from oar.defences.robust import MedianOfMeans, TrimmedCentroids

__all__ = [
    "ClippedInfluence",
    "Defence",
    "Delayed",
    "DistanceFilter",
    "MedianOfMeans",
    "Prepared",
    "RandomRetraining",
    "StrongerPenalty",
    "Together",
    "TrimmedCentroids",
    "as_defence",
]
