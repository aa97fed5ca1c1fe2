"""Studies of people who are not in memory: the same cells, and a fingerprint of their own."""

import numpy as np
import pandas as pd
import pytest
from support.study_problems import QUERIES, QUICK, people, problem

import oar
from oar.plans.fingerprints.behaviour import people_digest


@pytest.fixture
def in_parts(tmp_path):
    everyone = people()
    frame = pd.DataFrame(everyone.features, columns=["x", "y"]).assign(kind=everyone.labels)
    for number, start in enumerate((0, 7, 40)):
        stop = (7, 40, 60)[number]
        (tmp_path / "people").mkdir(exist_ok=True)
        frame.iloc[start:stop].to_parquet(tmp_path / "people" / f"{number}.parquet")
    return frame, oar.Population.from_parquet(tmp_path / "people", target="kind")


def test_the_fingerprint_is_that_of_the_same_people_in_the_same_parts(in_parts, tmp_path):
    frame, parts = in_parts
    assert people_digest(parts) == people_digest(oar.Population.from_parquet(tmp_path / "people", target="kind"))
    frame.to_parquet(tmp_path / "one.parquet")
    one = oar.Population.from_parquet(tmp_path / "one.parquet", target="kind")
    whole = oar.Population(frame[["x", "y"]], frame["kind"])
    assert len({people_digest(everyone) for everyone in (parts, one, whole)}) == 3


@pytest.mark.parametrize(("model", "solver"), [(oar.NearestCentroid(), "auto"), (oar.SoftmaxRegression(), QUICK)])
def test_cells_are_those_of_people_in_memory(in_parts, tmp_path, model, solver):
    axes = {"budgets": [0.2, 0.9], "participation": [0.5, 1.0], "queries": QUERIES, "seeds": [0, 1]}
    tables = [
        oar.study(problem(model, people=these), **axes, solver=solver, store=tmp_path / f"{number}.db").table()
        for number, these in enumerate((in_parts[1], people()))
    ]
    assert (tables[0]["status"] == "done").all(), tables[0]["error"].dropna().tolist()
    assert tables[0]["success"].equals(tables[1]["success"])
    assert np.allclose(tables[0]["before"], tables[1]["before"], rtol=1e-9)
    assert np.allclose(tables[0]["loss"], tables[1]["loss"], rtol=1e-9 if solver == "auto" else 1e-2)


def test_values_count(tmp_path):
    frame = pd.DataFrame({"x": np.arange(30.0), "price": np.arange(30.0) ** 2 + 0.5})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(price=frame["price"] + (frame["x"] == 7)).to_parquet(tmp_path / "b.parquet")
    first, other = (oar.Population.from_parquet(tmp_path / name, target="price") for name in ("a.parquet", "b.parquet"))
    assert people_digest(first) != people_digest(other)
