"""Errors in the words of the command: what the library calls an argument is an option here."""

from __future__ import annotations

import re
from contextvars import ContextVar

OPTIONS: ContextVar[frozenset[str] | None] = ContextVar("OPTIONS", default=None)
"""The options of the command that runs; None where none does."""
# What an error about a table begins with, and the option or argument that it is about.
SUBJECTS = (
    (r"^frame: ", "DATA: "),
    (r"^path: (?=must )", "file: "),
    (r"^path: ", ""),
    (r"^columns(?=: names must)", "DATA"),
    (r"^sheet_name(?=: )", "--sheet"),
)
# What it begins with where it is about an argument that is an option of its name.
NAMED = re.compile(r"^(?:[A-Z]\w+ )?([a-z][a-z_-]*)(?=: )")  # "Query share: ", too
OF_COLUMNS = ("target", "weights", "schema", "missing", "limits", "group")
OF_QUESTIONS = ("query", "goal", "budget", "norm", "participants", "model")
TABLES = frozenset(f"--{name}" for name in (*OF_COLUMNS, *OF_QUESTIONS))
# What an error advises in Python, and what does the same here; \1 is what was advised to be given.
ADVICE = (
    (r"read it with sep=('[^']*'|…)", r"read it with --sep \1"),
    (r"convert it with df\[.*\]\.str\.rstrip\('% '\)\.astype\(float\)", "write them without the percent sign"),
    (r"rename it, or name sep=…", "rename it, or name --sep"),
    (
        r"\(quote such cells, or read it with --sep …\), or the first cells are an index \(read it with index_col=0\)",
        "(quote such cells, or name another --sep), or the first cells are an index without a name (give it one)",
    ),
    (r"if it is an index, read it with index_col=0", "name it or remove it"),
    (r"encoding='([^']*)'", r"--encoding \1"),
    (
        r"read the file with na_values=\[([^\]]*)\], and if these are categories, convert the column with "
        r"astype\('category'\)",
        r"read the file with --na \1, and if these are categories, list them in a --schema",
    ),
    (r"read the file with na_values=\[([^\]]*)\], or convert it with astype\(str\) or to_numeric",
     r"read the file with --na \1, or correct it"),
    (
        r"convert it with pandas\.to_numeric, or read the file with thousands=',' or na_values=\[…\]",
        "correct it, or read the file with --thousands or --na",
    ),
    (r"thousands=('[^']*'|\"[^\"]*\")", r"--thousands \1"),
    (r"decimal=(',')", r"--decimal \1"),
    (r"(--(?:thousands|decimal) \S+); or convert the column", r"\1"),
    (r"read the file with true_values=\['yes'\] and false_values=\['no'\], or", "write it as true and false, or"),
    (r"(?<=If these are categories, )convert (?:it|them) with astype\('category'\)", "list them in a --schema"),
    (r"leave it out with usecols", "leave it out with --leave-out"),
    (r"missing='(drop|impute)'( or 'impute')?", r"--missing \1\2"),
    (r"--missing drop or 'impute' when the table is read", "--missing drop or --missing impute"),
    (r"impute instead, or drop columns such as", "use --missing impute, or --leave-out columns such as"),
    (r"drop these rows first \(df\.dropna\(subset=\[…\]\)\), or choose", "choose"),
    (r"use df\.rename\(columns=str\)", "name every column"),
    (r"pass it as folder=", "pass it as --folder"),
    (r"overwrite=True \(on the command line, --force\)", "--force"),
    (r"; drop it if it is an identifier, or give a schema", "; use --leave-out if it is an identifier, or a --schema"),
    (
        r"drop it, group its values, or give a schema that lists its levels",
        "use --id if it names people, --leave-out to do without it, or a --schema that lists its levels",
    ),
    (r"[,;] got only missing ones; drop (it|the column)", "; got only missing ones: use --leave-out"),
    (r"drop the column if it is an identifier", "use --leave-out, or --id if it names people"),
    (r"drop the column, or group its values", "use --leave-out, or group its values"),
    (r"turn them into numbers, such as days or an age", "turn them into numbers, such as days, or use --leave-out"),
    (r"got ('[^']*') too; drop it", r"got \1 too; use --leave-out, or --id if it names people"),
    (r"(?<!--)give a schema in which", "give a --schema in which"),
    (
        r"use oar\.Population\.from_frame\(frame, target=…\), which takes such columns, or drop it",
        "leave out --plain, or use --leave-out",
    ),
    (r"convert it with astype\([^)]*\) or (astype\([^)]*\)|to_numeric)(, and bytes with [^.]*\.decode\('utf-8'\))?",
     "correct it, or use --leave-out"),
)  # fmt: skip


# Ways out that are left out of an error where the command has no such option.
NEEDS = (
    ("--query", r" \(--query is such a name then\)"),
    ("--schema", r", and if these are categories, list them in a --schema"),
    ("--schema", r" If these are categories, list them in a --schema\."),
    ("--schema", r",? or (?:give )?a --schema[^;.]*"),
    ("--plain", r"leave out --plain, or "),
    ("--example", r"; or name --example [\w-]+"),
)  # fmt: skip


def in_options(text: str, options: frozenset[str] | None = None) -> str:
    """Return an error as somebody reads it who has options and files, and no Python.

    `options` are those of the command that tells it; None for all that tables are read with.

    >>> in_options("frame: must not have missing values, got some; choose missing='drop'.")
    'DATA: must not have missing values, got some; choose --missing drop.'
    >>> in_options("held_out: must have people, got none.", frozenset({"--held-out"}))
    '--held-out: must have people, got none.'
    """
    for pattern, said in (*SUBJECTS, *ADVICE):
        text = re.sub(pattern, said, text)
    for option, way in NEEDS:
        if options is not None and option not in options:
            text = re.sub(way, "", text)
    known = TABLES if options is None else options

    def called(found: re.Match[str]) -> str:
        option = f"--{found[1].replace('_', '-')}"
        return option if option in known else found[0]

    return NAMED.sub(called, text)


def in_own_options(text: str) -> str:
    """Return an error in the words of the command that runs."""
    return in_options(text, OPTIONS.get())
