"""CHECKS FOR AUTHORS: conformance checks to run on a model or an update rule of one's own."""

from oar.testing.model import check_model
from oar.testing.report import Check, ConformanceError, Report
from oar.testing.rule import check_rule

__all__ = ["Check", "ConformanceError", "Report", "check_model", "check_rule"]
