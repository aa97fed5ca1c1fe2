"""Pages in a real browser: headless Chromium, which notes everything that a quiet page would not do.

Tests take the fixtures `chromium` (one browser a session) and `visit` from conftest:

    def test_quiet(visit):
        seen = visit("<!doctype html><title>Page</title><h1>Hello</h1>", width=390)
        assert seen.page.get_by_role("heading").inner_text() == "Hello"
        assert seen.noise == []
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 10_000  # milliseconds until a missing element is a failure


@dataclass(eq=False)
class Visit:
    """An open page (playwright's), and what it did beyond being read.

    Attributes:
        errors: what the page threw, and what the console calls an error or a warning.
        requests: every address that it asked for, other than its own.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def noise(self) -> list[str]:
        """Errors and requests together; a quiet page has none."""
        return self.errors + self.requests


@contextmanager
def started_chromium() -> Iterator[Any]:
    """Yield a running browser; skip where there is none, or fail where nothing may skip."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _skip("playwright is not installed (it is in the extra 'dev')")
    program = os.environ.get("OAR_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        _skip("no Chromium was found (install Debian's package chromium, or set OAR_CHROMIUM to the program)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def visits(browser: Any, folder: Path) -> Iterator[Callable[..., Visit]]:
    """Yield a function that opens HTML as a file, each time in a fresh profile; all are closed at the end."""
    contexts = []

    def visit(html: str | Path, *, width: int = 1280, height: int = 900, **options: Any) -> Visit:
        """Open a page: its text, or the path of its file. Options are those of playwright's `new_context`."""
        path = html if isinstance(html, Path) else folder / f"page-{len(contexts)}.html"
        if not isinstance(html, Path):
            path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        seen, own = Visit(page), path.resolve().as_uri()
        page.on("pageerror", lambda error: seen.errors.append(f"thrown: {error}"))
        page.on("console", lambda line: _note(seen, line))
        context.on("request", lambda request: None if request.url == own else seen.requests.append(request.url))
        page.goto(own)
        return seen

    yield visit
    for context in contexts:
        context.close()


def _note(seen: Visit, line: Any) -> None:
    if line.type in ("error", "warning", "assert"):
        seen.errors.append(f"console {line.type}: {line.text}")


def _skip(reason: str) -> None:
    if os.environ.get("OAR_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason}, but OAR_REQUIRE_ALL=1 allows no test to skip")
    pytest.skip(reason)
