"""What a result says about itself, and where its audit contradicts its solver; and that it does not for rounding."""

import dataclasses

import numpy as np
import pandas
import pytest

import oar
from oar.errors import Status
from oar.models import BatchNorm, Dense, TestTimeBatchNorm
from oar.online import ExponentialMeans, FullRefit, OnlineProblem, Stream
from oar.plans.proof import Proof

TWO = ([[0.0], [4.0]], ["a", "b"])


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"income": rng.normal(2_000, 500, 30).round(), "owns": rng.random(30) < 0.5})
    frame["approved"] = np.where(frame["income"] + rng.normal(0, 200, 30) > 2_000, "yes", "no")
    return oar.Population.from_frame(frame, target="approved")


def asked(people, income, goal, **limits):
    query = oar.Query({"income": income, "owns": True}, goal)
    return oar.Problem(
        people, oar.models.Scaled(oar.models.SoftmaxRegression(l2=0.1)), query, oar.Perturb(0.5, **limits)
    )


def test_a_collective_on_a_table_says_that_an_individual_may_do_better(people):
    problem = asked(people, 1_900.0, "yes")
    result = oar.collective(problem, solver="one-shot")
    assert result.explanation.endswith("not promised to do as well as an individual: compare oar.individual.")
    assert repr(result).endswith("; an individual may do better)")
    alone = oar.individual(problem)
    assert "promised" not in alone.explanation
    assert "individual may" not in repr(alone)


def test_a_plan_and_its_audit_are_short_in_print(people):
    problem = asked(people, 1_900.0, "yes")
    strike = oar.Problem(people, problem.model, problem.query, [oar.Relabel(most=1), oar.Withhold(most=2)])
    result = oar.collective(strike)
    said = f"{result.audit.relabelled} label changes; {result.audit.leavers} members leave; the query stays)"
    assert repr(result.plan) == f"LeverPlan(0 of 30 members move; {said}"
    alone = oar.individual(problem)
    assert repr(alone.plan) == "MemberPlan(0 of 30 members move; the query moves)"
    lines = dict(line.split("  ", 1) for line in str(alone.audit).splitlines())
    assert list(lines) == ["success", "prediction", "goal loss", "acts", "limits", "refitted by", "that is"]
    assert lines["goal loss"].strip() == f"{alone.loss_before:.4g} → {alone.loss:.4g}"
    assert lines["acts"].strip().startswith("0 members move")
    centroids = oar.Problem(
        oar.Population([[0.0], [1.0]], ["a", "b"]), oar.NearestCentroid(), oar.Query([0.4], "b"), oar.Perturb(0.1)
    )
    assert repr(oar.collective(centroids).plan) == "ClassPlan(2 of 2 classes move; the query stays)"


def test_a_loss_that_stays_was_not_lowered(people):
    fixed = {name: oar.Limit(immutable=True) for name in ("income", "owns")}
    stays = oar.collective(asked(people, 3_000.0, "yes", limits=fixed))
    assert stays.status is oar.results.Status.ALREADY
    assert stays.loss == stays.loss_before
    assert "The goal loss did not fall." in stays.explanation
    falls = oar.collective(asked(people, 3_000.0, "yes"), solver="one-shot")
    assert falls.status is oar.results.Status.ALREADY
    assert "The goal loss was lowered all the same." in falls.explanation


class Boastful(ExponentialMeans):
    """A rule that says that it keeps a share of centroids in the first round, too, when there are none."""

    def kept_share(self, class_weights, started):
        return np.full(len(class_weights), 1 - self.rate)


def test_a_rule_that_says_of_itself_what_is_not_so_is_found_out():
    stream = Stream.of_batches([TWO, TWO])
    for rule, honest in ((ExponentialMeans(0.3), True), (Boastful(0.3), False)):
        problem = OnlineProblem(stream, oar.NearestCentroid(), rule, oar.Query([2.3], "a"), oar.Perturb(0.2))
        result = oar.collective(problem)
        assert result.proposal.exact
        assert result.exact is honest
        assert ("proved optimal" in repr(result)) is honest
        assert ("contradicts the solver" in repr(result)) is not honest
        assert ("check_rule" in result.explanation) is not honest
        assert ("the solver expects" in result.explanation) is not honest
        assert (result.status is Status.IMPOSSIBLE) is honest  # what a rule says of itself proves nothing
        assert result.bound <= result.loss


@pytest.fixture(scope="module")
def one_refit():
    people = oar.Population(*TWO)
    return oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query([2.3], "a"), oar.Perturb(0.2)))


def test_a_claim_that_differs_much_is_told_and_one_that_is_rounding_is_not(one_refit):
    assert one_refit.disagreement == ""
    for change, told in ((1.1, "the solver expects"), (0.9, "the solver expects"), (1 + 1e-7, "")):
        claimed = dataclasses.replace(one_refit.proposal, claimed_loss=change * one_refit.loss)
        changed = dataclasses.replace(one_refit, proposal=claimed)
        assert (told in changed.explanation) if told else not changed.disagreement
        assert changed.exact is not bool(told)
    proved = dataclasses.replace(one_refit, proof=Proof(1.01, True))
    assert "is taken for a proved bound" in proved.explanation
    assert proved.bound == -np.inf
    assert proved.status is Status.IMPROVED


def test_an_impossible_goal_that_is_reached_is_told():
    people = oar.Population(*TWO)
    result = oar.collective(oar.Problem(people, oar.NearestCentroid(), oar.Query([2.3], "a"), oar.Perturb(0.5)))
    wrong = dataclasses.replace(result, proof=Proof(impossible=True))
    assert wrong.status is Status.ACHIEVED
    assert "is taken for proved to be impossible" in wrong.explanation


@pytest.mark.parametrize("place", [18.0, 30.0, 8.5])
def test_a_bound_is_no_more_than_the_loss_where_both_are_next_to_nothing(place):
    for norm in (1, 2, np.inf):
        rows = np.array([[0.0, 0.1], [0.3, 0.0], [2 * place, 0.2], [1.9 * place, 0.7]])
        stream = Stream.of_batches([(rows, [0, 0, 1, 1]), (rows + 0.1, [0, 0, 1, 1])])
        action = oar.Perturb(0.3, norm=norm)
        for solver in ("auto", "projected-gradient"):
            problem = OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), oar.Query([0.7, 0.3], 0), action)
            result = oar.collective(problem, solver=solver)
            assert result.bound <= result.loss
            assert not result.disagreement


def test_who_cannot_move_and_has_the_goal_is_not_told_that_it_is_impossible():
    frozen = TestTimeBatchNorm([BatchNorm([1.0], mean=[0.0], variance=[1.0]), Dense([[1.0], [-1.0]])], momentum=0.0)
    people = oar.Population([[-1.0], [0.0], [1.0]], [0, 1, 0])
    for place, had in ((0.5, True), (-0.5, False)):
        result = oar.collective(oar.Problem(people, frozen, oar.Query([place], 0), oar.Perturb(2.0)))
        assert result.exact
        assert result.status is (Status.ALREADY if had else Status.IMPOSSIBLE)
    for place, had in ((1.0, True), (3.0, False)):
        alone = oar.Problem(oar.Population(*TWO), oar.NearestCentroid(), oar.Query([place], "a"), oar.Perturb(0.0))
        assert oar.individual(alone).impossible is not had
    stream = Stream.of_batches([TWO, TWO])
    for place, had in ((1.0, True), (3.0, False)):
        asked, nobody = oar.Query([place], "a"), oar.Perturb(0.0)
        result = oar.collective(OnlineProblem(stream, oar.SoftmaxRegression(0.1), FullRefit(), asked, nobody))
        assert result.exact
        assert result.status is (Status.ALREADY if had else Status.IMPOSSIBLE)


def test_members_who_ask_move_themselves_where_statistics_are_frozen():
    frozen = TestTimeBatchNorm(
        [BatchNorm([1.0], mean=[0.0], variance=[1.0]), Dense([[1.0], [-1.0]])], momentum=0.0, query_in_batch=False
    )
    people = oar.Population([[-1.0], [0.0], [1.0]], [0, 1, 0])
    result = oar.collective(oar.Problem(people, frozen, oar.Query(oar.Members([0]), 0), oar.Perturb(2.0)))
    assert result.status is Status.ACHIEVED


@pytest.mark.parametrize("kind", ["worst", "share"])
@pytest.mark.parametrize("budget", [0.0, 0.5])
def test_no_certificate_is_claimed_for_what_is_not_smooth(kind, budget):
    asked = oar.Query([[2.5], [3.9]], "a", several=kind)
    stream = Stream.of_batches([TWO, TWO])
    results = [
        oar.collective(OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), asked, oar.Perturb(budget))),
    ]
    if not budget:
        model = oar.SoftmaxRegression(0.1)
        results.append(oar.collective(OnlineProblem(stream, model, FullRefit(), asked, oar.Perturb(budget))))
    for result in results:
        assert not result.disagreement
        assert result.bound <= result.loss
        if budget:
            assert not result.exact
            assert "no certificate" in repr(result)
        else:
            assert result.exact
            assert result.bound == pytest.approx(result.loss)
