"""The documentation's pages, as tests read them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the clone


def page(name: str) -> str:
    """Return the text of `docs/NAME.md`."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
