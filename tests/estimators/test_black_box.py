"""Black boxes: what they are given, what they are asked, what is counted, and what is noticed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from support.black_boxes import ChangesItsInputs, CountedNeighbours, FailsAfter, IgnoresItsSeed, LabelsOnly, Random

import oar
from oar.estimators.black_box import Rate
from oar.plans.plan import LeverPlan, MemberPlan
from oar.retraining.black_box import BlackBoxTraining, LabelDistance
from oar.retraining.contribution import Contribution


def people_of(seed=0, labels=("no", "yes"), size=40, **more):
    rng = np.random.default_rng(seed)
    codes = np.arange(size) % len(labels)
    return oar.Population(rng.normal(size=(size, 3)) + 2.0 * codes[:, None], np.array(labels)[codes], **more)


def problem_of(estimator, action=None, people=None, query=None, **settings):
    query = query or oar.Query([0.8, 0.9, 1.0], goal="yes")
    return oar.Problem(people or people_of(), oar.BlackBox(estimator, **settings), query, action or oar.Perturb(0.5))


def shifted(problem, by):
    each = np.tile(np.asarray(by, dtype=float), (problem.people.size, 1))
    return MemberPlan(problem, np.zeros(problem.people.dimensions), each)


def levered(problem, targets=None, away=()):
    people = problem.people
    gone = np.isin(np.arange(people.size), away)
    rows = people.class_rows() if targets is None else targets
    return LeverPlan(problem, np.zeros(3), np.zeros((people.size, 3)), targets=rows, away=gone)


def recording(seen):
    """Return a function that trains a tree, and keeps what it was given."""

    def train(features, labels, sample_weight=None):
        seen.append((features, labels, sample_weight))
        return DecisionTreeClassifier(random_state=0).fit(features, labels, sample_weight=sample_weight)

    return train


def test_every_call_is_counted_as_a_spy_counts_it():
    CountedNeighbours.reset()
    problem = problem_of(CountedNeighbours())
    oar.audit(shifted(problem, [0.1, 0.1, 0.1]))
    calls = problem.model.calls
    assert calls.fits == len(CountedNeighbours.fits) > 0
    assert (calls.predictions, calls.rows) == (len(CountedNeighbours.asked), sum(CountedNeighbours.asked))
    assert calls.failures == 0
    assert calls.seconds > 0


def test_the_audit_says_what_the_estimator_itself_says():
    people = people_of()
    told = oar.audit(shifted(problem_of(KNeighborsClassifier(5), people=people), [-0.2, -0.2, -0.2]))
    moved = KNeighborsClassifier(5).fit(people.features - 0.2, people.labels)
    share = moved.predict_proba([[0.8, 0.9, 1.0]])[0, 1]
    assert told.loss == pytest.approx(-np.log(max(share, 1e-6)))
    assert told.success == (share > 0.5)
    assert told.rate is None  # it is not random
    assert "KNeighborsClassifier" in told.witness


def test_a_tie_is_no_success():
    people = oar.Population([[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"])
    problem = oar.Problem(people, oar.BlackBox(KNeighborsClassifier(4)), oar.Query([1.5], "yes"), oar.Perturb(0.1))
    assert not oar.audit(shifted(problem, [0.05])).success


def test_moves_beyond_the_budget_are_refused_by_the_audit():
    told = oar.audit(shifted(problem_of(KNeighborsClassifier()), [0.6, 0.0, 0.0]))
    assert told.violations
    assert not told.success


def test_random_training_is_judged_by_a_rate_and_by_seeds_of_the_audits_own():
    problem = problem_of(Random(), refits=12)
    told = oar.audit(shifted(problem, [-0.28, -0.28, -0.28]))
    assert told.rate.refits == told.rate_before.refits == 12
    low, high = told.rate.interval
    assert 0 <= low <= told.rate.share <= high <= 1
    assert told.success == (low >= 0.5)
    again = oar.audit(shifted(problem_of(Random(), refits=12), [-0.28, -0.28, -0.28]))
    assert (again.rate, again.loss) == (told.rate, told.loss)
    other = oar.audit(shifted(problem_of(Random(), refits=12, seed=1), [-0.28, -0.28, -0.28]))
    assert other.loss != told.loss


def test_one_lucky_seed_is_not_enough():
    """A goal that is reached about half of the time is no success, whatever seed the estimator carries."""
    people = oar.Population(np.array([[-1.0], [1.0]] * 10), ["no", "yes"] * 10)
    box = oar.BlackBox(Random(random_state=3), refits=20)
    told = oar.audit(shifted(oar.Problem(people, box, oar.Query([0.0], "yes"), oar.Perturb(0.1)), [0.01]))
    assert 0 < told.rate.share < 1
    assert not told.success


@pytest.mark.parametrize("successes", [0, 3, 10, 19, 20])
def test_intervals_are_wilsons(successes):
    from scipy.stats import binomtest

    expected = binomtest(successes, 20).proportion_ci(0.9, method="wilson")
    assert Rate(successes, 20, 0.9).interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_estimator_that_ignores_its_seed_is_found_out():
    problem = problem_of(IgnoresItsSeed(), refits=4)
    assert BlackBoxTraining(problem).is_random()
    assert any("ignores its seed" in note for note in problem.model.notes)


def test_a_random_function_without_a_seed_is_found_out():
    def train(features, labels):
        return IgnoresItsSeed().fit(features, labels).predict_proba

    problem = problem_of(train, refits=4)
    assert BlackBoxTraining(problem).is_random()
    assert any("has no seed" in note for note in problem.model.notes)


def test_training_that_does_not_depend_on_its_seed_is_not_random():
    problem = problem_of(LogisticRegression(random_state=None))
    assert not BlackBoxTraining(problem).is_random()
    assert problem.model.calls.fits == 3
    told = problem_of(LogisticRegression(), randomised=False)
    oar.audit(shifted(told, [0.1, 0, 0]))
    assert told.model.calls.fits == 2  # before and after, and nothing tried


def test_inputs_that_are_changed_in_place_are_noticed_and_ours_stay():
    people = people_of()
    before = people.features.copy()
    problem = problem_of(ChangesItsInputs(), people=people, randomised=False)
    oar.audit(shifted(problem, [0.1, 0.1, 0.1]))
    assert any("in place" in note for note in problem.model.notes)
    np.testing.assert_array_equal(people.features, before)
    quiet = problem_of(CountedNeighbours())
    oar.audit(shifted(quiet, [0.1, 0.1, 0.1]))
    assert quiet.model.notes == ()


def test_the_estimator_itself_is_never_fitted():
    forest, labels = RandomForestClassifier(3), LabelsOnly()
    oar.audit(shifted(problem_of(forest, refits=4), [0.1, 0.1, 0.1]))
    assert not hasattr(forest, "estimators_")
    assert forest.random_state is None
    oar.audit(shifted(problem_of(labels), [0.1, 0.1, 0.1]))
    assert not hasattr(labels, "_inner")


def test_without_probabilities_the_loss_is_a_label_distance_and_it_says_so():
    problem = problem_of(LabelsOnly())
    told = oar.audit(shifted(problem, [-0.25, -0.25, -0.25]))
    assert any("label distance" in note for note in problem.model.notes)
    assert told.loss <= told.loss_before
    assert all(one.probability is None for one in told.queries)
    won = oar.audit(shifted(problem_of(LabelsOnly(), oar.Perturb(5.0)), [-2.0, -2.0, -2.0]))
    assert won.success
    assert won.loss == 0.0 < told.loss_before


def test_label_distances_are_to_the_nearest_place_that_has_the_goal():
    people = oar.Population([[-1.0], [4.0], [5.0]], ["no", "yes", "yes"])
    spread = np.std([-1.0, 4.0, 5.0])
    found = LabelDistance.of(people, (1,), np.array([0.0]))
    rows = found.asked(np.array([0.0]))[:, 0]
    assert found.loss(rows >= 2.0) == pytest.approx(2.0 / spread)  # eight sixteenths of the way to 4
    assert found.loss(rows > -1) == 0.0
    assert found.loss(rows > 9) == pytest.approx(1.5 * 5 / spread)


def test_a_goal_by_probability_needs_probabilities():
    query = oar.Query([0.8, 0.9, 1.0], goal="yes", probability=0.8)
    with pytest.raises(oar.errors.OptionError, match=r"probability: .* has no predict_proba"):
        oar.audit(shifted(problem_of(LabelsOnly(), query=query), [0.1, 0.1, 0.1]))


def test_failures_say_what_failed_and_when():
    FailsAfter.left = 0
    with pytest.raises(
        oar.errors.EstimatorError, match="failed at training number 1, with MemoryError: the cluster is on"
    ):
        oar.audit(shifted(problem_of(FailsAfter(), randomised=False), [0.1, 0.1, 0.1]))


def test_values_are_predicted_too():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    people = oar.Population(features, features @ [1.0, 2.0])
    query = oar.Query([0.0, 0.0], goal=1.0, within=0.5)
    told = oar.audit(shifted(oar.Problem(people, oar.BlackBox(Ridge()), query, oar.Perturb(1.0)), [-0.4, -0.4]))
    fitted = Ridge().fit(features - 0.4, people.labels)
    assert told.prediction == pytest.approx(float(fitted.predict([[0.0, 0.0]])[0]))
    assert told.loss == pytest.approx(0.5 * (told.prediction - 1.0) ** 2)
    forest = oar.Problem(people, oar.BlackBox(RandomForestRegressor(4), refits=4), query, oar.Perturb(1.0))
    assert oar.audit(shifted(forest, [-0.4, -0.4])).rate.refits == 4


def test_labels_come_as_given_or_as_codes():
    seen = []
    oar.audit(shifted(problem_of(recording(seen), labels="codes", randomised=False), [0.1, 0, 0]))
    assert set(seen[0][1]) == {0, 1}
    oar.audit(shifted(problem_of(recording(seen), randomised=False), [0.1, 0, 0]))
    assert set(seen[-1][1]) == {"no", "yes"}


def test_boosted_trees_are_taken_as_they_are():
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    for trees in (XGBClassifier(n_estimators=3), LGBMClassifier(n_estimators=3, verbose=-1, min_child_samples=2)):
        assert oar.audit(shifted(problem_of(trees), [-0.1, 0, 0])).prediction in ("no", "yes")


def test_frames_stay_frames_and_tables_are_seen_as_they_came():
    seen = []

    def train(features, labels):
        seen.append(features)
        return lambda rows: np.full((len(rows), 2), 0.5)

    def audited(people, query, width, **settings):
        problem = oar.Problem(people, oar.BlackBox(train, randomised=False, **settings), query, oar.Perturb(1.0))
        oar.audit(MemberPlan(problem, np.zeros(width), np.zeros((people.size, width))))

    frame = pd.DataFrame({"age": [20, 30, 40, 50], "job": ["a", "b", "a", "b"], "credit": ["no", "yes", "no", "yes"]})
    people, query = oar.Population.from_frame(frame, target="credit"), oar.Query({"age": 25, "job": "a"}, goal="yes")
    audited(people, query, 3)
    pd.testing.assert_frame_equal(seen[0], frame[["age", "job"]])
    audited(people, query, 3, sees="coordinates")
    assert (seen[-1].shape, seen[-1].dtype) == ((4, 3), np.float64)
    plain = oar.Population(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}), ["no", "yes"])
    audited(plain, oar.Query([0, 0], "yes"), 2)
    assert list(seen[-1].columns) == ["a", "b"]


def test_weights_reach_the_estimator_and_leavers_do_not():
    seen, weights = [], np.linspace(1, 2, 40)
    problem = problem_of(recording(seen), oar.Withhold(3), people_of(weights=weights), randomised=False)
    assert oar.audit(levered(problem, away=range(3))).leavers == 3
    assert [len(labels) for _, labels, _ in seen] == [40, 37]
    np.testing.assert_array_equal(seen[1][2], weights[3:])
    oar.audit(levered(problem_of(recording(seen), oar.Withhold(3), randomised=False), away=range(3)))
    assert len(seen[-1][1]) == 37
    assert seen[-1][2] is None
    for estimator in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        with pytest.raises(
            oar.errors.OptionError, match=r"weights: .*KNeighborsClassifier cannot be trained with weights"
        ):
            problem_of(estimator, people=people_of(weights=weights))


def test_relabelled_people_are_trained_on_as_they_say():
    seen = []
    problem = problem_of(recording(seen), oar.Relabel(2), randomised=False)
    targets = problem.people.class_rows()
    targets[0] = targets[0][::-1]
    assert oar.audit(levered(problem, targets)).relabelled == 1
    assert np.flatnonzero(seen[0][1] != seen[1][1]).tolist() == [0]


def test_several_who_ask_are_asked_about_at_once():
    CountedNeighbours.reset()
    query = oar.Query(np.array([[0.8, 0.9, 1.0], [0.0, 0.0, 0.0]]), goal="yes", several="worst")
    problem = problem_of(CountedNeighbours(), query=query, randomised=False)
    told = oar.audit(shifted(problem, [-0.2, -0.2, -0.2]))
    assert len(told.queries) == 2
    assert CountedNeighbours.asked == [2, 2, 2, 2]  # probabilities and predictions, before and after
    asking = BlackBoxTraining(problem)
    losses, _ = asking.judged(asking.seeded(Contribution(np.full((40, 3), -0.2)), 0))
    assert told.loss == pytest.approx(losses.max())


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (RandomForestClassifier, {}, "estimator: must be an object with fit.* got the class RandomForestClassifier"),
        (3, {}, "estimator: must be an object with fit, or a function that trains, got int"),
        (StandardScaler(), {}, "estimator: must have predict_proba or predict beside fit"),
        (CountedNeighbours(), {"sees": "rows"}, "sees: must be one of"),
        (CountedNeighbours(), {"labels": "numbers"}, "labels: must be one of"),
        (CountedNeighbours(), {"refits": 1}, "refits: must be a whole number of at least 2"),
        (CountedNeighbours(), {"refits": 3}, r"refits: must be enough to be sure of a share of at_least=0.5, got 3"),
        (CountedNeighbours(), {"at_least": 0.85}, r"even all of these show 0.839 at most"),
        (CountedNeighbours(), {"at_least": 1.5}, "at_least: must be a number between 0 and 1"),
        (CountedNeighbours(), {"confidence": 0}, "confidence: must be a number between 0 and 1"),
        (CountedNeighbours(), {"seed": -1}, "seed: must be a whole number"),
        (CountedNeighbours(), {"randomised": "no"}, "randomised: must be True or False"),
    ],
)
def test_boxes_that_cannot_be(estimator, settings, message):
    with pytest.raises(oar.errors.OARError, match=message):
        oar.BlackBox(estimator, **settings)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: np.full((len(rows), 3), 1 / 3), "a probability for each of 2 classes, got 3"),
        (lambda rows: np.full((len(rows), 2), np.nan), "must be finite and not negative"),
        (lambda rows: np.zeros((7, 2)), "must answer for each of"),
        (lambda rows: ["perhaps"] * len(rows), "must predict the people's classes"),
        (lambda rows: 1 / 0, r"asking .* failed, with ZeroDivisionError"),
    ],
)
def test_answers_that_cannot_be(answer, message):
    with pytest.raises(oar.errors.OARError, match=message):
        oar.audit(shifted(problem_of(lambda features, labels: answer, randomised=False), [0.1, 0, 0]))


def test_a_training_that_gives_nothing_to_ask():
    with pytest.raises(oar.errors.EstimatorError, match="must give something with predict_proba or predict"):
        oar.audit(shifted(problem_of(lambda features, labels: 3, randomised=False), [0.1, 0, 0]))


def test_what_it_predicts_is_what_its_own_predict_says():
    """Of a classifier with another threshold, the most probable class is not the one that is predicted."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 2))
    people = oar.Population(features, (features.sum(axis=1) > 0).astype(int))
    careful = FixedThresholdClassifier(LogisticRegression(), threshold=0.9)
    problem = oar.Problem(people, oar.BlackBox(careful), oar.Query([0.1, 0.1], goal=1), oar.Perturb(0.05))
    own = careful.fit(features, people.labels).predict([[0.1, 0.1]])[0]
    told = oar.audit(MemberPlan(problem, np.zeros(2), np.zeros((60, 2))))
    assert own == told.prediction == 0
    assert not told.success
    assert told.queries[0].probability > 0.5
    asking = BlackBoxTraining(problem)
    assert not asking.answers(asking.unmoved(0), problem.asked.points)[1][0]


def test_at_a_tie_the_prediction_is_the_estimators_own_and_no_success():
    people = oar.Population([[0.0], [0.2], [5.0], [6.0]], [0, 1, 1, 1])
    problem = oar.Problem(people, oar.BlackBox(KNeighborsClassifier(2)), oar.Query([0.1], goal=0), oar.Perturb(0.01))
    told = oar.audit(shifted(problem, [0.0]))
    assert told.prediction == 0
    assert not told.success


def test_fully_grown_random_trees_are_found_to_be_random():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(120, 4))
    labels = (features[:, 0] + features[:, 1] + 0.8 * rng.normal(size=120) > 0).astype(int)
    people = oar.Population(features, labels)
    for seed in range(8):
        box = oar.BlackBox(ExtraTreeClassifier(), refits=4, seed=seed)
        asking = BlackBoxTraining(oar.Problem(people, box, oar.Query(rng.normal(size=4), goal=1), oar.Perturb(0.1)))
        assert asking.is_random()


def test_what_is_random_on_some_people_is_tried_again_on_others():
    rng = np.random.default_rng(0)
    apart = np.vstack([rng.normal(size=(30, 2)) - 9, rng.normal(size=(30, 2)) + 9])
    mixed = rng.normal(size=(60, 2))
    box = oar.BlackBox(RandomForestClassifier(5), refits=6)
    answers = []
    for features, labels in ((apart, np.repeat([0, 1], 30)), (mixed, (mixed.sum(axis=1) > 0).astype(int))):
        people = oar.Population(features, labels)
        problem = oar.Problem(people, box, oar.Query(features[0], goal=1), oar.Perturb(0.1))
        answers.append(BlackBoxTraining(problem).is_random())
    assert answers[1]
    assert box.randomised is None  # the owner said nothing


def test_an_estimator_that_is_said_not_to_be_random_keeps_its_own_seed():
    seen = []

    class Seeded(Random):
        def fit(self, X, y):
            seen.append(self.random_state)
            return super().fit(X, y)

    oar.audit(shifted(problem_of(Seeded(random_state=7), randomised=False), [0.1, 0, 0]))
    assert set(seen) == {7}
    oar.audit(shifted(problem_of(Seeded(random_state=7), refits=4), [0.1, 0, 0]))
    assert 7 not in seen[2:]


def test_one_column_of_probabilities_is_that_of_the_only_class_it_knows():
    class Stubborn(CountedNeighbours):
        def predict_proba(self, X):
            self.classes_ = np.array(["no"])
            return np.ones((len(X), 1))

        def predict(self, X):
            return np.full(len(X), "no")

    told = oar.audit(shifted(problem_of(Stubborn(), randomised=False), [0.1, 0, 0]))
    assert told.prediction == "no"
    assert told.loss > 10


def test_a_plan_survives_an_audit_that_fails():
    FailsAfter.left = 6
    problem = problem_of(FailsAfter(), randomised=False)
    solver = oar.solvers.DirectSearch(refits=6, start="nothing")
    with pytest.raises(
        oar.errors.EstimatorError, match="A plan had been made, and is kept as `plan` of this error"
    ) as caught:
        oar.collective(problem, solver=solver)
    FailsAfter.left = 2
    assert oar.audit(caught.value.plan).violations == ()


def test_an_answer_that_cannot_be_ends_a_search_and_what_was_reached_is_kept():
    class Wanders(CountedNeighbours):
        def predict(self, X):
            told = super().predict(X)
            return told if len(type(self).fits) != 4 else np.full(len(X), "perhaps")

    Wanders.reset()
    problem = problem_of(Wanders(), randomised=False)
    found = oar.collective(problem, solver=oar.solvers.DirectSearch(refits=6, start="nothing"))
    assert "must predict the people's classes" in found.explanation


def test_strings_are_codes_to_boosted_trees_at_the_end_of_a_pipeline():
    from xgboost import XGBClassifier

    pipeline = make_pipeline(StandardScaler(), XGBClassifier(n_estimators=3))
    assert oar.audit(shifted(problem_of(pipeline), [-0.1, 0, 0])).prediction in ("no", "yes")


def test_black_boxes_are_not_updated_over_time():
    problem = problem_of(KNeighborsClassifier())
    stream = oar.online.Stream.of_batches([(problem.people.features, problem.people.labels)])
    with pytest.raises(oar.errors.OptionError, match="where it is updated over time, got BlackBox"):
        oar.OnlineProblem(stream, problem.model, oar.online.FullRefit(), problem.query, oar.Perturb(0.5))
    with pytest.raises(oar.errors.OptionError, match="where it is updated over time, got BlackBox"):
        oar.worlds.World(
            oar.worlds.Blobs([[0.0, 0.0], [2.0, 0.0]], 30), oar.worlds.Operator(problem.model), labels="keep"
        )
