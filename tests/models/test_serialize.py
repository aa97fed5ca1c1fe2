"""Models as settings: there and back, and what cannot be written down."""

import json

import numpy as np
import pytest

import oar
from oar.models import MLP, Custom, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, SoftmaxRegression
from oar.models.serialize import from_spec, parameter_count, to_spec


@pytest.mark.parametrize(
    "model",
    [
        SoftmaxRegression(0.3),
        Ridge(np.float32(0.5)),
        LinearSVM(0.1, penalise_intercept=True),
        GaussianNaiveBayes(1e-6, smoothing=0.25),
        PrototypeNetwork((4, 2), train_embedding=True, seed=5),
        PrototypeNetwork(),
        MLP((8, 3), activation="silu", seed=2, loss="squared"),
    ],
    ids=lambda model: model.name,
)
def test_there_and_back(model):
    again = from_spec(json.loads(json.dumps(to_spec(model))))
    assert again == model
    assert type(again) is type(model)
    rng = np.random.default_rng(0)
    people = oar.Population(rng.normal(size=(12, 3)), rng.normal(size=12) if model.regresses else np.arange(12) % 3)
    training = model.training(people)
    assert parameter_count(model, 3, model.targets(people).shape[1]) == training.parameter_count


class Mine(SoftmaxRegression):
    """Somebody's own subclass, with the same name."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Custom(loss=lambda w, x, y: 0.0, init=np.zeros(1), outputs=lambda w, x: w),
            "model: must be one of .* more than a name and a few settings",
        ),
        (Mine(), "model: must be one of"),
        (PrototypeNetwork(lambda x: x), "model: an embedding that is a function"),
    ],
)
def test_what_is_made_of_functions_is_refused(model, message):
    with pytest.raises(oar.errors.DataError, match=message):
        to_spec(model)


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(oar.errors.DataError, match="model: must be one of softmax-regression, .*, got 'forest'"):
        from_spec({"name": "forest"})
    with pytest.raises(oar.errors.OptionError, match="Ridge: must be one of .l2., got .depth"):
        from_spec({"name": "ridge", "depth": 3})
