"""Feature collision and gradient matching: what is optimised, against closed forms and finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.actor_views import CENTROID, CLASSES, NETWORK, PROTOTYPES, SOFTMAX, loss_after, two_blobs, view_of

import oar
from oar.actions.sets.norms import Norm
from oar.models import Custom, GaussianNaiveBayes, PrototypeNetwork
from oar.worlds import FeatureCollision, GradientMatching
from oar.worlds.actors.feature_collision import collided, representation
from oar.worlds.actors.gradient_matching import matching
from oar.worlds.protocol import Deed

QUERY = np.array([0.8, 0.4])  # on the side of "no"
NORMS = (1, 2, np.inf)


def named(model: Any) -> str:
    return model.name


def identity(rows: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return ((rows - query) ** 2).sum(axis=1), 2 * (rows - query)


def test_forward_backward_ends_in_the_closed_form() -> None:
    bases, _ = two_blobs(3, 6)
    found = collided(identity, QUERY, bases, 0.3, lambda _, points: points, 300)
    np.testing.assert_allclose(found, (QUERY + 0.3 * bases) / 1.3, atol=1e-8)


@pytest.mark.parametrize("norm", NORMS)
def test_forward_backward_within_budgets_ends_where_the_closed_form_does(norm: float) -> None:
    actor = FeatureCollision(QUERY, "yes", count=4, budget=0.7, norm=norm, weight=0.3)
    view = view_of(CENTROID, actor)
    bases = view.crowd.features[view.mine]
    moves = actor.act(view).moves
    found = collided(identity, QUERY, bases, 0.3, actor._near, 300)
    np.testing.assert_allclose(found, bases + moves, atol=1e-7)
    assert (Norm.of(norm).length(moves) <= 0.7 * (1 + 1e-12)).all()


def test_a_network_sees_collided_people_nearer_to_the_query() -> None:
    actor = FeatureCollision(QUERY, "yes", count=4, budget=1.5, weight=0.05)
    view = view_of(NETWORK, actor)
    bases, parameters = view.crowd.features[view.mine], view.deployed.parameters
    points = bases + actor.act(view).moves
    represent = representation(NETWORK, parameters)
    # The hidden layer, by hand.
    layer = parameters[0]
    hidden = lambda rows: np.tanh(rows @ layer["weights"].T + layer["biases"])  # noqa: E731
    apart, slopes = represent(points, QUERY)
    np.testing.assert_allclose(apart, ((hidden(points) - hidden(QUERY)) ** 2).sum(axis=1), rtol=1e-9)
    steps = 1e-6 * np.eye(2)
    differences = [(represent(points + step, QUERY)[0] - represent(points - step, QUERY)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(slopes, np.transpose(differences), rtol=1e-5, atol=1e-8)

    def objective(rows: np.ndarray) -> np.ndarray:
        return ((hidden(rows) - hidden(QUERY)) ** 2).sum(axis=1) + 0.05 * ((rows - bases) ** 2).sum(axis=1)

    assert (objective(points) < objective(bases) - 1e-3).all()
    # No point of a fine grid around where it ended is better by more than rounding: it is a local minimum.
    angles = np.linspace(0, 2 * np.pi, 24)
    for angle in angles:
        near = points + 0.02 * np.array([np.cos(angle), np.sin(angle)])
        inside = np.linalg.norm(near - bases, axis=1) <= 1.5
        assert (objective(near) >= objective(points) - 1e-6)[inside].all()


@pytest.mark.parametrize("model", [CENTROID, SOFTMAX, NETWORK], ids=named)
def test_collision_lowers_the_loss_after_a_refit(model: Any) -> None:
    actor = FeatureCollision(QUERY, "yes", count=8, budget=2.0)
    view = view_of(model, actor)
    assert (view.crowd.codes[view.mine] == 1).all()
    deed = actor.act(view)
    assert deed.codes is None
    assert loss_after(view, deed, QUERY, 1) < loss_after(view, Deed(), QUERY, 1) - 1e-2


def test_what_represents_people() -> None:
    means = PrototypeNetwork().fit(oar.Population.of_codes(*two_blobs(), CLASSES))
    assert representation(PrototypeNetwork(), means) is None
    assert representation(GaussianNaiveBayes(), {}) is None
    with pytest.raises(oar.errors.OptionError, match="representation is known"):
        representation(Custom(loss=lambda *_: 0.0, init=lambda *_: 0.0), {})


@pytest.mark.parametrize("model", [CENTROID, SOFTMAX, PROTOTYPES], ids=named)
def test_the_gradient_of_the_cosine(model: Any) -> None:
    actor = GradientMatching(QUERY, "yes", share=0.25, budget=0.5)
    view = view_of(model, actor)
    match = matching(view, QUERY, "yes")
    moves = 0.1 * np.random.default_rng(0).normal(size=(view.mine.size, 2))
    cosine, slopes = match(moves)
    assert -1 <= cosine <= 1
    for person, feature in ((0, 0), (1, 1), (3, 0)):
        step = np.zeros_like(moves)
        step[person, feature] = 1e-5
        difference = (match(moves + step)[0] - match(moves - step)[0]) / 2e-5
        assert slopes[person, feature] == pytest.approx(difference, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("model", [CENTROID, SOFTMAX, NETWORK], ids=named)
def test_matching_raises_the_cosine_and_lowers_the_loss(model: Any) -> None:
    actor = GradientMatching(QUERY, "yes", share=0.5, budget=0.5, restarts=1, steps=30)
    view = view_of(model, actor)
    deed = actor.act(view)
    assert deed.note["cosine"] > deed.note["cosine_before"] + 0.05
    assert matching(view, QUERY, "yes")(deed.moves)[0] == pytest.approx(deed.note["cosine"])
    assert loss_after(view, deed, QUERY, 1) < loss_after(view, Deed(), QUERY, 1) - 1e-3


def test_one_member_matches_as_well_as_any_point_of_its_ball() -> None:
    actor = GradientMatching(QUERY, "yes", share=1.0, budget=0.8, norm=2, restarts=4, steps=80)
    view = replace(view_of(SOFTMAX, actor), mine=np.array([5]))
    match = matching(view, QUERY, "yes")
    grid = [
        radius * np.array([[np.cos(angle), np.sin(angle)]])
        for radius in np.linspace(0, 0.8, 9)
        for angle in np.linspace(0, 2 * np.pi, 73)
    ]
    assert actor.act(view).note["cosine"] >= max(match(move)[0] for move in grid) - 1e-3


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    model=st.sampled_from([CENTROID, SOFTMAX]),
    norm=st.sampled_from(NORMS),
    budget=st.floats(0, 3),
)
def test_budgets_hold_and_the_same_seed_gives_the_same_bits(seed: int, model: Any, norm: float, budget: float) -> None:
    query = np.random.default_rng(seed).normal(size=2)
    for actor in (
        FeatureCollision(query, "no", count=3, budget=budget, norm=norm),
        GradientMatching(query, "no", share=0.3, budget=budget, norm=norm, steps=5),
    ):
        deed, again = (actor.act(view_of(model, actor, seed=seed)) for _ in range(2))
        if deed.moves is not None:
            assert (Norm.of(norm).length(deed.moves) <= budget * (1 + 1e-9)).all()
            assert deed.moves.tobytes() == again.moves.tobytes()


def test_nobody_of_the_class() -> None:
    actor = FeatureCollision(QUERY, "yes", count=0, budget=1.0)
    assert actor.act(view_of(CENTROID, actor)).moves is None
    with pytest.raises(oar.errors.DataError, match="base_class: must be one of the classes"):
        view_of(CENTROID, FeatureCollision(QUERY, "else", count=1, budget=1.0))


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (FeatureCollision, {"count": -1}, "count: must be a whole number"),
        (FeatureCollision, {"weight": -1.0}, "weight: must be a finite number ≥ 0"),
        (FeatureCollision, {"steps": 0}, "steps: must be a whole number ≥ 1"),
        (GradientMatching, {"restarts": 1.5}, "restarts: must be a whole number"),
        (GradientMatching, {"share": 2}, "share: must be a number between 0 and 1"),
        (GradientMatching, {"budget": np.nan}, "budget: must be finite"),
    ],
)
def test_wrong_settings_raise_kindly(kind: type, wrong: dict, says: str) -> None:
    known = {"base_class": "yes", "count": 1} if kind is FeatureCollision else {"goal": "yes", "share": 0.5}
    with pytest.raises(oar.errors.OARError, match=says):
        kind(**({"query": QUERY, "budget": 1.0} | known | wrong))
