"""A store answers for the model that it was asked about, and for no other of the same name."""

import threading

import jax.numpy as jnp
import numpy as np
import pytest
from study_worlds import QUICK, problem

import oar
from oar.models import Custom, from_equinox
from oar.plans.behaviour import behaviour
from oar.studies.work import Work


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
        (custom, 0.01, 1.0, QUICK, "_penalty.closure scale"),
        (with_constant, "near", "far", QUICK, "_gauge.code"),
        (equinox, 2, 3, QUICK, "closure leaves.0"),
        (box, 1.0, 0.2, oar.solvers.Surrogate(), "estimator.closure lowest"),
    ],
)
def test_another_model_of_the_same_name_is_refused(tmp_path, monkeypatch, make, one, other, solver, where):
    if make is not box:  # to compile these takes longer than to refuse them
        monkeypatch.setattr(Work, "_answered", lambda work, cell: {"error": "not asked"})
    path = tmp_path / "study.db"
    first = oar.study(problem(make(one)), store=path, solver=solver).table()
    assert oar.study(problem(make(one)), store=path, solver=solver).table().equals(first)
    with pytest.raises(oar.StorageError, match=f"but with other contents: .*{where}"):
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
    with pytest.raises(oar.StorageError, match="nobody can say.*object of type lock .*, at estimator.closure lock"):
        oar.study(asked, store=path, solver=oar.solvers.Surrogate())
    assert oar.Study.open(path).counts["done"] == 1


def test_stores_that_knew_functions_by_name_can_be_read_but_not_gone_on_with(tmp_path):
    from oar.studies.store import Store

    path = tmp_path / "study.db"
    table = oar.study(problem(), store=path).table()
    with Store(path) as store, store.founding() as known:
        del known["fingerprint"]["kind"]
    with pytest.raises(oar.StorageError, match="older version of oar, which knew functions by their names"):
        oar.study(problem(), store=path)
    assert oar.Study.open(path).table().equals(table)


def test_two_lambdas_are_not_named_by_their_addresses(tmp_path):
    boxes = [oar.BlackBox(lambda features, labels, at=at: at, randomised=False) for at in (1, 2)]
    with pytest.raises(oar.DataError, match="models: must differ in what they are called.*name them in a dict"):
        oar.study(problem(), models=boxes, store=tmp_path / "study.db")
