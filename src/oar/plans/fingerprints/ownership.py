"""The ownership of code: the user's own, which may be changed, or an installed package's, which goes by its name."""

from __future__ import annotations

import dis
import functools
import importlib.util
import sys
import sysconfig
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


def name_of(value: Any) -> str:
    """Return what a thing is called in its module; its class's name where it has none."""
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__)


def is_found(value: Any, module: str | None = None, name: str | None = None) -> bool:
    """Report whether a thing is what its module has under its name."""
    found: Any = sys.modules.get(str(module or getattr(value, "__module__", None) or ""))
    if found is None:
        return False
    for part in (name or name_of(value)).split("."):
        found = getattr(found, part, None)
    return found is value


@functools.cache
def is_users(module: str | None) -> bool:
    """Report whether a module is the user's own: neither Python's, nor an installed package's, nor ours."""
    top = str(module or "").partition(".")[0]
    if top == "oar" or top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return False
    places = _places(top)
    return not places or not any(Path(place).is_relative_to(folder) for place in places for folder in _installed())


def _places(top: str) -> list[str]:
    """Return the file or the folders of a package, whether it is imported or not; none where it has none."""
    loaded: Any = sys.modules.get(top)
    file = getattr(loaded, "__file__", None)
    if loaded is None and top:
        with suppress(ImportError, ValueError):
            loaded = found = importlib.util.find_spec(top)
            file = getattr(found, "origin", None)
    folders = getattr(loaded, "__path__", None) or getattr(loaded, "submodule_search_locations", None)
    return [file] if file else list(folders or ())


@functools.cache
def _installed() -> frozenset[str]:
    import site

    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {site.getusersitepackages(), *site.getsitepackages()}
    return frozenset(place for place in places if place)


def reading(code: types.CodeType) -> tuple[set[str], set[str], frozenset[str]]:
    """Return the globals that code reads, the modules that it imports, and all names in it; nested code's too."""
    reads, imports, names = set[str](), set[str](), set(code.co_names)
    for step in dis.get_instructions(code):
        if step.opname in _READS:
            reads.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            imports.add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            more = reading(constant)
            reads, imports, names = reads | more[0], imports | more[1], names | more[2]
    return reads, imports, frozenset(names)
