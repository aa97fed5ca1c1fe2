"""Checks for authors: conformance checks of user-defined models, rules, actions and solvers."""

from oar.testing.action import check_action
from oar.testing.model import check_model
from oar.testing.report import Check, ConformanceError, Report
from oar.testing.rule import check_rule
from oar.testing.solver import check_solver

__all__ = ["Check", "ConformanceError", "Report", "check_action", "check_model", "check_rule", "check_solver"]
