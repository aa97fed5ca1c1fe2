"""check_rule: the rules that ship pass, so does a rule of one's own, and each broken promise is found."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.online_problems import RULES

import oar
from oar import online
from oar.testing import ConformanceError, check_rule


@dataclass
class DecayingSteps:
    """A user's own rule: one gradient step a batch, shorter from round to round."""

    rate: float = 0.2
    name: str = "decaying steps"
    reads: int | None = 1

    def step(self, update):
        return self.rate / np.sqrt(1 + update.number)

    def last(self, update):
        return update.training.start() if update.before is None else update.before

    def update(self, update):
        last = self.last(update)
        return last - self.step(update) * update.training.risk_gradient(last, update.features)[1]

    def pull_back(self, update, after, adjoint):
        training, last, signal = update.training, self.last(update), self.step(update) * adjoint
        moves = -training.weights[:, None] * training.score_gradients(last, update.features, signal)
        before = adjoint - training.product(last, update.features, signal)
        return online.PulledBack(before, moves, ((last, signal),))


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_that_ship_pass(rule):
    assert check_rule(RULES[rule]).passed
    assert check_rule(RULES[rule], oar.NearestCentroid(), dimensions=3, seed=1).passed
    assert check_rule(RULES[rule], oar.models.Ridge(0.1)).passed


@pytest.mark.parametrize("model", [None, oar.NearestCentroid(), oar.models.Ridge(0.1)])
def test_a_rule_of_ones_own_passes(model):
    report = check_rule(DecayingSteps(), model)
    assert report.passed
    assert str(report).startswith("decaying steps: all 13 checks passed.")


def nan(self, update):
    return np.full(update.training.parameter_count, np.nan)


def too_few(self, update):
    return self.last(update)[:-1]


def drawn(self, update):
    return DecayingSteps.update(self, update) + 1e-3 * np.random.default_rng().normal(size=len(self.last(update)))


def by_position(self, update):
    first = np.asarray(update.features).reshape(-1, update.training.dimensions)[0]
    return DecayingSteps.update(self, update) + 1e-2 * first.sum()


def written_into(self, update):
    after = DecayingSteps.update(self, update)
    if update.before is not None:
        update.before[:] = after
    return after


def changed(**parts):
    """Return a pull_back that is right but for some of its parts."""

    def pull_back(self, update, after, adjoint):
        right = DecayingSteps.pull_back(self, update, after, adjoint)
        return replace(right, **{name: make(getattr(right, name)) for name, make in parts.items()})

    return pull_back


def failing(self, update):
    raise ZeroDivisionError("not today")


def lost_class(self, update):
    shares = update.training.weights @ update.training.targets
    return DecayingSteps.update(self, update) / (1.0 if (shares > 0).all() else np.nan)


@pytest.mark.parametrize(
    ("check", "parts"),
    [
        ("has what it takes", {"reads": 0}),
        ("has what it takes", {"name": None}),
        ("has what it takes", {"pull_back": None}),
        ("finite parameters", {"update": nan}),
        ("finite parameters", {"update": too_few}),
        ("finite parameters", {"update": failing}),
        ("same again", {"update": drawn}),
        ("order of people", {"update": by_position}),
        ("pulls back", {"pull_back": changed(moves=lambda moves: moves[:-1])}),
        ("pulls back", {"pull_back": changed(moves=np.zeros_like)}),
        ("pulls back", {"pull_back": changed(before=lambda before: before * np.nan)}),
        ("inputs unchanged", {"update": written_into}),
        ("remembers or not", {"remembers": False}),
        ("moves through rounds", {"pull_back": changed(moves=np.negative, signals=lambda _: ())}),
        ("θ before", {"pull_back": changed(before=np.zeros_like)}),
        ("signals", {"pull_back": changed(signals=lambda pairs: pairs * 2)}),
        ("missing class", {"update": lost_class}),
        ("share of centroids", {"kept_share": lambda self, shares, started: 0.5 * np.ones_like(shares)}),
    ],
)
def test_each_broken_promise_is_found_by_its_check(check, parts):
    own = {name: value for name, value in parts.items() if name in ("reads", "name")}
    kind = type("Wrong", (DecayingSteps,), {name: value for name, value in parts.items() if name not in own})
    report = check_rule(kind(**own), raises=False)
    assert check in [one.name for one in report.failed]
    assert all(one.advice for one in report.failed)
    with pytest.raises(ConformanceError, match="checks did not pass"):
        check_rule(kind(**own))


def test_a_missing_class_may_also_be_refused_in_words():
    class Careful(DecayingSteps):
        def update(self, update):
            if not (update.training.weights @ update.training.targets > 0).all():
                raise oar.errors.DataError(f"stream: somebody is missing in round {update.number}; wait for them.")
            return DecayingSteps.update(self, update)

    found = {check.name: check.detail for check in check_rule(Careful()).checks}
    assert found["missing class"] == "it says so: stream: somebody is missing in round 1."


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(oar.errors.DataError, match="got the class DecayingSteps; call it"):
        check_rule(DecayingSteps)
    with pytest.raises(oar.errors.OptionError, match="reads 5 batches; check the same rule with fewer, at most 4"):
        check_rule(online.Window(5))


class KeepsAlways(online.ExponentialMeans):
    """Says that it keeps a share of every centroid, also of none, and of those that a batch lacks."""

    def kept_share(self, class_weights, started):
        return np.full(len(class_weights), 1 - self.rate)


class KeepsAbsent(online.ExponentialMeans):
    """Is right about the first round, and wrong about a class that a batch lacks."""

    def kept_share(self, class_weights, started):
        return np.full(len(class_weights), 1 - self.rate if started else 0.0)


class Negated(online.GradientSteps):
    """Pulls back the wrong way where `wrong(update)` says so."""

    def pull_back(self, update, after, adjoint):
        back = super().pull_back(update, after, adjoint)
        return self.spoiled(back) if self.wrong(update) else back

    def spoiled(self, back):
        return replace(back, moves=-back.moves, signals=())


class EarlySignals(Negated):
    def wrong(self, update):
        return update.number < 2

    def spoiled(self, back):
        return replace(back, signals=tuple((parameters, -signal) for parameters, signal in back.signals))


class LackedClass(Negated):
    def wrong(self, update):
        return bool((update.training.weights @ update.training.targets <= 0).any())


class NothingBefore(Negated):
    def wrong(self, update):
        return update.before is None


@pytest.mark.parametrize(
    ("rule", "name", "said"),
    [
        (KeepsAlways(0.3), "share of centroids", "with nothing deployed before"),
        (KeepsAbsent(0.3), "share of centroids", "where a batch lacks a class"),
        (EarlySignals(0.1, 2), "signals", "in round 0"),
        (LackedClass(0.1, 2), "missing class", "where a batch lacks a class, dL/dδ"),
        (NothingBefore(0.1, 2), "nothing before", "with nothing deployed before, dL/dδ"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "reads") else None,
)
def test_a_rule_that_is_wrong_in_some_rounds_only_is_found_out(rule, name, said):
    report = check_rule(rule, raises=False)
    failed = [check for check in report.checks if check.passed is False]
    assert [check.name for check in failed] == [name]
    assert said in failed[0].detail


def test_a_model_of_strong_curvature_is_no_false_alarm():
    assert check_rule(online.ExponentialMeans(0.3), oar.models.GaussianNaiveBayes(), seed=1).passed
