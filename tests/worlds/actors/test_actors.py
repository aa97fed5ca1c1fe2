"""Every actor in a real world: deeds that the world lets pass, the same bits again, and what the world records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pages import blocks, page

import oar
from oar.defences import Delayed, TrimmedCentroids
from oar.models import SoftmaxRegression
from oar.online import Window
from oar.worlds import (
    AdvisedIndividuals,
    Blobs,
    Collective,
    CompetingCollective,
    Curators,
    Deed,
    FeatureCollision,
    GradientMatching,
    Labellers,
    Operator,
    PlanOnce,
    Replan,
    StrategicIndividuals,
    World,
    simulate,
)

QUERY = (0.9, 0.2)
MODELS = {"centroids": oar.NearestCentroid(), "softmax": SoftmaxRegression(l2=0.05)}
RIVALS = Collective("rivals", oar.Query(QUERY, 1), oar.Perturb(0.5), share=0.4)
FOR_THE_QUERY = [
    Labellers(QUERY, 1, most=3, share=0.5, refits=8),
    Curators(QUERY, 1, add=2, drop=2, share=0.5, refits=12),
    FeatureCollision(QUERY, 1, count=8, budget=1.5),
    GradientMatching(QUERY, 1, share=0.5, budget=0.5, steps=15),
    CompetingCollective(RIVALS),
]


def world(model: Any, *others: Any, labels: str = "keep", size: int = 30, **settings: Any) -> World:
    arrivals = Blobs([[1.5, 0.0], [-1.5, 0.0]], size)
    operator = model if isinstance(model, Operator) else Operator(model)
    return World(arrivals, operator, others=others, labels=labels, query=oar.Query(QUERY, 1), **settings)


def losses(one: World, rounds: int = 2) -> list[float]:
    return simulate(one, rounds=rounds, seed=5).table(progress=False)["loss"].tolist()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("actor", FOR_THE_QUERY, ids=lambda actor: actor.name)
def test_the_query_is_served_round_after_round(actor: Any, model: Any) -> None:
    alone, served = losses(world(model)), losses(world(model, actor))
    assert all(with_actor < without for with_actor, without in zip(served, alone, strict=True))
    assert losses(world(model, actor)) == served


@pytest.mark.parametrize("actor", FOR_THE_QUERY[:-1], ids=lambda actor: actor.name)
def test_operators_who_forget_wait_or_trim_are_served_too(actor: Any) -> None:
    for settings in ({"rule": Window(2)}, {"defence": Delayed(2)}, {"defence": TrimmedCentroids(0.1)}):
        operator = Operator(MODELS["centroids"], **settings)
        assert losses(world(operator, actor))[-1] < losses(world(operator))[-1]


def test_all_of_them_at_once() -> None:
    shares = [
        StrategicIndividuals(share=0.2, goal=1, budget=1.0),
        AdvisedIndividuals(share=0.2, goal=1, budget=1.0),
        FeatureCollision(QUERY, 1, count=2, budget=1.5),
        GradientMatching(QUERY, 1, share=0.2, budget=0.5, steps=5),
        Curators(QUERY, 0, add=1, pool=([QUERY], [0]), refits=4),
        CompetingCollective(RIVALS),
        Labellers(QUERY, 0, most=1, share=0.5, refits=4),
    ]
    simulation = simulate(world(MODELS["centroids"], *shares), rounds=2, seed=1)
    table = simulation.by_actor(progress=False)
    assert set(table["actor"]) == {actor.name for actor in shares}
    assert np.isfinite(simulation.table(progress=False)["loss"]).all()


def test_advice_holds_where_labels_follow_and_fails_where_they_stay() -> None:
    # Everybody follows. Where labels stay, those who moved pull the other class's centre after them.
    validity = {}
    for labels in ("keep", "relabel"):
        actor = AdvisedIndividuals(share=1.0, goal=1, budget=10.0)
        table = simulate(world(MODELS["softmax"], actor, labels=labels, size=100), rounds=1, seed=2).by_advice(
            progress=False
        )
        validity[labels] = float(table["valid"].iloc[0])
    assert validity["keep"] < 0.2
    assert validity["relabel"] > 0.8


def test_strategic_people_of_the_next_round_answer_to_the_next_model() -> None:
    actor = StrategicIndividuals(share=1.0, goal=1, budget=1.0)
    for one in simulate(world(MODELS["centroids"], actor), rounds=2, seed=3):
        assert one.actors["strategic individuals"].moved > 0


def test_a_competitor_must_be_a_collective_with_a_policy() -> None:
    with pytest.raises(oar.errors.DataError, match="collective: must be an oar.worlds.Collective"):
        CompetingCollective("them")
    with pytest.raises(oar.errors.DataError, match="policy: must be a function"):
        CompetingCollective(RIVALS, policy=3)


def test_a_competitor_sees_the_world_that_it_is_in() -> None:
    seen = []

    def look(view: Any) -> Deed:
        seen.append((view.labels, view.rounds, view.arrivals, view.collective))
        return Deed()

    made = world(MODELS["centroids"], CompetingCollective(RIVALS, look), labels="oracle")
    simulate(made, rounds=2).table()
    assert seen == [("oracle", 2, made.arrivals, RIVALS)] * 2


def test_a_competitor_plans_as_any_collective_does() -> None:
    """Alone among `others` it gets its query what it gets as the world's collective, and begins afresh every time."""
    for policy in (PlanOnce(), Replan(horizon=2)):
        us = World(Blobs([[1.5, 0.0], [-1.5, 0.0]], 30), Operator(MODELS["centroids"]), RIVALS, labels="keep")
        expected = simulate(us, policy, rounds=2, seed=5).table()["loss"].tolist()
        among_others = world(MODELS["centroids"], CompetingCollective(RIVALS, policy))
        assert losses(among_others) == expected == losses(among_others)


def test_a_competitor_pulls_its_levers() -> None:
    striking = Collective("striking", oar.Query(QUERY, 1), [oar.Withhold(most=2), oar.Relabel(most=1)], share=0.5)
    alone, served = (
        losses(world(MODELS["centroids"])),
        losses(world(MODELS["centroids"], CompetingCollective(striking))),
    )
    assert served[0] < alone[0]


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = page("actors")
    (code,) = blocks(text)
    exec(code, {})
    assert "labellers" in capsys.readouterr().out
