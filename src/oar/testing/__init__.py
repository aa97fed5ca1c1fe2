"""Conformance checks that authors can run on a model or an update rule of their own."""

from oar.testing.model import check_model
from oar.testing.report import Check, ConformanceError, Report
from oar.testing.rule import check_rule

__all__ = ["Check", "ConformanceError", "Report", "check_model", "check_rule"]
