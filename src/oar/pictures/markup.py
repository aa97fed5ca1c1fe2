"""HTML that cannot be forgotten to be escaped: whatever is not `Markup` already is text."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from typing import Any

VOID = frozenset({"meta", "br", "hr"})  # elements without an end


class Markup(str):
    """Text that is HTML already; made by this module's functions alone."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def text(value: Any) -> Markup:
    """Return any value as escaped text; markup stays as it is.

    >>> text("<script>alert('1')</script>")
    '&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;'
    """
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def joined(parts: Iterable[Any], between: str = "") -> Markup:
    """Return parts one after the other."""
    return Markup(between.join(text(part) for part in parts))


def tag(element: str, /, *content: Any, **attributes: Any) -> Markup:
    """Return an element; attributes that are None are left out, and an underscore at their end, too.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    said = {key if key == "viewBox" else key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    given = "".join(f' {key}="{text(value)}"' for key, value in said.items() if value is not None)
    if element in VOID:
        return Markup(f"<{element}{given}>")
    return Markup(f"<{element}{given}>{joined(content)}</{element}>")


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str | None = None) -> Markup:
    """Return a table; each row's first cell is its heading, and cells know their column's name.

    With more than three columns it has the class "stack", for a style that puts cells below each other on a phone.
    """
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header)))
    body = []
    for name, *rest in rows:
        cells = (
            tag("td", cell, class_=_figure(cell), data_label=column)
            for cell, column in zip(rest, header[1:], strict=True)
        )
        body.append(tag("tr", tag("th", name, scope="row"), *cells))
    shown = tag("caption", caption) if caption else ""
    return tag("table", shown, head, tag("tbody", *body), class_="stack" if len(header) > 3 else None)


def pairs(rows: Iterable[tuple[Any, Any]]) -> Markup:
    """Return names and values, one below the other."""
    return tag("dl", *(joined([tag("dt", name), tag("dd", value)]) for name, value in rows))


def source_hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _figure(cell: Any) -> str | None:
    """Return the class of a cell that begins as a number does."""
    return "number" if str(cell).lstrip("−+≤≥<>✓✗ ")[:1].isdigit() else None
