"""Conformance checks that authors can run on a model of their own."""

from oar.testing.model import check_model
from oar.testing.report import Check, ConformanceError, Report

__all__ = ["Check", "ConformanceError", "Report", "check_model"]
