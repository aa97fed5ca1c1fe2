"""CHECKS FOR AUTHORS: conformance checks to run on a model, a rule, an action or a solver of one's own."""

from oar.testing.action import check_action
from oar.testing.model import check_model
from oar.testing.report import Check, ConformanceError, Report
from oar.testing.rule import check_rule
from oar.testing.solver import check_solver

__all__ = ["Check", "ConformanceError", "Report", "check_action", "check_model", "check_rule", "check_solver"]
