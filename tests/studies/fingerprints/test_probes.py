"""A store answers for the model that it was asked about, and for no other of the same name."""

import os
import threading
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from support.study_problems import problem

import oar
from oar.models import Custom, from_equinox
from oar.plans.fingerprints.behaviour import behaviour


def custom(scale, **settings):
    return Custom(
        loss=lambda w, x, y: -jnp.sum(y * jnp.log(jnp.exp(w @ x) / jnp.sum(jnp.exp(w @ x)))),
        init=lambda dimensions, outputs: jnp.zeros((outputs, dimensions)),
        outputs=lambda w, x: w @ x,
        penalty=lambda w: scale * jnp.sum(w**2),
        **settings,
    )


def with_constant(text):
    def centre(w):
        return 0.01 * jnp.sum(w**2)

    def far(w):
        return 1.0 * jnp.sum(w**2)

    return custom(0.0, gauge=far if text == "far" else centre)


def equinox(width):
    jax, eqx = pytest.importorskip("jax"), pytest.importorskip("equinox")
    module = eqx.nn.MLP(2, 2, width, 1, key=jax.random.PRNGKey(0))
    return from_equinox(
        module,
        loss=lambda out, y: -jnp.sum(y * out) + jnp.log(jnp.sum(jnp.exp(out))),
        penalty=lambda whole: 0.05 * sum(jnp.sum(layer.weight**2) for layer in whole.layers),
    )


def box(lowest):
    def train(features, labels):
        means = [features[labels == label].mean(axis=0) for label in ("no", "yes")]

        def predict(rows):
            nearer = ((rows - means[1]) ** 2).sum(axis=1) < lowest * ((rows - means[0]) ** 2).sum(axis=1)
            return np.where(nearer, "yes", "no")

        return predict

    return oar.BlackBox(train, randomised=False)


@pytest.mark.parametrize(
    ("make", "one", "other", "solver", "where"),
    [
        (custom, 0.01, 1.0, None, "_penalty.closure scale"),
        (with_constant, "near", "far", None, "_gauge.code"),
        (equinox, 2, 3, None, "closure leaves.0"),
        (box, 1.0, 0.2, oar.solvers.Surrogate(), "estimator.closure lowest"),
    ],
)
def test_another_model_of_the_same_name_is_refused(tmp_path, not_asked, make, one, other, solver, where):
    solver = solver or not_asked  # to compile these takes longer than to refuse them
    path = tmp_path / "study.db"
    first = oar.study(problem(make(one)), store=path, solver=solver).table()
    assert oar.study(problem(make(one)), store=path, solver=solver).table().equals(first)
    with pytest.raises(oar.errors.StorageError, match=f"but with other contents: .*{where}"):
        oar.study(problem(make(other)), store=path, solver=solver)


def test_one_model_is_the_same_after_it_was_used():
    torch = pytest.importorskip("torch")
    network = oar.models.from_torch(torch.nn.Linear(2, 2), loss="cross-entropy", penalty=0.1)
    plain = Custom(loss=lambda w, x, y: jnp.sum((w @ x - y) ** 2), init=lambda d, o: jnp.zeros((o, d)))
    before = behaviour(network), behaviour(plain)
    network.passes.module.arrays(network.passes.module.start)
    plain.completed(2)  # as where it is bound to people
    assert (behaviour(network), behaviour(plain)) == before


def test_what_cannot_be_told_is_run_but_not_gone_on_with(tmp_path):
    lock, path = threading.Lock(), tmp_path / "study.db"

    def train(features, labels):
        with lock:
            return lambda rows: np.where(rows[:, 0] > features[:, 0].mean(), "yes", "no")

    asked = problem(oar.BlackBox(train, randomised=False))
    first = oar.study(asked, store=path, solver=oar.solvers.Surrogate())
    assert first.counts["done"] == 1
    with pytest.raises(
        oar.errors.StorageError, match="nobody can say.*object of type lock .*, at estimator.closure lock"
    ):
        oar.study(asked, store=path, solver=oar.solvers.Surrogate())
    assert oar.results.Study.open(path).counts["done"] == 1


@pytest.mark.parametrize(("kind", "knew"), [(1, "functions by their names"), (2, "goals by their first six digits")])
def test_stores_of_older_kinds_can_be_read_but_not_gone_on_with(tmp_path, kind, knew):
    from oar.studies.store.database import Store

    path = tmp_path / "study.db"
    table = oar.study(problem(), store=path).table()
    with Store(path) as store, store.founding() as known:
        known["fingerprint"]["kind"] = kind
    with pytest.raises(oar.errors.StorageError, match=f"older version of oar, which knew {knew}"):
        oar.study(problem(), store=path)
    assert oar.results.Study.open(path).table().equals(table)


def test_two_lambdas_are_not_named_by_their_addresses(tmp_path):
    boxes = [oar.BlackBox(lambda features, labels, at=at: at, randomised=False) for at in (1, 2)]
    with pytest.raises(oar.errors.DataError, match="models: must differ in what they are called.*name them in a dict"):
        oar.study(problem(), models=boxes, store=tmp_path / "study.db")


READ = "OAR_TEST_LOWEST"


def box_that_reads(path=None):
    def train(features, labels):
        means = [features[labels == label].mean(axis=0) for label in ("no", "yes")]
        least = float(os.environ[READ] if path is None else Path(path).read_text())

        def predict(rows):
            near, far = (((rows - mean) ** 2).sum(axis=1) for mean in means)
            return np.where(far < least * near, "yes", "no")

        return predict

    return oar.BlackBox(train, randomised=False)


def custom_that_reads():
    def penalty(w):
        return float(os.environ[READ]) * jnp.sum(w**2)

    model = custom(0.0)
    model._penalty = penalty
    return model


def torch_that_reads(**settings):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)

    def penalty(module):
        return float(os.environ[READ]) * (module.weight**2).sum()

    return oar.models.from_torch(torch.nn.Linear(2, 2), loss="cross-entropy", penalty=penalty)


def equinox_that_reads():
    eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
    return from_equinox(
        eqx.nn.MLP(2, 2, 2, 1, key=jax.random.PRNGKey(0)),
        loss=lambda out, y: -jnp.sum(y * out) + jnp.log(jnp.sum(jnp.exp(out))),
        penalty=lambda whole: float(os.environ[READ]) * sum(jnp.sum(layer.weight**2) for layer in whole.layers),
    )


@pytest.mark.parametrize("make", [box_that_reads, custom_that_reads, equinox_that_reads, torch_that_reads])
def test_a_model_that_reads_something_else_now_is_refused(tmp_path, monkeypatch, not_asked, make):
    path = tmp_path / "study.db"
    monkeypatch.setenv(READ, "0.9")
    first = oar.study(problem(make()), store=path, solver=not_asked).table()
    assert oar.study(problem(make()), store=path, solver=not_asked).table().equals(first)
    monkeypatch.setenv(READ, "0.2")
    with pytest.raises(
        oar.errors.StorageError, match="the same code as then, but .* it answers otherwise.*environment"
    ):
        oar.study(problem(make()), store=path, solver=not_asked)
    monkeypatch.setenv(READ, "0.9")
    assert oar.study(problem(make()), store=path, solver=not_asked).table().equals(first)


def test_a_changed_file_that_a_model_reads_is_noticed(tmp_path):
    path, file, solver = tmp_path / "study.db", tmp_path / "lowest.txt", oar.solvers.Surrogate()
    file.write_text("1.0")
    first = oar.study(problem(box_that_reads(str(file))), store=path, solver=solver)
    assert first.counts["done"] == 1
    file.write_text("0.2")
    with pytest.raises(oar.errors.StorageError, match="Something that it reads has changed"):
        oar.study(problem(box_that_reads(str(file))), store=path, solver=solver)


def asked_about(train, path, solver, **settings):
    """Study a training function, and return its black box."""
    model = oar.BlackBox(train, **settings)
    oar.study(problem(model), store=path, solver=solver)
    return model


@pytest.mark.parametrize("chance", ["own", "numpy", "seeded"])
def test_random_training_is_no_other_model(tmp_path, not_asked, chance):
    """By a seed, or by a generator that can be set, probes are the same; otherwise it is said that they are not."""

    def noisy(features, draw):
        return lambda rows: np.clip(np.column_stack([rows[:, 0] * 0 + 0.5, draw(len(rows))]), 0.01, 1)

    def own(features, labels):
        return noisy(features, np.random.default_rng().random)

    def by_numpy(features, labels):
        return noisy(features, np.random.random)

    def seeded(features, labels, seed):
        return noisy(features, np.random.default_rng(seed).random)

    train = {"own": own, "numpy": by_numpy, "seeded": seeded}[chance]
    path, before = tmp_path / "study.db", np.random.get_state()[1].tolist()  # noqa: NPY002
    for _ in range(3):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = asked_about(train, path, not_asked, randomised=True)
        said = [str(one.message) for one in told if "nobody can say" in str(one.message)]
        assert bool(said) == (chance == "own") == any("nobody can say" in note for note in model.notes)
        assert model.calls.fits == 2
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_a_random_model_whose_first_answers_agree_by_chance_is_not_refused(tmp_path, not_asked):
    answers = tmp_path / "answers"

    def train(features, labels):
        number = len(answers.read_text())
        answers.write_text("x" * (number + 1))
        one = ("yes", "yes", "no", "no", "no", "yes")[number % 6]
        return lambda rows: np.full(len(rows), one)

    answers.write_text("")
    asked_about(train, tmp_path / "study.db", not_asked, randomised=True)  # yes, yes
    with pytest.warns(UserWarning, match="nobody can say"):
        asked_about(train, tmp_path / "study.db", not_asked, randomised=True)  # no, no; and then no, yes


def test_what_fails_on_few_people_is_probed_on_all(tmp_path, monkeypatch, not_asked):
    monkeypatch.setenv(READ, "1.0")

    def train(features, labels):
        if len(features) < 50:
            raise ValueError("too few neighbours")
        least = float(os.environ[READ])
        return lambda rows: np.where(rows[:, 0] > least, "yes", "no")

    asked_about(train, tmp_path / "study.db", not_asked, randomised=False)
    monkeypatch.setenv(READ, "0.1")
    with pytest.raises(oar.errors.StorageError, match="it answers otherwise"):
        asked_about(train, tmp_path / "study.db", not_asked, randomised=False)
