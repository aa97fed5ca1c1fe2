"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; a bar inside a cell is escaped.

    >>> print(markdown_table(["data", "accuracy"], [["Iris", "92.7 %"]]))
    | data | accuracy |
    | --- | --- |
    | Iris | 92.7 % |
    """
    lines = [_line(header), _line(["---"] * len(header)), *(_line(row) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
