"""The least of everything, for kinds of problems beyond moves of one refit: against all choices, and the audit."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.question_problems import QUICK, two_groups

import oar

SOFTMAX = oar.SoftmaxRegression(0.1)


def levered(*actions, seed=1, size=10, model=SOFTMAX):
    """Return a problem of labels and leavers."""
    problem = two_groups(seed, model, size=size)
    return oar.Problem(problem.people, problem.model, problem.query, list(actions))


def fewest_changes(problem, least=0, most=4):
    """Return the fewest people whose flipping or leaving reaches the goal, by trying all, or None."""
    size, people = problem.people.size, problem.people
    labels = np.asarray(people.labels)
    other = {"no": "yes", "yes": "no"}
    flips, leaves = problem.levers.relabel.given, problem.levers.withhold.given
    for number in range(least, most + 1):
        for some in itertools.combinations(range(size), number):
            for kinds in itertools.product([True] * flips + [False] * leaves, repeat=number):
                flipped = {one for one, flip in zip(some, kinds, strict=True) if flip}
                gone = np.isin(np.arange(size), list(set(some) - flipped))
                new = [other[label] if row in flipped else label for row, label in enumerate(labels)]
                if len({label for label, away in zip(new, gone, strict=True) if not away}) < 2:
                    continue
                if oar.audit(problem, labels=np.array(new), leavers=gone).success:
                    return number
    return None


@pytest.mark.parametrize(
    "actions", [[oar.Relabel(most=4)], [oar.Withhold(most=4)], [oar.Relabel(most=4), oar.Withhold(most=4)]]
)
@pytest.mark.parametrize(("seed", "model"), [(1, SOFTMAX), (3, SOFTMAX), (1, oar.NearestCentroid())])
def test_the_fewest_changes_are_found_and_none_is_said_to_be_needed_that_is_not(actions, seed, model):
    problem = levered(*actions, seed=seed, size=9, model=model)
    answer, truth = oar.minimal_coalition(problem), fewest_changes(problem)
    if truth is None:
        assert answer.size is None or answer.size > 4
        return
    assert answer.at_least <= truth <= answer.size <= truth + 1
    assert answer.result.success
    assert answer.result.audit.relabelled + answer.result.audit.leavers == answer.size
    budget = oar.minimal_budget(problem)
    assert budget.at_least <= truth
    assert max(budget.result.audit.relabelled, budget.result.audit.leavers) == budget.value
    assert budget.result.success
    if len(actions) == 1:
        assert truth <= budget.value <= truth + 1


def test_a_lever_that_cannot_do_is_not_called_impossible_and_nobody_is():
    problem = levered(oar.Relabel(most=1), seed=2, size=16)
    far = replace(problem, query=oar.Query([-3.0, -3.0], "yes"))
    assert oar.minimal_coalition(far).status is oar.results.Status.NOT_FOUND
    nobody = levered(oar.Relabel(most=3, participants=np.zeros(10, dtype=bool)))
    for ask in (oar.minimal_budget, oar.minimal_coalition):
        assert ask(nobody).status is oar.results.Status.IMPOSSIBLE


def test_moves_and_labels_together_need_no_more_members_than_labels_alone():
    flips, moves = oar.Relabel(most=4), oar.Perturb(0.3)
    both, alone = (oar.minimal_coalition(levered(*some, size=9)) for some in ([moves, flips], [flips]))
    assert both.result.success
    assert both.size <= alone.size
    budget = oar.minimal_budget(levered(moves, oar.Relabel(most=1), size=9), tolerance=0.05)
    assert budget.result.success
    assert budget.at_least == 0
    without = oar.minimal_budget(levered(moves, size=9), tolerance=0.05)
    assert budget.value <= without.value * 1.05


def test_soft_labels_have_a_least_budget():
    found = oar.minimal_budget(levered(oar.Relabel(soft=0.2)), tolerance=0.05)
    assert found.result.success
    soft = oar.collective(levered(oar.Relabel(soft=found.value * 0.8)))
    assert not soft.success
    assert oar.collective(levered(oar.Relabel(soft=min(1.0, found.value * 1.02)))).success


def test_the_best_few_are_those_of_whom_the_fewest_are():
    problem = two_groups(1, oar.NearestCentroid(), size=8, budget=0.9)
    chosen = oar.minimal_coalition(problem.with_action(participants=oar.Best(3)))
    assert (chosen.size, chosen.exact) == (oar.minimal_coalition(problem).size, True)
    assert oar.break_even(problem.with_action(participants=oar.Best(3))).share == oar.break_even(problem).share


def test_a_black_box_is_asked_for_the_fewest_within_a_number_of_trainings():
    from sklearn.tree import DecisionTreeClassifier

    problem = two_groups(0, oar.BlackBox(DecisionTreeClassifier(max_depth=2, random_state=0)), size=24, budget=1.0)
    before = problem.model.calls.copy()
    answer = oar.minimal_coalition(problem, effort="quick")
    fits = problem.model.calls.since(before).fits
    assert answer.result.success
    assert 1 <= answer.size <= 24
    assert oar.audit(answer.result.plan).success
    assert f"{fits:,} trainings of the black box in all" in answer.explanation
    assert answer.result.audit.movers == answer.size == np.asarray(answer.members).sum()


def test_several_each_move_for_themselves_and_are_measured_one_by_one():
    problem = two_groups(0, SOFTMAX)
    points = np.array([[0.7, 0.6], [0.4, 0.9], [0.2, 0.1]])
    several = replace(problem, query=oar.Query(points, "yes"))
    found = oar.individual(several)
    singles = [oar.individual(replace(problem, query=oar.Query(point, "yes"))) for point in points]
    assert np.allclose(found.plan.query_move, [one.plan.query_move for one in singles])
    assert found.loss == pytest.approx(np.mean([one.loss for one in singles]))
    assert [one.success for one in found.audit.queries] == [one.success for one in singles]
    assert found.bound <= found.loss
    too_far = replace(found.plan, query_move=1.5 * found.plan.query_move)
    assert sum("of query" in one for one in oar.audit(too_far).violations) == 3
    together = oar.joint(several)
    assert together.loss <= min(found.loss, oar.collective(several).loss) + 1e-9
    assert together.audit.violations == ()
    share = oar.break_even(several, collective_solver=QUICK)
    assert share.individual.loss == found.loss
    assert share.share is None or share.result.loss < found.loss


def test_members_who_ask_move_for_themselves_alone():
    problem = two_groups(0, SOFTMAX)
    rows = [0, 2]
    asked = replace(problem, query=oar.Query(oar.Members(rows), "yes"))
    found = oar.individual(asked)
    plain = oar.individual(replace(problem, query=oar.Query(problem.people.features[rows], "yes")))
    assert found.loss == plain.loss
    assert oar.joint(asked).loss == oar.collective(asked).loss
    only = oar.individual(replace(problem, query=oar.Query(oar.Members([0]), "yes")))
    assert only.loss == oar.individual(replace(problem, query=oar.Query(problem.people.features[0], "yes"))).loss


def test_labels_and_own_moves_go_by_turns():
    flips = oar.Relabel(most=1)
    still = levered(flips)
    assert not oar.individual(still).plan.query_move.any()
    assert oar.joint(still).loss == oar.collective(still).loss
    moving = replace(still, query=replace(still.query, budget=0.3))
    own, both = oar.individual(moving), oar.joint(moving)
    assert np.linalg.norm(both.plan.query_move) <= 0.3 * (1 + 1e-9)
    assert both.loss <= min(own.loss, oar.collective(moving).loss) + 1e-9
    assert both.loss < own.loss
    assert both.audit.relabelled == 1
    share = oar.break_even(moving)
    assert share.share is None or share.result.loss < own.loss


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory):
    """People in two files, and the same in memory, with the budget that each of them has."""
    problem, folder = two_groups(0, SOFTMAX, size=40, budget=0.8), tmp_path_factory.mktemp("parts")
    frame = pd.DataFrame(problem.people.features, columns=["a", "b"]).assign(label=problem.people.labels)
    for part in range(2):
        frame.iloc[20 * part : 20 * part + 20].to_parquet(folder / f"{part}.parquet")
    people = oar.Population.from_parquet(folder, target="label")
    return replace(problem, people=people), problem


def test_people_in_parts_need_what_people_in_memory_do(in_parts):
    parts, memory = in_parts
    budgets = [oar.minimal_budget(problem, tolerance=0.02).value for problem in in_parts]
    assert budgets[0] == pytest.approx(budgets[1], rel=0.05)
    few, same = (oar.minimal_coalition(problem) for problem in in_parts)
    assert few.result.success
    assert few.size <= same.size + 2
    replayed = memory.with_action(participants=np.asarray(few.members), seed=None)
    moves = np.vstack([few.result.plan.of_chunk(chunk) for chunk in parts.people.chunks()])
    assert oar.audit(replayed, moves).success
    assert sum(few.by_class.values()) == few.size
    shares = [oar.break_even(problem) for problem in in_parts]
    assert shares[0].goal_share == pytest.approx(shares[1].goal_share, abs=0.1)


def test_centroids_of_people_in_parts_have_the_same_exact_answers(in_parts):
    parts, memory = (replace(problem, model=oar.NearestCentroid()) for problem in in_parts)
    one, other = oar.minimal_coalition(parts), oar.minimal_coalition(memory)
    assert (one.size, one.exact, one.at_least) == (other.size, other.exact, other.at_least)
    assert np.array_equal(one.members, other.members)
    assert oar.break_even(parts).share == pytest.approx(oar.break_even(memory).share)


@pytest.mark.parametrize("ask", [oar.minimal_budget, oar.minimal_coalition, oar.break_even])
def test_no_time_is_an_honest_answer(ask):
    answer = ask(levered(oar.Relabel(most=3)), time_limit=0)
    assert answer.status in (oar.results.Status.NOT_FOUND, oar.results.Status.ACHIEVED)
    assert answer.result is None or answer.result.success == (answer.status is oar.results.Status.ACHIEVED)


@pytest.mark.parametrize(
    ("ask", "words"), [(oar.minimal_coalition, "at most .* members, at least 1"), (oar.minimal_budget, "a budget of")]
)
def test_an_interrupted_search_tells_what_it_knew(ask, words, capsys):
    problem = two_groups(1, SOFTMAX, size=14, budget=0.9)
    seen = []

    def stopping(step, loss, gap):
        seen.append(step)
        if len(seen) > 400 or (len(seen) > 40 and step == 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        ask(problem, solver=QUICK, progress=stopping)
    (note,) = stopped.value.__notes__
    assert re.search(f"^minimal .*: {words}", note)
    answer = ask(problem, solver=QUICK, progress=True)
    assert answer.result.success
    assert "so far" in capsys.readouterr().err
