"""The reference names everything that users are given."""

import re
from inspect import ismodule

from support.pages import page

import oar

PAGE = page("api")


def found(path: str) -> object:
    """Return what a name on the page stands for."""
    value: object = oar
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


DESCRIBED = [found(path) for path in re.findall(r"auto(?:class|function):: (oar[.\w]+)", PAGE)]


def test_every_public_name_is_in_the_reference():
    public = {name: getattr(oar, name) for name in oar.__all__ if not name.startswith("_")}
    for room in (oar.errors, oar.limits, oar.online, oar.questions, oar.results):
        public |= {name: getattr(room, name) for name in room.__all__}
    missing = [name for name, value in public.items() if not ismodule(value) and value not in DESCRIBED]
    assert missing == []


def test_all_data_sets_are_described_by_their_module():
    assert ".. automodule:: oar.datasets\n   :members:" in PAGE
    assert all(getattr(oar.datasets, name).__doc__ for name in oar.datasets.__all__)
