"""German credit over the years: advice as NICE gives it, and what becomes of it under each label policy."""

import dataclasses
import io
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import oar
from oar.errors import OptionError
from oar.worlds.people.labels import KEEP, ORACLE, RELABEL
from oar_stories.credit.applicant import AS_A_MEMBER, ITSELF, OWN_SHORTEST, ByItself, asked, own_way
from oar_stories.credit.drawing import draw_credit_year
from oar_stories.credit.people import BAD, GOOD, asking, loans, nearest_granted
from oar_stories.credit.story import (
    CREDIT,
    NEW,
    NICE,
    SAME,
    SHORTEST,
    Case,
    CreditSettings,
    Scores,
    advised,
    cases,
)
from oar_stories.files import tables_of

ADVICE = {"next", "first", "all", "accuracy", "refused", "burden", "effort"}
APPLICANT = {"next", "first", "accuracy", "chance", "success", "burden", "effort"}
SMALL = CreditSettings(rounds=3, people=200, repeats=1)


@pytest.fixture(scope="module")
def weights():
    return np.asarray(oar.SoftmaxRegression(l2=1e-2).fit(loans().population))[0]


def test_the_table_is_in_cost():
    table, raw = loans(), oar.datasets.german_credit()
    assert table.features.shape == (1000, 52)
    assert table.classes == ("bad", "good")
    assert (table.codes == GOOD).sum() == 700
    assert (table.codes == BAD).sum() == 300
    place = table.names.index("duration")
    assert table.features[:, place].std() == pytest.approx(1.0)
    flags = [place for place, name in enumerate(table.names) if name.startswith("purpose=")]
    one = raw.frame.index[raw.frame["purpose"] == "new car"][0]
    other = raw.frame.index[raw.frame["purpose"] == "furniture"][0]
    assert np.linalg.norm(table.features[one, flags] - table.features[other, flags]) == pytest.approx(1.0)


def test_advice_copies_columns_of_somebody_who_was_granted_credit(weights):
    table = loans()
    refused = np.flatnonzero(table.features @ weights[:-1] + weights[-1] <= 0)
    moves = nearest_granted(table.features[refused], table.population, weights, table.columns)
    advised = moves.any(axis=1)
    assert advised.mean() > 0.9
    after = table.features[refused] + moves
    assert (after[advised] @ weights[:-1] + weights[-1] > 0).all()
    fixed = [
        place
        for place, name in enumerate(table.names)
        if name.split("=")[0] in ("age", "personal_status", "foreign_worker", "dependents", "credit_history")
    ]
    assert len(fixed) == 12
    assert not moves[:, fixed].any()
    # Every category that was switched is one category again: its flags are those of somebody.
    for places in table.columns:
        known = {row.tobytes() for row in np.round(table.features[:, places], 9) + 0.0}
        assert {row.tobytes() for row in np.round(after[:, places], 9) + 0.0} <= known


def test_advice_copies_as_few_columns_as_can_be():
    rng = np.random.default_rng(3)
    columns = tuple(np.array(places) for places in ((0, 1), (2,), (3,), (4, 5)))
    weights = np.append(rng.normal(size=6), -0.5)
    features = rng.normal(size=(40, 6))
    labels = np.where(features @ weights[:-1] + weights[-1] > 0, "good", "bad")
    people = oar.Population(features, labels)
    refused = features[labels == "bad"]
    moves = nearest_granted(refused, people, weights, columns)
    granted = features[labels == "good"]
    for row, move in zip(refused, moves, strict=True):
        toward = granted[np.linalg.norm(granted - row, axis=1).argmin()] - row
        enough = []
        for count in range(1, 5):
            for chosen in combinations(columns, count):
                tried = row.copy()
                for places in chosen:
                    tried[places] += toward[places]
                if tried @ weights[:-1] + weights[-1] > 1e-12:
                    enough.append(count)
        copied = sum(bool(move[places].any()) for places in columns)
        assert copied == min(enough)
        assert (row + move) @ weights[:-1] + weights[-1] > 0


def test_nobody_is_advised_where_nobody_was_granted_credit(weights):
    people = oar.Population.of_codes(loans().features[:20], np.zeros(20, dtype=int), ("bad", "good"))
    assert not nearest_granted(loans().features[:5], people, weights, loans().columns).any()


@pytest.fixture(scope="module")
def once():
    """How much advice one refit leaves valid, of the same people, at seeds that were not looked at before."""

    def share(advice, labels, adoption):
        return advised(SMALL, Case(SAME, advice, labels, adoption), 8801)[0][0]["next"]

    return {
        (advice, labels, adoption): share(advice, labels, adoption)
        for advice, labels in ((NICE, KEEP), (NICE, ORACLE), (NICE, RELABEL), (SHORTEST, KEEP))
        for adoption in (0.0, 0.5, 1.0)
    }


def test_advice_that_nobody_follows_stays_valid_where_nothing_else_changes(once):
    assert all(share == 1.0 for (_, _, adoption), share in once.items() if adoption == 0)


def test_the_label_policy_decides_what_becomes_of_advice(once):
    assert 1.0 > once[NICE, KEEP, 0.5] > once[NICE, KEEP, 1.0]
    assert once[NICE, KEEP, 1.0] < 0.7
    assert once[NICE, ORACLE, 1.0] > 0.9
    assert once[NICE, RELABEL, 1.0] > 0.95
    assert once[SHORTEST, KEEP, 1.0] < 0.15


def test_validity_is_what_a_refit_of_ones_own_says(weights):
    """One refit on the same people, done by hand."""
    table = loans()
    refused = np.flatnonzero(table.features @ weights[:-1] + weights[-1] <= 0)
    moves = nearest_granted(table.features[refused], table.population, weights, table.columns)
    moves[np.linalg.norm(moves, axis=1) > 6] = 0
    told = moves.any(axis=1)
    features = table.features.copy()
    features[refused] += moves
    after = np.asarray(
        oar.SoftmaxRegression(l2=1e-2).fit(oar.Population.of_codes(features, table.codes, table.classes))
    )
    by_hand = (features[refused[told]] @ after[0, :-1] + after[0, -1] > 0).mean()
    rows, scores = advised(SMALL, Case(SAME, NICE, KEEP, 1.0), 8802)
    assert rows[0]["next"] == pytest.approx(by_hand)
    assert scores.valid[0].all()
    assert scores.valid[1].mean() == pytest.approx(by_hand)


def test_a_collective_helps_the_applicant_who_asks(weights):
    table = loans()
    assert table.codes[asking()] == GOOD
    assert table.features[asking()] @ weights[:-1] + weights[-1] < 0
    alone, together = ([row["chance"] for row in asked(SMALL, helped, 8803)] for helped in ("nobody", "collective"))
    assert np.mean(together) > np.mean(alone) + 0.05


FIXED = ("age", "personal_status", "foreign_worker", "dependents", "credit_history")


def test_the_applicants_own_way_is_the_shortest_over_what_it_may_change(weights):
    table = loans()
    asks = table.features[asking()]
    way = own_way(weights, asks)
    assert (asks + way) @ weights[:-1] + weights[-1] > 0
    assert (asks + 0.999 * way) @ weights[:-1] + weights[-1] < 0
    fixed = np.array([name.split("=")[0] in FIXED for name in table.names])
    assert not way[fixed].any()
    # Hölder: no shorter move of the others closes the gap.
    missing = -(asks @ weights[:-1] + weights[-1])
    assert np.linalg.norm(way) == pytest.approx(missing / np.linalg.norm(weights[:-1][~fixed]), rel=1e-6)
    assert own_way(weights, asks + 1.001 * way) is None  # granted already
    assert (
        own_way(np.append(np.where(fixed, weights[:-1], 0.0), -9.0), asks) is None
    )  # nothing that it may change counts


@pytest.mark.parametrize("labels", [KEEP, ORACLE])
def test_what_the_applicant_gets_by_itself_is_what_the_models_of_the_years_say(labels):
    """The same world once more, with where it went as the query."""
    case = Case(NEW, NICE, labels, 1.0)
    rows = [row for row in advised(SMALL, case, 8804)[0] if row.get("helped") == ITSELF]
    asks = loans().features[asking()]
    world = SMALL.world(NEW, labels, [case.actor()])
    places = {}
    for each in oar.simulate(world, rounds=SMALL.rounds, seed=8804):
        way = own_way(each.deployed.parameters[0], asks)
        for kind in (OWN_SHORTEST, AS_A_MEMBER):
            (row,) = (one for one in rows if (one["year"], one["advice"]) == (each.number + 1, kind))
            length = None if way is None else np.linalg.norm(way) if kind == OWN_SHORTEST else SMALL.budget
            assert row["burden"] == pytest.approx(length)
            went = way is not None and kind not in places
            if went:
                places[kind] = asks + way * (length / np.linalg.norm(way))
            assert row["effort"] == pytest.approx(length if went else 0.0)
            at = each.state.parameters[0]
            logit = places.get(kind, asks) @ at[:-1] + at[-1]
            assert row["chance"] == pytest.approx(1 / (1 + np.exp(-logit)))
            assert row["success"] == (logit > 0)
    assert len(places) == 2
    assert len(rows) == 2 * SMALL.rounds
    assert all(sum(row["effort"] for row in rows if row["advice"] == kind) > 0 for kind in places)  # it goes once


def test_an_applicant_whom_the_model_grants_credit_need_not_go(weights):
    from types import SimpleNamespace

    state = SimpleNamespace(parameters=weights[None])
    granted = loans().features[np.argmax(loans().features @ weights[:-1])]
    rows = list(
        ByItself(granted, 0.5).year(oar.SoftmaxRegression(l2=1e-2), SimpleNamespace(deployed=state, state=state))
    )
    assert [(row["burden"], row["next"], row["first"], row["effort"]) for row in rows] == [(None, None, None, 0.0)] * 2
    assert all(row["success"] == 1 for row in rows)


def test_every_case_is_told():
    assert len(set(cases())) == len(list(cases())) == 30
    stages = []
    told = CREDIT.run(SMALL, 5, lambda *stage: stages.append(stage))
    assert stages[-1] == ("drawing", 33, 33)
    assert len(told.rows) == 20 * 1 + 10 * 3 * (1 + 2) + 3 * 3  # advice, the applicant's own two ways, and its helpers
    efforts = told.facts["applicant"]["effort over all years, in cost"]
    ours = [row["effort"] for row in told.rows if row["helped"] == "collective"]
    assert efforts["collective"] == pytest.approx(sum(ours))
    assert sum(ours) <= 3 * 0.5 * 20 * (1 + 1e-9)  # a tenth of 200 people, 0.5 each, in three years
    assert efforts[AS_A_MEMBER] == pytest.approx(0.5)
    assert any(f"{sum(ours) / 0.5:,.0f} times as far" in sentence for sentence in told.summary)
    fact = next(
        fact
        for fact in told.facts["cases"]
        if (fact["come"], fact["labels"], fact.get("adoption"), fact.get("helped")) == (NEW, ORACLE, 1.0, None)
    )
    nexts = [
        row["next"]
        for row in told.rows
        if (row["come"], row["labels"], row["adoption"], row["helped"]) == (NEW, ORACLE, 1.0, None)
    ]
    assert fact["all years"]["next"]["mean"] == pytest.approx(np.mean(nexts))
    assert len(told.lines) == 15
    told.still().draw_without_rendering()
    assert "First of" not in told.film(0).get_suptitle()  # there is no other
    tables = {name: pd.read_csv(io.StringIO(text)) for name, text in tables_of(CREDIT, told.rows, True).items()}
    assert [len(table) for table in tables.values()] == [20 + 10 * 3, 10 * 3 * 2 + 3 * 3]
    advice, applicant = tables["advice.csv"], tables["applicant.csv"]
    assert set(advice) == {*("come", "advice", "labels", "adoption", "repeat", "year", "quick"), *ADVICE}
    assert set(applicant) == {
        *("come", "advice", "labels", "adoption", "helped", "repeat", "year", "quick"),
        *APPLICANT,
    }


def test_a_film_of_one_repetition_says_so():
    score = Scores(np.full((2, 3), 0.6), np.ones((2, 3), dtype=bool))
    frame = draw_credit_year(dataclasses.replace(SMALL, repeats=4), dict.fromkeys((KEEP, ORACLE, RELABEL), score), 1)
    assert frame.get_suptitle().startswith("Year 1's advice (NICE) after 1 refit;")
    assert frame.get_suptitle().endswith("credit is granted. First of 4 repetitions.")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"rounds": 0}, "--rounds"),
        ({"people": 10}, "--people"),
        ({"share": -0.1}, "--share"),
        ({"budget": -1}, "--budg"),
    ],
)
def test_bad_settings_are_refused(settings, complaint):
    with pytest.raises(OptionError, match=complaint):
        CreditSettings(**settings)
