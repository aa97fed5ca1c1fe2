"""Every column of the scenarios' tables is explained on their page."""

from pathlib import Path

import pytest

from oar_stories.batch_norm import story as scenario_batchnorm
from oar_stories.credit import story as scenario_credit
from oar_stories.school import story as scenario_school

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8").split("## Columns")[1]


@pytest.mark.parametrize("scenario", [scenario_school, scenario_credit, scenario_batchnorm])
def test_measures_are_explained(scenario):
    assert [name for name in scenario.MEASURES if f"`{name}`" not in PAGE] == []
