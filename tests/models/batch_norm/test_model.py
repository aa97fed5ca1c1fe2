"""Networks that normalise by the test batch: slopes, statistics, labels that do not matter, and what is refused."""

import math

import numpy as np
import pytest
from support.pages import blocks, page

import oar
from oar.models import BatchNorm, Dense, TestTimeBatchNorm
from oar.models.batch_norm.batch_statistics import DeepTraining, MomentTraining
from oar.models.batch_norm.model import Batch
from oar.signals import Implicit

SIZE, WIDTH = 7, 3
TARGET = np.array([0.0, 1.0])
TINY = 1e-6


def norm(rng, units):
    return BatchNorm(rng.normal(size=units), rng.normal(size=units), rng.normal(size=units), rng.random(units) + 0.2)


def dense(rng, inputs, outputs):
    return Dense(rng.normal(size=(outputs, inputs)), rng.normal(size=outputs))


def one_norm(rng, activation="softplus", **settings):
    layers = [dense(rng, 3, 4), "tanh", dense(rng, 4, 3), norm(rng, 3), activation, dense(rng, 3, 2)]
    return TestTimeBatchNorm(layers, **settings)


def two_norms(rng, **settings):
    layers = [norm(rng, 3), dense(rng, 3, 4), norm(rng, 4), "tanh", dense(rng, 4, 2)]
    return TestTimeBatchNorm(layers, **settings)


def by_hand(model, members, weights, person):
    """Return the logits of a person in a batch, one number at a time."""
    rows = [list(map(float, row)) for row in members] + [list(map(float, person))]
    counts = [*weights, 1.0 if model.query_in_batch else 0.0]
    functions = {
        "tanh": math.tanh,
        "relu": lambda value: max(value, 0.0),
        "sigmoid": lambda value: 1 / (1 + math.exp(-value)),
        "softplus": lambda value: math.log(1 + math.exp(value)),
    }
    for layer in model.layers:
        if isinstance(layer, str):
            rows = [[functions[layer](value) for value in row] for row in rows]
        elif isinstance(layer, Dense):
            rows = [
                [
                    sum(w * h for w, h in zip(unit, row, strict=True)) + b
                    for unit, b in zip(layer.weights, layer.biases, strict=True)
                ]
                for row in rows
            ]
        else:
            for unit in range(layer.scale.size):
                values = [row[unit] for row in rows]
                mean = sum(c * v for c, v in zip(counts, values, strict=True)) / sum(counts)
                variance = sum(c * (v - mean) ** 2 for c, v in zip(counts, values, strict=True)) / sum(counts)
                m = model.momentum
                mean, variance = (1 - m) * layer.mean[unit] + m * mean, (1 - m) * layer.variance[unit] + m * variance
                for row in rows:
                    row[unit] = layer.scale[unit] * (row[unit] - mean) / math.sqrt(variance + model.epsilon)
                    row[unit] += layer.shift[unit]
    return rows[-1]


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    return rng.normal(size=(SIZE, WIDTH)) * [1.0, 3.0, 0.5] + [0.0, 5.0, -1.0], rng.random(SIZE) + 0.3, rng


SETTINGS = [{}, {"momentum": 0.3}, {"query_in_batch": False}, {"momentum": 0.6, "query_in_batch": False}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_slopes_by_hand_are_those_of_automatic_differentiation_and_of_finite_differences(batch, settings):
    features, weights, rng = batch
    model = one_norm(rng, **settings)
    query, moves = features.mean(axis=0) + 0.4, 0.2 * rng.normal(size=features.shape)
    hand, deep = (kind(model, features, weights) for kind in (MomentTraining, DeepTraining))
    steps = [Implicit().at(training, moves, query, TARGET, None, 1e-11) for training in (hand, deep)]
    assert steps[0].loss == pytest.approx(steps[1].loss, rel=1e-12)
    np.testing.assert_allclose(steps[0].gradient, steps[1].gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(steps[0].outcome.query_slope, steps[1].outcome.query_slope, rtol=1e-9, atol=1e-12)

    def loss(shift):
        found = hand.fit(hand.moved(moves + shift), hand.start(), 0.0)
        return hand.goal(found.parameters, query, TARGET)[0]

    along = rng.normal(size=features.shape)
    expected = (loss(TINY * along) - loss(-TINY * along)) / (2 * TINY)
    assert float((hand.weights[:, None] * steps[0].gradient * along).sum()) == pytest.approx(expected, rel=1e-5)
    assert abs(expected) > 1e-4


@pytest.mark.parametrize("settings", SETTINGS[:2], ids=str)
def test_several_norms_are_differentiated_through_everybodys_earlier_layers(batch, settings):
    features, weights, rng = batch
    model, query = two_norms(rng, **settings), features[0] + 0.5
    training = model.training(oar.Population(features, ["?"] * SIZE, weights))
    assert isinstance(training, DeepTraining)
    step = Implicit().at(training, None, query, TARGET)

    def loss(moved, person):
        logits = by_hand(model, moved, weights, person)
        return math.log(sum(map(math.exp, logits))) - logits[1]

    assert step.loss == pytest.approx(loss(features, query), rel=1e-12)
    along, own = rng.normal(size=features.shape), rng.normal(size=WIDTH)
    expected = (loss(features + TINY * along, query) - loss(features - TINY * along, query)) / (2 * TINY)
    assert float((training.weights[:, None] * step.gradient * along).sum()) == pytest.approx(expected, rel=1e-5)
    expected = (loss(features, query + TINY * own) - loss(features, query - TINY * own)) / (2 * TINY)
    assert float(step.outcome.query_slope @ own) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[3]], ids=str)
@pytest.mark.parametrize("make", [one_norm, two_norms])
def test_predictions_and_audits_are_those_of_the_network_computed_by_hand(batch, make, settings):
    features, weights, rng = batch
    model, people = make(rng, **settings), oar.Population(features, range(SIZE), weights)
    queries = features[:2] + 0.3
    expected = np.array([by_hand(model, features, weights, query) for query in queries])
    learned = model.fit(people)
    assert isinstance(learned, Batch)
    np.testing.assert_allclose(model.outputs(learned, queries[0]), expected[0], rtol=1e-10)
    np.testing.assert_array_equal(model.predict(learned, queries), expected.argmax(axis=1))
    losses = np.logaddexp.reduce(expected, axis=1) - expected[:, 1]
    np.testing.assert_allclose(model.goal_loss(learned, queries, 1), losses, rtol=1e-9)
    training = model.training(people)
    kept = training.parameters(training.fit(training.moved(None), training.start(), 0.0).parameters)
    np.testing.assert_allclose(kept.outputs(model, queries), expected, rtol=1e-9)
    result = oar.collective(oar.Problem(people, model, oar.Query(queries[0], 1), oar.Perturb(0.4)))
    moved = by_hand(model, features + result.plan.moves(), weights, queries[0])
    assert result.loss_before == pytest.approx(losses[0], rel=1e-10)
    assert result.loss == pytest.approx(math.log(sum(map(math.exp, moved))) - moved[1], rel=1e-10)
    assert result.proposal.claimed_loss == pytest.approx(result.loss, rel=1e-9)
    assert result.loss < result.loss_before
    assert "numpy" in result.audit.witness


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "softplus"])
def test_the_audit_knows_every_activation(batch, activation):
    features, weights, rng = batch
    model = one_norm(rng, activation)
    problem = oar.Problem(
        oar.Population(features, range(SIZE), weights), model, oar.Query(features[1], 0), oar.Perturb(0)
    )
    logits = by_hand(model, features, weights, features[1])
    assert oar.collective(problem).loss == pytest.approx(math.log(sum(map(math.exp, logits))) - logits[0], rel=1e-10)
    assert model.smooth == (activation != "relu")


def test_shifting_everybody_cancels_so_that_the_batch_does_no_worse_than_the_query_alone(batch):
    features, weights, rng = batch
    model = TestTimeBatchNorm([dense(rng, 3, 3), norm(rng, 3), "tanh", dense(rng, 3, 2)])
    assert model.equivariant
    assert not one_norm(rng).equivariant
    people, query = oar.Population(features, range(SIZE)), features[2]
    training = model.training(people)
    for shift in (np.zeros(3), np.array([3.0, -1.0, 0.5])):
        found = training.fit(training.moved(np.tile(shift, (SIZE, 1))), training.start(), 0.0)
        loss = training.goal(found.parameters, query + shift, TARGET)[0]
        assert loss == pytest.approx(
            training.goal(training.fit(features, training.start(), 0.0).parameters, query, TARGET)[0]
        )
    problem = oar.Problem(people, model, oar.Query(query, 1), oar.Perturb(0.3))
    assert oar.collective(problem).loss <= oar.individual(problem).loss + 1e-9


def test_labels_do_not_matter_and_the_goal_is_one_of_the_networks_classes(batch):
    features, _, rng = batch
    model = one_norm(rng, classes=["yes", "no"])
    assert model.classes == ("no", "yes")
    found = []
    for labels in (["?"] * SIZE, ["yes"] * SIZE, np.arange(SIZE), rng.random((SIZE, 4)), ["no", "yes"] * 3 + ["?"]):
        problem = oar.Problem(oar.Population(features, labels), model, oar.Query(features[0], "yes"), oar.Perturb(0.2))
        assert problem.people.classes == ("no", "yes")
        found.append(oar.collective(problem).loss)
    np.testing.assert_allclose(found, found[0], rtol=1e-7)
    codes = problem.people.codes(0, SIZE)
    assert codes[:6].tolist() == [0, 1] * 3
    shares = np.full(SIZE, 1 / SIZE)
    assert codes[6] == model.batch_outputs(features, shares)[6].argmax()
    with pytest.raises(oar.errors.OARError, match="goal: must be one of the classes 'no', 'yes'"):
        oar.Problem(problem.people, model, oar.Query(features[0], "?"), oar.Perturb(0.2))


def test_other_questions_do_not_ask_for_somebody_of_every_class(batch):
    features, _, rng = batch
    model = one_norm(rng, classes=["no", "yes"])
    problem = oar.Problem(
        oar.Population(features, ["no"] * SIZE), model, oar.Query(features[0], "yes"), oar.Perturb(0.3)
    )
    result = oar.collective(problem)
    assert oar.questions.collateral(result).bystanders.people == 0
    robust = result.plan.robustness(defection=0.5, draws=4, progress=False)
    assert np.isfinite(robust.losses).all()
    fell = result.loss_before - result.loss
    assert oar.questions.credit(result).credits.sum() == pytest.approx(fell, rel=1e-3)


def test_the_order_of_classes_is_only_an_order(batch):
    features, _, rng = batch
    layers = [norm(rng, 3), dense(rng, 3, 3)]
    model = TestTimeBatchNorm(layers, classes=["c", "a", "b"])
    plain = TestTimeBatchNorm(layers)
    learned = Batch(features, np.ones(SIZE))
    np.testing.assert_allclose(model.outputs(learned, features[0]), plain.outputs(learned, features[0])[[1, 2, 0]])


def test_members_who_ask_are_in_the_batch_already(batch):
    features, _, rng = batch
    people = oar.Population(features, range(SIZE))
    with pytest.raises(oar.errors.OARError, match="query_in_batch: must be False where members ask"):
        oar.Problem(people, one_norm(rng), oar.Query(oar.Members([0]), 1), oar.Perturb(0.2))
    model = one_norm(rng, query_in_batch=False)
    result = oar.collective(oar.Problem(people, model, oar.Query(oar.Members([0, 3]), 1), oar.Perturb(0.2)))
    moved = features + result.plan.moves()
    logits = np.array([by_hand(model, moved, np.ones(SIZE), moved[place]) for place in (0, 3)])
    assert result.loss == pytest.approx((np.logaddexp.reduce(logits, axis=1) - logits[:, 1]).mean(), rel=1e-9)


def test_a_network_is_trained_from_data_and_a_seed():
    flowers = oar.datasets.iris()
    names = np.array(flowers.class_names)[flowers.labels]
    first, again = (TestTimeBatchNorm.trained(flowers.features, names, (5,), seed=3, steps=80) for _ in range(2))
    assert first.classes == flowers.class_names
    for one, two in zip(first.layers, again.layers, strict=True):
        if isinstance(one, Dense):
            np.testing.assert_array_equal(one.weights, two.weights)
    people = oar.Population(flowers.features, names)
    everybody = np.full(150, 1 / 150)
    assert np.mean(first.batch_outputs(flowers.features, everybody).argmax(axis=1) == flowers.labels) > 0.93
    # On the training people themselves, running statistics are those of the batch.
    frozen = TestTimeBatchNorm(first.layers, first.classes, momentum=0.0, query_in_batch=False)
    fresh = TestTimeBatchNorm(first.layers, first.classes, query_in_batch=False)
    learned = fresh.fit(people)
    np.testing.assert_allclose(
        frozen.outputs(learned, flowers.features[7]), fresh.outputs(learned, flowers.features[7]), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TestTimeBatchNorm([Dense(np.eye(2))]), "layers: must hold an oar.models.BatchNorm"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), "relu"]), "layers: must end in an oar.models.Dense"),
        (lambda: TestTimeBatchNorm([]), "layers: must end"),
        (lambda: TestTimeBatchNorm("relu"), "layers: must be a list"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), "swish", Dense(np.ones((2, 1)))]), "layers"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), 3, Dense(np.ones((2, 1)))]), "got 3 at place 1"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0, 1.0]), Dense(np.ones((2, 1)))]), "must take the 2 units before it"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((1, 1)))]), "classes: must be a different label"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], classes="ab"), "classes: must be"),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], classes=["a", "a"]), "classes"),
        (
            lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], epsilon=0),
            "epsilon: must be a number above 0",
        ),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], momentum=1.5), "momentum: must be"),
        (
            lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], momentum=0.5),
            "must be given where running",
        ),
        (lambda: TestTimeBatchNorm([BatchNorm([1.0]), Dense(np.ones((2, 1)))], query_in_batch="no"), "query_in_batch"),
        (lambda: BatchNorm([1.0], mean=[0.0]), "must be given both"),
        (lambda: BatchNorm([1.0], mean=[0.0], variance=[-1.0]), "variance: must not be negative"),
        (lambda: BatchNorm([1.0], shift=[0.0, 1.0]), "BatchNorm shift"),
        (lambda: BatchNorm([np.nan]), "BatchNorm scale: must be finite"),
        (lambda: Dense([1.0]), "Dense weights"),
        (lambda: Dense(np.eye(2), [1.0]), "Dense biases"),
        (lambda: Dense("eye"), "Dense weights: must be numbers"),
        (lambda: TestTimeBatchNorm.trained([[0.0], [1.0]], [0, 0]), "labels: must be one label a person"),
        (lambda: TestTimeBatchNorm.trained([[0.0], [1.0]], [0, 1], steps=0), "steps"),
    ],
)
def test_what_is_no_network_is_refused_with_the_reason(make, words):
    with pytest.raises(oar.errors.OARError, match=words):
        make()


def test_people_and_actions_that_do_not_fit_are_refused(batch):
    features, _, rng = batch
    model, people = one_norm(rng), oar.Population(features, range(SIZE))
    with pytest.raises(oar.errors.OARError, match="people: must have the 3 features"):
        oar.Problem(oar.Population(features[:, :2], range(SIZE)), model, oar.Query([0.0, 0.0], 1), oar.Perturb(0.2))
    for action in (oar.Relabel(most=1), [oar.Perturb(0.1), oar.Withhold(most=1)]):
        with pytest.raises(oar.errors.OARError, match="action: must be an oar.Perturb"):
            oar.Problem(people, model, oar.Query(features[0], 1), action)
    with pytest.raises(oar.errors.OARError, match="weights: somebody"):
        model.check(oar.Population(features, range(SIZE), np.zeros(SIZE)))


def test_a_batch_of_one_who_weighs_nothing_more_than_others(batch):
    features, _, rng = batch
    model = one_norm(rng)
    problem = oar.Problem(oar.Population(features[:1], ["?"]), model, oar.Query(features[1], 1), oar.Perturb(0.3))
    result = oar.collective(problem)
    assert result.loss <= result.loss_before
    assert not result.audit.violations


def test_a_network_of_layers_is_on_no_card_for_a_few_people():
    model = TestTimeBatchNorm([BatchNorm([1.0]), Dense([[-1.0], [1.0]])], classes=["no", "yes"])
    people = oar.Population(np.linspace(-1, 1, 9)[:, None], ["unlabelled"] * 9)
    result = oar.collective(oar.Problem(people, model, oar.Query([-0.1], "yes"), oar.Perturb(0.4)), progress=False)
    with pytest.raises(oar.errors.DataError, match="needs at least 5 people who count alike"):
        result.plan.card()


def test_the_page_shows_a_network_that_can_be_made():
    text = page("batchnorm")
    _, block, *_ = blocks(text)
    names = {"np": np, "oar": oar}
    exec(block, names)
    batch = oar.Population(np.random.default_rng(1).normal(size=(6, 2)), ["unlabelled"] * 6)
    result = oar.collective(oar.Problem(batch, names["network"], oar.Query([0.1, 0.2], "yes"), oar.Perturb(0.1)))
    assert result.loss < result.loss_before
