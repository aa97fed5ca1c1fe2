"""The scenarios that the command knows."""

from __future__ import annotations

from oar_stories.batch_norm.story import BATCHNORM
from oar_stories.credit.story import CREDIT
from oar_stories.school.story import SCHOOL
from oar_stories.story import Scenario

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (SCHOOL, CREDIT, BATCHNORM)}
