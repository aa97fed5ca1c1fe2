"""The documentation's pages, as tests read and run them."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]  # of the clone


def page(name: str) -> str:
    """Return the text of `docs/NAME.md`."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """Return the section of a page whose heading begins so."""
    return next(part for part in page(name).split("\n## ") if part.startswith(heading))


def blocks(text: str, fence: str = "python") -> list[str]:
    """Return the code between fences, in order."""
    return re.findall(rf"```{fence}\n(.*?)```", text, flags=re.DOTALL)


def run(text: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a text's Python as it stands, from top to bottom; return all names that it leaves behind."""
    found = {} if names is None else names
    for block in blocks(text):
        exec(block, found)
    return found
