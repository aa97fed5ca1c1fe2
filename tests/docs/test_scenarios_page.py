"""Every column of the scenarios' tables is explained on their page."""

import pytest
from support.pages import page

from oar_stories.batch_norm import story as scenario_batchnorm
from oar_stories.credit import story as scenario_credit
from oar_stories.school import story as scenario_school

PAGE = page("scenarios").split("## Columns")[1]


@pytest.mark.parametrize("scenario", [scenario_school, scenario_credit, scenario_batchnorm])
def test_measures_are_explained(scenario):
    assert [name for name in scenario.MEASURES if f"`{name}`" not in PAGE] == []
