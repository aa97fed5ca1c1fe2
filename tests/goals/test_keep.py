"""Plans that must leave others alone: limits on side effects are kept, as somebody else's refit says."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from support.goal_problems import SOFTMAX, three_classes, values

import oar

POINT = np.array([0.7, 0.3])
FEW = np.arange(60) < 20
QUICKLY = oar.solvers.ProjectedGradient(restarts=0, max_steps=60)


def solved(asked):
    quick = asked.limits is None and (asked.keep is not None or asked.model != oar.NearestCentroid())
    return oar.collective(asked, solver=QUICKLY if quick else "auto")


def problem(keep=None, model=SOFTMAX, budget=1.2, people=None, **query):
    people = three_classes() if people is None else people
    return oar.Problem(
        people, model, oar.Query(POINT, **({"goal": "b"} | query)), oar.Perturb(budget, participants=FEW), keep
    )


def predictions(people, moves=0.0, l2=0.05):
    """Return what scikit-learn's refit predicts of everybody as they were."""
    moved = np.asarray(people.features) + moves
    fitted = LogisticRegression(C=1 / (l2 * people.size), tol=1e-10, max_iter=10_000).fit(moved, people.labels)
    return fitted.predict(people.features)


def share_changed(result):
    people = result.problem.people
    moves = np.asarray(result.plan.moves())
    stays = ~moves.any(axis=1)
    return (predictions(people) != predictions(people, moves))[stays].mean()


def test_without_a_limit_bystanders_do_change():
    assert share_changed(solved(problem())) > 0.05


@pytest.mark.parametrize("most", [0.0, 0.03, 0.05])
def test_no_more_predictions_change_than_may(most):
    free, kept = solved(problem()), solved(problem(oar.Keep(changed=most)))
    assert not kept.audit.violations
    assert share_changed(kept) <= most
    assert kept.loss >= free.loss - 1e-9  # a limit never helps
    assert kept.loss < kept.loss_before


def test_a_limit_that_is_kept_anyway_costs_nothing():
    free, kept = solved(problem()), solved(problem(oar.Keep(changed=0.9)))
    assert kept.loss == free.loss
    assert kept.status is free.status


def test_the_audit_refuses_a_plan_that_breaks_the_limit():
    free = solved(problem())
    plan = oar.plans.MemberPlan(problem(oar.Keep(changed=0.0)), np.zeros(2), free.plan.each)
    audit = oar.audit(plan)
    assert not audit.success
    assert "of the bystanders change, limit 0.00%" in audit.violations[0]


def test_accuracy_on_held_out_people_does_not_fall_by_more_than_it_may():
    people, others = three_classes(), three_classes(80, seed=9)
    wrong = {}
    for name, keep in {"free": None, "kept": oar.Keep(worse=0.01, held_out=others)}.items():
        result = solved(problem(keep, people=people, budget=2.0))
        assert not result.disagreement, result.disagreement
        fits = [
            LogisticRegression(C=1 / (0.05 * people.size), tol=1e-10, max_iter=10_000).fit(rows, people.labels)
            for rows in (people.features, people.features + result.plan.moves())
        ]
        wrong[name] = np.subtract(*(fit.score(others.features, others.labels) for fit in fits))
    assert wrong["free"] > 0.01
    assert wrong["kept"] <= 0.01 + 1e-12


def test_each_group_is_looked_after_by_itself():
    people = three_classes()
    group = np.where(people.features[:, 0] > 0.5, "right", "left")
    result = solved(problem(oar.Keep(changed=0.04, groups=group)))
    assert not result.disagreement, result.disagreement
    moves = np.asarray(result.plan.moves())
    changed, stays = predictions(people) != predictions(people, moves), ~moves.any(axis=1)
    for name in ("left", "right"):
        assert changed[stays & (group == name)].mean() <= 0.04
    assert not result.audit.violations


def test_values_are_kept_by_their_error():
    people = values(60)
    query = oar.Query([0.1, 0.0, 0.2], goal=oar.Between(low=1.0))
    action = oar.Perturb(2.0, participants=FEW)
    free = solved(oar.Problem(people, oar.models.Ridge(l2=0.1), query, action))
    kept = solved(oar.Problem(people, oar.models.Ridge(l2=0.1), query, action, oar.Keep(worse=0.05)))
    assert not kept.disagreement, kept.disagreement

    def error(moves):
        fitted = Ridge(alpha=0.1 * people.size).fit(people.features + moves, people.labels)
        return ((fitted.predict(people.features) - people.labels) ** 2).mean()

    assert error(free.plan.moves()) - error(0.0) > 0.05
    assert error(kept.plan.moves()) - error(0.0) <= 0.05 + 1e-12
    assert kept.loss < kept.loss_before


def test_nearest_centroid_keeps_limits_too():
    free = solved(problem(model=oar.NearestCentroid()))
    kept = solved(problem(oar.Keep(changed=0.0), model=oar.NearestCentroid()))
    assert oar.questions.collateral(free).bystanders.changed > 0
    assert oar.questions.collateral(kept).bystanders.changed == 0
    assert not kept.audit.violations


def test_a_table_keeps_limits_too():
    loans = oar.datasets.german_credit()
    refused = loans.frame.drop(columns="credit").iloc[1]
    action = oar.Perturb(1.0, norm=1, limits=loans.limits, participants=0.3, seed=1)
    model = oar.models.Scaled(oar.SoftmaxRegression())
    asked = loans.population, model, oar.Query(refused, goal="good"), action
    free, kept = (solved(oar.Problem(*asked, keep)) for keep in (None, oar.Keep(changed=0.01, groups="job")))
    assert oar.questions.collateral(free, groups="job").by_group["share"].max() > 0.01
    assert oar.questions.collateral(kept, groups="job").by_group["share"].max() <= 0.01
    assert not kept.audit.violations


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (lambda: oar.Keep(), "Keep: must limit something"),
        (lambda: oar.Keep(changed=2.0), "changed: must be a share between 0 and 1"),
        (lambda: oar.Keep(worse=-1.0), "worse: must be a number ≥ 0"),
        (lambda: oar.Keep(worse=0.1, groups="x"), "groups: is only used with changed"),
        (lambda: oar.Keep(changed=0.1, held_out=three_classes()), "held_out: is only used with worse"),
        (lambda: oar.Keep(chnged=0.1), "Did you mean 'changed'"),
        (lambda: 0.1, "keep: must be an oar.Keep"),
    ],
)
def test_limits_that_cannot_be(keep, message):
    with pytest.raises(oar.errors.OARError, match=message):
        problem(keep())


def test_labels_and_strikes_are_planned_without_such_limits():
    asked = oar.Problem(three_classes(), SOFTMAX, oar.Query(POINT, "b"), [oar.Relabel(most=2)], oar.Keep(changed=0.1))
    with pytest.raises(oar.errors.OptionError, match="a plan that must leave others alone"):
        oar.collective(asked)


@pytest.mark.parametrize("model", [SOFTMAX, oar.models.Scaled(SOFTMAX), oar.models.PrototypeNetwork()])
def test_gradients_with_anchors_against_finite_differences(model):
    from oar.goals.keep import Anchors
    from oar.signals import Implicit
    from oar.signals.base import refit

    people = three_classes(20)
    asked = oar.Problem(people, model, oar.Query(POINT, "b"), oar.Perturb(1.0))
    rows = np.random.default_rng(2).normal(size=(5, 2))
    training = asked.training(anchors=Anchors(rows, np.eye(3)[[0, 1, 2, 0, 1]], 2.5))
    moves = 0.1 * np.random.default_rng(0).normal(size=(20, 2))
    step = Implicit().at(training, moves, asked.first_query, asked.goal_target, None, 1e-12)
    slopes = step.slopes[:-1] * training.weights[:, None]

    def loss(at):
        return refit(training, at, asked.first_query, asked.goal_target, None, 1e-12).loss

    for person, column in ((0, 0), (7, 1)):
        nudge = np.zeros_like(moves)
        nudge[person, column] = 1e-5
        assert slopes[person, column] == pytest.approx(
            (loss(moves + nudge) - loss(moves - nudge)) / 2e-5, rel=1e-4, abs=1e-8
        )


def test_what_breaks_the_limit_is_no_success_when_people_defect():
    result = solved(problem(oar.Keep(changed=0.03)))
    draws = result.plan.robustness(defection=0.3, draws=10)
    free = solved(problem())
    loose = oar.plans.MemberPlan(problem(oar.Keep(changed=0.0)), np.zeros(2), free.plan.each)
    assert loose.robustness(noise=1e-9, draws=2).success_rate == 0.0  # the goal is reached, and the limit is not kept
    assert free.plan.robustness(noise=1e-9, draws=2).success_rate == 1.0
    assert draws.success_rate <= 1.0


def test_a_card_that_breaks_the_limit_is_not_published():
    kept = solved(problem(oar.Keep(changed=0.0)))
    with pytest.raises(oar.errors.DataError, match="no card"):
        kept.plan.card()


def test_members_who_stay_take_no_part_and_are_no_bystanders():
    people = three_classes()
    query = oar.Query(oar.Members([30, 31], stay=True), "b")
    result = oar.collective(oar.Problem(people, SOFTMAX, query, oar.Perturb(0.8)), solver=QUICKLY)
    moves = np.asarray(result.plan.moves())
    assert not moves[[30, 31]].any()
    assert oar.questions.collateral(result).bystanders.people == 0  # all others move
    free = oar.collective(
        oar.Problem(people, SOFTMAX, oar.Query(people.features[[30, 31]], "b"), oar.Perturb(0.8)), solver=QUICKLY
    )
    assert free.loss <= result.loss
    one = oar.Problem(people, oar.NearestCentroid(), oar.Query(oar.Members([30], stay=True), "b"), oar.Perturb(0.8))
    assert oar.collective(one).exact  # one person, as it is


HARD = oar.Query([0.0, 1.5], "b")  # a third of those who are called b pay for it


def wanted_and_kept(result, goal):
    """Return who had the goal by scikit-learn's refit before, and who has it after, movers where their moves lead."""
    people, moves = result.problem.people, np.asarray(result.plan.moves())
    fitted = LogisticRegression(C=1 / (0.05 * people.size), tol=1e-10, max_iter=10_000)
    had = fitted.fit(people.features, people.labels).predict(people.features) == goal
    moved = np.asarray(people.features) + moves
    return had, fitted.fit(moved, people.labels).predict(moved) == goal, moves.any(axis=1)


def lost_share(had, has, inside):
    return (had & ~has & inside).sum() / max((had & inside).sum(), 1)


def test_movers_who_have_the_goal_do_not_lose_it_more_often_than_they_may():
    for most, breaks in ((None, True), (0.05, False)):
        keep = None if most is None else oar.Keep(lost=most)
        result = solved(oar.Problem(three_classes(), SOFTMAX, HARD, oar.Perturb(1.2), keep))
        had, has, moves = wanted_and_kept(result, "b")
        assert (lost_share(had, has, moves) > 0.05) == breaks
        assert result.loss < result.loss_before
    assert not result.audit.violations
    assert lost_share(had, has, ~moves) <= 0.05


def test_the_audit_refuses_a_plan_by_which_too_many_movers_lose_the_goal():
    action = oar.Perturb(1.2)
    free = solved(oar.Problem(three_classes(), SOFTMAX, HARD, action))
    strict = oar.Problem(three_classes(), SOFTMAX, HARD, action, oar.Keep(lost=0.0))
    audit = oar.audit(oar.plans.MemberPlan(strict, np.zeros(2), free.plan.each))
    had, has, moves = wanted_and_kept(free, "b")
    assert not audit.success
    assert f"{lost_share(had, has, moves):.2%} of the movers who had a prediction that is asked for" in str(
        audit.violations
    )


def test_values_cannot_be_lost_and_shares_are_shares():
    with pytest.raises(oar.errors.OARError, match=r"lost: must be a share between 0 and 1, got 2"):
        oar.Keep(lost=2)
    with pytest.raises(oar.errors.OARError, match="lost: counts predicted classes"):
        oar.Problem(
            values(60), oar.models.Ridge(), oar.Query([0.1, 0, 0.2], 1.0, within=1), oar.Perturb(1.0), oar.Keep(lost=0)
        )
