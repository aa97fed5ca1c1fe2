"""Estimators of other libraries: scikit-learn's estimators as differentiable twins, and black boxes."""

from oar.estimators.black_box import BlackBox

__all__ = ["BlackBox"]
