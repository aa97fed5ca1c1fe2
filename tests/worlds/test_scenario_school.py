"""The school district: what causes what in it, what students do, and what comes of it at seeds not seen before."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from oar.errors import OptionError
from oar.worlds.scenario_school import ARMS, SCHOOL, SchoolSettings, seen
from oar.worlds.scenario_school_actor import FIRST, high_second
from oar.worlds.scenario_school_people import ACHIEVEMENT, ACTIVITIES, H1, N1, N2, SchoolDistrict
from oar.worlds.simulate import simulate

MANY = SchoolDistrict(per_round=20_000)
SMALL = SchoolSettings(rounds=8, people=300, repeats=1, since=2)


@pytest.fixture(scope="module")
def crowd():
    return MANY.draw(0, np.random.default_rng(71))


def slopes(crowd, first):
    """Weights of achievement and activities in a logistic regression of something on both, per standard deviation."""
    features = (crowd.features - crowd.features.mean(axis=0)) / crowd.features.std(axis=0)
    return LogisticRegression(C=1e6).fit(features, first).coef_[0]


def test_activities_are_a_sign_of_the_neighbourhood_and_achievement_is_not(crowd):
    here = crowd.groups == N1
    hours, grades = crowd.features[:, ACTIVITIES], crowd.features[:, ACHIEVEMENT]
    assert abs(hours[here].mean() - 8) < 0.2
    assert abs(hours[~here].mean() - 3) < 0.2
    assert abs(grades[here].mean() - grades[~here].mean()) < 0.06  # three standard errors
    assert set(crowd.groups) == {N1, N2}
    assert hours.min() >= 0
    assert grades.min() >= 0
    assert grades.max() <= 10


def test_success_does_not_depend_on_activities_and_the_record_does(crowd):
    achievement, activities = slopes(crowd, crowd.codes == FIRST)
    assert achievement > 3
    assert abs(activities) < 0.08
    attends = MANY.by_address(crowd, np.random.default_rng(72))
    recorded = MANY.on_record(crowd, attends)
    achievement, activities = slopes(crowd, recorded == FIRST)
    assert achievement > 1
    assert activities > 0.8  # a proxy of where people live
    assert ((recorded == FIRST) <= ((crowd.codes == FIRST) & attends)).all()
    assert abs(attends[crowd.groups == N2].mean() - MANY.transfers) < 0.02
    assert attends[crowd.groups == N1].all()


def test_the_oracle_looks_at_achievement_alone(crowd):
    rows = np.arange(50)
    idle = crowd.features[rows].copy()
    idle[:, ACTIVITIES] = 0.0
    rng = np.random.default_rng(0)
    assert (MANY.label(idle, crowd, rows, 0, rng) == crowd.codes[rows]).all()
    better = idle + [1.0, 0.0]
    better[:, ACHIEVEMENT] = 9.5
    assert (MANY.label(better, crowd, rows, 0, rng) == FIRST).all()


def test_the_same_seed_draws_the_same_class():
    district = SchoolDistrict(per_round=30)
    one, same, other = (district.draw(2, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert (one.features == same.features).all()
    assert (one.codes == same.codes).all()
    assert (one.features != other.features).any()
    assert one.persons[0] == 60


def played(arm, seed, settings=SMALL):
    """Rounds of an arm, and what was measured of them."""
    world = settings.world(arm, seed)
    rounds = list(simulate(world, rounds=settings.rounds, seed=seed))
    return rounds, [seen(one, world.operator.model, arm, settings)[1] for one in rounds]


@pytest.fixture(scope="module")
def stories():
    """The four arms at seeds that were not looked at when the scenario was made."""
    return {seed: {arm.name: played(arm, seed) for arm in ARMS[:4]} for seed in (9101, 9102, 9103)}


def late(measured, what="share"):
    return np.mean([one[what] for one in measured[-3:]])


def test_a_collective_raises_the_share_and_drops_the_proxy(stories):
    for arms in stories.values():
        assert late(arms["collective"][1]) > late(arms["nobody"][1]) + 0.15
        assert abs(late(arms["collective"][1], "per_hour")) < 0.5 * late(arms["nobody"][1], "per_hour")


def test_a_defence_lowers_it_again(stories):
    for arms in stories.values():
        assert late(arms["defended"][1]) < late(arms["collective"][1]) - 0.05


def test_individuals_get_in_and_leave_the_proxy(stories):
    for arms in stories.values():
        assert late(arms["individual"][1]) > late(arms["nobody"][1]) + 0.2
        assert late(arms["individual"][1], "per_hour") > 0.5 * late(arms["nobody"][1], "per_hour")


def test_until_somebody_acts_all_arms_are_the_same(stories):
    for arms in stories.values():
        first = [measured[0] for name, (_, measured) in arms.items() if name != "defended"]
        assert all(one == pytest.approx(first[0], nan_ok=True) for one in first)


def test_what_students_hand_in(stories):
    rounds, _ = stories[9101]["collective"]
    acted = False
    for one in rounds:
        (act,) = one.acts
        moves = np.zeros_like(one.crowd.features) if act.deed.moves is None else act.deed.moves
        hours = one.crowd.features[:, ACTIVITIES]
        assert not moves[:, ACHIEVEMENT].any()
        assert (moves[:, ACTIVITIES] <= 0).all()
        assert (hours + moves[:, ACTIVITIES] >= -1e-12).all()
        assert (-moves[:, ACTIVITIES] <= SMALL.budget + 1e-12).all()
        recorded = np.asarray(one.batch.codes(0, one.batch.size))
        assert ((recorded == FIRST) <= (one.crowd.codes == FIRST)).all()  # nobody is on record who did not succeed
        assert moves.any() == (one.number >= SMALL.since - 1)
        acted |= moves.any()
    assert acted


def test_individuals_are_those_who_were_refused_and_go_as_far_as_they_must(stories):
    rounds, _ = stories[9102]["individual"]
    for one in rounds[SMALL.since :]:
        (act,) = one.acts
        weights = one.deployed.parameters[0]
        first = one.crowd.features @ weights[:-1] + weights[-1] <= 0  # the logit is the second class's
        moved = act.lengths > 0
        assert (moved <= (high_second(one.crowd, SMALL.high) & ~first)).all()
        less = one.crowd.features.copy()
        less[:, ACTIVITIES] += act.lengths - 0.25
        assert (less[moved] @ weights[:-1] + weights[-1] > 0).all()  # a quarter of an hour less is not enough
        less[:, ACTIVITIES] += 0.25
        assert (less[moved] @ weights[:-1] + weights[-1] <= 0).all()


def test_nearest_centroid_drops_the_proxy_too():
    settings = SchoolSettings(rounds=6, people=200, repeats=1, since=2, model="nearest-centroid", share=1.0)
    none, together = (played(arm, 9104, settings)[1] for arm in (ARMS[0], ARMS[2]))
    assert late(together) > late(none) + 0.2


def test_what_is_told_is_what_was_measured():
    settings = SchoolSettings(rounds=3, people=60, repeats=2, since=2)
    stages = []
    told = SCHOOL.run(settings, 4, lambda *stage: stages.append(stage))
    assert len(told.rows) == len(ARMS) * 2 * 3
    assert stages[-1] == ("drawing", 10, 10)
    shares = [row["share"] for row in told.rows if (row["arm"], row["year"]) == ("collective", 3)]
    assert told.facts["arms"]["collective"]["years"][2]["share"] == {
        "mean": pytest.approx(np.mean(shares)),
        "least": min(shares),
        "greatest": max(shares),
    }
    again = SCHOOL.run(settings, 4, lambda *stage: None)
    assert repr(again.rows) == repr(told.rows)
    assert H1 in told.summary[0]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"rounds": 1}, "--rounds: must be a whole number of at least 2, got 1"),
        ({"people": 5}, "--people"),
        ({"share": 1.5}, "--share: must be a share from 0 to 1, got 1.5"),
        ({"budget": -1.0}, "--budget"),
        ({"budget": float("nan")}, "--budget"),
        ({"model": "oracle"}, "--model"),
        ({"since": 0}, "--since"),
    ],
)
def test_bad_settings_are_refused(settings, complaint):
    with pytest.raises(OptionError, match=complaint):
        SchoolSettings(**settings)


def test_bad_districts_are_refused():
    with pytest.raises(OptionError, match="transfers"):
        SchoolDistrict(transfers=-0.1)
    with pytest.raises(OptionError, match="people"):
        SchoolDistrict(per_round=3)
    with pytest.raises(OptionError, match="hours"):
        SchoolDistrict(hours=(8.0, 0.0))
