"""The manifest of a plan: by which anybody sees that its files are those that were delivered.

It lists every file with its size and SHA-256. Files that hold people's values (`SECRET`) have an HMAC in their place,
whose key is in private.json, and no size: a plain digest would tell whoever guesses an unknown value that the guess is
right. The plan's id is a digest of that list. report.html and audit.json show it, and are listed as they are with zeros
in its place; whoever was told the id by another way sees that the manifest itself is the one that was delivered.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oar.errors import StorageError
from oar.files import replace_atomically, write_text
from oar.opening import regular
from oar.opening.documents import parsed_json
from oar.opening.fields import Fields
from oar.report.files.output_folder import is_ours
from oar.report.files.text_formats import json_text
from oar.version import __version__

MANIFEST, PRIVATE = "manifest.json", "private.json"
SECRET = ("moves.csv", "moves.parquet")
SHOWS_ID = ("report.html", "audit.json")
FORMAT, PRIVATE_FORMAT, VERSION = "oar-manifest", "oar-private", 1
NO_ID = "-".join(["0000"] * 8)
BLOCK = 1 << 20
ADVICE = (
    "For the organiser and the auditor, as moves.csv is: whoever has this file can check guesses at people's values."
)


@dataclass(frozen=True)
class ManifestCheck:
    """The state of a plan's files: its id (None without a manifest), and the differences in words."""

    plan: str | None
    told: tuple[str, ...]


def seal(folder: Path, key: bytes) -> str:
    """Write the manifest of all files in a folder, put the plan's id where it is shown, and return it."""
    entries = [_entry(folder / name, key, NO_ID) for name in sorted(os.listdir(folder))]
    listed = {"format": FORMAT, "version": VERSION, "oar": __version__, "files": entries}
    plan = _id(listed)
    for name in SHOWS_ID:
        content = (folder / name).read_bytes()
        with replace_atomically(folder / name) as file:
            file.write(content.replace(NO_ID.encode(), plan.encode()))
    with replace_atomically(folder / MANIFEST) as file:
        file.write(_text(listed, plan))
    return plan


def _text(listed: dict[str, Any], plan: str) -> bytes:
    return json_text({"plan": plan, **listed}).encode()


def check(folder: Path, only: tuple[str, ...] | None = None) -> ManifestCheck:
    """Compare a folder with its manifest; `only` names the files that matter, where not all do."""
    try:
        text = regular(folder / MANIFEST).read_bytes()
        content = parsed_json(text.decode())
        entries = {entry["name"]: entry for entry in content["files"]}
        content.pop("plan", None)
        plan = _id(content)
        if content["format"] != FORMAT or any(Path(name).name != name for name in entries):
            raise ValueError
    except (StorageError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        what = "damaged" if os.path.lexists(folder / MANIFEST) else "missing"
        return ManifestCheck(None, (f"{MANIFEST} is {what}",))
    told = [] if text == _text(content, plan) and content.get("version") == VERSION else [f"{MANIFEST} is altered"]
    try:
        key = bytes.fromhex(read_private(folder)["key"])
    except StorageError:
        key = None
    for name, entry in entries.items():
        if only is None or name in only:
            told += _differs(folder / name, entry, key, plan)
    if only is None:
        there = {
            each.name for each in os.scandir(folder) if not (is_ours(each.name) and each.is_dir(follow_symlinks=False))
        }
        told += [f"{name} is no file of this plan" for name in sorted(there - {*entries, MANIFEST})]
    return ManifestCheck(plan, tuple(told))


def _differs(path: Path, entry: dict[str, Any], key: bytes | None, plan: str) -> list[str]:
    if not os.path.lexists(path):
        return [f"{path.name} is missing"]
    if path.name in SECRET and key is None:
        return [f"{path.name} cannot be checked, because {PRIVATE} is missing or damaged"]
    try:
        # The digest is of the file without an id, and a file that shows none is not as it was delivered.
        blank = path.name in SHOWS_ID and NO_ID.encode() in path.read_bytes()
        same = not blank and _entry(path, key or b"", plan) == entry
    except OSError:
        same = False
    return [] if same else [f"{path.name} is altered"]


def _entry(path: Path, key: bytes, plan: str) -> dict[str, Any]:
    """Return what the manifest says of a file, read as it is without the plan's id."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(21, "not a file")
    secret = path.name in SECRET
    digest: Any = hmac.new(key, digestmod="sha256") if secret else hashlib.sha256()
    with open(path, "rb") as file:
        if path.name in SHOWS_ID:
            digest.update(file.read().replace(plan.encode(), NO_ID.encode()))
        else:
            while block := file.read(BLOCK):
                digest.update(block)
    found = {"name": path.name, "hmac" if secret else "sha256": digest.hexdigest()}
    # The size of a file of people's values tells how many digits they have.
    return found if secret or path.name == PRIVATE else found | {"size": path.stat().st_size}


def _id(listed: dict[str, Any]) -> str:
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    digits = hashlib.sha256(text.encode()).hexdigest()[:32]
    return "-".join(digits[place : place + 4] for place in range(0, 32, 4))


def write_private(
    folder: Path, key: bytes, asked: dict[str, Any], data: dict[str, Any], sha256: str, found: dict[str, Any]
) -> None:
    """Write what an audit needs and nobody else should have: the key, what was asked and found, and whose data."""
    content = {
        "format": PRIVATE_FORMAT,
        "version": VERSION,
        "oar": __version__,
        "advice": ADVICE,
        "key": key.hex(),
        "data": {**data, "hmac": keyed(key, sha256)},
        "asked": asked,
        "found": found,  # with all digits, which audit.json and report.html have not
    }
    write_text(folder / PRIVATE, json_text(content), private=True)


def read_private(folder: Path) -> dict[str, Any]:
    """Return what private.json holds; raise where it is not there or is damaged."""
    path = folder / PRIVATE
    instead = "audit its plan.json with the options of the plan, such as --target and --query"
    if not path.is_file():
        raise StorageError(f"{path} does not exist, which says what was asked; ask for it, or {instead}.")
    try:
        content = parsed_json(path.read_bytes().decode())
        fields = Fields(content)
        if fields.any("format") != PRIVATE_FORMAT or fields.any("version") != VERSION:
            raise ValueError("of another kind, or another version")
        bytes.fromhex(fields.text("key"))
        _ = fields.inner("asked"), fields.inner("data").text("hmac")
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged ({error}); ask for a fresh copy, or {instead}.") from None
    return content


def keyed(key: bytes, sha256: str) -> str:
    """Return a digest of data that says nothing to whoever has not the key."""
    return hmac.new(key, sha256.encode(), "sha256").hexdigest()
