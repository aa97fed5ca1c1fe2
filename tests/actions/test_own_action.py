"""Actions of one's own: planned within, audited by their own measure, and refused where balls are supposed."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import oar
from oar.actions import Action, Who
from oar.actions.own_action import ActionRegion

RNG = np.random.default_rng(7)
CODES = np.arange(20) % 2
FEATURES = RNG.normal(size=(20, 2)) + 1.5 * CODES[:, None]
ASKS = np.array([1.3, 1.2])
MODELS = [oar.SoftmaxRegression(l2=0.1), oar.NearestCentroid(), oar.models.LinearSVM(l2=0.1)]


@dataclass(frozen=True, eq=False)
class Rise(Action):
    """Features may only rise, each by at most so much."""

    most: np.ndarray
    name: ClassVar[str] = "rise"

    def reach(self, people):
        return float(np.linalg.norm(self.most))

    def project(self, moves, who):
        return np.clip(moves, 0, self.most)

    def respond(self, directions, who):
        return np.where(directions > 0, self.most, 0.0)

    def violations(self, moves, who):
        return np.maximum(-moves, moves - self.most).max(axis=1)


@dataclass(frozen=True, eq=False)
class Ball(Action):
    """The ball of `oar.Perturb`, once more, with budgets of everybody's own."""

    radii: np.ndarray
    name: ClassVar[str] = "ball"

    def reach(self, people):
        return self.radii

    def project(self, moves, who):
        return oar.actions.Norm.of(2).project(moves, self.radii[who.positions])

    def respond(self, directions, who):
        return oar.actions.Norm.of(2).maximise(directions, self.radii[who.positions])

    def violations(self, moves, who):
        return np.linalg.norm(moves, axis=1) - self.radii[who.positions]

    def scaled(self, share):
        return replace(self, radii=share * self.radii)


@dataclass(frozen=True, eq=False)
class ScaledRise(Rise):
    """The same, which says what a share of it is."""

    def scaled(self, share):
        return replace(self, most=share * self.most)


def problem(action, model=MODELS[0], **more):
    return oar.Problem(oar.Population(FEATURES, CODES), model, oar.Query(ASKS, 0), action, **more)


RISE = Rise(np.array([0.4, 0.1]))
BALL = Ball(np.linspace(0.1, 0.4, 20))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("solver", ["auto", "projected-gradient", "frank-wolfe", "one-shot"])
def test_plans_are_within_the_set_and_help(model, solver):
    found = oar.collective(problem(RISE, model), solver=solver, effort="quick")
    moves = np.asarray(found.plan.moves())
    assert (moves >= 0).all()
    assert (moves <= RISE.most + 1e-12).all()
    assert found.audit.violations == ()
    assert found.audit.measured_by == "rise"
    assert found.loss < found.audit.loss_before
    assert found.proposal.solver != "exact"


def test_a_ball_of_ones_own_does_what_the_ball_does():
    own, ours = (
        oar.collective(problem(action), solver=oar.solvers.ProjectedGradient(restarts=0, tolerance=1e-9))
        for action in (BALL, oar.Perturb(BALL.radii))
    )
    assert own.loss == pytest.approx(ours.loss, rel=1e-7)
    assert own.audit.measured_by == "ball"
    assert ours.audit.measured_by == ""


def test_an_optimum_in_a_box_is_that_of_brute_force():
    """For nearest centroid the loss depends on class means alone, each of which may go anywhere in the box."""
    found = oar.collective(problem(RISE, oar.NearestCentroid()))
    shifts = np.stack(np.meshgrid(*(np.linspace(0, most, 41) for most in RISE.most)), axis=-1).reshape(-1, 2)
    means = [FEATURES[code == CODES].mean(axis=0) for code in (0, 1)]
    near, far = (np.linalg.norm(means[code] + shifts - ASKS, axis=1) for code in (0, 1))
    assert np.logaddexp(0, near[0] - far[0]) == pytest.approx(found.audit.loss_before)  # without any shift
    assert found.loss == pytest.approx(np.logaddexp(0, near.min() - far.max()), rel=1e-3)
    assert found.loss <= np.logaddexp(0, near.min() - far.max()) * (1 + 1e-9)


def test_participants_stay_or_move_as_they_are_told():
    some = replace(RISE, participants=CODES == 0)
    found = oar.collective(problem(some), effort="quick")
    assert not np.asarray(found.plan.moves())[CODES == 1].any()
    assert found.audit.movers <= 10
    with pytest.raises(oar.errors.OptionError, match=r"oar.Best is for oar.Perturb"):
        replace(RISE, participants=oar.Best(3))


def test_the_audit_measures_by_violations_and_by_the_ball():
    asked = problem(RISE)
    falling = oar.audit(asked, np.full(FEATURES.shape, -0.1))
    assert "person 0 leaves the set of 'rise' by 0.1" in falling.violations
    assert not falling.success
    far = oar.audit(asked, np.full(FEATURES.shape, 5.0))
    assert any("moves by" in one for one in far.violations)


def test_a_lying_projection_is_caught_by_the_audit():
    class Lies(Rise):
        def project(self, moves, who):
            return np.clip(moves, -self.most, self.most)

        def respond(self, directions, who):
            return np.sign(directions) * self.most

    found = oar.collective(problem(Lies(RISE.most)), effort="quick")
    assert found.audit.violations
    assert found.status is oar.results.Status.REFUSED


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (oar.individual, "individual recourse does not know an action of one's own"),
        (oar.joint, "joint recourse does not know an action of one's own"),
        (lambda asked: oar.collective(asked, solver="exact"), "'exact' does not apply here"),
        (lambda asked: oar.collective(asked, effort="quick").plan.card(), "for a card that members answer"),
        (oar.minimal_budget, r"must have a method scaled\(share\)"),
        (oar.solvers.shortest_move, "for the shortest move, which knows balls"),
    ],
)
def test_what_supposes_balls_refuses_with_the_reason(ask, said):
    with pytest.raises(oar.errors.OptionError, match=said):
        ask(problem(RISE))


def test_other_people_models_and_actions_refuse_with_the_reason():
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    table = oar.Population.from_frame(pd.DataFrame(FEATURES, columns=["a", "b"]).assign(y=CODES), target="y")
    with pytest.raises(oar.errors.OptionError, match="is for plain features in memory, got a table"):
        oar.Problem(table, MODELS[0], oar.Query({"a": 0.2, "b": 0.3}, 0), RISE)
    box = problem(RISE, oar.BlackBox(DecisionTreeClassifier(max_depth=2)))
    with pytest.raises(oar.errors.OptionError, match="does not know an action of one's own"):
        oar.collective(box)
    with pytest.raises(oar.errors.DataError, match="which goes alone; got an object of type Rise"):
        problem([RISE, oar.Withhold(most=1)])
    with pytest.raises(oar.errors.DataError, match="must have a name"):
        problem(type("Nameless", (Rise,), {"name": ""})(RISE.most))


def test_wrong_shapes_and_numbers_of_an_own_action_are_told():
    for wrong in (lambda self, moves, who: moves[:, :1], lambda self, moves, who: moves * np.nan):
        broken = type("Broken", (Rise,), {"project": wrong})(RISE.most)
        with pytest.raises(oar.errors.DataError, match="project of 'rise' must return finite numbers of shape"):
            oar.collective(problem(broken), effort="quick")


def test_scaled_enables_questions_about_budgets():
    answer = oar.minimal_budget(problem(BALL), solver=oar.solvers.ProjectedGradient(restarts=0), tolerance=0.1)
    same = oar.minimal_budget(
        problem(oar.Perturb(BALL.radii)), solver=oar.solvers.ProjectedGradient(restarts=0), tolerance=0.1
    )
    assert answer.value == pytest.approx(same.value, rel=0.1)
    smaller = problem(BALL).with_action(budget=0.5 * BALL.radii)
    np.testing.assert_allclose(smaller.action.radii, 0.5 * BALL.radii)
    with pytest.raises(oar.errors.OptionError, match="one share of everybody's"):
        problem(BALL).with_action(budget=BALL.radii**2)
    with pytest.raises(oar.errors.OptionError, match=r"norm: is a setting of oar.Perturb"):
        problem(BALL).with_action(norm=1)


def test_side_effects_are_kept_with_it():
    found = oar.collective(problem(BALL, keep=oar.Keep(changed=0.0)), effort="quick")
    assert found.audit.violations == ()


def test_a_study_of_it(tmp_path):
    study = oar.study(
        problem(RISE), participation=[0.5, 1.0], store=tmp_path / "s.db", solver="one-shot", workers=1, progress=False
    )
    losses = study.table()["loss"]
    assert len(losses) == 2
    assert losses.iloc[1] == oar.collective(problem(RISE), solver="one-shot").loss


def test_a_study_of_budgets_needs_scaled_and_scales_everybodys_set(tmp_path):
    with pytest.raises(oar.errors.OptionError, match=r"budgets: must be of an action with a method scaled\(share\)"):
        oar.study(problem(RISE), budgets=[0.1], store=tmp_path / "refused.db", workers=1, progress=False)
    few = {"solver": oar.solvers.ProjectedGradient(max_steps=10, restarts=0), "workers": 1, "progress": False}
    found = oar.study(problem(BALL), budgets=[0.5, 1.0], store=tmp_path / "factors.db", **few).table()
    assert list(found["budget"]) == [0.5, 1.0]  # factors, since everybody's reach is their own
    for factor, loss in zip(found["budget"], found["loss"], strict=True):
        alone = problem(BALL.scaled(factor) if factor < 1 else BALL)
        assert loss == oar.collective(alone, solver=few["solver"]).loss
    steps = ScaledRise(np.array([0.3, 0.4]))  # of one reach, 0.5
    found = oar.study(problem(steps), budgets=[0.0, 0.25], store=tmp_path / "reach.db", **few).table()
    assert found["loss"][1] == oar.collective(problem(steps.scaled(0.5)), solver=few["solver"]).loss
    assert found["loss"][0] == found["before"][0]


def test_smaller_copies_of_the_set():
    radii = np.array([0.4, 0.0, 0.8])
    region = ActionRegion.of_people(RISE, np.zeros((3, 2)), radii).of(np.array([0, 2]))
    half = replace(region, radii=0.5 * region.radii)
    np.testing.assert_array_equal(half.who.positions, [0, 2])
    np.testing.assert_allclose(half.project(np.full((2, 2), 9.0)), np.tile(0.5 * RISE.most, (2, 1)))
    aims, far = half.farthest(np.array([[1.0, -1.0], [1.0, 1.0]]))
    np.testing.assert_allclose(aims, [[0.2, 0.0], [0.2, 0.05]])
    np.testing.assert_allclose(far, [0.2, 0.25])
    assert isinstance(region.who, Who)
