"""Advice in the words of the command: a report's reader has options and commands, and no Python."""

from __future__ import annotations

# What results advise in the library's words, and what it is called here.
SAID = {
    "Here a collective is not promised to do as well as an individual: compare oar.individual.": (
        "Here a group is not promised to do as well as one person alone: `oar questions` compares them."
    ),
    "let more people act, or try another solver.": "or let more people act.",
    "otherwise try another solver.": "otherwise allow larger budgets, or let more people act.",
}


def in_command_words(text: str) -> str:
    """Return an explanation without what only Python can do.

    >>> in_command_words("With a zero budget nothing can move; otherwise try another solver.")
    'With a zero budget nothing can move; otherwise allow larger budgets, or let more people act.'
    """
    for library, command in SAID.items():
        text = text.replace(library, command)
    return text
