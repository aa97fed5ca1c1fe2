"""The behaviour of an object as a digest: settings and arrays by their values, functions by what they would compute.

A function counts by its compiled code with its constants, by its defaults, by what its closure holds, and by the
globals that it reads, functions and classes among them, and theirs in turn; never by its name or by where it is
written. An object counts by the code of its class and by its state, as pickle would ask for it (`__getstate__` may
leave out what decides nothing); nothing is pickled. A user's own code may be changed; Python's own things, and those
of installed packages, count by their names: they are the same wherever the same versions are installed.

The same things give the same digest in every process. Of what cannot be told, such as a compiled function, an open
file or a lock, `unknown` says so: whoever compares digests must then take two things for different.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib.util
import itertools
import pickle
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from oar.estimators import BlackBox
from oar.people import Population
from oar.people.parts.population import StreamedPopulation

COMPILED_BY = sys.implementation.cache_tag or sys.implementation.name
MOST_PLACES = 400  # that are remembered, so that it can be said where two things differ
MOST_NUMBERED = 100_000  # things in one; more are data in disguise, and take too long
BOX = ("estimator", "sees", "labels", "regresses", "randomised", "refits", "at_least", "confidence", "seed")
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_WHOLE = 2**53  # beyond which floats cannot tell integers apart
_NO_PART = {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__name__", "__annotations__",
            "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__orig_bases__",
            "__parameters__", "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__annotate__",
            "__annotate_func__", "__annotations_cache__", "__conditional_annotations__"}  # fmt: skip
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
          types.MethodDescriptorType, types.ClassMethodDescriptorType)  # fmt: skip
_WEAK = (weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """A digest of something, and what may be said of it.

    Attributes:
        digest: 64 hexadecimal digits.
        compiled_by: which Python compiled the functions in it; None where there are none.
        unknown: what in it cannot be told, in words; None where everything can.
        places: short digests of what it is made of, by where that is: `_penalty.closure scale`.
    """

    digest: str
    compiled_by: str | None
    unknown: str | None
    places: dict[str, str]


def behaviour(value: Any) -> Behaviour:
    """Return what tells a thing from others that do something else."""
    teller = _Teller()
    try:
        digest = teller.told(value)
    except RecursionError:
        teller.cannot(f"{type(value).__name__} goes too deep")
        digest = b""
    return Behaviour(digest.hex(), COMPILED_BY if teller.compiled else None, teller.unknown, teller.places)


def people_digest(people: Population) -> str:
    """Return a digest of everyone's features, labels and weights, and of the parts that they are in; one pass."""
    features, codes, values, weights = (hashlib.sha256() for _ in range(4))
    for chunk in people.chunks():
        codes.update(np.ascontiguousarray(chunk.codes, dtype="<i4").data)
        kept = None if chunk.values is None or people.classed else chunk.values  # type: ignore[attr-defined]
        for digest, numbers in ((features, chunk.features), (values, kept), (weights, chunk.weights)):
            digest.update(b"" if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").data)
    rows = people.value_rows() if people.has_label_rows else None
    classes = people.classes if getattr(people, "classed", True) else ()
    # People in parts are solved otherwise than people in memory, and sums over other parts differ in their last bits.
    cut = [part.size for part in people.parts] if isinstance(people, StreamedPopulation) else None
    parts = (people.size, people.dimensions, people.names, [repr(label) for label in classes], people.schema, cut)
    return behaviour((parts, [one.hexdigest() for one in (features, codes, values, weights)], rows)).digest


class _Teller:
    """One walk through something; every function, class and object in it is told once, and numbered."""

    def __init__(self) -> None:
        self.compiled = False
        self.unknown: str | None = None
        self.places: dict[str, str] = {}
        self._path: list[str] = []
        self._numbers: dict[Any, tuple[int, Any]] = {}  # with the thing itself: the id of what is gone is used again
        self._strict = False  # whether 1 and 1.0 differ, as they may for code

    # -- what is told -------------------------------------------------------------------------------------------------

    def told(self, value: Any) -> bytes:
        """Return the digest of anything."""
        if value is None or value is ... or value is NotImplemented or isinstance(value, str | bytes | complex):
            return _sha(type(value).__name__, repr(value))
        if isinstance(value, bool | np.bool_ | int | np.integer | float | np.floating):
            return self._number(value)
        if isinstance(value, Population):
            return _sha("people", people_digest(value))
        for kinds, way in self._ways:
            if isinstance(value, kinds):
                return way(self, value)
        return self._array(value) if _is_array(value) else self._thing(value)

    def _number(self, value: Any) -> bytes:
        if self._strict:
            return _sha(type(value).__name__, repr(value.item() if isinstance(value, np.generic) else value))
        whole = isinstance(value, int | np.integer) and abs(int(value)) > _WHOLE
        return _sha("number", repr(int(value) if whole else float(value)))

    def _array(self, value: Any) -> bytes:
        if hasattr(value, "detach"):  # PyTorch's
            value = value.detach().cpu()
            value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        try:
            array = np.asarray(value)
        except (TypeError, RuntimeError):  # JAX's keys, and arrays on no device
            return self._thing(value)
        if array.dtype.kind not in "fiubc":
            return _sha("array", repr(array.shape), repr(array.dtype.kind), *map(self.told, array.ravel().tolist()))
        if not self._strict and array.dtype.kind != "c":
            array = array.astype(np.float64)
        return _sha("array", repr(array.shape), array.dtype.str, np.ascontiguousarray(array).tobytes())

    def _sequence(self, value: Any) -> bytes:
        if type(value) not in (list, tuple):  # a named tuple, or somebody's own kind
            return self._thing(value)
        number = self._seen(value) if isinstance(value, list) else None
        return number or _sha("sequence", *(self._in(str(at), each) for at, each in enumerate(value)))

    def _mapping(self, value: Mapping[Any, Any]) -> bytes:
        if type(value) is not dict and not isinstance(value, types.MappingProxyType):
            return self._thing(value)
        return self._seen(value) or self._items(value)

    def _items(self, value: Mapping[Any, Any]) -> bytes:
        keys = {key: (_sha("str", key) if type(key) is str else self._alone(key)) for key in value}
        return _sha(
            "mapping",
            *(part for key in sorted(keys, key=keys.__getitem__) for part in (keys[key], self._in(key, value[key]))),
        )

    def _alone(self, value: Any) -> bytes:
        """Return the digest of something that has no order, whatever was told before."""
        kept, self._numbers = self._numbers, {}
        try:
            return self.told(value)
        finally:
            self._numbers = kept

    # -- functions and classes ----------------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> bytes:
        owned = is_users(function.__module__)
        if not owned and is_found(function):
            return _sha("named", function.__module__, function.__qualname__)
        if number := self._seen(function):
            return number
        code, cells = function.__code__, zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        with self._strictly():
            parts = [self._in("code", code), self._in("defaults", function.__defaults__)]
            parts += [self._in("defaults", function.__kwdefaults__), self._in("attributes", _own(vars(function)))]
            parts += [self._in(f"closure {name}", cell) for name, cell in cells]
            if owned:
                parts += list(self._globals(code, function.__globals__))
        return _sha("function", *parts)

    def _globals(self, code: types.CodeType, known: Mapping[str, Any]) -> Iterator[bytes]:
        reads, imports, names = reading(code)
        for name in sorted(reads & known.keys()):
            yield from (_sha(name), self._used(f"global {name}", known[name], names))
        for name in sorted(imports):
            if is_users(name):
                try:
                    module = importlib.import_module(name)
                except Exception:
                    self.cannot(f"the module {name}, which a function imports when it is called")
                    continue
                yield self._module(module, names)

    def _module(self, module: types.ModuleType, names: frozenset[str] = frozenset()) -> bytes:
        """Return the digest of what some code may use of a module: of what it names, where the module is the user's."""
        if not is_users(module.__name__):
            return _sha("module", module.__name__)
        if number := self._seen((module, names), key=(id(module), names)):
            return number
        used = [
            (_sha(name), self._used(name, vars(module)[name], names)) for name in sorted(names & vars(module).keys())
        ]
        return _sha("module", *itertools.chain.from_iterable(used))

    def _used(self, where: str, value: Any, names: frozenset[str]) -> bytes:
        """Return the digest of a global that some code with these names uses."""
        with self._at(where):
            return self._module(value, names) if isinstance(value, types.ModuleType) else self._noted(value)

    def _code(self, code: types.CodeType) -> bytes:
        self.compiled = True
        with self._strictly():
            constants = [self.told(constant) for constant in code.co_consts]
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return _sha("code", COMPILED_BY, code.co_code, repr(counts), repr(names), *constants)

    def _cell(self, cell: types.CellType) -> bytes:
        try:
            return self.told(cell.cell_contents)
        except ValueError:
            return _sha("empty cell")

    def _class(self, kind: type) -> bytes:
        if not is_users(kind.__module__) and (is_found(kind) or kind.__module__ in ("builtins", "types")):
            return _sha("named", kind.__module__, kind.__qualname__)
        if number := self._seen(kind):
            return number
        with self._strictly():
            bases = [self.told(base) for base in kind.__bases__]
            own = {name: value for name, value in vars(kind).items() if name not in _NO_PART}
            return _sha("class", kind.__qualname__, *bases, self._items(own))

    def _wrapped(self, value: Any) -> bytes:
        """Return the digest of what stands for functions in a class."""
        inner = {name: getattr(value, name, None) for name in ("__func__", "fget", "fset", "fdel", "func")}
        return _sha(type(value).__name__, *(self._in(name, each) for name, each in inner.items() if each is not None))

    def _builtin(self, value: Any) -> bytes:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            return self._by_name(value)
        return _sha("method", value.__name__, self.told(owner))

    def _by_name(self, value: Any, name: str | None = None) -> bytes:
        """Return the digest of the name of something whose inside cannot be seen; it must be an installed package's."""
        name = name or name_of(value)
        module = str(getattr(value, "__module__", None) or pickle.whichmodule(value, name))  # type: ignore[attr-defined]
        if is_users(module) or not is_found(value, module, name):
            self.cannot(f"{_words(value)}, which is compiled")
        return _sha("named", module, name)

    # -- things -------------------------------------------------------------------------------------------------------

    def _thing(self, value: Any) -> bytes:
        """Return the digest of an object: its class, and its settings or its state."""
        kind = type(value)
        if kind.__module__.partition(".")[0] == "oar" and dataclasses.is_dataclass(value):
            names = [one.name for one in dataclasses.fields(value) if one.init]
            told = (part for name in names for part in (name, self._in(name, getattr(value, name))))
            return _sha(kind.__qualname__, *told)
        if callable(value) and is_found(value) and not is_users(value.__module__):
            return _sha("named", value.__module__, name_of(value))
        if isinstance(value, BlackBox):
            return _sha(kind.__qualname__, *(self._in(name, getattr(value, name)) for name in BOX))
        if number := self._seen(value):
            return number
        with self._strictly():
            if (inner := _compiled_from(value)) is not None:
                return _sha(kind.__qualname__, self._in("function", inner))
            if kind.__name__ == "PyTreeDef" and callable(getattr(value, "node_data", None)):
                return _sha("tree", self.told(value.node_data()), *map(self.told, value.children()))
            if callable(getattr(value, "get_params", None)) and callable(getattr(value, "fit", None)):
                return _sha("estimator", self.told(kind), self._items(value.get_params(deep=False)))
            if kind.__module__.startswith("pandas") and hasattr(value, "columns"):
                columns = [(str(name), np.asarray(value[name])) for name in value.columns]
                return _sha("frame", self.told(columns), self.told(np.asarray(value.index)))
            return self._state(value, kind)

    def _state(self, value: Any, kind: type) -> bytes:
        try:
            told_how = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if told_how is None else told_how(value)
        except Exception as error:
            self.cannot(f"{_words(value)} ({' '.join(str(error).split())})")
            return _sha("unknown")
        if isinstance(reduced, str):
            return self._by_name(value, reduced)
        make, arguments, state, *more = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = _own(state, kind)
        listed, keyed = (None if part is None else list(part) for part in more)
        parts = [self.told(make), *map(self.told, arguments)]
        parts.append(self._items(state) if isinstance(state, dict) else self.told(state))
        return _sha("thing", *parts, self.told(listed), self.told(None if keyed is None else dict(keyed)))

    # -- the walk -----------------------------------------------------------------------------------------------------

    def cannot(self, what: str) -> None:
        """Remember that something cannot be told, and where it is."""
        where = ".".join(self._path)
        self.unknown = self.unknown or (f"{what}, at {where}" if where else what)

    def _seen(self, value: Any, key: Any = None) -> bytes | None:
        """Return a thing's number where it was told before; else give it one."""
        key = id(value) if key is None else key
        if key in self._numbers:
            return _sha("again", repr(self._numbers[key][0]))
        if len(self._numbers) >= MOST_NUMBERED:
            self.cannot(f"more than {MOST_NUMBERED:,} things")
            return _sha("unknown")
        self._numbers[key] = len(self._numbers), value
        return None

    def _in(self, name: Any, value: Any) -> bytes:
        with self._at(str(name)):
            return self._noted(value)

    def _noted(self, value: Any) -> bytes:
        found, where = self.told(value), ".".join(self._path)
        if len(self.places) < MOST_PLACES:
            self.places[where] = found.hex()[:16]
        return found

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        self._path.append(name)
        try:
            yield
        finally:
            self._path.pop()

    @contextmanager
    def _strictly(self) -> Iterator[None]:
        before, self._strict = self._strict, True
        try:
            yield
        finally:
            self._strict = before

    _ways: Iterable[tuple[Any, Callable[[_Teller, Any], bytes]]] = (
        (_WEAK, lambda self, value: _sha("weak", type(value).__name__)),
        (list | tuple, _sequence),
        (set | frozenset, lambda self, value: _sha("set", *sorted(self._alone(each) for each in value))),
        (Mapping, _mapping),
        (types.FunctionType, _function),
        (types.CodeType, _code),
        (types.CellType, _cell),
        (type, _class),
        (types.MethodType, lambda self, value: _sha("method", self.told(value.__func__), self.told(value.__self__))),
        (types.ModuleType, _module),
        (staticmethod | classmethod | property | functools.cached_property, _wrapped),
        (types.BuiltinFunctionType | types.MethodWrapperType, _builtin),
        (_SLOTS, lambda self, value: _sha("slot", value.__objclass__.__qualname__, value.__name__)),
        (functools.partial, lambda self, value: self.told((value.func, value.args, value.keywords))),
    )


def _sha(*parts: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.digest()


def _is_array(value: Any) -> bool:
    if isinstance(value, type) or not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return False
    return hasattr(value, "__array__") and not hasattr(value, "columns")


def _own(state: Mapping[Any, Any], kind: type = object) -> dict[Any, Any]:
    """Return state without what can be computed again, and without what a function wraps: its closure has that."""
    return {
        name: value
        for name, value in state.items()
        if name != "__wrapped__" and not isinstance(getattr(kind, str(name), None), functools.cached_property)
    }


def _compiled_from(value: Any) -> Any:
    """Return the Python function that somebody has compiled, or cached, into this; None where it is no such thing."""
    if not callable(value) or isinstance(type(value).__call__, types.FunctionType):
        return None
    return getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)


def _words(value: Any) -> str:
    kind = f"of type {type(value).__name__}"
    return f"{name_of(value)}, {kind}," if callable(value) else f"an object {kind}"


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
