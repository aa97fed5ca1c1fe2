"""Options that would do nothing, and options that do not exist, are refused with the reason and with those that do."""

import inspect

import numpy as np
import pytest

import oar
from oar import defences, models, online, signals, solvers, worlds
from oar.solvers import FrankWolfe, ProjectedGradient

RNG = np.random.default_rng(0)
CODES = np.arange(24) % 3
PEOPLE = oar.Population(RNG.normal(size=(24, 2)) + CODES[:, None], CODES)
QUERY = oar.Query([0.5, 0.2], goal=2)


def problem(model, action=None, query=QUERY):
    return oar.Problem(PEOPLE, model, query, action or oar.Perturb(0.3))


SOFTMAX, CENTROIDS = problem(models.SoftmaxRegression(0.1)), problem(oar.NearestCentroid())
OWN = problem(oar.NearestCentroid(), oar.Perturb(np.linspace(0.1, 0.4, 24)))
SEVERAL = problem(models.PrototypeNetwork(), query=oar.Query([[0.5, 0.2], [0.1, 0.0]], goal=2))
IDLE = [
    (oar.individual, SOFTMAX, {"solver": ProjectedGradient(seed=3)}, "seed: is that of random starts"),
    (oar.individual, SOFTMAX, {"solver": ProjectedGradient(random_starts=3)}, "random_starts: does nothing here"),
    (oar.collective, SOFTMAX, {"solver": ProjectedGradient(random_starts=3)}, "random_starts: does nothing here"),
    (oar.joint, SOFTMAX, {"solver": ProjectedGradient(random_starts=3)}, "random_starts: does nothing here"),
    (oar.collective, SOFTMAX, {"solver": ProjectedGradient(restarts=0, seed=3)}, "seed: is that of random starts"),
    (oar.collective, SOFTMAX, {"solver": FrankWolfe(restarts=0, seed=3)}, "seed: is that of random starts"),
    (oar.collective, SEVERAL, {"solver": ProjectedGradient(random_starts=3)}, "because several people ask"),
    (oar.collective, OWN, {"solver": ProjectedGradient(random_starts=3)}, "members have budgets of their own"),
    (oar.joint, CENTROIDS, {"solver": ProjectedGradient(random_starts=0, seed=3)}, "because random_starts is 0"),
    (oar.collective, SOFTMAX, {"signal": signals.Implicit(tolerance=1e-3)}, "tolerance does nothing where H is factor"),
    (
        oar.collective,
        problem(models.Scaled(models.SoftmaxRegression(0.1))),
        {"signal": signals.Implicit(1e-3)},
        "toler",
    ),
]


@pytest.mark.parametrize(("verb", "asked", "settings", "told"), IDLE)
def test_an_option_that_would_do_nothing_is_refused_with_the_reason(verb, asked, settings, told):
    with pytest.raises(oar.errors.OptionError, match=told):
        verb(asked, **settings)


@pytest.mark.parametrize("settings", [{"seed": 5}, {"max_steps": 1}, {"tolerance": 0.1}, {"random_starts": 40}])
@pytest.mark.parametrize("verb", [oar.individual, oar.joint])
def test_every_setting_of_a_search_from_many_starts_does_something(verb, settings):
    draw = np.random.default_rng(0)
    features, codes = draw.normal(size=(30, 2)), draw.integers(0, 3, 30)
    features += np.array([0.0, 1.0, -1.0])[codes][:, None]
    asked = oar.Problem(oar.Population(features, codes), oar.NearestCentroid(), QUERY, oar.Perturb(0.3))

    def told(solver):
        found = verb(asked, solver=solver)
        return found.loss, found.gap, found.proposal.steps

    assert told(ProjectedGradient(**settings)) != told(ProjectedGradient())


ROOMS = {oar: ["Perturb", "Relabel", "Withhold", "Best", "Query", "Problem", "Population", "Limits", "Limit", "Keep"]}
ROOMS[oar] += ["BlackBox", "AnyBut", "Between", "Schema", "OnlineProblem", "SoftmaxRegression"]
ROOMS |= {
    room: [name for name in room.__all__ if inspect.isclass(getattr(room, name))]
    for room in (models, solvers, signals, defences, online, worlds)
}
MADE_BY_OTHERS = {  # results, protocols, and what user code is handed
    "Centroids", "Model", "Sweep", "Memory", "Outcome", "Signal", "Step", "Prepared", "Back", "Path", "PulledBack",
    "Rule", "Update", "Followed", "Happened", "OnlineAudit", "OnlinePlan", "OnlineResult", "RoundOutcome",
    "ActorRecord", "AdviceRecord", "CollectiveView", "Crowd", "Deed", "GroupRecord",
    "Round", "Simulation", "State", "View", "Differentiable", "Score", "Training",
}  # fmt: skip
CLASSES = [getattr(room, name) for room, names in ROOMS.items() for name in names if name not in MADE_BY_OTHERS]


def _is_made(kind):
    """Report whether users make objects of a class: not of protocols, nor of what only others are derived from."""
    protocol = inspect.isabstract(kind) or getattr(kind, "_is_protocol", False)
    return not protocol and kind.__init__ is not object.__init__


@pytest.mark.parametrize("kind", list(filter(_is_made, dict.fromkeys(CLASSES))), ids=lambda kind: kind.__name__)
def test_an_unknown_option_is_refused_with_the_known_ones(kind):
    with pytest.raises(oar.errors.OptionError, match=f"^{kind.__name__}: (must be one of '|takes no options)"):
        kind(no_such_option=1)


VERBS = {name: getattr(room, name) for room in (oar, oar.questions) for name in room.__all__}


@pytest.mark.parametrize("name", [name for name, verb in VERBS.items() if inspect.isfunction(verb)])
def test_a_verb_names_the_options_that_it_has(name):
    verb = VERBS[name]
    known = list(inspect.signature(verb).parameters)
    with pytest.raises(oar.errors.OptionError, match=f"^{name}: must be one of '{known[0]}'.*, got 'nothing'"):
        verb(nothing=1)
    with pytest.raises(oar.errors.OptionError, match=f"Did you mean '{known[-1]}'"):
        verb(**{f"{known[-1]}x": 1})


@pytest.mark.parametrize("idle", [{"refits": 30}, {"at_least": 0.6}, {"confidence": 0.8}, {"seed": 5}])
def test_settings_of_random_training_are_refused_where_it_is_said_not_to_be(idle):
    from sklearn.linear_model import LogisticRegression

    (name,) = idle
    with pytest.raises(oar.errors.OptionError, match=f"{name}: is of random training"):
        oar.BlackBox(LogisticRegression(), randomised=False, **idle)


def test_settings_of_random_training_are_told_where_it_was_found_not_to_be():
    from sklearn.linear_model import LogisticRegression

    box = oar.BlackBox(LogisticRegression(), seed=5, confidence=0.8)
    box.found_random(PEOPLE, False)
    assert any("confidence and seed of its BlackBox did nothing" in note for note in box.notes)
