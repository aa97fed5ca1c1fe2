import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people

import oar
from oar.errors import DataError, NumericsError, OptionError
from oar.models.autodiff.custom import Custom, from_equinox
from oar.models.autodiff.mlp import MLP
from oar.models.autodiff.training import AutodiffTraining

FEATURES, TARGETS, WEIGHTS, _ = small_people()
SHORT = oar.solvers.ProjectedGradient(max_steps=30, restarts=0)


def squared(w, x, y):
    return 0.5 * ((w @ x - y) ** 2).sum()


def ridge(**changes):
    settings = {
        "loss": squared,
        "init": lambda dimensions, outputs: np.zeros((outputs, dimensions)),
        "outputs": lambda w, x: w @ x,
        "penalty": lambda w: 0.05 * (w**2).sum(),
        "regresses": True,
    }
    return Custom(**(settings | changes))


def ridge_solution():
    gram = FEATURES.T @ (WEIGHTS[:, None] * FEATURES) + 0.1 * np.eye(3)
    return np.linalg.solve(gram, FEATURES.T @ (WEIGHTS[:, None] * TARGETS)).T


def test_trains_to_the_known_minimum_and_differentiates_it():
    training = AutodiffTraining(ridge(), FEATURES, TARGETS, WEIGHTS)
    fit = assert_differentiates_training(training, query_of(FEATURES), goal_of(TARGETS), rtol=1e-7)
    np.testing.assert_allclose(training.parameters(fit.parameters), ridge_solution(), atol=1e-10)


def test_a_closed_form_is_used_and_a_query_loss_too():
    model = ridge(
        closed_form=lambda features, targets, weights: ridge_solution(), query_loss=lambda w, x, y: (w @ x)[0]
    )
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    fit = training.fit(training.moved(None), training.start() + 5, 1e-10)
    assert fit.converged
    assert fit.residual < 1e-14
    loss = training.goal(fit.parameters, FEATURES[0], goal_of(TARGETS))[0]
    assert loss == pytest.approx((ridge_solution() @ FEATURES[0])[0])
    wrong = ridge(closed_form=lambda features, targets, weights: np.ones((3, 3)))
    training = AutodiffTraining(wrong, FEATURES, TARGETS, WEIGHTS)
    assert not training.fit(training.moved(None), training.start(), 1e-10).converged


def test_init_may_be_a_pytree_or_a_function_of_two_or_three():
    def seeded(dimensions, outputs, seed):
        return np.random.default_rng(seed).normal(size=(outputs, dimensions))

    assert ridge(init={"w": 1.0}).initial(3, 2) == {"w": 1.0}
    assert ridge().initial(3, 2).shape == (2, 3)
    first, second = (ridge(init=seeded, seed=seed).initial(3, 2) for seed in (0, 1))
    assert first.shape == (2, 3)
    assert np.abs(first - second).max() > 0.1


def test_models_are_themselves_only_and_say_what_they_are():
    assert ridge() != ridge()
    assert repr(ridge(name="mine", convex=True)) == "Custom(name='mine', convex=True, equivariant=False)"
    assert ridge().regresses


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": 3.0}, "loss: must be a function, got float"),
        ({"outputs": 1}, "outputs: must be a function, got int"),
        ({"penalty": "l2"}, "penalty: must be a function, got str"),
        ({"name": ""}, "name: must be a word or two, got ''"),
        ({"convex": "yes"}, "convex: must be True or False, got 'yes'"),
        ({"seed": -5}, "seed: must be a whole number of at least 0, got -5"),
        ({"init": lambda dimensions: 0.0}, r"init: must take \(dimensions, outputs\)"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises((DataError, OptionError), match=message):
        ridge(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": lambda w, x, y: squared(w, x, y)[None]},
            r"loss: must return one float .* got float64 of shape \(1,\)",
        ),
        ({"loss": lambda w, x, y: w @ x - y}, r"loss: must return one float .* got float64 of shape \(3,\)"),
        ({"query_loss": lambda w, x, y: w @ x}, r"query_loss: must return one float .* got float64 of shape \(3,\)"),
        ({"penalty": lambda w: w[0]}, r"penalty: must return one float .* got float64 of shape \(3,\)"),
        ({"penalty": lambda w: float(w.sum())}, "penalty: must be a pure JAX function of .parameters."),
        ({"gauge": lambda w: w[0]}, "gauge: must return one float"),
        ({"init": np.zeros((3, 3), int)}, "init: must be a pytree of float arrays, got int64"),
        ({"init": np.full((3, 3), np.nan)}, "init: must be finite numbers, at least one, got 9 that are not finite"),
        ({"init": []}, "init: must be finite numbers, at least one, got none"),
    ],
)
def test_what_functions_return_is_checked_before_anything_is_solved(changes, message):
    with pytest.raises(DataError, match=message):
        AutodiffTraining(ridge(**changes), FEATURES, TARGETS, WEIGHTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"outputs": lambda w, x: (w @ x)[:2]},
            r"outputs: must return a number for each .* shape \(3,\), got .* shape \(2,\)",
        ),
        ({"outputs": lambda w, x: jnp.append(w @ x, 0.0)}, r"outputs: .* got float64 of shape \(4,\)"),
        ({"outputs": lambda w, x: (w @ x).sum()}, r"outputs: .* got float64 of shape \(\)"),
        ({"outputs": lambda w, x: (w @ x)[:, None]}, r"outputs: .* got float64 of shape \(3, 1\)"),
        ({"outputs": lambda w, x: (w @ x, 1.0)}, "outputs: .* got a tuple"),
        ({"outputs": lambda w, x: np.dot(w, np.asarray(x))}, "outputs: must be a pure JAX function"),
    ],
)
def test_outputs_of_another_shape_are_refused_before_anything_is_solved(changes, message):
    people = oar.Population(FEATURES, TARGETS.argmax(axis=1))
    problem = oar.Problem(people, ridge(regresses=False, **changes), oar.Query(FEATURES[0], 1), oar.Perturb(0.1))
    for verb in (oar.individual, oar.collective, oar.joint):
        with pytest.raises(DataError, match=message):
            verb(problem)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"penalty": lambda w: jnp.nan * w.sum()}, "penalty: it and its gradient must be finite .* but it is not"),
        ({"penalty": lambda w: jnp.sqrt((w**2).sum())}, "penalty: .* but its gradient is not, at the initial"),
        ({"gauge": lambda w: jnp.log(0.0 * w.sum())}, "gauge: it and its gradient"),
        ({"loss": lambda w, x, y: jnp.nan * squared(w, x, y)}, "loss: .* initial parameters of model 'custom'"),
        ({"loss": lambda w, x, y: (jnp.sign(w @ x) - y).sum() ** 2}, "loss: must change with the parameters"),
    ],
)
def test_the_function_that_cannot_be_trained_on_is_named(changes, message):
    training = AutodiffTraining(ridge(**changes), FEATURES, TARGETS, WEIGHTS)
    with pytest.raises(NumericsError, match=message):
        training.fit(training.moved(None), training.start(), 1e-8)


def test_a_start_that_is_level_is_no_hard_decision():
    quartic = ridge(loss=lambda w, x, y: (w @ x).sum() ** 4, init=np.zeros((3, 3)))
    training = AutodiffTraining(quartic, FEATURES, TARGETS, WEIGHTS)
    assert training.fit(training.moved(None), training.start(), 1e-8).converged


def test_a_closed_form_of_another_size_and_outputs_that_are_no_numbers_are_named():
    small = ridge(closed_form=lambda features, targets, weights: np.zeros(2))
    training = AutodiffTraining(small, FEATURES, TARGETS, WEIGHTS)
    with pytest.raises(DataError, match="closed_form: must return parameters like the initial ones, 9 numbers, got 2"):
        training.fit(training.moved(None), training.start(), 1e-8)
    lost = AutodiffTraining(ridge(outputs=lambda w, x: jnp.nan * (w @ x)), FEATURES, TARGETS, WEIGHTS)
    with pytest.raises(NumericsError, match="outputs: must be numbers, got .*nan"):
        lost.outputs(lost.start(), FEATURES[0])


def test_a_loss_that_fails_at_some_moved_points_only_is_planned_around():
    edge = float(FEATURES[:, 0].max()) + 0.05

    def fenced(matrix, x, y):
        logits = matrix @ jnp.append(x, 1.0)
        return jnp.where(x[0] > edge, jnp.nan, 1.0) * (jax.nn.logsumexp(logits) - y @ logits)

    model = Custom(
        loss=fenced,
        init=lambda dimensions, outputs: np.zeros((outputs, dimensions + 1)),
        penalty=lambda matrix: 0.05 * (matrix**2).sum(),
        convex=True,
    )
    people = oar.Population(FEATURES, TARGETS.argmax(axis=1))
    goal = int((TARGETS[0].argmax() + 1) % 3)
    problem = oar.Problem(people, model, oar.Query(FEATURES[0], goal), oar.Perturb(0.5))
    result = oar.collective(problem, solver=oar.solvers.ProjectedGradient(max_steps=6, restarts=0))
    assert result.loss < result.loss_before
    assert (FEATURES + result.plan.moves())[:, 0].max() <= edge


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Network:
    """A callable pytree as Equinox makes them: float arrays, a whole number, a function, all of them leaves."""

    hidden: jax.Array
    final: jax.Array
    times: np.ndarray
    activation: object

    def __call__(self, x):
        return self.times * (self.final @ self.activation(self.hidden @ x))

    def tree_flatten(self):
        return (self.hidden, self.final, self.times, self.activation), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def plain_module():
    rng = np.random.default_rng(0)
    hidden, final = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((4, 3), (3, 4)))
    return Network(hidden, final, np.array(2), jnp.tanh)


def equinox_module():
    equinox = pytest.importorskip("equinox", reason="equinox is an extra")

    return equinox.nn.MLP(3, 3, 4, 1, activation=jnp.tanh, key=jax.random.key(0))


MODULES = [plain_module, equinox_module]


def cross_entropy(outputs, y):
    return jax.nn.logsumexp(outputs) - y @ outputs


@pytest.mark.parametrize("make", MODULES)
def test_modules_are_trained_in_float64(make):
    def weight_decay(module):
        arrays = [leaf for leaf in jax.tree.leaves(module) if hasattr(leaf, "dtype") and leaf.dtype == np.float64]
        return 0.02 * sum((leaf**2).sum() for leaf in arrays)

    module = make()
    model = from_equinox(module, loss=cross_entropy, penalty=weight_decay)
    assert model.name == type(module).__name__
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    np.testing.assert_allclose(
        training.outputs(training.start(), FEATURES[0]), module(FEATURES[0]), rtol=1e-4, atol=1e-5
    )
    assert_differentiates_training(training, query_of(FEATURES), goal_of(TARGETS), tolerance=1e-10, rtol=1e-4)


def test_modules_can_be_called_otherwise_and_must_hold_floats():
    model = from_equinox(plain_module(), loss=cross_entropy, apply=lambda module, x: -module(x), name="turned")
    assert model.name == "turned"
    training = AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)
    expected = -np.asarray(plain_module()(FEATURES[0]))
    np.testing.assert_allclose(training.outputs(training.start(), FEATURES[0]), expected, rtol=1e-4)
    with pytest.raises(DataError, match="at least one float array, got a PjitFunction with none among 1 leaves"):
        from_equinox(jnp.tanh, loss=cross_entropy)
    with pytest.raises(OptionError, match="init: comes from the module"):
        from_equinox(plain_module(), loss=cross_entropy, init=1.0)


def test_without_outputs_the_class_with_the_least_loss_is_predicted():
    def loss(matrix, x, y):
        logits = matrix @ jnp.append(x, 1.0)
        return jax.nn.logsumexp(logits) - y @ logits

    shared = {
        "loss": loss,
        "init": lambda dimensions, outputs: np.zeros((outputs, dimensions + 1)),
        "penalty": lambda matrix: 0.05 * (matrix**2).sum(),
        "convex": True,
    }
    plain = Custom(**shared)
    full = Custom(**shared, outputs=lambda matrix, x: matrix @ jnp.append(x, 1.0))
    people = oar.Population(FEATURES, TARGETS.argmax(axis=1))
    query = oar.Query(FEATURES[0], int((TARGETS[0].argmax() + 1) % 3))
    results = [
        oar.collective(oar.Problem(people, model, query, oar.Perturb(0.5)), solver=SHORT) for model in (plain, full)
    ]
    assert results[0].loss == pytest.approx(results[1].loss, abs=1e-8)
    assert results[0].prediction == results[1].prediction
    assert results[0].audit.margin == pytest.approx(results[1].audit.margin, abs=1e-6)
    assert plain.training(people).model is plain.training(people).model
    assert oar.testing.check_model(plain).passed
    with pytest.raises(oar.errors.OptionError, match="outputs: must be given for real-valued targets"):
        Custom(loss=loss, init=0.0, regresses=True)
    with pytest.raises(oar.errors.OptionError, match="known only once"):
        plain.outputs(np.zeros((3, 4)), FEATURES[0])


def kinked(parameters, x, y):
    return jnp.abs(parameters @ x - (2 * y[1] - 1.0))


@pytest.mark.parametrize(
    "loss", [kinked, lambda parameters, x, y: (parameters * x).sum()], ids=["not smooth", "without a minimum"]
)
def test_a_refit_that_does_not_converge_is_a_status_and_no_number(loss, monkeypatch):
    if loss is not kinked:  # it falls for ever at the same rate, however long one walks
        monkeypatch.setattr("oar.models.fit.minimise.MOST_WALKS", 100)
    model = Custom(loss=loss, init=np.zeros(3), penalty=lambda p: 1e-3 * (p @ p) if loss is kinked else 0.0)
    people = oar.Population(FEATURES, np.arange(len(FEATURES)) % 2)
    for verb in (oar.collective, oar.individual, oar.joint):
        result = verb(oar.Problem(people, model, oar.Query(FEATURES[0], 1), oar.Perturb(0.1)))
        assert result.status is oar.results.Status.NOT_CONVERGED
        assert not result.success
        assert np.isnan(result.loss)
        assert result.prediction is None
        assert "did not come to an end" in result.explanation
        assert not result.plan.moves().any()


def test_an_optimum_at_infinity_is_named():
    def logistic(w, x, y):
        return jnp.logaddexp(0.0, -(2 * y[1] - 1) * (w @ x))

    people = oar.Population(FEATURES, (FEATURES[:, 0] > 0).astype(int))
    for model in (Custom(loss=logistic, init=np.zeros(3), convex=True), oar.models.MLP((3,), l2=0.0)):
        with pytest.raises(oar.errors.NumericsError, match="falls for ever"):
            oar.collective(oar.Problem(people, model, oar.Query(FEATURES[0], 1), oar.Perturb(0.1)))


def linear(**settings):
    def logits(parameters, x):
        return parameters["weights"] @ x + parameters["biases"]

    return Custom(
        loss=lambda parameters, x, y: jax.nn.logsumexp(logits(parameters, x)) - y @ logits(parameters, x),
        init=lambda d, o: {"weights": np.zeros((o, d)), "biases": np.zeros(o)},
        outputs=logits,
        convex=True,
        **settings,
    )


UNPENALISED = {"linear": linear(), "network": MLP((3,), l2=0.0), "linear network": MLP((), l2=0.0)}


@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("model", [*UNPENALISED])
def test_one_class_that_separates_puts_the_optimum_at_infinity(model, standardised):
    iris = oar.datasets.iris()  # setosa separates, the other two overlap
    features = (iris.features - iris.features.mean(axis=0)) / (iris.features.std(axis=0) if standardised else 1.0)
    people = oar.Population(features, iris.labels)
    problem = oar.Problem(people, UNPENALISED[model], oar.Query(features[60], 2), oar.Perturb(0.3))
    # A network's training may end where the fall is less than rounding. What it then predicts is what is audited, as
    # with any training; but how it answers to moves is not determined, and no plan may be made.
    for verb in (oar.collective,) if model == "network" else (oar.individual, oar.collective):
        with pytest.raises(
            oar.errors.NumericsError,
            match=r"(falls for ever .* optimum is at infinity|flat of \d+ directions).* a penalty",
        ):
            verb(problem)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
@pytest.mark.parametrize("units", [1e-3, 1.0, 1e3])
def test_classes_that_overlap_need_no_penalty(units, tolerance):
    rng, codes = np.random.default_rng(0), np.arange(200) % 3
    features = units * (rng.normal(size=(3, 4))[codes] + rng.normal(size=(200, 4)))
    iris = oar.datasets.iris()
    few = iris.labels > 0  # versicolor and virginica
    for rows, labels in ((features, codes), (iris.features[few], iris.labels[few])):
        for model in (UNPENALISED["linear"], UNPENALISED["linear network"]):  # compiled once for all parameters
            training = model.training(oar.Population(rows, labels))
            training.fit(training.moved(None), training.start(), tolerance)  # does not raise


@pytest.mark.parametrize(
    "units", [np.ones(4), 1e4 * np.ones(4), np.array([1.0, 1e-3, 1e3, 1.0]), np.array([1, 1, 0, 0])]
)
def test_regressions_need_no_penalty(units):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 4)) * units
    people = oar.Population(features, features @ [1.0, 2.0, 0.0, 1.0] + 0.1 * rng.normal(size=80))
    model = MLP((), l2=0.0, loss="squared")
    training = model.training(people)
    assert training.fit(training.moved(None), training.start(), 1e-8).converged


def test_layers_that_draw_random_numbers_are_named():
    equinox = pytest.importorskip("equinox", reason="equinox is an extra")
    layers = [equinox.nn.Linear(3, 3, key=jax.random.key(0)), equinox.nn.Dropout(0.5)]
    model = from_equinox(equinox.nn.Sequential(layers), loss=lambda z, y: ((z - y) ** 2).sum(), regresses=True)
    with pytest.raises(DataError, match=r"loss: must be a pure JAX function .* RuntimeError"):
        AutodiffTraining(model, FEATURES, TARGETS, WEIGHTS)


@pytest.mark.parametrize("argument", ["loss", "outputs", "penalty", "gauge", "query_loss", "closed_form"])
def test_functions_of_other_arguments_are_refused(argument):
    with pytest.raises(oar.errors.OptionError, match=rf"{argument}: must take \("):
        ridge(**{argument: lambda: 0.0})
