"""What a result says about itself."""

import numpy as np
import pandas
import pytest

import oar


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
