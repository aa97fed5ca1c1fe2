"""Nearest centroid on a table where JAX is not installed."""

import sys

import numpy as np
import pandas
import pytest

import oar


@pytest.mark.parametrize("verb", [oar.individual, oar.collective, oar.joint])
def test_what_needs_jax_is_said_of_the_model_that_was_given(verb, monkeypatch):
    frame = pandas.DataFrame({"income": np.arange(12.0), "owns": [True, False] * 6})
    frame["approved"] = np.where(frame["income"] > 5, "yes", "no")
    people, query = oar.Population.from_frame(frame, "approved"), oar.Query({"income": 2.0, "owns": True}, "yes")
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(oar.OptionError) as refused:
        verb(oar.Problem(people, oar.NearestCentroid(), query, oar.Perturb(0.5)))
    message = str(refused.value)
    assert message.startswith("model: NearestCentroid")
    assert "pip install 'oar-recourse[jax]'" in message
    assert oar.cheapest(people, oar.NearestCentroid(), query).proved  # needs none
    assert oar.collective(oar.Problem(people, oar.NearestCentroid(), query, oar.Withhold(most=2))).audit.leavers
