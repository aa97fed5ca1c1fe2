"""What tells one thing from another: what it does, and nothing else."""

import functools
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import oar
from oar.plans.fingerprints.behaviour import behaviour

SCALE = 0.01


def digest(value):
    found = behaviour(value)
    assert found.unknown is None, found.unknown
    return found.digest


def closing(scale):
    return lambda w: scale * w


def closing_deeper(scale):
    inner = closing(scale)
    return lambda w: inner(w) + 1.0


def with_default(scale):
    def penalty(w, scale=scale):
        return scale * w

    return penalty


def with_keyword(scale):
    def penalty(w, *, scale=scale):
        return scale * w

    return penalty


class Callable:
    def __init__(self, scale):
        self._scale = scale

    def __call__(self, w):
        return self._scale * w

    def method(self, w):
        return self._scale * w


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale


class OfArrays:
    def __init__(self, scale):
        self.inside = {"a": [np.array([1.0, scale])], ("b", 1): {3, 4}}


@dataclass
class Settings:
    scale: float
    made: float = field(init=False, default=0.0)

    def __post_init__(self):
        self.made = 2 * self.scale


def written(text):
    """Return the function `f` of a text, as another version of a user's file would have it."""
    known = {"np": np, "__name__": "somebodys_file"}
    exec(text, known)
    return known["f"]


def of_class(body):
    return written(f"class A:\n    def g(self, w):\n        return {body}\ndef f(w):\n    return A().g(w)")


def of_nested(scale):
    return written(f"def f(w):\n    return [(lambda x: x * {scale})(x) for x in w]")


def of_global(scale):
    return written(f"SCALE = {scale!r}\ndef f(w):\n    return SCALE * w")


def of_function(scale):
    return written(f"def g(w):\n    return {scale!r} * w\ndef f(w):\n    return g(w)")


def of_each_other(scale):
    return written(f"def f(w):\n    return g(w - 1)\ndef g(w):\n    return f(w) if w > 0 else {scale!r}")


MAKERS = [
    closing,
    closing_deeper,
    with_default,
    with_keyword,
    Callable,
    Slotted,
    OfArrays,
    Settings,
    of_nested,
    of_global,
    of_function,
    of_each_other,
    lambda scale: of_class(f"{scale} * w"),
    lambda scale: functools.partial(np.multiply, scale),
    lambda scale: functools.partial(closing(2.0), w=scale),
    lambda scale: Callable(scale).method,
    lambda scale: functools.lru_cache(closing(scale)),
    lambda scale: np.float32(scale),
    lambda scale: {closing: np.array([scale], dtype=object)},
    lambda scale: written(f"f = lambda w: w in {{'a', 'b', 'c', {scale}}}"),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_does_the_same_is_the_same_and_what_does_not_is_not(make):
    assert digest(make(0.01)) == digest(make(0.01))
    assert digest(make(0.01)) != digest(make(1.0))


def test_names_places_and_line_numbers_do_not_count():
    one = written("def f(w):\n    return 2 * w")
    other = written("\n\n\ndef g(w):\n    return 2 * w\nf = g")
    assert digest(one) == digest(other)
    assert digest(one) != digest(written("def f(w):\n    return 2.0 * w"))
    assert digest(one) != digest(written("def f(w):\n    return 2 + w"))
    assert digest(lambda x: x.real) != digest(lambda x: x.imag)


def test_settings_of_ours_are_numbers_however_written():
    assert digest(oar.SoftmaxRegression(l2=1)) == digest(oar.SoftmaxRegression(l2=1.0))
    assert digest(oar.SoftmaxRegression(l2=1)) != digest(oar.SoftmaxRegression(l2=2))


def test_what_was_computed_along_the_way_does_not_count():
    class Lazy:
        def __init__(self, scale):
            self.scale = scale

        @functools.cached_property
        def twice(self):
            return 2 * self.scale

    made = Lazy(3.0)
    before = digest(made)
    assert made.twice == 6.0
    assert digest(made) == before
    assert digest(Lazy(4.0)) != before


def test_a_users_modules_count_by_what_is_used_of_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for scale in (0.01, 1.0, 0.01):
        for name in [name for name in sys.modules if name.startswith("somebodys")]:
            monkeypatch.delitem(sys.modules, name)
        (tmp_path / "somebodys.py").write_text(f"import json\nSCALE = {scale}\nUNUSED = object()\n")
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            import importlib

            importlib.invalidate_caches()
            module = importlib.import_module("somebodys")
        finally:
            sys.dont_write_bytecode = before
        by_module = written(
            "import sys\nsomebodys = sys.modules['somebodys']\ndef f(w):\n    return somebodys.SCALE * w"
        )
        within = written("def f(w):\n    from somebodys import SCALE\n    return SCALE * w")
        assert scale == module.SCALE
        found.append((digest(by_module), digest(within)))
    assert found[0] == found[2]
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_modules_of_equinox_and_torch_count_by_what_they_hold():
    jax, eqx, torch = (pytest.importorskip(name) for name in ("jax", "equinox", "torch"))
    key = jax.random.PRNGKey(0)

    def equinox(width=4, depth=1, activation=jax.nn.relu):
        return eqx.nn.MLP(2, 2, width, depth, activation, key=key)

    known = digest(equinox())
    assert known == digest(equinox())
    others = [equinox(width=8), equinox(depth=2), equinox(activation=jax.nn.tanh), equinox(activation=lambda x: 2 * x)]
    assert len({known, *map(digest, others)}) == 5

    def model(module):
        return oar.models.from_equinox(module, loss=lambda out, y: ((out - y) ** 2).sum())

    assert digest(model(equinox())) == digest(model(equinox()))
    assert len({digest(model(module)) for module in [equinox(), *others]}) == 5

    def network(width=3, seed=0, last=torch.nn.Tanh):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(2, width), last())

    assert digest(network()) == digest(network())
    others = [network(4), network(seed=1), network(last=torch.nn.ReLU)]
    assert len({digest(network()), *map(digest, others)}) == 4


def test_estimators_count_by_their_settings_and_not_by_what_they_learned():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    def made(scale, power=2):
        return make_pipeline(FunctionTransformer(lambda x: x**power), LogisticRegression(C=scale))

    known = digest(made(1.0))
    fitted = made(1.0).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    assert digest(fitted) == known == digest(made(1.0))
    assert len({known, digest(made(2.0)), digest(made(1.0, 3))}) == 3


def test_generators_of_random_numbers_count_by_their_state():
    drawn = np.random.default_rng(0)
    drawn.normal()
    assert digest(np.random.default_rng(0)) == digest(np.random.default_rng(0)) != digest(drawn)
    assert digest(np.random.RandomState(0)) != digest(np.random.RandomState(1))


def test_what_cannot_be_told_says_so_and_where():
    frompy = np.frompyfunc(lambda x: x, 1, 1)
    with open(__file__) as file:
        for thing in (file, threading.Lock(), frompy, (each for each in ())):
            assert type(thing).__name__ in behaviour(closing(thing)).unknown
            assert behaviour(closing(thing)).unknown.endswith("at closure scale")


def test_what_is_made_of_itself_can_be_told():
    def ring(last):
        found = [1, [2, last]]
        found[1].append(found)
        return found

    assert digest(ring(3)) == digest(ring(3)) != digest(ring(4))


def test_very_deep_things_say_so():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert "too deep" in behaviour(deep).unknown
    while deep:  # Python itself cannot let go of it at once
        deep = deep[0]


def test_where_two_things_differ_is_known():
    one, other = behaviour(closing_deeper(0.01)).places, behaviour(closing_deeper(1.0)).places
    assert [place for place in one if one[place] != other[place]][0] == "closure inner.closure scale"


SAID = """
import sys
sys.dont_write_bytecode = True
import test_behaviour
from oar.plans.fingerprints.behaviour import behaviour
print(*(behaviour(make(0.01)).digest for make in test_behaviour.MAKERS))
"""


def test_digests_are_the_same_in_every_process():
    folders = [str(Path(oar.__file__).parents[1]), str(Path(__file__).parent)]
    here = " ".join(behaviour(make(0.01)).digest for make in MAKERS)
    env = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(folders)}  # another order of sets
    done = subprocess.run([sys.executable, "-c", SAID], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == here
