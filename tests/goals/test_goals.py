"""Goals beyond one label at one query: sets of classes, ranges, probabilities, several people, members who ask."""

import numpy as np
import pandas as pd
import pytest
from support.goal_problems import SOFTMAX, three_classes, values

import oar
from oar.signals import Implicit
from oar.signals.base import refit

rng = np.random.default_rng(5)


def solved(people, model, query, budget=0.4, **settings):
    return oar.collective(
        oar.Problem(people, model, query, oar.Perturb(budget, **settings)),
        solver="auto" if model == oar.NearestCentroid() else oar.solvers.ProjectedGradient(restarts=0, max_steps=100),
    )


def refitted(people, result, l2=0.05):
    """Return scikit-learn's own refit on the moved data."""
    from sklearn.linear_model import LogisticRegression

    moved = np.asarray(people.features) + np.asarray(result.plan.moves())
    return LogisticRegression(C=1 / (l2 * people.size), tol=1e-10, max_iter=10_000).fit(moved, people.labels)


def test_a_set_of_classes_is_reached_as_soon_as_one_of_them_leads():
    people, point = three_classes(), np.array([0.4, 0.5])
    result = solved(people, SOFTMAX, oar.Query(point, goal={"b", "c"}), budget=0.8)
    fitted = refitted(people, result)
    chances = fitted.predict_proba(point[None])[0]
    against = -np.log(chances[1:] / (chances[1:] + chances[0]))
    assert result.loss == pytest.approx(against.min(), rel=1e-5)
    assert result.audit.queries[0].probability == pytest.approx(chances[1:].sum(), rel=1e-5)
    assert result.success == (fitted.predict(point[None])[0] in {"b", "c"})
    assert result.success
    assert not result.audit.success_before


def test_a_set_with_a_target_probability_is_their_sum():
    people, point = three_classes(), np.array([0.4, 0.5])
    result = solved(people, SOFTMAX, oar.Query(point, goal={"b", "c"}, probability=0.8), budget=0.3)
    chance = refitted(people, result).predict_proba(point[None])[0][1:].sum()
    assert result.loss == pytest.approx(-np.log(chance), rel=1e-5)
    assert result.success == (chance >= 0.8)


def test_any_but_is_the_set_of_the_others():
    people, point = three_classes(), np.array([0.4, 0.5])
    one = solved(people, SOFTMAX, oar.Query(point, goal={"b", "c"}))
    other = solved(people, SOFTMAX, oar.Query(point, goal=oar.AnyBut("a")))
    assert one.loss == other.loss
    assert "anything but 'a'" in repr(other)


def test_a_set_of_one_class_is_that_class():
    people, point = three_classes(), np.array([0.4, 0.5])
    assert (
        solved(people, SOFTMAX, oar.Query(point, goal={"b"})).loss
        == solved(people, SOFTMAX, oar.Query(point, goal="b")).loss
    )


def test_a_set_is_at_least_as_easy_as_each_of_its_classes():
    people, point = three_classes(), np.array([0.4, 0.5])
    both = solved(people, SOFTMAX, oar.Query(point, goal={"b", "c"})).loss
    assert both <= min(solved(people, SOFTMAX, oar.Query(point, goal=label)).loss for label in "bc") + 1e-9


@pytest.mark.parametrize(
    "model", [oar.NearestCentroid(), oar.models.LinearSVM(l2=0.1), oar.models.GaussianNaiveBayes()]
)
def test_a_set_of_classes_for_other_models(model):
    people, point = three_classes(24), np.array([0.3, 0.3])
    result = solved(people, model, oar.Query(point, goal=oar.AnyBut("a")), budget=1.0)
    assert result.loss < result.loss_before
    assert result.success == (result.prediction in {"b", "c"})
    assert result.success


def test_nearest_centroids_audit_of_a_set_agrees_with_distances():
    people, point = three_classes(), np.array([0.3, 0.3])
    result = solved(people, oar.NearestCentroid(), oar.Query(point, goal={"b", "c"}), budget=0.3)
    moved = people.features + result.plan.moves()
    apart = [np.linalg.norm(moved[people.labels == label].mean(axis=0) - point) for label in "abc"]
    chances = np.exp(-np.array(apart)) / np.exp(-np.array(apart)).sum()
    assert result.loss == pytest.approx((-np.log(chances[1:] / (chances[1:] + chances[0]))).min())
    assert result.audit.margin == pytest.approx(apart[0] - min(apart[1:]))


@pytest.mark.parametrize("chance", [0.5, 0.7, 0.9])
def test_a_target_probability_is_what_a_refit_says(chance):
    people, point = three_classes(), np.array([0.9, 0.2])
    result = solved(people, SOFTMAX, oar.Query(point, goal="b", probability=chance), budget=0.6)
    got = refitted(people, result).predict_proba(point[None])[0][1]
    assert result.success == (got >= chance)
    assert result.audit.margin == pytest.approx(got - chance, abs=1e-6)


def test_a_probability_that_nearest_centroid_cannot_reach_is_proved_impossible():
    people, point = three_classes(), np.array([0.9, 0.2])
    query = oar.Query(point, goal="b", probability=0.99)
    result = solved(people, oar.NearestCentroid(), query, budget=0.1)
    assert result.status is oar.results.Status.IMPOSSIBLE
    assert result.exact
    assert solved(people, oar.NearestCentroid(), oar.Query(point, goal="b", probability=0.4), budget=0.5).success


def test_an_individual_is_told_when_a_probability_is_out_of_reach():
    people, point = three_classes(), np.array([0.9, 0.2])
    alone = oar.individual(oar.Problem(people, SOFTMAX, oar.Query(point, "b", probability=0.999), oar.Perturb(0.1)))
    assert alone.status is oar.results.Status.IMPOSSIBLE
    far = oar.individual(oar.Problem(people, SOFTMAX, oar.Query(point, "b", probability=0.6), oar.Perturb(4.0)))
    assert far.success


@pytest.mark.parametrize("goal", [oar.Between(low=2.0), oar.Between(high=-2.0), oar.Between(0.5, 1.5)])
def test_a_range_of_values_is_reached(goal):
    people, point = values(), np.array([0.1, 0.0, 0.2])
    result = solved(people, oar.models.Ridge(l2=0.1), oar.Query(point, goal=goal), budget=1.5)
    low, high = -np.inf if goal.low is None else goal.low, np.inf if goal.high is None else goal.high
    from sklearn.linear_model import Ridge

    moved = people.features + result.plan.moves()
    got = Ridge(alpha=0.1 * people.size).fit(moved, people.labels).predict(point[None])[0]
    assert result.prediction == pytest.approx(got, abs=1e-6)
    assert result.success == (low <= got <= high)
    assert result.success
    assert not result.audit.success_before


def test_a_range_with_two_ends_is_its_middle_and_how_near():
    people, point = values(), np.array([0.1, 0.0, 0.2])
    one = solved(people, oar.models.Ridge(l2=0.1), oar.Query(point, goal=oar.Between(0.5, 1.5)))
    other = solved(people, oar.models.Ridge(l2=0.1), oar.Query(point, goal=1.0, within=0.5))
    assert one.loss == other.loss


def test_nothing_is_gained_a_spread_past_the_end_of_a_range():
    people, point = values(), np.array([0.1, 0.0, 0.2])
    result = solved(people, oar.models.Ridge(l2=0.1), oar.Query(point, goal=oar.Between(low=0.5)), budget=20.0)
    assert result.loss == pytest.approx(0.0, abs=1e-9)
    assert result.prediction >= 0.5 + people.labels.std() - 1e-3


def several(count=4, **settings):
    people = three_classes()
    points = np.random.default_rng(3).normal(scale=0.7, size=(count, 2)) + [0.5, 0.3]
    return people, oar.Query(points, goal=settings.pop("goal", "b"), **settings)


def test_the_mean_of_several_queries_is_scikit_learns():
    people, query = several()
    result = solved(people, SOFTMAX, query)
    chances = refitted(people, result).predict_proba(query.features)[:, 1]
    assert result.loss == pytest.approx(-np.log(chances).mean(), rel=1e-5)
    assert [one.probability for one in result.audit.queries] == pytest.approx(list(chances), rel=1e-5)
    assert result.audit.share == np.mean([label == "b" for label in result.prediction])
    assert result.success == (result.audit.share == 1.0)


def test_the_worst_of_several_is_no_worse_than_with_the_mean():
    people, query = several()
    mean = solved(people, SOFTMAX, query)
    hard = solved(people, SOFTMAX, oar.Query(query.features, "b", several="worst"))
    assert hard.loss == pytest.approx(max(one.loss for one in hard.audit.queries))
    assert hard.loss <= max(one.loss for one in mean.audit.queries) + 1e-9
    assert hard.loss < max(one.loss for one in mean.audit.queries) - 1e-4  # and here it is truly better


def test_the_share_of_several_is_no_smaller_than_with_the_mean():
    people, query = several(8)
    mean = solved(people, SOFTMAX, query, budget=0.2)
    most = solved(people, SOFTMAX, oar.Query(query.features, "b", several="share", share=0.5), budget=0.2)
    assert most.audit.share >= mean.audit.share
    assert most.loss == pytest.approx(1 - most.audit.share)
    assert most.success == (most.audit.share >= 0.5)


def test_a_share_gives_up_who_cannot_be_helped():
    people = three_classes()
    near, hopeless = [[0.9, 0.1], [0.8, 0.0]], [[-9.0, 9.0], [-9.0, 8.0]]
    rows = np.array(near + hopeless)
    mean = solved(people, SOFTMAX, oar.Query(rows, "b"), budget=0.3)
    most = solved(people, SOFTMAX, oar.Query(rows, "b", several="share", share=0.5), budget=0.3)
    assert most.audit.share == 0.5
    assert most.success
    assert most.audit.queries[0].loss <= mean.audit.queries[0].loss + 1e-9


def test_several_queries_may_have_goals_of_their_own():
    people, query = several(2)
    result = solved(people, SOFTMAX, oar.Query(query.features, ["b", oar.AnyBut("b")]))
    fitted = refitted(people, result).predict_proba(query.features)
    assert result.audit.queries[0].probability == pytest.approx(fitted[0, 1], rel=1e-5)
    assert result.audit.queries[1].probability == pytest.approx(1 - fitted[1, 1], rel=1e-5)


def test_one_query_among_several_is_as_good_as_alone():
    people, query = several(1)
    alone = solved(people, SOFTMAX, oar.Query(query.features[0], "b"))
    twice = solved(people, SOFTMAX, oar.Query(np.vstack([query.features] * 2), "b"))
    assert twice.loss == pytest.approx(alone.loss, rel=1e-4)


def test_frames_and_lists_of_rows_are_several_queries():
    frame = pd.DataFrame(three_classes().features, columns=["x", "y"])
    people = oar.Population(frame, three_classes().labels)
    rows = pd.DataFrame({"y": [0.1, 0.2], "x": [0.5, 0.7]})
    by_frame = solved(people, SOFTMAX, oar.Query(rows, "b"))
    by_dicts = solved(people, SOFTMAX, oar.Query(rows.to_dict("records"), "b"))
    assert by_frame.loss == by_dicts.loss
    assert "2 queries" in repr(by_frame.problem)
    assert "of 2 queries" in repr(by_frame)


def gradient_of(problem, moves):
    """Return the slopes (n, d) by the implicit signal, weights included, and the loss as a function of moves."""
    training = problem.training()

    def loss(at):
        return refit(training, at, problem.first_query, problem.goal_target, None, 1e-12).loss

    step = Implicit().at(training, moves, problem.first_query, problem.goal_target, None, 1e-12)
    return step.slopes[:-1] * training.weights[:, None], loss


@pytest.mark.parametrize(
    "query",
    [
        oar.Query([0.4, 0.5], {"b", "c"}),
        oar.Query([0.4, 0.5], {"b", "c"}, probability=0.9),
        oar.Query([[0.4, 0.5], [1.0, 0.0]], ["b", oar.AnyBut("a")]),
        oar.Query(oar.Members([3, 7, 8]), "b"),
        oar.Query(oar.Members([3, 7]), {"a", "c"}),
    ],
)
@pytest.mark.parametrize("model", [SOFTMAX, oar.models.PrototypeNetwork(), oar.models.Scaled(SOFTMAX)])
def test_gradients_against_finite_differences(query, model):
    people = three_classes(20)
    problem = oar.Problem(people, model, query, oar.Perturb(1.0))
    moves = 0.1 * np.random.default_rng(0).normal(size=(20, 2))
    slopes, loss = gradient_of(problem, moves)
    for person in (3, 7, 12):
        for column in range(2):
            nudge = np.zeros_like(moves)
            nudge[person, column] = 1e-5
            by_difference = (loss(moves + nudge) - loss(moves - nudge)) / 2e-5
            assert slopes[person, column] == pytest.approx(by_difference, rel=1e-4, abs=1e-8)


def test_gradients_of_ranges_against_finite_differences():
    people = values(15)
    problem = oar.Problem(
        people, oar.models.Ridge(l2=0.1), oar.Query([0.1, 0.0, 0.2], oar.Between(low=3.0)), oar.Perturb(1.0)
    )
    moves = 0.1 * np.random.default_rng(0).normal(size=(15, 3))
    slopes, loss = gradient_of(problem, moves)
    nudge = np.zeros_like(moves)
    nudge[4, 1] = 1e-5
    assert slopes[4, 1] == pytest.approx((loss(moves + nudge) - loss(moves - nudge)) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("model", [SOFTMAX, oar.NearestCentroid()])
def test_members_who_ask_are_judged_where_they_have_moved_to(model):
    people = three_classes()
    asking = [int(place) for place in np.flatnonzero(people.labels == "a")[:3]]
    result = solved(people, model, oar.Query(oar.Members(asking), "b"), budget=0.8)
    moved = people.features + result.plan.moves()
    if isinstance(model, oar.NearestCentroid):
        centres = np.array([moved[people.labels == label].mean(axis=0) for label in "abc"])
        chances = np.exp(-np.linalg.norm(moved[asking][:, None] - centres, axis=2))
        chances = (chances / chances.sum(axis=1, keepdims=True))[:, 1]
    else:
        chances = refitted(people, result).predict_proba(moved[asking])[:, 1]
    assert [one.probability for one in result.audit.queries] == pytest.approx(list(chances), rel=1e-5)
    staying = solved(people, model, oar.Query(people.features[asking], "b"), budget=0.8)
    assert result.loss < staying.loss  # moving oneself helps


def test_members_by_mask_and_by_index():
    frame = pd.DataFrame(three_classes(20).features, columns=["x", "y"], index=[f"p{i}" for i in range(20)])
    people = oar.Population(frame, pd.Series(three_classes(20).labels, index=frame.index))
    mask = np.zeros(20, dtype=bool)
    mask[[2, 5]] = True
    problems = [
        oar.Problem(people, SOFTMAX, oar.Query(oar.Members(who), "b"), oar.Perturb(0.1)) for who in (mask, ["p2", "p5"])
    ]
    assert problems[0].asked.members.tolist() == problems[1].asked.members.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda: oar.Query([0.0, 0.0], {"a", "b", "c"}), "goal: must leave out at least one class"),
        (lambda: oar.Query([0.0, 0.0], set()), "goal: must name at least one class"),
        (lambda: oar.Query([0.0, 0.0], {"a", "z"}), "goal: must be one of the classes"),
        (lambda: oar.Query([0.0, 0.0], oar.AnyBut("z")), "goal: must be one of the classes"),
        (lambda: oar.AnyBut(), "AnyBut: must name at least one label"),
        (lambda: oar.Query([0.0, 0.0], oar.Between(1.0)), "goal: a range is for models that predict values"),
        (lambda: oar.Between(), "Between: must have a low or a high end"),
        (
            lambda: oar.Query([0.0, 0.0], "a", probability=1.0),
            "Query probability: must be a number above 0 and below 1",
        ),
        (lambda: oar.Query([0.0, 0.0], "a", share=0.0), "Query share: must be a number above 0 and at most 1"),
        (lambda: oar.Query([0.0, 0.0], "a", several="best"), "several: must be one of 'mean', 'worst', 'share'"),
        (lambda: oar.Query([0.0, 0.0], "a", several="worst"), "Query several: is for several people"),
        (lambda: oar.Query([0.0, 0.0], "a", share=0.5), "Query share: is for several people"),
        (lambda: oar.Query([[0.0, 0.0], [1.0, 0.0]], ["a"]), "goal: must be one for each of 2 queries, got 1"),
        (lambda: oar.Query(oar.Members([]), "a"), "Members: must"),
        (lambda: oar.Members([3], goal="a"), "Members: must be one of 'who', 'stay', got 'goal'"),
        (lambda: oar.Query(oar.Members([99]), "a"), "Members: positions must be from 0 to 59"),
        (lambda: oar.Query(oar.Members([1, 1]), "a"), "Members: must name everybody once"),
        (lambda: oar.Query(oar.Members(np.ones(3, bool)), "a"), "Members: a mask must have one entry"),
    ],
)
def test_goals_that_cannot_be(query, message):
    with pytest.raises(oar.errors.OARError, match=message):
        oar.Problem(three_classes(), SOFTMAX, query(), oar.Perturb(1.0))


def test_margins_have_no_probabilities():
    with pytest.raises(oar.errors.OptionError, match="has margins and no probabilities"):
        oar.Problem(
            three_classes(), oar.models.LinearSVM(), oar.Query([0.0, 0.0], "a", probability=0.9), oar.Perturb(1.0)
        )


def test_joint_moves_know_sets_and_ranges():
    people, point = three_classes(), np.array([-0.5, -0.5])
    problem = oar.Problem(people, SOFTMAX, oar.Query(point, oar.AnyBut("a")), oar.Perturb(0.3))
    both, members, alone = oar.joint(problem), oar.collective(problem), oar.individual(problem)
    assert both.loss <= min(members.loss, alone.loss) + 1e-6


def test_labels_may_change_for_several_queries():
    people, query = several()
    problem = oar.Problem(people, SOFTMAX, query, [oar.Relabel(most=3)])
    result = oar.collective(problem)
    assert result.loss < result.loss_before
    assert result.audit.relabelled <= 3


def test_several_queries_on_a_table():
    loans = oar.datasets.german_credit()
    refused = loans.frame.drop(columns="credit")[loans.frame.credit == "bad"].iloc[:3]
    action = oar.Perturb(1.0, norm=1, limits=loans.limits, participants=0.3, seed=1)
    problem = oar.Problem(
        loans.population, oar.models.Scaled(oar.SoftmaxRegression()), oar.Query(refused, "good"), action
    )
    result = oar.collective(problem)
    assert result.loss < result.loss_before
    assert not result.audit.violations
    assert len(result.audit.queries) == 3


def test_members_of_a_table_who_ask():
    loans = oar.datasets.german_credit()
    asking = np.flatnonzero(loans.frame.credit == "bad")[:2]
    action = oar.Perturb(1.0, norm=1, limits=loans.limits, participants=0.3, seed=1)
    model = oar.models.Scaled(oar.SoftmaxRegression())
    moving = oar.collective(oar.Problem(loans.population, model, oar.Query(oar.Members(asking), "good"), action))
    assert moving.loss < moving.loss_before
    assert not moving.audit.violations


def test_what_is_asked_of_a_finished_plan_knows_several_queries_too():
    people, query = several()
    result = solved(people, SOFTMAX, query)
    assert result.plan.robustness(noise=1e-12, draws=2).losses == pytest.approx([result.loss] * 2, rel=1e-6)
    shared = oar.questions.credit(result)
    assert shared.frame().credit.sum() == pytest.approx(result.loss_before - result.loss, rel=1e-2)
    told = oar.questions.collateral(result)
    assert told.bystanders.people + told.actors.people == people.size
    worst = solved(people, SOFTMAX, oar.Query(query.features, "b", several="worst"))
    shared = oar.questions.credit(worst, refits=40)
    assert shared.frame().credit.sum() == pytest.approx(worst.loss_before - worst.loss, abs=1e-6)
    with pytest.raises(oar.errors.OptionError, match="needs a smooth loss"):
        oar.questions.credit(worst, "first-order")


def test_members_who_ask_are_no_bystanders():
    people = three_classes()
    result = solved(people, SOFTMAX, oar.Query(oar.Members([1, 2]), "b"), participants=np.arange(60) > 20)
    assert oar.questions.collateral(result).bystanders.people <= 60 - 2 - result.audit.movers
    assert oar.questions.credit(result).frame().credit.sum() == pytest.approx(
        result.loss_before - result.loss, rel=1e-2
    )


@pytest.mark.parametrize("goal", [{"b", "c"}, oar.AnyBut("c")])
def test_robustness_judges_sets_as_the_audit_does(goal):
    people, point = three_classes(), np.array([0.5, 0.4])
    for model in (SOFTMAX, oar.NearestCentroid()):
        result = solved(people, model, oar.Query(point, goal), budget=0.5)
        again = result.plan.robustness(noise=1e-12, draws=1)
        assert again.losses[0] == pytest.approx(result.loss, rel=1e-6)
        assert again.successes[0] == result.success


def test_a_card_tells_such_goals_in_words(tmp_path):
    people = three_classes()
    result = solved(people, SOFTMAX, oar.Query([0.5, 0.4], oar.AnyBut("a")), budget=0.2)
    result.plan.card().save(tmp_path / "plan.json")
    card = oar.results.Card.load(tmp_path / "plan.json")
    assert str(card.goal) == "anything but 'a'"
    assert oar.audit(result.plan.followed(card)).loss == pytest.approx(result.loss, rel=0.05)
