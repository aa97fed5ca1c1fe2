"""Figure 2's data on Iris: known values, dominance, flips, and audited samples."""

import numpy as np
import pytest
from support.figure_looks import assert_no_text_covers_another, assert_nothing_is_cut_off

import oar
from oar_paper.case import Pair, iris_case
from oar_paper.comparison import compare
from oar_paper.figure2.curves import BudgetCurves, Curve, budget_curves
from oar_paper.figure2.drawing import Figure2, draw_figure2
from oar_paper.figure2.pairs import AllPairs, AuditedSample, all_pairs, choose_pairs
from oar_paper.figure2.shares import share_curves, study_budget

BUDGETS = (0.0, 0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def case():
    return iris_case()


@pytest.fixture(scope="module")
def curves(case):
    return budget_curves(case, BUDGETS)


@pytest.fixture(scope="module")
def pairs(case):
    return all_pairs(case, case.pairs, BUDGETS, cells=5, seed=0)


@pytest.fixture(scope="module")
def shares(case):
    return share_curves(case, case.pairs, (0.0, 0.25, 0.5, 0.75, 1.0), seed=0)


def test_the_query_lies_a_quarter_of_the_way_from_source_to_goal(case):
    flowers = oar.datasets.iris()
    means = [flowers.features[flowers.labels == label].mean(axis=0) for label in (0, 1)]
    np.testing.assert_allclose(case.query(case.pair), 0.25 * means[0] + 0.75 * means[1])
    assert case.describe(case.pair) == "goal setosa, from versicolor"
    assert len(case.pairs) == len({(pair.goal, pair.source) for pair in case.pairs}) == 6


def test_known_values_of_the_papers_pair(curves):
    np.testing.assert_allclose(curves.curves["collective"].losses, [1.945, 1.165, 0.594, 0.104], atol=5e-4)
    np.testing.assert_allclose(curves.curves["individual"].losses[1:], [1.166, 0.596, 0.105], atol=5e-4)
    assert curves.loss_before == pytest.approx(1.945, abs=5e-4)


def test_known_values_of_the_pair_with_a_class_in_between(pairs):
    row = pairs.pairs.index(Pair(goal=2, source=0))
    np.testing.assert_allclose(pairs.losses["collective"][row], [2.797, 1.897, 1.126, 0.248], atol=5e-4)
    np.testing.assert_allclose(pairs.losses["individual"][row, 1:], [2.250, 1.875, 1.195], atol=5e-4)
    assert pairs.collective_minimum[row] < 0.5 * pairs.individual_minimum[row]


def test_all_pairs_contain_the_papers_pair(pairs, curves, case):
    row = pairs.pairs.index(case.pair)
    for way, curve in curves.curves.items():
        np.testing.assert_allclose(pairs.losses[way][row], curve.losses, rtol=1e-7)


def test_collective_is_never_above_individual_nor_joint_above_either(pairs):
    assert (pairs.losses["collective"] <= pairs.losses["individual"] + 1e-9).all()
    assert (pairs.losses["joint"] <= pairs.losses["collective"] + 1e-9).all()
    assert (np.diff(pairs.losses["collective"], axis=1) < 0).all()


def test_claims_are_the_audits(curves, case):
    for curve in curves.curves.values():
        np.testing.assert_allclose(curve.claimed, curve.losses, atol=1e-12)
    for way in ("individual", "collective"):
        assert (curves.heuristic[way] >= curves.curves[way].losses - 1e-9).all()
        assert curves.heuristic[way][0] == pytest.approx(curves.loss_before)


def test_flips_agree_with_the_exact_minimal_budgets(curves):
    step = (1.0 - 0.5) / 2**10
    collective, individual, joint = (curves.curves[way] for way in ("collective", "individual", "joint"))
    assert curves.collective_minimum < collective.flip <= curves.collective_minimum + step
    assert individual.flip > curves.individual_minimum
    assert curves.individual_minimum == pytest.approx(curves.collective_minimum)
    assert joint.flip == pytest.approx(curves.collective_minimum / 2, abs=1e-3)
    np.testing.assert_array_equal(collective.success, [False, False, True, True])
    assert 0.594 < collective.flip_loss < 1.165


def test_the_sample_is_audited_and_close(pairs):
    assert pairs.sample.cells.shape == (5, 2)
    assert pairs.sample.of == 24
    assert len(np.unique(pairs.sample.cells, axis=0)) == 5
    assert 0 <= max(pairs.sample.largest_difference.values()) < 1e-7


def test_a_wrong_sweep_would_show_in_the_sample(case, monkeypatch):
    from oar_paper.figure2 import pairs as module

    honest = module.collective_losses
    monkeypatch.setattr(module, "collective_losses", lambda *arguments: honest(*arguments) + 1e-3)
    found = all_pairs(case, case.pairs[:2], (0.0, 0.5), cells=None, seed=0)
    assert found.sample.largest_difference["collective"] == pytest.approx(1e-3, rel=1e-6)


def test_chosen_pairs_contain_the_papers(case):
    chosen = choose_pairs(case, 3, seed=4)
    assert len(set(chosen)) == 3
    assert chosen[0] == case.pair
    assert chosen == choose_pairs(case, 3, seed=4)
    assert choose_pairs(case, None, seed=4) == choose_pairs(case, 99, seed=4) == case.pairs


def test_shares_run_from_nobody_to_everybody(case, shares, curves):
    budget = study_budget(case)
    assert shares.budget == budget == pytest.approx(2 * curves.collective_minimum)
    collective = shares.curves["collective"].losses
    assert collective[0] == pytest.approx(curves.loss_before)
    assert collective[-1] == pytest.approx(oar.collective(case.problem(budget)).loss, abs=1e-12)
    assert (np.diff(collective) < 0).all()
    assert shares.curves["joint"].losses[0] == pytest.approx(shares.individual, abs=1e-9)
    row = shares.pairs.index(case.pair)
    np.testing.assert_allclose(shares.pair_losses[row], collective, atol=1e-12)
    assert shares.pair_individual[row] == pytest.approx(shares.individual, abs=1e-8)


def test_shares_are_the_people_that_perturb_draws(case, shares):
    problem = case.problem(shares.budget)
    action = oar.Perturb(shares.budget, participants=0.5, seed=0)
    again = oar.collective(oar.Problem(problem.people, problem.model, problem.query, action))
    assert shares.curves["collective"].losses[2] == again.loss


def test_break_even_is_where_the_two_meet(case, shares):
    for pair, share, alone in zip(shares.pairs, shares.pair_break_even, shares.pair_individual, strict=True):
        distances = np.linalg.norm(case.centroids.positions - case.query(pair), axis=1)

        def loss(part, distances=distances, goal=pair.goal):
            moved = distances + part * shares.budget
            moved[goal] = max(distances[goal] - part * shares.budget, 0.0)
            return np.log(np.exp(moved[goal] - moved).sum())

        assert loss(share) == pytest.approx(alone, abs=1e-7)


def test_comparison_counts_what_it_says():
    budgets = np.array([0.0, 1.0, 2.0])
    individual = np.array([[1.0, 0.9, 0.8], [1.0, 0.9, 0.8], [1.0, 0.9, 0.8]])
    collective = np.array([[1.0, 0.5, 0.2], [1.0, 0.9, 0.7], [1.0, 0.9, 0.9]])
    pairs = AllPairs(
        pairs=[Pair(0, 1), Pair(0, 2), Pair(1, 2)],
        budgets=budgets,
        losses={"individual": individual, "collective": collective, "joint": collective},
        collective_minimum=np.array([0.5, 0.7, 0.9]),
        individual_minimum=np.array([0.6, 0.7, 0.9]),
        sample=AuditedSample(np.zeros((0, 2), dtype=int), 9, {}),
    )

    def line(losses):
        return Curve(losses, losses, losses < 0.75, None, None)

    own = BudgetCurves(
        "pair", budgets, 1.0, {"individual": line(individual[0]), "collective": line(collective[0])}, {}, 0.5, 0.6
    )
    found = compare(own, pairs)
    assert (found.pairs, found.cells, found.strict_pairs, found.tied_cells) == (3, 6, 1, 3)
    assert not found.never_worse
    assert (found.earlier_flips, found.earlier_pairs) == (1, [(0, 1)])
    assert found.largest_gain == pytest.approx(0.6)
    assert found.smallest_gain == pytest.approx(-0.1)
    assert (found.paper_pair_smallest_gain, found.paper_pair_largest_gain) == pytest.approx((0.4, 0.6))


def test_on_iris_all_pairs_are_strict_and_two_flip_earlier(curves, pairs):
    found = compare(curves, pairs)
    assert found.never_worse
    assert found.strict_pairs == found.pairs == 6
    assert found.earlier_pairs == [(0, 2), (2, 0)]
    assert found.paper_pair_largest_gain < 0.01 < 0.5 < found.largest_gain


def test_the_drawing_is_whole_and_readable(curves, pairs, shares):
    data = Figure2("Iris", 3, curves, pairs, shares)
    figure = draw_figure2([data, data])
    assert_nothing_is_cut_off(figure)
    assert_no_text_covers_another(figure)
    assert len(figure.axes) == 12
    losses = figure.axes[0].lines
    shown = [line.get_ydata() for line in losses]
    for curve in curves.curves.values():
        assert any(len(values) == len(curve.losses) and np.array_equal(values, curve.losses) for values in shown)
