"""A short version of the campaign, in a process of its own, whose memory can be bounded; and what it found once."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.member_cards import random_card

import oar
from oar.models import PrototypeNetwork, SoftmaxRegression
from oar.opening import read_json, read_npz, read_toml
from oar.people import read_table
from oar.plans.cards.file import as_json

from . import damages

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_hundred_damaged_inputs_end_in_a_line():
    command = [sys.executable, "-m", "tests.campaigns.malformed", "--number", "250", "--seed", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("malformed: tried 250, failed 0\n"), done.stdout + done.stderr
    assert done.returncode == 0


def refused(read, path):
    """Return the one line with which a file is refused."""
    with pytest.raises(oar.errors.StorageError) as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1
    assert path.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("read", [oar.results.Card.load, oar.Schema.load, oar.Limits.load, read_npz, read_table])
def test_what_is_no_file_is_not_opened(read, tmp_path):
    for place, (_, put) in enumerate(damages.in_its_place()):
        path = tmp_path / str(place) / "data.csv"
        path.parent.mkdir()
        put(path)
        refused(read, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": "much"}, "field \"budget\" must be a finite number ≥ 0 (and at most 1e+100), got 'much'"),
        ({"budget": 10**400}, 'field "budget" must be a finite number ≥ 0'),
        ({"directions": [[0.1], [0.1, 0.2]]}, 'field "directions" must be 2 rows of finite numbers, all of one length'),
        ({"features": 3}, 'field "features" must be a list of texts, got 3'),
        ({"signal": [1e300] * 4}, "parameters and signal must be 4 finite numbers each"),
        ({"model": {"name": "prototype-network", "embedding": [10**9, 2]}}, "at most 10,000,000 weights"),
        ({"model": {"name": "mlp", "hidden": [10**9]}}, "finite numbers each"),
    ],
)
def test_cards_say_which_field_is_wrong_and_claims_are_not_believed(change, message, tmp_path):
    content = as_json(random_card(SoftmaxRegression(), 2, 3))
    (tmp_path / "plan.json").write_text(json.dumps(content | change))
    assert message in refused(oar.results.Card.load, tmp_path / "plan.json")


def test_a_name_that_is_said_twice_is_refused(tmp_path):
    text = json.dumps(as_json(random_card(None, 2, 3)))
    (tmp_path / "plan.json").write_text(text[:-1] + ', "budget": 9.0}')
    assert "'budget' is said twice" in refused(oar.results.Card.load, tmp_path / "plan.json")


def test_cards_with_vast_embeddings_are_not_written(tmp_path):
    card = random_card(PrototypeNetwork((3,)), 2, 3)
    vast = as_json(card)
    assert vast["model"]["embedding"] == [3]
    object.__setattr__(card.broadcast, "model", PrototypeNetwork((10**7, 3)))
    with pytest.raises(oar.errors.DataError, match="at most 10,000,000 weights"):
        as_json(card)


def test_arrays_are_not_made_from_claims(tmp_path):
    path = tmp_path / "plan.npz"
    for claim, content in (("200000000,", b""), (f"{2**62}, {2**62}", b""), ("2,", bytes(17))):
        path.write_bytes(damages.packed({"other": np.ones(3)}, "each", damages.npy(f"({claim})", data=content)))
        assert "claims" in refused(read_npz, path)
    np.savez(path, each=np.arange(3), word=np.array("so"))
    assert read_npz(path)["each"].tolist() == [0, 1, 2]
    assert str(read_npz(path)["word"]) == "so"


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("oar.opening.unpacking.MODEST", 1 << 20)
    block = b"a,b\n" + b"1,2\n" * 500_000
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(block))
    assert "times its" in refused(read_table, packed)
    with zipfile.ZipFile(tmp_path / "people.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", block)
    assert "times its" in refused(read_table, tmp_path / "people.csv.zip")
    rng = np.random.default_rng(0)
    text = "a,b\n" + "".join(f"{one:.9f},{two:.9f}\n" for one, two in rng.normal(size=(60_000, 2)))
    packed.write_bytes(gzip.compress(text.encode()))
    assert len(read_table(packed)) == 60_000  # large, but it is what it seems to be


def test_zips_of_several_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "people.csv.zip", "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, "a,b\n1,2\n")
    assert "must hold one file, got 2" in refused(read_table, tmp_path / "people.csv.zip")


def test_toml_names_its_file_also_where_its_content_is_wrong(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[columns.age]\nkynd = 1\n")
    with pytest.raises(oar.errors.OptionError, match="^mine.toml: "):
        oar.Schema.load(path)
    with pytest.raises(oar.errors.OptionError, match="^mine.toml: "):
        oar.Limits.load(path)
    path.write_bytes(b"\xef\xbb\xbf[columns.age]\nkind = 'integer'\n")  # as some editors save it
    assert oar.Schema.load(path).names == ("age",)
    for text in (b"a = " + b"[" * 5_000, b"a = " + b"9" * 5_000, b"a = 1\xff"):
        path.write_bytes(text)
        refused(read_toml, path)
    path.write_text('{"a": 1e999}')
    assert "finite" in refused(read_json, path)
