"""Shared fixtures. Problems that tests draw at random live in `support`."""

import functools
import gc
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import typer.main
from _pytest.doctest import DoctestModule
from support.browser import Visit, started_chromium, visits

from oar.solvers import EFFORTS, default_effort

hypothesis.settings.register_profile("oar", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.register_profile("many", deadline=None, max_examples=400)  # pytest --hypothesis-profile=many
hypothesis.settings.load_profile("oar")

# What a shell starts in the background ignores Ctrl-C, and so would the commands that tests start and send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Rooms whose tests do not ask how good the best of many local optima is. `solvers` and the tests of pages do.
FEW_RESTARTS = ("actions", "cli", "models", "people", "plans", "questions", "report", "signals", "studies")
FEW_PLANS = ("campaigns", "cli", "plans", "report")  # these write reports; how few suffice is for `questions` to ask
TESTS = Path(__file__).resolve().parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep what collecting makes, some millions of objects that all stay, out of every later garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[object]:
    """Look for doctests in the package alone: no file beside this one has any."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.fixture(scope="module", autouse=True)
def little_effort(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let solvers try less in the rooms above: the only place where tests say so.

    Where a solver is left to choose, it restarts twice, not up to 24 times; every kind of start is tried. Where a
    report says how few suffice, it makes three plans for fewer, not up to 40; `questions` asks that.
    """
    place = request.path.relative_to(TESTS) if request.path.is_relative_to(TESTS) else Path()
    little: dict[str, Any] = {"most_restarts": 2} if any(map(place.is_relative_to, FEW_RESTARTS)) else {}
    little |= {"plans": 3} if any(map(place.is_relative_to, FEW_PLANS)) else {}
    with default_effort(replace(EFFORTS["normal"], **little)):
        yield


@pytest.fixture(scope="module")
def least_effort(little_effort: None) -> Iterator[None]:
    """Let solvers try as little as they can, for tests of what is read and said whatever the plan."""
    with default_effort(replace(EFFORTS["quick"], plans=1)):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_lines_while_waiting() -> Iterator[None]:
    """Let commands that take long say nothing in between, so that what they say does not depend on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oar.cli.terminal.EVERY", 3_600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def command_made_once() -> Iterator[None]:
    """Have Typer's runner put the command together once, as a process of its own does, and not for every run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of raw public data: OAR_DATA, or beside the checkout; skip where there is none."""
    return _folder_or_skip()


@pytest.fixture(scope="session")
def adult_data() -> Path:
    """Return the folder of UCI's Adult files; skip where there is none."""
    return _folder_or_skip("adult")


@pytest.fixture(scope="session")
def german_data() -> Path:
    """Return the folder of UCI's German credit file; skip where there is none."""
    return _folder_or_skip("german")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Yield the session's headless browser; skip where there is none."""
    with started_chromium() as browser:
        yield browser


@pytest.fixture
def visit(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Yield a function that opens HTML, or a file, in the browser and notes errors and requests."""
    with visits(chromium, tmp_path) as function:
        yield function


def _folder_or_skip(name: str = "") -> Path:
    data = Path(os.environ.get("OAR_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    folder = data / name
    if not folder.is_dir():
        reason = f"{folder} does not exist (set OAR_DATA to a folder that holds mnist/, adult/ and german/)"
        if os.environ.get("OAR_REQUIRE_ALL") == "1":
            pytest.fail(f"{reason}, but OAR_REQUIRE_ALL=1 allows no test to skip")
        pytest.skip(reason)
    return folder
