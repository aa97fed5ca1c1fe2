"""Advice in the words of the command: a report's reader has options and commands, and no Python."""

from __future__ import annotations

import re

# What results advise in the library's words, and what it is called here.
SAID = {
    "Here a collective is not promised to do as well as an individual: compare oar.individual.": (
        "Here a group is not promised to do as well as one person alone: `oar questions` compares them."
    ),
    "let more people act, or try another solver.": "or let more people act.",
    "Standardise the features, or use a table (oar.Population.from_frame), where changes are counted in standard "
    "deviations, and oar.models.Scaled.": "Leave out --plain: then changes are counted in standard deviations.",
    "limits keep them within it (oar.Limits.observed).": "leave --limits none out, or set limits there.",
    "otherwise try another solver.": "otherwise allow larger budgets, or let more people act.",
    "make people with oar.Population.from_frame(df, target=…), whose cards can,": "leave out --plain,",
    "solve again with signal='implicit', or hand members": "hand members",
    "rows of plan.moves(), plan.labels() and plan.leavers()": "rows of moves.csv",
    "rows of plan.moves(), or allow more.": "rows of moves.csv, or allow more with --changed, --lost or --worse.",
    "rows of plan.moves()": "rows of moves.csv",
    "rows of plan.changes()": "rows of moves.csv",
    "leave them out of the limits' `levels`": "leave them out of `levels` in a file of --limits",
}

ARGUMENT = re.compile(r"^plan: ")  # of which a reader knows nothing: it is the plan that is told of
KEEP = re.compile(r"Limit that by oar\.Keep\(([^)]*)\)\.")


def in_command_words(text: str) -> str:
    """Return an explanation without what only Python can do.

    >>> in_command_words("With a zero budget nothing can move; otherwise try another solver.")
    'With a zero budget nothing can move; otherwise allow larger budgets, or let more people act.'
    >>> in_command_words("Limit that by oar.Keep(lost=…, worse=…).")
    'Plan with --lost or --worse to limit that.'
    """
    text = ARGUMENT.sub("", text)
    for library, command in SAID.items():
        text = text.replace(library, command)
    return KEEP.sub(_options, text)


def _options(found: re.Match[str]) -> str:
    return f"Plan with {' or '.join(f'--{name}' for name in re.findall(r'([a-z]+)=…', found[1]))} to limit that."
