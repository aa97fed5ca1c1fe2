"""The school district: what causes what in it, what students do, and what comes of it at seeds not seen before."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from oar.errors import OptionError
from oar.pictures.colours import PURPLE
from oar.worlds.deployed.predictions import predictions
from oar.worlds.simulate import simulate
from oar_stories.school.actors import FIRST, high_second
from oar_stories.school.people import ACHIEVEMENT, ACTIVITIES, H1, H2, N1, N2, SCHOOLS, SchoolDistrict
from oar_stories.school.story import MEASURES, SCHOOL, seen
from oar_stories.school.words import summary
from oar_stories.school.worlds import ARMS, STUDENTS, SchoolSettings
from oar_stories.story import averages

BY_NAME = {arm.name: arm for arm in ARMS}
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
    away = MANY.decided(crowd, np.full(crowd.size, SCHOOLS.index(H2)), 0, rng)
    assert ((MANY.label(better, away, rows, 0, rng) == FIRST) <= (away.groups[rows] == H1)).all()


def test_half_of_the_places_go_by_the_model_and_chances_are_the_same_whatever_it_says(crowd):
    all_first, none = (
        MANY.decided(crowd, np.full(crowd.size, SCHOOLS.index(school)), 0, np.random.default_rng(73))
        for school in (H1, H2)
    )
    guided = all_first.groups != none.groups  # only they can be on either side, so in no world is it anybody else
    assert ((none.groups == H1) <= (all_first.groups == H1)).all()
    # In 𝒩₁ all whose place goes by the model, in 𝒩₂ the same: addresses decide for the other half in both worlds.
    assert abs(guided[crowd.groups == N1].mean() - MANY.guided) < 0.02
    assert abs((all_first.groups == H1)[crowd.groups == N2].mean() - (0.5 + 0.5 * MANY.transfers)) < 0.02
    assert ((all_first.codes == FIRST) == ((all_first.groups == H1) & (crowd.codes == FIRST))).all()


def test_the_same_seed_draws_the_same_class():
    district = SchoolDistrict(per_round=30)
    one, same, other = (district.draw(2, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert (one.features == same.features).all()
    assert (one.codes == same.codes).all()
    assert (one.features != other.features).any()
    assert one.persons[0] == 60


def played(name, seed, settings=SMALL):
    """Rounds of an arm, and what was measured of them."""
    arm = BY_NAME[name]
    world = settings.world(arm, seed)
    rounds = list(
        simulate(world, settings.policy(arm), rounds=settings.rounds, seed=seed, critical_masses=seed == SEEDS[0])
    )
    return rounds, [seen(one, world.operator.model, arm, settings)[1] for one in rounds]


SEEDS = (9101, 9102)  # which were not looked at when the scenario was made
TOGETHER = ("collective", "collective, all alike")


@pytest.fixture(scope="module")
def stories():
    """The arms that are drawn, and the rule of thumb."""
    names = ("nobody", "individual", "defended", *TOGETHER)
    return {seed: {name: played(name, seed) for name in names} for seed in SEEDS}


def late(measured, what="assigned"):
    return np.mean([one[what] for one in measured[-3:]])


@pytest.mark.parametrize("name", TOGETHER)
def test_a_collective_raises_the_share_and_drops_the_proxy(stories, name):
    for arms in stories.values():
        assert late(arms[name][1]) > late(arms["nobody"][1]) + 0.15
        assert abs(late(arms[name][1], "per_hour")) < 0.5 * late(arms["nobody"][1], "per_hour")


def test_the_signal_asks_fewer_people(stories):
    for arms in stories.values():
        signal, alike = (late(arms[name][1], "acting") for name in TOGETHER)
        assert 0 < signal < 0.9 * alike


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


@pytest.mark.parametrize("name", ["individual", *TOGETHER])
def test_the_shadow_is_the_world_in_which_nobody_acts(stories, name):
    for arms in stories.values():
        for one, plain in zip(arms[name][0], arms["nobody"][0], strict=True):
            assert (one.shadow.flat == plain.state.flat).all()
            assert plain.shadow is plain.state
            assert plain.collateral == 0
        assert one.collateral > 0


@pytest.mark.parametrize("name", TOGETHER)
def test_what_students_hand_in(stories, name):
    rounds, _ = stories[SEEDS[0]][name]
    for one in rounds:
        (act,) = one.acts
        assert set(one.on_record.groups[act.mine]) == {H1}
        able = (one.on_record.groups == H1).sum()
        assert act.mine.size == pytest.approx(SMALL.share * able, abs=4 * np.sqrt(able / 4))
        moves = np.zeros((act.mine.size, 2)) if act.deed.moves is None else act.deed.moves
        hours = one.crowd.features[act.mine, ACTIVITIES]
        assert not moves[:, ACHIEVEMENT].any()
        assert (moves[:, ACTIVITIES] <= 0).all()
        assert (hours + moves[:, ACTIVITIES] >= -1e-12).all()
        assert (-moves[:, ACTIVITIES] <= SMALL.budget + 1e-12).all()
        recorded = np.asarray(one.batch.codes(0, one.batch.size))
        assert (recorded == one.on_record.codes).all()
        assert ((recorded == FIRST) <= (one.crowd.codes == FIRST)).all()  # nobody is on record who did not succeed
        assert moves.any() == (one.number >= SMALL.since - 1)


def test_who_is_asked_to_leave_out_hours_helps_and_the_others_would_not():
    settings = SchoolSettings(rounds=3, people=300, repeats=1, since=3)
    arm = BY_NAME["collective, in full"]
    world = settings.world(arm, 9105)
    simulation = simulate(world, settings.policy(arm), rounds=3, seed=9105, critical_masses=False)
    *_, one = simulation
    (act,) = one.acts
    question, model = simulation.questions[STUDENTS], world.operator.model
    before = one.batch.features.copy()
    before[act.mine] -= act.deed.moves

    def loss(rows):
        """The goal loss after a refit before which these students leave out a tenth of an hour."""
        moved = before.copy()
        moved[rows, ACTIVITIES] -= 0.1
        state = world.operator.retrain(one.deployed, one.batch.with_features(moved), 2, None, None)
        return question.outcome(model, state.parameters).loss

    asked = act.mine[act.lengths > 0]
    others = act.mine[act.lengths == 0]
    assert asked.size > 0
    assert others.size > 0
    assert loss(asked) < loss(asked[:0]) - 1e-4
    assert loss(others) > loss(asked[:0])


def test_hours_have_no_effect_on_what_is_on_record():
    settings = SchoolSettings(rounds=3, people=100, repeats=1, since=2)
    arm = BY_NAME["individual"]
    kept, true = (dataclasses.replace(settings.world(arm, 9106), labels=labels) for labels in ("keep", "oracle"))
    for one, other in zip(simulate(kept, rounds=3), simulate(true, rounds=3), strict=True):
        assert (one.batch.labels == other.batch.labels).all()
        assert (one.state.flat == other.state.flat).all()


def test_individuals_are_those_who_were_refused_and_go_as_far_as_they_must(stories):
    rounds, _ = stories[SEEDS[1]]["individual"]
    for one in rounds[SMALL.since :]:
        (act,) = one.acts
        rows, weights = one.crowd.features[act.mine], one.deployed.parameters[0]
        assert high_second(one.crowd, SMALL.high)[act.mine].all()
        refused = rows @ weights[:-1] + weights[-1] > 0  # the logit is the second class's
        moved = act.lengths > 0
        assert (moved <= refused).all()
        less = rows.copy()
        less[:, ACTIVITIES] += act.lengths - 0.25
        assert (less[moved] @ weights[:-1] + weights[-1] > 0).all()  # a quarter of an hour less is not enough
        less[:, ACTIVITIES] += 0.25
        assert (less[moved] @ weights[:-1] + weights[-1] <= 0).all()


def test_who_took_up_hours_is_assigned_by_them(stories):
    """Of those whose place goes by the model, who took up hours attends ℋ₁; so more do than had they stayed."""
    rounds, _ = stories[SEEDS[0]]["individual"]
    here = [one.on_record.groups[one.acts[0].mine[one.acts[0].lengths > 0]] == H1 for one in rounds]
    attending = np.concatenate(here)
    assert attending.mean() > 0.45  # half by the model, and a fifth of the others by transfer; else a tenth


@pytest.mark.parametrize("name", ["individual", "collective"])
def test_shares_and_accuracy_are_those_of_the_assignment_that_was_made(name):
    """Where all places go by the model, the school attended is the assignment; what is reported later is not."""
    settings = dataclasses.replace(SMALL, rounds=4, guided=1.0)
    arm, by_reports = BY_NAME[name], []
    world = settings.world(arm, SEEDS[1])
    model = world.operator.model
    for one in simulate(world, settings.policy(arm), rounds=4, seed=SEEDS[1], critical_masses=False):
        year, measured = seen(one, model, arm, settings)
        attends, second = one.on_record.groups == H1, high_second(one.crowd, settings.high)
        assert (year.assigned == attends).all()
        assert (year.assigned == (predictions(model, one.deployed.parameters, year.applied) == FIRST)).all()
        assert (year.reported == one.batch.features).all()
        assert measured["assigned"] == year.share == attends[second].mean()
        assert measured["accuracy"] == year.accuracy == (attends == (one.crowd.codes == FIRST)).mean()
        other = one.crowd.features if name == "individual" else one.batch.features
        mistaken = predictions(model, one.deployed.parameters, other) == FIRST
        by_reports.append((mistaken[second].mean() != measured["assigned"], (mistaken != attends).any()))
    assert np.any(by_reports, axis=0).all()  # it makes a difference by which features it is measured


def test_a_budget_that_is_no_whole_number_of_steps_is_kept():
    settings = SchoolSettings(rounds=2, people=300, repeats=1, since=1, budget=0.7)
    rounds, _ = played("individual", SEEDS[1], settings)
    assert {length for one in rounds for length in one.acts[0].lengths} == {0.0, 0.25, 0.5}


@pytest.mark.parametrize("name", TOGETHER)
def test_nearest_centroid_drops_the_proxy_too(name):
    settings = SchoolSettings(rounds=6, people=200, repeats=1, since=2, model="nearest-centroid", share=1.0)
    none, together = (played(each, 9104, settings)[1] for each in ("nobody", name))
    assert late(together) > late(none) + 0.2


def test_the_worlds_own_record_is_told(stories):
    rounds, measured = stories[SEEDS[0]]["collective"]
    masses = [one["critical_mass"] for one in measured]
    assert np.isnan(masses[0])  # nobody acted
    assert any(mass == mass for mass in masses[1:])
    for one, told in zip(rounds, measured, strict=True):
        assert told["burden"] == one.actors[STUDENTS].burden_mean
        assert (told["changed_N1"], told["changed_N2"]) == (one.groups[N1].changed, one.groups[N2].changed)
        assert told["reached"] == (told["asked"] >= 0.5)


def test_what_is_told_is_what_was_measured():
    settings = SchoolSettings(rounds=3, people=60, repeats=2, since=2)
    stages = []
    told = SCHOOL.run(settings, 4, lambda *stage: stages.append(stage))
    assert len(told.rows) == len(ARMS) * 2 * 3
    assert stages[-1] == ("drawing", 2 * len(ARMS), 2 * len(ARMS))
    shares = [row["assigned"] for row in told.rows if (row["arm"], row["year"]) == ("collective", 3)]
    assert told.facts["arms"]["collective"]["years"][2]["assigned"] == {
        "mean": pytest.approx(np.mean(shares)),
        "least": min(shares),
        "greatest": max(shares),
    }
    again = SCHOOL.run(dataclasses.replace(settings, repeats=1), 4, lambda *stage: None)
    assert repr(again.rows) == repr([row for row in told.rows if not row["repeat"]])
    assert H1 in told.summary[0]
    still, frame = told.still(), told.film(2)
    (baseline,) = (line for line in still.axes[0].lines if line.get_color() == PURPLE and line.get_marker() == "None")
    years = told.facts["arms"]["defended, nobody"]["years"]
    assert list(baseline.get_ydata()) == [year["assigned"]["mean"] for year in years]
    assert f"and {years[2]['accuracy']['mean']:.0%} if the district defends" in still.get_supxlabel().replace("\n", " ")
    alone = next(row for row in told.rows if (row["arm"], row["year"], row["repeat"]) == ("defended, nobody", 3, 0))
    words = f"if nobody acts: {alone['assigned']:.0%}, accuracy {alone['accuracy']:.0%}"
    assert [words in [text.get_text() for text in axes.texts] for axes in frame.axes] == [False, False, False, True]
    assert "when applying" in frame.axes[0].get_ylabel()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rounds": 2}, "acting begins in year 3, after the last"),
        ({"since": 1, "share": 0.0}, "the share of those who act is 0"),
        ({"since": 1, "budget": 0.0}, "the budget is 0"),
    ],
)
def test_where_nobody_acts_that_is_what_is_said(given, why):
    told = SCHOOL.run(SchoolSettings(**{"rounds": 2, "people": 60, "repeats": 1, **given}), 4, lambda *stage: None)
    first, *others = told.summary
    assert first == f"Nobody acted in any arm: {why}. Arms differ by the defence alone."
    assert len(others) == 3  # shares and weights where nobody acts, and what the defence costs
    assert not any(word in " ".join(others) for word in ("ndividual", "ollective", "together", "members"))
    assert "Nobody acted in any arm." in told.still().get_supxlabel()
    assert "(nobody acts)" in told.film(1).get_suptitle()


def told_of(settings, shares=None, idle=(), **more):
    """The summary of made-up measurements: shares by arm, the same in every year; arms in which nobody acts."""
    rows = [
        {
            **dict.fromkeys(MEASURES, 0.5),
            "arm": arm.name,
            "year": year,
            "repeat": 0,
            "assigned": (shares or {}).get(arm.name, 0.5),
            "acting": 0.2 * (arm.way != "nobody" and arm.name not in idle and year >= settings.since),
            **more,
        }
        for arm in ARMS
        for year in range(1, settings.rounds + 1)
    ]
    return " ".join(summary(settings, rows, averages(rows, ("arm", "year"), MEASURES)))


LONG = SchoolSettings(rounds=5, repeats=1)


def test_what_is_equal_is_not_called_more():
    said = told_of(LONG, accuracy_fall=0.0)
    assert "Individual and collective action got equally many of them in." in said
    assert "more of them in" not in said
    assert "all alike get more" not in said
    assert "Collective action did not raise the share here." in said
    assert "The defence does not cost accuracy here: where nobody acts it is 50% with the defence, and 50%" in said
    assert "within half a point of what it would be" in said


def test_who_got_more_is_said():
    assert "Individual action got more" in told_of(LONG, {"individual": 0.6})
    said = told_of(LONG, {"collective": 0.6, "defended, all alike": 0.55}, accuracy_fall=0.03)
    assert "Collective action got more" in said
    assert "all alike get more, 55%" in said
    assert "did not" not in said
    assert "3 points below what it would be" in said
    assert "leaves the proxy" in said
    assert "leaves the proxy" not in told_of(LONG, per_hour=-0.1)


def test_a_collective_that_acts_in_the_last_year_alone_is_not_compared():
    said = told_of(dataclasses.replace(LONG, rounds=3))
    assert "no class was assigned by a model that this reached" in said
    assert "individuals do" in said
    assert "together" not in said
    assert "share here" not in said


def test_arms_in_which_nobody_acts_are_not_compared():
    said = told_of(LONG, {"individual": 0.6}, idle=("individual",))
    assert "Nobody acted in some arms (individuals act)." in said
    assert "Individual" not in said
    assert "all of them are not enough" not in told_of(LONG, idle=("collective",), critical_mass=np.nan)
    assert "all of them are not enough" in told_of(LONG, critical_mass=np.nan)


def test_where_there_is_nobody_to_count_nothing_is_said_of_shares():
    said = told_of(LONG, assigned=np.nan)
    assert "no district has a high-achieving N2 student" in said
    assert "nan" not in said


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
    with pytest.raises(OptionError, match="guided"):
        SchoolDistrict(guided=1.1)
    with pytest.raises(OptionError, match="transfers"):
        SchoolDistrict(transfers=-0.1)
    with pytest.raises(OptionError, match="people"):
        SchoolDistrict(per_round=3)
    with pytest.raises(OptionError, match="hours"):
        SchoolDistrict(hours=(8.0, 0.0))
