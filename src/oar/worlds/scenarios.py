"""The scenarios that the command knows."""

from __future__ import annotations

from oar.worlds.scenario import Scenario
from oar.worlds.scenario_batchnorm import BATCHNORM
from oar.worlds.scenario_credit import CREDIT
from oar.worlds.scenario_school import SCHOOL

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (SCHOOL, CREDIT, BATCHNORM)}
