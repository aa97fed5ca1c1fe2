"""People who are not in memory: refits, signals and responses as sums over parts, each read where it is."""

from oar.streaming.passes import SignalPath, Spec, Stride
from oar.streaming.training import StreamedTraining, training_in_parts

__all__ = ["Spec", "Stride", "StreamedTraining", "SignalPath", "training_in_parts"]
