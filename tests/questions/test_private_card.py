"""Private cards: as much noise as the proof asks for, sums as insensitive as it says, and an audit of what it costs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import oar
from oar.questions.private_card import SENSITIVITY, gaussian_noise, statistics


def clouds(size=2_000, seed=0):
    draw = np.random.default_rng(seed)
    features = np.vstack([draw.normal(0, 1, (size // 2, 3)), draw.normal(1.5, 1, (size // 2, 3))])
    return features, np.repeat(["no", "yes"], size // 2)


def solved(features, labels, model=None, **action):
    action = {"budget": 0.4} | action
    people, query = oar.Population(features, labels), oar.Query([0.6, 0.6, 0.7], "yes")
    return oar.collective(oar.Problem(people, model or oar.NearestCentroid(), query, oar.Perturb(**action)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3)])
def test_noise_is_the_least_that_keeps_delta(epsilon, delta):
    """δ(ε) of two normals Δ apart is found by integrating max(0, p − e^ε q), which shares nothing with the formula."""
    sigma = gaussian_noise(epsilon, delta)

    def told(scale):
        places = np.linspace(-40, 40, 400_001) * scale + SENSITIVITY
        more = norm.pdf(places, SENSITIVITY, scale) - np.exp(epsilon) * norm.pdf(places, 0, scale)
        return np.trapezoid(np.maximum(more, 0.0), places)

    assert told(sigma) == pytest.approx(delta, rel=1e-3)
    assert told(0.99 * sigma) > delta


def test_nobody_moves_the_sums_by_more_than_the_proof_says():
    draw = np.random.default_rng(0)
    low, high, farthest = np.full(3, -1.0), np.full(3, 2.0), 0.0
    for _ in range(300):
        features, codes = draw.choice([-9.0, -1.0, 0.5, 2.0, 9.0], (6, 3)), draw.integers(0, 3, 6)
        others, classes = features.copy(), codes.copy()
        others[0], classes[0] = draw.choice([-9.0, -1.0, 2.0], 3), draw.integers(0, 3)
        one, two = (statistics(x, np.eye(3)[c], low, high) for x, c in ((features, codes), (others, classes)))
        parts = [one[0] - two[0], one[1] - two[1], (one[2] - two[2])[np.triu_indices(3)]]
        farthest = max(farthest, float(np.sqrt(sum((part**2).sum() for part in parts))))
    assert 0.6 * SENSITIVITY < farthest <= SENSITIVITY


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(0.01)])
def test_noise_costs_what_an_audit_says(model, tmp_path):
    result = solved(*clouds(), model)
    found = oar.questions.private_card(result, epsilon=2.0, bounds=(-4, 5.5), seed=1)
    assert not found.audit.violations
    assert found.audit.loss == oar.audit(result.plan.followed(found.card)).loss
    assert -0.05 < found.lost < 0.3
    assert found.audit.loss < found.audit.loss_before
    weak = oar.questions.private_card(result, epsilon=0.05, bounds=(-4, 5.5), seed=1)
    assert weak.noise > 10 * found.noise
    assert weak.lost > found.lost
    found.card.save(tmp_path / "card.json")
    assert f"{found.lost:.1%} of the gain lost to noise" in str(found)


def test_only_sums_are_read_of_people():
    """Other people with the same sums get the same card: here in another order, and farther beyond the bounds."""
    features, labels = clouds(200)
    features = np.round(features)
    features[3, 0] = 7.0
    swapped = features[np.r_[np.random.default_rng(0).permutation(100), 100:200]].copy()
    swapped[swapped == 7.0] = 99.0
    cards = [
        oar.questions.private_card(solved(x, labels), 1.0, bounds=(-4, 5.5), seed=3).card for x in (features, swapped)
    ]
    np.testing.assert_allclose(cards[0].directions, cards[1].directions, atol=1e-9)


def incomes(size=800):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"income": draw.normal(3_000, 800, size).round(), "job": draw.choice(["cook", "nurse"], size)})
    frame["ok"] = np.where(frame.income + draw.normal(0, 500, size) > 3_000, "yes", "no")
    return frame


def planned(frame, limits):
    people = oar.Population.from_frame(frame, target="ok")
    query = oar.Query({"income": 2_700.0, "job": "cook"}, "yes")
    action = oar.Perturb(0.4, limits=limits)
    return oar.collective(oar.Problem(people, oar.models.Scaled(oar.SoftmaxRegression(0.01)), query, action))


def test_tables_need_bounds_and_units():
    def limited(**limit):
        return planned(incomes(), {"income": oar.Limit(**limit)})

    with pytest.raises(oar.errors.OptionError, match="least and a largest value of 'income'"):
        oar.questions.private_card(limited(), 1.0)
    with pytest.raises(oar.errors.OptionError, match="'income' must have a unit"):
        oar.questions.private_card(limited(lower=0, upper=9_000), 1.0)
    result = limited(lower=0, upper=9_000, unit=800.0)
    found = oar.questions.private_card(result, 2.0, seed=0)
    assert not found.audit.violations
    assert found.audit.loss < found.audit.loss_before
    for given, words in (
        (5, "mapping of a table's columns"),
        ((1, 0), "mapping of a table's columns"),
        ({"income": 5}, "two numbers \\(lower, upper\\) of 'income'"),
        ({"income": (0,)}, "two numbers \\(lower, upper\\) of 'income'"),
        ({"income": "ab"}, "two numbers \\(lower, upper\\) of 'income'"),
        ({"income": (9, 1)}, "the lower below the upper, got 9 and 1"),
        ({"incom": (0, 1)}, "Did you mean 'income'"),
        ({"job": (0, 1)}, "must be one of 'income', got 'job'"),
    ):
        with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=f"^bounds: .*{words}"):
            oar.questions.private_card(result, 2.0, bounds=given)


def test_bounds_that_are_the_datas_are_refused():
    frame = incomes()
    people = oar.Population.from_frame(frame, target="ok")
    seen = oar.Limits.observed(people)
    limits = replace(seen, columns={"income": replace(seen.columns["income"], unit=800.0)})
    for given in (None, {"income": (0, 9_000)}):
        with pytest.raises(
            oar.errors.OptionError, match=r"read off the data .* as of 'income'; plan with oar.Limit\(lower=…"
        ):
            oar.questions.private_card(planned(frame, limits), 2.0, bounds=given)
    richest = float(frame.income.max())
    own = planned(frame, {"income": oar.Limit(lower=0, upper=richest, unit=800.0)})
    for given in (None, {"income": (0, 9_000)}):
        with pytest.raises(oar.errors.OptionError, match=f"^limits: .*got {richest:g} for 'income', which is the own"):
            oar.questions.private_card(own, 2.0, bounds=given)
    declared = planned(frame, {"income": oar.Limit(lower=0, upper=9_000, unit=800.0)})
    with pytest.raises(oar.errors.OptionError, match="^bounds: must be known without the data"):
        oar.questions.private_card(declared, 2.0, bounds={"income": (0, richest)})


def test_what_is_not_covered_is_refused():
    features, labels = clouds(60)
    for action in ({"participants": np.arange(60) < 30}, {"budget": np.linspace(0.1, 0.4, 60)}):
        with pytest.raises(oar.errors.DataError, match="participants or budgets are single people's"):
            oar.questions.private_card(solved(features, labels, **action), 1.0, bounds=(-4, 5))
    for options, words in (({"epsilon": 0.0}, "epsilon"), ({"epsilon": 1.0, "delta": 1.0}, "delta")):
        with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=words):
            oar.questions.private_card(solved(features, labels), **options, bounds=(-4, 5))
    result = solved(features, labels)
    for epsilon in ("1", None, [1], np.nan, np.inf, -1, True):
        with pytest.raises(oar.errors.DataError, match="epsilon: must be a finite number above 0, got"):
            oar.questions.private_card(result, epsilon, bounds=(-4, 5))
    for given in (None, 5, (1,), "ab", (0, "x"), ([0, 1], 2), {"a": (0, 1)}, (0, 1, 2)):
        with pytest.raises(oar.errors.DataError, match=r"bounds: must be \(lower, upper\), known without the data"):
            oar.questions.private_card(result, 1.0, bounds=given)
    with pytest.raises(oar.errors.DataError, match="lower below the upper"):
        oar.questions.private_card(result, 1.0, bounds=(5, -4))
