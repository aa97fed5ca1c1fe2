"""The glossary: every public name that is a term of ours is explained, and every name on the page is there."""

import re
from inspect import isfunction, ismodule

import pytest
from support.pages import page

import oar
from oar import results

PAGE = page("glossary")
CLASSES = {"Population": oar.Population, "Plan": results.Plan, "Problem": oar.Problem, "Result": results.Result}
CLASSES |= {"Audit": results.Audit, "Card": results.Card}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(oar\.[\w.]+)", PAGE))))
def test_names_of_the_package_are_there(name):
    value = oar
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert value is not None


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+\.[a-z]\w+)", PAGE))))
def test_attributes_are_there(name):
    kind, attribute = name.split(".")
    known = CLASSES[kind]
    assert hasattr(known, attribute) or attribute in known.__dataclass_fields__


def test_every_name_at_the_top_and_every_question_is_explained():
    top = [f"oar.{name}" for name in oar.__all__ if not name.startswith("_") and not ismodule(getattr(oar, name))]
    asked = [f"oar.questions.{name}" for name, value in vars(oar.questions).items() if isfunction(value)]
    asked = [name for name in asked if name.replace("questions.", "") not in top]
    assert [name for name in top + asked if not re.search(rf"`{re.escape(name)}\b", PAGE)] == []


def test_no_term_is_explained_twice():
    terms = [
        term for term in re.findall(r"^\| ([\w ,-]+?) \|", PAGE, flags=re.MULTILINE) if term not in ("term", "---")
    ]
    assert len(terms) > 70
    assert len(set(terms)) == len(terms)
