"""PEOPLE WHO ARE NOT IN MEMORY: refits, signals and responses as sums over parts, each read where it is."""

from oar.streaming.passes import Spec
from oar.streaming.signal_path import SignalPath, Stride
from oar.streaming.training import StreamedTraining

__all__ = ["Spec", "Stride", "StreamedTraining", "SignalPath"]
