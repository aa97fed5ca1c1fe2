"""The front door: names are imported when they are asked for, and nothing shadows them."""

import subprocess
import sys

import pytest

import oar


def said(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_imports_nothing_else():
    heavy = "numpy", "scipy", "pandas", "sklearn", "jax", "matplotlib", "rich", "oar.solvers", "oar.models"
    assert said(f"import sys, oar; print([name for name in {heavy!r} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("name", oar.__all__)
def test_every_public_name_is_there_and_lives_in_one_place(name):
    found = getattr(oar, name)
    assert found is getattr(oar, name)
    assert name in dir(oar)
    if name in oar._HOME:
        assert getattr(sys.modules[oar._HOME[name]], name) is found


def test_all_of_them_are_listed_once():
    assert sorted({*oar._HOME, *oar._ROOMS} & {*oar.__all__}) == sorted({*oar.__all__} - {"__version__"})
    assert len(set(oar.__all__)) == len(oar.__all__)


def test_verbs_stay_functions_whatever_is_imported_first():
    code = "import oar.referee.proofs, oar.studies.study, oar.questions.power; import oar; "
    assert said(code + "print(all(callable(one) for one in (oar.audit, oar.study, oar.power)))") == "True"
    assert said("from oar import *; print(callable(audit), collective.__module__)") == "True oar.recourse"


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'oar' has no attribute 'colective'"):
        oar.__getattr__("colective")
