"""MODELS THAT OTHERS WROTE: scikit-learn's estimators as twins that can be differentiated, and black boxes."""

from oar.estimators.black_box.box import BlackBox

__all__ = ["BlackBox"]
