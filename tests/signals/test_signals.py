"""Signals by name, by settings, and chosen with a reason."""

from types import SimpleNamespace

import pytest
from support.signal_problems import softmax_world

from oar.errors import DataError, OptionError
from oar.signals import SIGNALS, Alternating, Hypernetwork, Implicit, Neumann, Unrolled, as_signal, choose_signal

METHODS = ("start", "moved", "fit", "risk_gradient", "product", "solve", "score_gradients", "goal", "outputs")


def training_with(count, methods=METHODS, **more):
    return SimpleNamespace(parameter_count=count, **{method: print for method in methods}, **more)


@pytest.mark.parametrize(
    ("count", "kind", "words"),
    [
        (15, Implicit, "with 15 parameters H v = g is cheap"),
        (50_000, Implicit, "with 50,000 parameters H v = g is solved by conjugate gradients"),
        (5_000_000, Neumann, "with 5,000,000 parameters a solve is out of reach"),
    ],
)
def test_the_choice_follows_the_size(count, kind, words):
    signal, sentence = choose_signal(training_with(count))
    assert isinstance(signal, kind)
    assert words in sentence
    assert sentence.startswith(f"Signal: {signal.name}, because ")


def test_the_choice_follows_what_the_training_can_do():
    without_solve = [method for method in METHODS if method != "solve"]
    assert isinstance(choose_signal(training_with(15, without_solve))[0], Unrolled)
    refits = training_with(15, ["start", "moved", "fit", "goal"], targets=[[1.0]])
    assert isinstance(choose_signal(refits)[0], Hypernetwork)
    with pytest.raises(OptionError, match="none applies to this training .implicit: .* has no `solve`"):
        choose_signal(training_with(15, ["start"]))


def test_names_and_settings_are_read():
    training = softmax_world(1).training
    for name, kind in SIGNALS.items():
        if name != "hypernetwork":
            signal, sentence = as_signal(name, training)
            assert isinstance(signal, kind)
            assert sentence == f"Signal: {name}, as asked for."
    assert as_signal(Neumann(terms=7), training)[0].terms == 7
    assert isinstance(as_signal("auto", training)[0], Implicit)


def test_what_is_not_known_or_does_not_apply_is_refused():
    training = softmax_world(1).training
    with pytest.raises(OptionError, match="signal: must be one of 'auto', .* Did you mean 'neumann'"):
        as_signal("neuman", training)
    with pytest.raises(OptionError, match="signal: must be one of .* or settings such as oar.signals.Implicit"):
        as_signal(3, training)
    with pytest.raises(OptionError, match="'implicit' does not apply here: SimpleNamespace has no `solve`"):
        as_signal("implicit", training_with(3, ["fit"]))


def test_only_the_implicit_signal_claims_to_be_exact():
    assert [name for name, kind in SIGNALS.items() if kind.exact] == ["implicit"]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Implicit, {"tolerance": 1}, "tolerance: must be a number of at least 0 and below 1, got 1"),
        (Implicit, {"tolerance": "a"}, "tolerance: must be a finite number > 0, got 'a'"),
        (Implicit, {"tolerance": float("nan")}, "tolerance: must be a finite number > 0, got nan"),
        (Implicit, {"tolerance": None}, "tolerance: must be a finite number > 0, got None"),
        (Neumann, {"terms": 2.5}, "terms: must be a whole number ≥ 1, got 2.5"),
        (Neumann, {"step": "x"}, "step: must be a finite number > 0, got 'x'"),
        (Neumann, {"warm_start": "no"}, "warm_start: must be True or False, got 'no'"),
        (Unrolled, {"steps": True}, "steps: must be a whole number ≥ 1, got True"),
        (Unrolled, {"momentum": "x"}, "momentum: must be a number of at least 0 and below 1, got 'x'"),
        (Unrolled, {"step": -1.0}, "step: must be a finite number > 0, got -1.0"),
        (Alternating, {"step": "x"}, "step: must be a finite number > 0, got 'x'"),
        (Alternating, {"inner_steps": 0}, "inner_steps: must be a whole number ≥ 1, got 0"),
        (Hypernetwork, {"radius": "x"}, "radius: must be a finite number > 0, got 'x'"),
        (Hypernetwork, {"tolerance": None}, "tolerance: must be a finite number > 0, got None"),
        (Hypernetwork, {"seed": -5}, "seed: must be a whole number ≥ 0, got -5"),
    ],
)
def test_settings_that_cannot_be_are_refused(kind, settings, message):
    with pytest.raises(DataError, match=message):
        kind(**settings)
