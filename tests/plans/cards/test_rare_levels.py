"""What only a few people have in common cannot be read off a card."""

import numpy as np
import pandas as pd
import pytest

import oar
from oar.plans.cards.rare_levels import rare_levels


def credit(size=120, seed=0, rare=1):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"income": draw.normal(3000, 800, size).round(), "town": draw.choice(["A", "B", "C"], size)})
    frame["owns"] = np.arange(size) == 5
    frame.loc[7 : 6 + rare, "town"] = "Uri"
    frame["ok"] = np.where(frame.income + draw.normal(0, 600, size) > 3000, "yes", "no")
    return frame


def card_of(frame, model, budget=0.2):
    people = oar.Population.from_frame(frame, target="ok")
    refused = frame[frame.ok == "no"].drop(columns="ok")
    asking = refused.loc[(refused.income - 2850).abs().idxmin()]
    action = oar.Perturb(budget, norm=1, limits={"owns": oar.Limit(immutable=True)})
    result = oar.collective(oar.Problem(people, model, oar.Query(asking, "yes"), action))
    return result, result.plan.card()


def test_levels_and_values_of_few_people_are_rare():
    people = oar.Population.from_frame(credit(), target="ok")
    town, owns = rare_levels(people)
    assert [people.encoding.names[place] for place in town.coordinates] == ["town=Uri"]
    assert [people.encoding.names[place] for place in owns.coordinates] == ["owns"]
    assert len(rare_levels(oar.Population.from_frame(credit(rare=5), target="ok"))) == 1


def test_a_label_cannot_be_computed_from_a_level_of_one(monkeypatch):
    """At a refit n l2 θ = Σ (y − p) over a level's people; of one person that is its label, unless it is pooled."""
    frame = credit()
    result, card = card_of(frame, oar.models.Scaled(oar.SoftmaxRegression(l2=0.01)))
    place = result.problem.people.encoding.names.index("town=Uri")
    monkeypatch.setattr("oar.plans.cards.publish_table.rare_levels", lambda people: [])
    telling = result.plan.card().broadcast.parameters[place]
    assert (telling > 0) == (frame.ok[7] == "yes")
    assert 0 < abs(telling) * len(frame) * 0.01 < 1  # |y − p| of that person, to the digit
    published = card.broadcast.parameters[place]
    assert abs(published - telling) > 0.01 * abs(telling)
    towns = card.broadcast.parameters[place - 3 : place]
    assert towns.min() <= published <= towns.max()
    assert card.broadcast.parameters[result.problem.people.encoding.names.index("owns")] == 0.0


@pytest.mark.parametrize(
    "model",
    [oar.NearestCentroid(), oar.models.Scaled(oar.models.GaussianNaiveBayes()), oar.models.Scaled(oar.models.Ridge())],
)
def test_cards_of_other_models_pool_too(model):
    frame = credit()
    if isinstance(model, oar.models.Scaled) and isinstance(model.model, oar.models.Ridge):
        frame["ok"] = (frame.ok == "yes") + 0.1 * np.arange(len(frame)) / len(frame)
        people = oar.Population.from_frame(frame, target="ok")
        query = oar.Query(frame.drop(columns="ok").iloc[0], goal=oar.Between(low=2.0))
        result = oar.collective(oar.Problem(people, model, query, oar.Perturb(0.2, norm=1)))
        card = result.plan.card()
    else:
        result, card = card_of(frame, model, budget=0.4)
    names = result.problem.people.encoding.names
    signal = card.broadcast.signal
    width = len(names) + (signal.size % len(names) != 0 and signal.size % (len(names) + 1) == 0)
    rows = signal[signal.size % width :].reshape(-1, width)
    towns = rows[:, [names.index(f"town={name}") for name in "ABC"]]
    uri = rows[:, names.index("town=Uri")]
    assert ((towns.min(axis=1) - 1e-12 <= uri) & (uri <= towns.max(axis=1) + 1e-12)).all()
    assert oar.audit(result.plan.followed(card)).loss < result.loss_before
