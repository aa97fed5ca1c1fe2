"""The registry: who is asked, who refuses and why, and solvers that users register."""

from dataclasses import dataclass

import numpy as np
import pytest

import oar
from oar.online import FullRefit, OnlineProblem, Stream
from oar.solvers import Solver, Task, register, registered, unregister
from oar.solvers.registry import NEEDS, check_known, names

RNG = np.random.default_rng(3)
CODES = np.arange(24) % 2
FEATURES = RNG.normal(size=(24, 2)) + 1.5 * CODES[:, None]
SOFTMAX = oar.SoftmaxRegression(l2=0.1)


def problem(model=SOFTMAX, action=None, asks=(0.3, 0.5), **more):
    people = oar.Population(FEATURES, CODES)
    return oar.Problem(people, model, oar.Query(np.array(asks), 1), action or oar.Perturb(0.3), **more)


@dataclass(frozen=True)
class Shares:
    share: float = 1.0


class Towards(Solver):
    """Everybody goes towards the query, by a share of the budget."""

    name, settings, verbs = "towards", Shares, ("collective", "joint")

    def propose(self, task, settings):
        people, allowance = task.problem.people, task.problem.allowance
        ways = task.problem.first_query - people.features
        moves = allowance.norm.maximise(ways, settings.share * allowance.everyones(people.size))
        return (moves, np.zeros(people.dimensions)) if task.query else moves


@pytest.fixture
def towards():
    register(Towards)
    yield
    unregister("towards")


@pytest.fixture
def shy():
    class Shy(Towards):
        name, settings, auto = "shy", None, False

        def propose(self, task, settings):
            assert settings is None
            return super().propose(task, Shares(0.5))

    register(Shy())
    yield
    unregister("shy")


@pytest.mark.usefixtures("towards")
def test_a_registered_solver_is_found_by_name_by_settings_and_by_auto():
    by_name, by_settings = (oar.collective(problem(), solver=solver) for solver in ("towards", Shares(0.5)))
    by_auto = oar.collective(problem())
    assert {one.proposal.solver for one in (by_name, by_settings, by_auto)} == {"towards"}
    np.testing.assert_array_equal(by_auto.plan.moves(), by_name.plan.moves())
    np.testing.assert_allclose(np.linalg.norm(by_settings.plan.moves(), axis=1), 0.15)
    assert oar.joint(problem()).proposal.solver == "towards"
    assert oar.individual(problem()).proposal.solver == "projected-gradient"


@pytest.mark.usefixtures("shy")
def test_auto_leaves_alone_what_does_not_offer_itself():
    assert oar.collective(problem(), effort="quick").proposal.solver == "projected-gradient"
    found = oar.collective(problem(), solver="shy")
    assert found.proposal.claimed_loss == pytest.approx(found.loss, rel=1e-7)
    assert found.audit.violations == ()
    assert found.explanation


@pytest.mark.usefixtures("shy")
def test_wrappers_ask_a_registered_solver_for_moves():
    best = oar.collective(problem(action=oar.Perturb(0.3, participants=oar.Best(5))), solver="shy")
    assert best.proposal.solver == "shy"
    assert best.audit.movers == 5
    both = oar.collective(problem(action=[oar.Perturb(0.3), oar.Withhold(most=1)]), solver="shy")
    assert both.audit.violations == ()


@pytest.mark.usefixtures("shy")
def test_what_a_registered_solver_does_not_know_is_refused_by_what_it_serves():
    assert oar.collective(problem(oar.NearestCentroid()), solver="shy").proposal.solver == "shy"
    two = problem(asks=((0.3, 0.5), (0.1, 0.2)))
    for asked, said in ((two, "goals of several"), (problem(keep=oar.Keep(changed=0.1)), "side effects")):
        with pytest.raises(
            oar.errors.OptionError, match=f"'shy' does not apply here, because it does not know .*{said}"
        ):
            oar.collective(asked, solver="shy")


@pytest.mark.usefixtures("shy")
def test_studies_and_questions_know_it(tmp_path):
    study = oar.study(problem(), budgets=[0.1, 0.3], store=tmp_path / "s.db", solver="shy", workers=1, progress=False)
    assert set(study.table()["solver"]) == {"shy"}
    assert oar.minimal_budget(problem(), solver="shy", tolerance=0.3).result.proposal.solver == "shy"
    with pytest.raises(oar.errors.OptionError, match="must be one of 'auto'.*'shy'"):
        check_known("shyy")


def test_over_rounds_a_registered_solver_moves_everybody_of_every_round():
    class Still(Solver):
        name, auto, requires = "still", False, frozenset({"rounds"})

        def propose(self, task, settings):
            return np.zeros((task.problem.stream.people.size, 2))

    stream = Stream.of_batches([(FEATURES[i::2], np.repeat([0, 1], 6)) for i in range(2)])
    asked = OnlineProblem(stream, SOFTMAX, FullRefit(), oar.Query([0.3, 0.5], 1), oar.Perturb(0.3))
    register(Still)
    try:
        found = oar.collective(asked, solver="still")
    finally:
        unregister("still")
    assert found.proposal.claimed_loss == pytest.approx(found.loss, rel=1e-6)


def test_what_a_solver_returns_must_be_moves():
    class Wrong(Solver):
        name, auto = "wrong", False

        def propose(self, task, settings):
            return np.zeros((3, 2))

    register(Wrong)
    try:
        with pytest.raises(oar.errors.DataError, match=r"'wrong' must propose moves of shape \(24, 2\), got \(3, 2\)"):
            oar.collective(problem(), solver="wrong")
        with pytest.raises(oar.errors.OptionError, match="signal: solver 'wrong' takes none"):
            oar.collective(problem(), solver="wrong", signal="implicit")
    finally:
        unregister("wrong")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"name": ""}, "name: of a solver must be a string"),
        ({"name": "auto"}, "name: of a solver must be a string"),
        ({"name": "exact"}, "'exact' is registered already"),
        ({"name": "x", "verbs": ("everything",)}, "verbs: of a solver must be some of"),
        ({"name": "x", "serves": frozenset({"tables"})}, "serves: must be one of .* Did you mean 'table'"),
        ({"name": "x", "propose": Solver.propose}, "propose: must be a method"),
    ],
)
def test_what_cannot_be_asked_is_not_registered(attributes, said):
    before = registered()
    with pytest.raises(oar.errors.OARError, match=said):
        register(type("Mine", (Towards,), attributes))
    assert registered() == before


def test_only_solvers_are_registered_and_only_own_ones_taken_out():
    with pytest.raises(oar.errors.DataError, match=r"must be an oar.solvers.Solver, got an object of type dict"):
        register({})
    with pytest.raises(oar.errors.OptionError, match="name: must be one of"):
        unregister("exact")


def test_a_named_solver_that_refuses_says_why_and_what_applies():
    applies = "use one of 'auto', 'projected-gradient', 'frank-wolfe', 'one-shot'"
    with pytest.raises(
        oar.errors.OptionError, match=f"does not apply here, because it is for nearest centroid; {applies}"
    ):
        oar.collective(problem(), solver="paper")
    with pytest.raises(
        oar.errors.OptionError, match="'exact' does not apply here, because it does not know limits on side"
    ):
        oar.collective(problem(oar.NearestCentroid(), keep=oar.Keep(changed=0.1)), solver="exact")
    with pytest.raises(oar.errors.OptionError, match="solver: must be 'auto', .*oar.solvers.FrankWolfe.*; got Exact"):
        oar.collective(problem(), solver=oar.solvers.Exact())
    with pytest.raises(oar.errors.OptionError, match="Did you mean 'frank-wolfe'"):
        oar.collective(problem(), solver="frank-wolf")


def test_every_need_is_served_by_some_solver_of_every_kind_that_has_it():
    served = {name for one in registered() for name in one.serves | one.requires}
    assert served == set(NEEDS)
    assert Task(problem(), "collective").needs == {"retraining"}
    assert Task(problem(oar.NearestCentroid()), "collective").needs == frozenset()
    assert "auto" not in names()


def test_a_solver_refuses_verbs_and_needs_that_it_does_not_have():
    one = Towards()
    assert one.refusal(Task(problem(), "individual")) == "is for collective and joint recourse"
    assert one.refusal(Task(problem(), "collective")) is None
    assert "oar.Keep" in one.refusal(Task(problem(keep=oar.Keep(changed=0.1)), "collective"))


class Tampers(Solver):
    """Makes its task easier by changing in place what it is handed."""

    name, auto = "tampers", False
    at = staticmethod(lambda task: task.problem.people.features)

    def propose(self, task, settings):
        handed = self.at(task)
        handed[...] = handed[::-1].copy()
        return np.zeros((24, 2))


HANDED = {
    "features": lambda task: task.problem.people.features,
    "a chunk": lambda task: next(iter(task.problem.people.chunks())).features,
    "labels": lambda task: task.problem.people.labels,
    "codes": lambda task: task.problem.people.codes(0, 24),
    "weights": lambda task: task.problem.people.weights,
    "budgets": lambda task: task.problem.allowance.everyones(24),
    "those who ask": lambda task: task.problem.asked.points,
    "the query": lambda task: task.problem.first_query,
    "the goal": lambda task: task.problem.goal_target,
}


@pytest.mark.parametrize("what", HANDED)
@pytest.mark.parametrize("model", [SOFTMAX, oar.NearestCentroid()], ids=lambda model: model.name)
def test_the_audit_judges_the_data_that_were_handed_in(model, what):
    people = oar.Population(FEATURES, CODES, np.linspace(1.0, 2.0, 24))
    asked = oar.Problem(people, model, oar.Query([0.3, 0.5], 1), oar.Perturb(np.linspace(0.1, 0.3, 24)))
    before = oar.audit(asked, np.zeros((24, 2)))
    register(type("Tampers", (Tampers,), {"at": staticmethod(HANDED[what])}))
    try:
        with pytest.raises(ValueError, match="read-only"):
            oar.collective(asked, solver="tampers")
    finally:
        unregister("tampers")
    assert oar.audit(asked, np.zeros((24, 2))) == before


@dataclass(frozen=True)
class Demanding:
    share: float


def of_another_kind(task):
    stream = Stream.of_batches([(FEATURES[i::2], np.repeat([0, 1], 6)) for i in range(2)])
    asked = OnlineProblem(stream, oar.NearestCentroid(), FullRefit(), oar.Query([0.3, 0.5], 1), oar.Perturb(0.3))
    return oar.solvers.propose_collective(asked)


MISTAKES = {
    "a list for a tuple": ({"found": lambda task: [np.zeros((24, 2)), np.zeros(2)]}, "a tuple of the members' moves"),
    "ragged moves": ({"found": lambda task: [[0.0], [0.0, 0.0]]}, "must propose moves of shape"),
    "complex moves": ({"found": lambda task: 0.1j * np.ones((24, 2))}, "complex numbers"),
    "a plan": ({"found": lambda task: oar.collective(task.problem, solver="one-shot").plan}, "of type MemberPlan"),
    "a proposal over rounds": ({"found": of_another_kind}, "must propose a plan for the problem"),
    "settings that must be given": ({"settings": Demanding}, "needs settings, got none .*'share'"),
    "settings of no class": ({"settings": Shares(0.5)}, "settings: .* must be a class"),
    "no set of names": ({"requires": None}, "requires: .* must be a set"),
    "no reasons": ({"refuses": ("table",)}, "refuses: .* must be a dict"),
    "asking itself": ({"wraps": True, "found": lambda task: task.ask()}, "solver: must be one of 'auto'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_authors_are_said_in_one_sentence(mistake):
    attributes, said = MISTAKES[mistake]

    class Mistaken(Solver):
        name, auto = "mistaken", False

        def propose(self, task, settings):
            return type(self).found(task)

        @staticmethod
        def found(task):
            return np.zeros((24, 2))

    attributes = {key: staticmethod(value) if key == "found" else value for key, value in attributes.items()}
    made = type("Mistaken", (Mistaken,), attributes)
    try:
        with pytest.raises((oar.errors.DataError, oar.errors.OptionError), match=said):
            oar.collective(problem(), solver=register(made).name)
    finally:
        if "mistaken" in [one.name for one in oar.solvers.registry.registered_by_users()]:
            unregister("mistaken")


def test_a_wrapper_of_ones_own_asks_the_others():
    class Twice(Solver):
        name, wraps, verbs = "twice", True, ("collective",)

        def propose(self, task, settings):
            return task.ask(solver="one-shot").plan.moves()

    register(Twice)
    try:
        assert oar.collective(problem()).proposal.solver == "twice"
    finally:
        unregister("twice")
