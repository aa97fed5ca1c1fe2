"""PyTorch modules as models: against finite differences of true refits, against the same models in JAX, and others'."""

import copy
import re

import numpy as np
import pytest
from support.differentiation import assert_differentiates_training, goal_of, query_of, small_people
from support.pages import blocks, page
from support.torch_modules import linear_layer, tanh_network, torch_or_skip

import oar
from oar.errors import DataError, NumericsError, OptionError
from oar.models import MLP, SoftmaxRegression, from_torch
from oar.plans import MemberPlan

torch = torch_or_skip()
nn = torch.nn
FEATURES, TARGETS, WEIGHTS, CODES = small_people()
QUERY, GOAL = query_of(FEATURES), goal_of(TARGETS)
SHORT = oar.solvers.ProjectedGradient(max_steps=15, restarts=0)


def layer(**settings):
    given = {"loss": "cross-entropy", "penalty": 0.1, "convex": True, "equivariant": True}
    return from_torch(linear_layer(), **(given | settings))


def network(**settings):
    return from_torch(tanh_network(3, 4, 3), **({"loss": "cross-entropy", "penalty": 0.05} | settings))


def bound(model, features=FEATURES, targets=TARGETS, weights=WEIGHTS):
    return model.bound(features, targets, weights)


def people_of(**settings):
    return oar.Population(FEATURES, CODES, **settings)


def problem_of(model, budget=0.3, **settings):
    goal = (CODES[0] + 1) % 3
    return oar.Problem(people_of(weights=WEIGHTS), model, oar.Query(FEATURES[0], goal), oar.Perturb(budget), **settings)


# -- the same as models that we did not write in PyTorch --------------------------------------------------------------


def test_a_linear_layer_is_softmax_regression_and_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    people = people_of(weights=WEIGHTS)
    ours, theirs = layer(), SoftmaxRegression(l2=0.1)
    found = ours.probabilities(ours.fit(people), FEATURES)
    np.testing.assert_allclose(found, theirs.probabilities(theirs.fit(people), FEATURES), atol=1e-6)
    estimator = LogisticRegression(C=1 / 0.1, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(
        found, estimator.fit(FEATURES, CODES, sample_weight=WEIGHTS).predict_proba(FEATURES), atol=1e-6
    )


def test_one_logit_is_binary_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    codes = (CODES > 0).astype(int)
    people = oar.Population(FEATURES, codes)
    model = from_torch(linear_layer(3, 1), loss="cross-entropy", penalty=0.05, one_logit=True, convex=True)
    by_loss = from_torch(linear_layer(3, 1), loss=nn.BCEWithLogitsLoss(), penalty=0.05, one_logit=True, convex=True)
    estimator = LogisticRegression(C=1 / (0.05 * len(codes)), tol=1e-12, max_iter=10_000).fit(FEATURES, codes)
    for one in (model, by_loss):
        parameters = one.fit(people)
        np.testing.assert_allclose(
            one.probabilities(parameters, FEATURES), estimator.predict_proba(FEATURES), atol=1e-6
        )
        assert (one.predict(parameters, FEATURES) == estimator.predict(FEATURES)).all()
    problem = oar.Problem(people, model, oar.Query(FEATURES[0], 1 - codes[0]), oar.Perturb(0.3))
    result = oar.collective(problem, solver=SHORT)
    assert result.loss < result.loss_before


def last_bias(module):
    return 0.5 * module[-1].bias.sum() ** 2


def test_a_network_is_the_same_network_in_jax():
    twin = MLP((4,), l2=0.05)
    first, second = twin.initial(3, 3)
    module = tanh_network(3, 4, 3).double()
    with torch.no_grad():
        for place, part in ((0, first), (2, second)):
            module[place].weight.copy_(torch.as_tensor(part["weights"]))
            module[place].bias.copy_(torch.as_tensor(part["biases"]))
    ours = bound(from_torch(module, loss="cross-entropy", penalty=0.05, gauge=last_bias, chunk=16))
    theirs = twin.bound(FEATURES, TARGETS, WEIGHTS)
    draw = np.random.default_rng(0).standard_normal

    def turned(vector):
        """The twin keeps biases before weights, layer by layer."""
        named = ours.parameters(vector)
        return theirs.flat(
            [{"weights": named[f"{place}.weight"], "biases": named[f"{place}.bias"]} for place in (0, 2)]
        )

    np.testing.assert_array_equal(turned(ours.start()), theirs.start())
    theta, signal, moves = draw(ours.parameter_count), draw(ours.parameter_count), draw(FEATURES.shape)
    here, there = ours.moved(moves), theirs.moved(moves)
    same = {"rtol": 0, "atol": 1e-8}
    value, gradient = ours.risk_gradient(theta, here)
    expected, slope = theirs.risk_gradient(turned(theta), there)
    assert value == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(turned(gradient), slope, **same)
    bent = ours.product(theta, here, signal)
    np.testing.assert_allclose(turned(bent), theirs.product(turned(theta), there, turned(signal)), **same)
    np.testing.assert_allclose(ours.hessian(theta, here) @ signal, bent, **same)
    at, along = turned(theta), turned(signal)
    for columns in (None, np.array([2, 0])):
        np.testing.assert_allclose(
            ours.score_gradients(theta, here, signal, columns),
            theirs.score_gradients(at, there, along, columns),
            **same,
        )
    other = np.roll(TARGETS, 1, axis=1)
    np.testing.assert_allclose(ours.scores(theta, here, signal, other), theirs.scores(at, there, along, other), **same)
    loss, pull, own = ours.goal(theta, QUERY, GOAL)
    expected, slope, expected_own = theirs.goal(at, QUERY, GOAL)
    assert loss == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(turned(pull), slope, **same)
    np.testing.assert_allclose(own, expected_own, **same)
    np.testing.assert_allclose(ours.outputs(theta, QUERY), theirs.outputs(at, QUERY), **same)
    fit, refit = (one.fit(one.moved(None), one.start(), 1e-10) for one in (ours, theirs))
    assert fit.converged
    np.testing.assert_allclose(turned(fit.parameters), refit.parameters, atol=1e-7)


# -- derivatives -------------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Features as a sequence: attention, whose quickest kernels have no second derivatives, and layer normalisation."""

    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Linear(1, 4), nn.MultiheadAttention(4, 2, batch_first=True)
        self.normal, self.final = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, rows):
        seen = self.embed(rows[..., None])
        return self.final(self.normal(seen + self.attend(seen, seen, seen, need_weights=False)[0]).mean(dim=1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.final = nn.LSTM(1, 2, batch_first=True), nn.Linear(2, 3)

    def forward(self, rows):
        return self.final(self.read(rows[..., None])[0][:, -1])


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.normal, self.final = nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.Linear(4, 3)

    def forward(self, rows):
        return self.final(nn.functional.gelu(self.normal(self.look(rows[:, None]))).flatten(1))


@pytest.mark.parametrize(
    "model",
    [
        layer(),
        network(loss=nn.functional.cross_entropy),
        from_torch(tanh_network(3, 4, 3), loss="squared", penalty=0.05, regresses=True),
        from_torch(tanh_network(3, 3), loss=nn.MSELoss(), penalty=lambda module: 0.1 * module[0].weight.pow(2).sum()),
    ],
    ids=["layer", "network", "regression", "functions"],
)
def test_refits_are_differentiated(model):
    targets = FEATURES @ np.random.default_rng(1).normal(size=(3, 3)) if model.regresses else TARGETS
    assert_differentiates_training(bound(model, targets=targets), QUERY, targets[5], tolerance=1e-10, rtol=1e-4)


@pytest.mark.parametrize("kind", [Attention, Recurrent, Convolution])
def test_other_layers_have_second_derivatives_too(kind):
    torch.manual_seed(0)
    training = bound(from_torch(kind().eval(), loss=nn.CrossEntropyLoss(), penalty=0.02))
    draw, step = np.random.default_rng(0).standard_normal, 1e-5
    theta, features = training.start(), training.moved(None)
    along, moves = draw(theta.size), draw(FEATURES.shape)
    up, down = (training.risk_gradient(theta + sign * step * along, features)[1] for sign in (1, -1))
    np.testing.assert_allclose(training.product(theta, features, along), (up - down) / (2 * step), atol=1e-7)
    ahead, behind = (training.scores(theta, training.moved(sign * step * moves), along, TARGETS) for sign in (1, -1))
    slopes = (training.score_gradients(theta, features, along) * moves).sum(axis=1)
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), atol=1e-7)
    # s_i is the slope of everyone's loss along v
    people = [bound(training.model, FEATURES[[i]], TARGETS[[i]], np.ones(1)) for i in (0, 4)]
    plain = [one.risk_gradient(theta, one.moved(None))[1] for one in people]
    bare = bound(from_torch(training.model.module, loss=nn.CrossEntropyLoss()), FEATURES[:1], TARGETS[:1], np.ones(1))
    extra = plain[0] - bare.risk_gradient(theta, bare.moved(None))[1]
    values = training.scores(theta, features, along, TARGETS)
    np.testing.assert_allclose(values[[0, 4]], [(gradient - extra) @ along for gradient in plain], atol=1e-10)


def test_losses_of_many_people_are_those_of_each():
    training = bound(network(chunk=7))
    theta = training.start()
    losses, pull, slopes = training.goals(theta, FEATURES, TARGETS)
    each = [training.goal(theta, row, target) for row, target in zip(FEATURES, TARGETS, strict=True)]
    np.testing.assert_allclose(losses, [one[0] for one in each], atol=1e-12)
    np.testing.assert_allclose(pull, np.mean([one[1] for one in each], axis=0), atol=1e-12)
    np.testing.assert_allclose(slopes, [one[2] for one in each], atol=1e-12)


def test_models_pass_the_checks_and_false_claims_do_not():
    assert oar.testing.check_model(layer()).passed
    values = from_torch(linear_layer(3, 2), loss="squared", penalty=0.1, regresses=True)
    assert oar.testing.check_model(values, outputs=2).passed
    report = oar.testing.check_model(network(convex=True), raises=False)
    assert [check.name for check in report.checks if check.passed is False] == ["convex"]
    fixed = from_torch(nn.Linear(3, 3, bias=False), loss="cross-entropy", penalty=0.1, equivariant=True)
    report = oar.testing.check_model(fixed, raises=False)
    assert [check.name for check in report.checks if check.passed is False] == ["equivariant"]


# -- the user's module -------------------------------------------------------------------------------------------------


def test_the_users_module_stays_as_it_is_and_what_was_learned_can_be_loaded():
    module = tanh_network(3, 4, 3)
    before, drawn = copy.deepcopy(module.state_dict()), torch.random.get_rng_state()
    model = from_torch(module, loss="cross-entropy", penalty=0.05)
    parameters = model.fit(people_of())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(value.grad is None and value.dtype == torch.float32 for value in module.parameters())
    assert module.training
    assert torch.equal(torch.random.get_rng_state(), drawn)
    learned = model.loaded(parameters)
    assert learned[0].weight.dtype == torch.float32
    outputs = learned(torch.as_tensor(FEATURES, dtype=torch.float32)).detach().numpy()
    expected = model.training(people_of()).outputs(model.passes.module.flat(parameters), FEATURES[0])
    np.testing.assert_allclose(outputs[0], expected, atol=1e-5)
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(parameters, FEATURES[:, None])[:, 0], shares, atol=1e-5)
    assert (model.predict(parameters, FEATURES) == outputs.argmax(axis=1)).all()
    np.testing.assert_allclose(model.goal_loss(parameters, FEATURES, 1), -np.log(shares[:, 1]), atol=1e-5)
    with torch.no_grad():
        module[0].weight += 1.0  # the model has a copy
    assert model.fit(people_of())["0.weight"].tobytes() == parameters["0.weight"].tobytes()
    with pytest.raises(DataError, match="parameters: must be arrays by name"):
        model.predict({"weight": 1.0}, FEATURES)


def test_frozen_parameters_stay_and_shared_ones_are_learned_once():
    module = tanh_network(3, 3, 3)
    module[0].bias.requires_grad_(False)
    module[2].weight = module[0].weight
    model = from_torch(module, loss="cross-entropy", penalty=0.05)
    assert set(model.initial(3, 3)) == {"0.weight", "2.bias"}
    fit = assert_differentiates_training(bound(model), QUERY, GOAL, tolerance=1e-10, rtol=1e-4)
    learned = model.loaded(bound(model).parameters(fit.parameters))
    assert learned[2].weight is learned[0].weight
    assert torch.equal(learned[0].bias, module[0].bias)
    assert not torch.equal(learned[0].weight, module[0].weight)


class Counting(nn.Linear):
    """A layer with a buffer that changes."""

    def __init__(self):
        super().__init__(3, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows):
        self.calls += 1
        return super().forward(rows)


class Centred(nn.Linear):
    def forward(self, rows):
        return super().forward(rows - rows.mean(dim=0))


class Noisy(nn.Linear):
    def forward(self, rows):
        return super().forward(rows) + 0.1 * torch.randn(len(rows), 3)


class Single(nn.Linear):
    def forward(self, rows):
        return super().forward(rows.float().double()).float()


def parts(*layers):
    return nn.Sequential(nn.Linear(3, 3), *layers)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear, "must be a torch.nn.Module, got a type; is it a class that is not called"),
        (nn.Tanh(), "must have parameters, got a Tanh with none"),
        (linear_layer().requires_grad_(False), r"must have parameters that ask for gradients \(requires_grad\), got"),
        (nn.LazyLinear(3), "must know its shapes, got a LazyLinear with lazy layers; call it once"),
        (parts(nn.Dropout(0.1)), "must not be random, got a Dropout at '1' that drops at random; call module.eval()"),
        (nn.LSTM(3, 3, 2, dropout=0.2), "must not be random, got a LSTM that drops"),
        (parts(nn.BatchNorm1d(3)), "must treat each person alone, got a BatchNorm1d at '1' in training mode.*eval()"),
        (nn.Linear(3, 3, dtype=torch.complex64), "must have finite floats as parameters, got others in 'weight'"),
    ],
)
def test_modules_that_cannot_be_retrained_are_refused(module, message):
    with pytest.raises(DataError, match=f"module: {message}"):
        from_torch(module, loss="cross-entropy")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Counting(), "must not change when it is called, got Counting, whose 'calls' does; call module.eval()"),
        (Centred(3, 3), "must treat each person alone, got other outputs from Centred for one person in company"),
        (
            parts(nn.BatchNorm1d(3, track_running_stats=False)).eval(),
            "must take one person's row|treat each person alone",
        ),
        (Noisy(3, 3), "must not be random, got other outputs from Noisy for the same rows; call module.eval()"),
        (Single(3, 3), "must compute in its parameters' own dtype, which is float64 here, got torch.float32"),
        (linear_layer(4, 3), r"must take rows \(m, 3\) of float64 numbers; Linear stopped with RuntimeError: mat1"),
        (linear_layer(3, 2), r"must return a number for each entry .*shape \(3, 3\) .*got shape \(3, 2\) from Linear"),
        (nn.LSTM(3, 3), "must return a number for each entry .*got a tuple from LSTM; see `apply`"),
    ],
)
def test_modules_that_do_not_fit_the_people_are_refused_before_anything_is_trained(module, message):
    with pytest.raises(DataError, match=f"module: {message}"):
        oar.collective(problem_of(from_torch(module, loss="cross-entropy", penalty=0.1)))


def test_dropout_and_batch_norm_that_are_off_are_welcome():
    module = parts(nn.Dropout(0.5), nn.BatchNorm1d(3)).eval()
    module[2].running_mean += 0.5
    training = bound(from_torch(module, loss="cross-entropy", penalty=0.1))
    np.testing.assert_allclose(
        training.outputs(training.start(), FEATURES[0]),
        module(torch.as_tensor(FEATURES[:1], dtype=torch.float32)).detach().numpy()[0],
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss: must be one of 'cross-entropy', 'squared', got 'hinge'"),
        ({"penalty": -1.0}, "penalty: must be a number of at least 0, got -1.0"),
        ({"gauge": 1.0}, "gauge: must be a function, got float"),
        ({"train": "sgd"}, "train: must be a function, got str"),
        ({"seed": 3}, "seed: is for `train`, and nothing is random without one"),
        ({"regresses": True}, "loss: must be 'squared' or a function where values are predicted"),
        ({"regresses": True, "one_logit": True, "loss": "squared"}, "one_logit: is for classes"),
        ({"convex": "yes"}, "convex: must be True or False, got 'yes'"),
        ({"chunk": 0}, "chunk: must be a whole number of at least 1, got 0"),
        ({"name": ""}, "name: must be a word or two, got ''"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((DataError, OptionError), match=message):
        layer(**settings)


def test_a_penalty_that_would_do_nothing_and_too_many_classes_for_one_logit_are_refused():
    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(3))

        def forward(self, rows):
            return rows + self.shift

    with pytest.raises(OptionError, match="penalty: a number is for parameters of two dimensions or more"):
        from_torch(Shift(), loss="cross-entropy", penalty=0.1)
    assert bound(from_torch(Shift(), loss="cross-entropy")).parameter_count == 3
    with pytest.raises(OptionError, match="one_logit: stands for the second of two classes, got 3 classes"):
        problem_of(from_torch(linear_layer(3, 1), loss="cross-entropy", one_logit=True)).training()
    with pytest.raises(DataError, match="module: .*give one_logit=True where its only output"):
        bound(from_torch(linear_layer(3, 1), loss="cross-entropy"), targets=np.eye(2)[CODES % 2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"loss": lambda z, y: (z - y) ** 2},
            r"loss: must return one float for one person, shape \(\), got shape \(3,\)",
        ),
        ({"loss": lambda z, y: float(z.sum())}, "loss: must be a torch function of one person's .* RuntimeError: vmap"),
        ({"query_loss": lambda z, y: z}, r"query_loss: must return one float .*shape \(3,\)"),
        ({"penalty": lambda module: module.weight}, r"penalty: must return one float .*got shape \(3, 3\)"),
        ({"penalty": lambda module: module.wieght.sum()}, "penalty: must be a torch function of the module.*wieght"),
        ({"gauge": lambda module: module.bias}, r"gauge: must return one float .*got shape \(3,\)"),
    ],
)
def test_functions_that_return_something_else_are_named(settings, message):
    with pytest.raises(DataError, match=message):
        bound(layer(**settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": 0.0}, "falls for ever"),
        ({"penalty": lambda module: torch.nan * module.weight.sum()}, "penalty: it and its gradient must be finite"),
        ({"loss": lambda z, y: torch.nan * (z - y).sum()}, "loss: it and its gradient must be finite"),
        ({"loss": lambda z, y: (torch.sign(z) - y).sum()}, "loss: must change with the parameters"),
    ],
)
def test_what_cannot_be_trained_is_named(settings, message):
    targets = np.eye(3)[(FEATURES[:, 0] > 0).astype(int)]
    training = bound(layer(**settings), targets=targets)
    with pytest.raises(NumericsError, match=message):
        training.fit(training.moved(None), training.start(), 1e-8)


# -- plans, audited ----------------------------------------------------------------------------------------------------


def test_a_collective_is_planned_and_audited_as_with_our_own_model():
    ours, theirs = (oar.collective(problem_of(model), solver=SHORT) for model in (layer(), SoftmaxRegression(l2=0.1)))
    assert ours.loss < ours.loss_before
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-3)
    assert ours.loss_before == pytest.approx(theirs.loss_before, abs=1e-6)
    said = f"torch {torch.__version__}: Linear retrained from scratch by its own training, by L-BFGS and Newton"
    assert ours.audit.witness.startswith(f"{said}; SciPy's L-BFGS-B ")
    # what scikit-learn would say of the same moves
    moved = oar.audit(MemberPlan(theirs.problem, ours.plan.query_move, ours.plan.moves()))
    assert moved.loss == pytest.approx(ours.loss, abs=1e-6)
    again = oar.collective(problem_of(layer()), solver=SHORT)
    assert again.plan.moves().tobytes() == ours.plan.moves().tobytes()


def test_networks_too():
    result = oar.collective(problem_of(network()), solver=oar.solvers.OneShot())
    assert result.loss < result.loss_before
    assert result.audit.converged
    alone = oar.individual(problem_of(layer()))
    assert alone.loss < alone.loss_before


@pytest.mark.parametrize("action", [oar.Relabel(2), oar.Withhold(3)], ids=repr)
def test_levers(action):
    results = []
    for model in (layer(), SoftmaxRegression(l2=0.1)):
        problem = oar.Problem(people_of(weights=WEIGHTS), model, oar.Query(FEATURES[0], (CODES[0] + 1) % 3), action)
        results.append(oar.collective(problem))
    assert results[0].loss < results[0].loss_before
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-3)
    assert results[0].audit.leavers == results[1].audit.leavers
    assert results[0].audit.relabelled == results[1].audit.relabelled


def test_values_are_planned_for():
    values = FEATURES @ np.array([1.0, -0.5, 0.2]) + 0.1 * np.random.default_rng(2).normal(size=len(FEATURES))
    people = oar.Population(FEATURES, values)
    results = []
    for model in (
        from_torch(linear_layer(3, 1), loss="squared", penalty=0.1, regresses=True, convex=True, equivariant=True),
        oar.models.Ridge(l2=0.1),
    ):
        problem = oar.Problem(
            people, model, oar.Query(FEATURES[0], float(values[0]) + 0.5, within=0.1), oar.Perturb(0.2)
        )
        results.append(oar.collective(problem, solver=SHORT))
    assert results[0].loss < results[0].loss_before
    assert results[0].prediction == pytest.approx(results[1].prediction, abs=1e-4)


def test_behind_a_scaler():
    results = [
        oar.collective(problem_of(oar.models.Scaled(model)), solver=SHORT)
        for model in (layer(), SoftmaxRegression(l2=0.1))
    ]
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-3)
    assert results[0].audit.witness.startswith("scikit-learn StandardScaler, then torch")
    model = oar.models.Scaled(layer())
    parameters = model.fit(people_of())
    expected = oar.models.Scaled(SoftmaxRegression(l2=0.1))
    np.testing.assert_allclose(
        model.probabilities(parameters, FEATURES),
        expected.probabilities(expected.fit(people_of()), FEATURES),
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "signal", ["neumann", oar.signals.Unrolled(steps=30), "alternating", "gradient-matching", "hypernetwork"]
)
def test_every_signal_goes_by_the_training_alone(signal):
    result = oar.collective(problem_of(layer()), solver=oar.solvers.OneShot(), signal=signal)
    assert result.loss < result.loss_before


def test_what_needs_jax_functions_refuses_kindly():
    said = "differentiates models through JAX, and Linear is not written in it"
    people, model = people_of(), layer()
    with pytest.raises(OptionError, match=f"ClippedInfluence {said}"):
        oar.defences.ClippedInfluence(2.0).prepared(people, model, model.fit(people), np.random.default_rng(0))
    from oar.solvers.cheapest.nonlinear_search import Outputs
    from oar.worlds.deployed.model import deployed

    with pytest.raises(OptionError, match=f"oar.cheapest {said}"):
        Outputs.of(oar.models.Scaled(model), people)

    with pytest.raises(OptionError, match=f"an actor {said}"):
        deployed(model, model.fit(people), 3)


def test_rounds_over_time():
    results = []
    for model in (layer(), SoftmaxRegression(l2=0.1)):
        stream = oar.online.Stream(people_of(), np.arange(len(CODES)) // 15)
        query = oar.Query(FEATURES[0], (CODES[0] + 1) % 3)
        problem = oar.OnlineProblem(stream, model, oar.online.FullRefit(), query, oar.Perturb(0.2))
        results.append(oar.collective(problem, solver=oar.solvers.OneShot()))
    assert results[0].loss == pytest.approx(results[1].loss, abs=1e-4)


def test_the_examples_of_the_page_run():
    text = page("torch")
    found = {}
    with torch.random.fork_rng():
        for block in blocks(text):
            exec(block, found)
    for name in ("result", "trained"):
        assert found[name].loss < found[name].loss_before
        said = re.search(rf"{name}.audit.witness +# '(.*)'", text)[1]
        assert found[name].audit.witness.startswith(said.removesuffix(" …").replace("…", str(torch.__version__)))
    learned = found["model"].loaded(found["learned"])
    rows = torch.as_tensor(found["X"], dtype=torch.float32)
    expected = found["model"].predict(found["learned"], found["X"])
    assert (learned(rows).argmax(dim=1).numpy() == expected).all()


# -- a training of one's own -------------------------------------------------------------------------------------------


def to_the_minimum(module, features, targets, weights):
    """Descent with momentum, on the loss that the model was told of."""
    optimiser = torch.optim.SGD(module.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    for _ in range(350):
        optimiser.zero_grad()
        each = nn.functional.cross_entropy(module(features), targets, reduction="none")
        (weights @ each + 0.05 * module.weight.pow(2).sum()).backward()
        optimiser.step()
    return module


def a_few_steps(module, features, targets, weights):
    """Stochastic descent that ends long before a minimum, with noise of its own."""
    optimiser = torch.optim.SGD(module.parameters(), lr=0.3)
    for _ in range(15):
        optimiser.zero_grad()
        noisy = features + 0.01 * torch.randn_like(features)
        (weights @ nn.functional.cross_entropy(module(noisy), targets, reduction="none")).backward()
        optimiser.step()
    return module


def own(train, module=None, **settings):
    module = linear_layer().double() if module is None else module
    return from_torch(module, loss="cross-entropy", penalty=0.1, train=train, **settings)


def test_a_training_of_ones_own_that_ends_at_the_minimum_is_differentiated_exactly():
    model = own(to_the_minimum)
    fit = assert_differentiates_training(bound(model), QUERY, GOAL, rtol=1e-4)
    ours = bound(layer())
    expected = ours.fit(ours.moved(None), ours.start(), 1e-10).parameters
    loss = bound(model).goal(fit.parameters, QUERY, GOAL)[0]
    assert loss == pytest.approx(ours.goal(expected, QUERY, GOAL)[0], abs=1e-9)
    result = oar.collective(problem_of(model), solver=oar.solvers.OneShot())
    assert (
        result.audit.witness
        == f"torch {torch.__version__}: Linear retrained from scratch by the `train` that was given"
    )
    assert result.loss < result.loss_before
    assert "approximate" not in result.proposal.note


def test_a_training_that_ends_early_is_the_refit_and_its_gradient_is_called_approximate():
    calls = []

    def train(module, features, targets, weights):
        assert features.dtype == targets.dtype == weights.dtype == torch.float32
        calls.append(features.numpy().copy())
        return a_few_steps(module.train(), features, targets, weights)

    module, drawn = linear_layer(), torch.random.get_rng_state()
    model = own(train, module)
    training = bound(model)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert training.fit(training.moved(None), fit.parameters, 1e-10) is fit  # which is from scratch, too
    assert len(calls) == 1
    copied = copy.deepcopy(module)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        a_few_steps(copied, *(torch.tensor(array, dtype=torch.float32) for array in (FEATURES, TARGETS, WEIGHTS)))
    np.testing.assert_array_equal(training.parameters(fit.parameters)["weight"], copied.weight.detach().numpy())
    other = bound(own(train, module, seed=1))
    assert not np.array_equal(other.fit(other.moved(None), other.start(), 1e-10).parameters, fit.parameters)
    result = oar.collective(problem_of(model, 1.0), solver=SHORT)
    assert result.loss < result.loss_before
    assert "What `train` returned is not at a minimum" in result.proposal.note
    assert not result.proposal.finished
    np.testing.assert_allclose(calls[-1], FEATURES + result.plan.moves(), rtol=1e-6)  # the audit trained last, by it
    assert result.residual == 0


def test_an_indefinite_hessian_is_damped_and_said_to_be():
    def untrained(module, *_):
        return module

    training = bound(from_torch(tanh_network(3, 4, 3, seed=3), loss="squared", regresses=True, train=untrained))
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    assert np.linalg.eigvalsh(training.hessian(fit.parameters, fit.features))[0] < -1e-3
    pull = training.goal(fit.parameters, QUERY, GOAL)[1]
    signal = training.solve(fit, pull, None, 1e-8)
    assert training.damping > 0
    assert signal @ pull > 0


def rewound(module, features, targets, weights):
    module.running_mean += 1
    return module


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda module, *_: None, "train: must return the trained module, got None; end it with `return module`"),
        (lambda *_: nn.Linear(2, 2), "train: must return the module that it was given, trained, got a Linear with"),
        (rewound, "train: must change only what is learned, got 'running_mean' changed.*eval mode"),
    ],
)
def test_trainings_that_return_something_else_are_refused(train, message):
    module = nn.BatchNorm1d(3).eval() if train is rewound else linear_layer()
    training = bound(from_torch(module, loss="cross-entropy", train=train))
    with pytest.raises(DataError, match=message):
        training.fit(training.moved(None), training.start(), 1e-8)


def test_a_training_that_diverges_is_named_and_warm_rounds_are_refused():
    def diverge(module, *_):
        with torch.no_grad():
            module.weight *= torch.inf
        return module

    training = bound(own(diverge))
    with pytest.raises(NumericsError, match="train: must return finite parameters, got 9 of 12 that are not"):
        training.fit(training.moved(None), training.start(), 1e-8)
    stream = oar.online.Stream(people_of(), np.zeros(len(CODES), dtype=int))
    query = oar.Query(FEATURES[0], 1)
    with pytest.raises(OptionError, match="warm: does nothing for Linear, whose own `train` starts from its module"):
        oar.OnlineProblem(stream, own(a_few_steps), oar.online.FullRefit(warm=True), query, oar.Perturb(0.1))
