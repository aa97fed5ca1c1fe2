"""The front door: about thirty names, imported when they are asked for; nothing shadows them, and old names work."""

import subprocess
import sys
import warnings
from importlib import import_module
from inspect import ismodule

import pytest

import oar

HOMES = {name: home for home, names in (oar._CORE | oar._FURTHER).items() for name in names}
MOVED = {name: home for home, names in oar._MOVED.items() for name in names}


def said(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_imports_nothing_else():
    heavy = "numpy", "scipy", "pandas", "sklearn", "jax", "matplotlib", "rich", "oar.solvers", "oar.models"
    assert said(f"import sys, oar; print([name for name in {heavy!r} if name in sys.modules])") == "[]"


def test_about_thirty_names_stand_at_the_top():
    names = [name for name in oar.__all__ if name in HOMES]
    assert len(names) == len(set(names)) == len(HOMES) <= 32
    assert {name for name in oar.__all__ if name not in HOMES} - {"__version__"} == {
        name for name in oar.__all__ if name != "__version__" and ismodule(getattr(oar, name))
    }


@pytest.mark.parametrize("name", oar.__all__)
def test_every_public_name_is_there_and_lives_in_one_place(name):
    found = getattr(oar, name)
    assert found is getattr(oar, name)
    assert name in dir(oar)
    if name in HOMES:
        assert getattr(sys.modules[HOMES[name]], name) is found


@pytest.mark.parametrize("first", ["Query", "Problem", "Population", "collective", "audit"])
def test_the_core_is_loaded_together(first):
    core = "all(name in vars(oar) for names in oar._CORE.values() for name in names)"
    assert said(f"import oar; print({core}, end=' '); oar.{first}; print({core}, 'oar.recourse' in sys.modules)"
                .replace("import oar;", "import oar, sys;")) == "False True True"  # fmt: skip


def test_the_first_call_imports_no_module_of_the_package():
    code = """
import sys, numpy as np, oar
features, labels = np.array([[0.0], [1.0], [4.0], [5.0]]), [0, 0, 1, 1]
problem = oar.Problem(oar.Population(features, labels), oar.NearestCentroid(), oar.Query([2.4], 1), oar.Perturb(0.5))
before = set(sys.modules)
oar.collective(problem)
print([name for name in set(sys.modules) - before if name.startswith("oar")])
"""
    assert said(code) == "[]"


@pytest.mark.parametrize("name", MOVED)
def test_old_names_work_with_a_warning_that_names_the_new_one(name):
    new = MOVED[name]
    with pytest.warns(DeprecationWarning, match=rf"oar\.{name} is {new}\.{name} now") as warned:
        found = getattr(oar, name)
    assert found is getattr(import_module(new), name)
    assert name in import_module(new).__all__
    assert warned[0].filename == __file__  # the caller's line
    assert name not in dir(oar)
    assert name not in vars(oar)  # so that the next one who uses it is told, too


def test_an_import_of_an_old_name_warns_too():
    with pytest.warns(DeprecationWarning, match=r"use that name") as warned:
        from oar import Card
    assert Card is oar.results.Card
    assert {one.filename for one in warned} == {__file__}


@pytest.mark.parametrize("name", oar._FORMER_MODULES)
def test_old_modules_are_found_with_a_warning_that_names_the_new_one(name):
    new = oar._FORMER_MODULES[name]
    with pytest.warns(DeprecationWarning, match=rf"oar\.{name} is {new} now") as warned:
        assert getattr(oar, name) is import_module(new)
    assert warned[0].filename == __file__


def test_the_former_name_of_a_rollout_warns():
    with pytest.warns(DeprecationWarning, match=r"oar\.online\.Walk is oar\.online\.Rollout now"):
        assert oar.online.Walk is oar.online.Rollout


@pytest.mark.parametrize("room", ["errors", "limits", "online", "questions", "results"])
def test_every_name_of_a_submodule_is_there(room):
    module = getattr(oar, room)
    assert module.__all__ == sorted(set(module.__all__))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(module, name) is not None for name in module.__all__)


def test_verbs_stay_functions_whatever_is_imported_first():
    code = "import oar.referee.proofs, oar.studies.study, oar.questions.power; import oar; "
    verbs = "oar.audit, oar.study, oar.questions.power, oar.questions.transfer"
    assert said(code + f"print(all(callable(one) for one in ({verbs})))") == "True"
    assert said("from oar import *; print(callable(audit), collective.__module__)") == "True oar.recourse"


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'oar' has no attribute 'colective'"):
        oar.__getattr__("colective")
    with pytest.raises(AttributeError, match=r"module 'oar\.online' has no attribute 'Strem'"):
        oar.online.__getattr__("Strem")
