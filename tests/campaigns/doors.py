"""Good inputs of every kind that the command and the library read, and what reads them."""

from __future__ import annotations

import io
import json
import shutil
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from support.commands import numbers, people, run
from support.member_cards import FAMILIES, random_card, random_table_card

import oar
from oar.models import MLP, Ridge, SoftmaxRegression
from oar.people import Schema, read_table
from oar.plans.cards.file import as_json

from . import damages
from .damages import Damage

LIMITS = """
links = ["age <= income", "change(income) <= 100 * change(age)"]
rules = ["if purpose == 'car' then income <= 9000", "if owner then age >= 18"]
plausible = 0.95
[columns.income]
lower = 0
upper = 9000.0
direction = "up"
step = 10
cost = 2.0
unit = 100
[columns.age]
immutable = true
[columns.purpose]
levels = ["car", "home"]
cost = 2
[own.3.income]
upper = 5000
"""
STUDY = """
data = "people.csv"
target = "approved"
leave-out = ["town"]
query = "3"
goal = "yes"
model = "softmax"
norm = "2"
budget = 1.0
seed = 0
plain = false
store = "answers.db"
[axes]
budgets = [0.5, 1.0]
participation = [1.0]
models = ["softmax"]
seeds = [0]
queries = ["3", "4"]
"""
CELLS = """
goal = "yes"
data = "people.csv"
target = "approved"
leave-out = "town"
[[cells]]
budget = 0.5
query = "3"
model = "softmax"
seed = 1
participation = 0.5
[[cells]]
budget = 1.0
query = "4"
"""


@dataclass(frozen=True)
class Door:
    """One way in: the file's name, what a good one holds, what reads it, and how it is damaged beside its bytes."""

    name: str
    file: str
    good: bytes
    enter: Callable[[Path], Any]
    more: Callable[[np.random.Generator, int], Iterator[Damage]] = field(default=lambda rng, number: iter(()))
    commands: bool = False  # whether the command is called, which says it all by its end


def doors(folder: Path) -> list[Door]:
    """Return all ways in; what they need beside the damaged file is put in the folder."""
    people(40).to_csv(folder / "people.csv", index=False)
    numbers(40).to_csv(folder / "numbers.csv", index=False)
    return [
        *_cards(folder),
        *_settings(folder),
        *_tables(folder),
        *_moves(folder),
        *_arrays(),
        *_public(),
    ]


def _cards(folder: Path) -> Iterator[Door]:
    cards = {name: random_card(model, width, 3, seed=1) for name, (model, width) in FAMILIES.items()}
    cards["a network"] = random_card(MLP((4,)), 3, 3)
    cards["nameless"] = random_card(SoftmaxRegression(), 2, 3, features=None, budget=None)
    cards["in words"] = random_card(Ridge(), 2, 3, goal=oar.goals.GoalText("more than 3"))
    for name, (model, width) in list(FAMILIES.items())[:5]:
        if name != "ridge, 2 values":
            cards[f"table, {name}"] = random_table_card(model, width, links=True, rules=True)
    for name, card in cards.items():
        document = as_json(card)
        yield Door(f"card: {name}", "plan.json", damages.as_json(document).encode(), _answer, partial(_json, document))
    document = as_json(random_table_card(SoftmaxRegression(), 2, links=True, rules=True))
    row = _row(random_table_card(SoftmaxRegression(), 2))
    (folder / "me.csv").write_text(",".join(row) + ",label\n" + ",".join(map(str, row.values())) + ",class 1\n")
    command = lambda path: run("respond", path, folder / "me.csv")  # noqa: E731
    good = damages.as_json(document).encode()
    yield Door("respond CARD", "plan.json", good, command, partial(_json, document), commands=True)
    (folder / "plan.json").write_bytes(good)
    command = lambda path: run("respond", folder / "plan.json", path)  # noqa: E731
    yield Door("respond ROWS", "mine.csv", (folder / "me.csv").read_bytes(), command, commands=True)


def _json(document: Any, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    yield from damages.doubled_keys(document)
    yield from damages.documents_damaged(document, damages.as_json, rng, 3 * number)


def _row(card: Any) -> dict[str, Any]:
    """Return a member's values of every column of a card."""
    if card.table is None:
        return dict.fromkeys(card.features or range(card.directions.shape[1]), 0.5)
    middle = {"number": 0.5, "integer": 1, "boolean": True}
    return {
        each.column.name: middle.get(each.column.kind) or each.column.levels[0] for each in card.table.columns
    }  # fmt: skip


def _answer(path: Path) -> None:
    """Read a card, write it again, and answer it."""
    card = oar.results.Card.load(path)
    again = json.dumps(as_json(card), allow_nan=False)
    assert again
    label = card.classes[0] if card.classes is not None else [0.5] * card.outputs
    if not _asks_for_jax(card):
        row = _row(card) if card.features is not None else list(_row(card).values())
        with warnings.catch_warnings():  # a range that the row is not in is doubted, not damaged
            warnings.filterwarnings("ignore", "features: .*is this right", UserWarning)
            told = card.respond(row, label, 0.5 if card.budget is None else None)
        move = told.move if card.table is not None else told
        assert np.isfinite(np.asarray(move, dtype=float)).all(), "the answer is not finite"


def _asks_for_jax(card: Any) -> bool:
    return isinstance(getattr(card.broadcast, "model", None), MLP)


def _settings(folder: Path) -> Iterator[Door]:
    frame = people(40).drop(columns="town")
    schema = Schema.infer(frame.drop(columns="approved"))
    population = oar.Population.from_frame(frame, "approved", schema=schema)

    def limits(path: Path) -> None:
        asked = oar.Query(dict(frame.drop(columns="approved").iloc[0]), "yes")
        oar.Problem(population, SoftmaxRegression(), asked, oar.Perturb(1.0, limits=path))

    def study(path: Path) -> None:
        from oar.cli.inputs.study_file import read_study

        asked = read_study(path)
        assert asked.problem is not None
        assert asked.arguments

    yield Door("limits", "limits.toml", LIMITS.encode(), limits, partial(_toml, tomllib.loads(LIMITS)))
    text = schema.replace("purpose", kind="ordinal").to_toml()
    read = lambda path: oar.Population.from_frame(frame, "approved", schema=path)  # noqa: E731
    yield Door("schema", "schema.toml", text.encode(), read, partial(_toml, tomllib.loads(text)))
    for name, content in (("study", STUDY), ("study of cells", CELLS)):
        yield Door(name, "study.toml", content.encode(), study, partial(_toml, tomllib.loads(content)))
    plan = (
        "plan",
        folder / "people.csv",
        "--target",
        "approved",
        "--query",
        "0",
        "--goal",
        "yes",
        "--budget",
        "0",
        "--leave-out",
        "town",
    )
    for option, content in (("limits", LIMITS), ("schema", text)):
        command = lambda path, option=option: run(*plan, f"--{option}", path, "--out", path.parent / "out", "--force")  # noqa: E731
        yield Door(
            f"plan --{option}", f"{option}.toml", content.encode(), command, partial(_few, tomllib.loads(content)), True
        )


def _toml(document: Any, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    return damages.documents_damaged(document, damages.as_toml, rng, 6 * number)


def _few(document: Any, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    return damages.documents_damaged(document, damages.as_toml, rng, number // 4)


def _tables(folder: Path) -> Iterator[Door]:
    frame = people(40)
    text = frame.to_csv(index=False).encode()
    read = lambda path: oar.Population.from_frame(read_table(path), "approved", missing="drop")  # noqa: E731
    yield Door("CSV", "people.csv", text, read)
    yield Door("TSV", "people.tsv", text.replace(b",", b"\t"), read)
    for ending in (".gz", ".bz2", ".xz", ".zip"):
        bombs = lambda rng, number, ending=ending: damages.bombs(ending) if number > 20 else iter(())  # noqa: E731
        yield Door(f"CSV{ending}", f"people.csv{ending}", damages.zipped(text, ending), read, bombs)
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    yield Door("Parquet", "people.parquet", buffer.getvalue(), read)
    buffer = io.BytesIO()
    numbers(40).to_parquet(buffer, row_group_size=10)

    def streamed(path: Path) -> None:
        found = oar.Population.from_parquet(path, "kind")
        sum(len(chunk.features) for chunk in found.chunks(16))

    yield Door("Parquet in parts", "numbers.parquet", buffer.getvalue(), streamed)
    buffer = io.BytesIO()
    frame.to_excel(buffer, index=False)
    yield Door("workbook", "people.xlsx", buffer.getvalue(), read, partial(_workbook, buffer.getvalue()))
    for name, content in (("people.csv", text), ("people.csv.gz", damages.zipped(text, ".gz"))):
        command = lambda path: run("schema", path, "--target", "approved")  # noqa: E731
        yield Door(f"schema {name}", name, content, command, commands=True)


def _workbook(good: bytes, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    """Damage the parts of a workbook within their archive, which then is whole."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, part in parts.items():
        for what, content in damages.texts_damaged(part, rng, number // 6):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
                for other, whole in parts.items():
                    archive.writestr(other, content if other == name else whole)
            yield f"{name} {what}", damages.written(buffer.getvalue())


def _moves(folder: Path) -> Iterator[Door]:
    plan = ["plan", folder / "numbers.csv", "--target", "kind", "--query", "0", "--goal", "1", "--plain", "--budget",
            "1.5", "--model", "nearest-centroid", "--out", folder / "made", "--force"]  # fmt: skip
    done = run(*plan)
    assert done.exit_code == 0, done.stderr
    card = folder / "made" / "plan.json"
    asked = ("--target", "kind", "--query", "0")
    for name in ("moves.csv", "moves.parquet"):
        command = lambda path: run("audit", card, folder / "numbers.csv", *asked, "--moves", path)  # noqa: E731
        yield Door(f"audit --moves {name}", name, (card.parent / name).read_bytes(), command, commands=True)
    command = lambda path: run("audit", path, folder / "numbers.csv", *asked)  # noqa: E731
    document = json.loads(card.read_text())
    yield Door("audit CARD", "plan.json", card.read_bytes(), command, partial(_json, document), commands=True)
    command = lambda path: run("audit", card, path, *asked)  # noqa: E731
    yield Door("audit DATA", "numbers.csv", (folder / "numbers.csv").read_bytes(), command, commands=True)
    for name in ("private.json", "manifest.json"):
        held = (card.parent / name).read_bytes()
        command = partial(_audited, card.parent, folder / "numbers.csv")
        yield Door(f"audit FOLDER {name}", name, held, command, partial(_json, json.loads(held)), commands=True)
    problem = oar.Problem(
        oar.Population(numbers(40)[["x", "y"]], numbers(40)["kind"]),
        oar.NearestCentroid(),
        oar.Query([0.0, 0.0], 1),
        oar.Perturb(1.5),
    )
    made = card.parent / "moves.parquet"
    given = lambda path: oar.audit(problem, moves=path)  # noqa: E731
    yield Door("audit(problem, moves)", made.name, made.read_bytes(), given)
    told = card.parent / "audit.json"

    def over(path: Path) -> Any:
        from oar.report.plan.deliver import _delivered

        return _delivered(path)

    yield Door(
        "audit.json in --out", "audit.json", told.read_bytes(), over, partial(_json, json.loads(told.read_text()))
    )


def _audited(made: Path, data: Path, path: Path) -> Any:
    """Audit a plan of which one file is another."""
    for file in made.iterdir():
        if file.name != path.name:
            shutil.copy(file, path.parent)
    return run("audit", path.parent, data)


def _arrays() -> Iterator[Door]:
    from support.online_problems import three_rounds

    from oar.online import FullRefit
    from oar_paper.embedding.vae import VAESettings, initial_state, load_checkpoint, save_checkpoint

    problem = three_rounds(SoftmaxRegression(), FullRefit())
    planned = oar.online.OnlinePlan
    plan = planned(problem, np.zeros((18, 2)), (((np.ones(3), np.ones(3)),), (), ()))
    yield Door("plan over time", "plan.npz", _saved(plan.save), lambda path: planned.load(path, problem).moves(),
               partial(_npz, _saved(plan.save)))  # fmt: skip
    settings = VAESettings(latent=2, hidden=4, epochs=3)
    good = _saved(lambda path: save_checkpoint(path, initial_state(settings), settings))
    yield Door("checkpoint", "checkpoint.npz", good, lambda path: load_checkpoint(path, settings), partial(_npz, good))
    for name, kept in (("features", np.arange(12.0).reshape(6, 2)), ("labels", np.arange(6) % 2)):
        buffer = io.BytesIO()
        np.save(buffer, kept)
        claims = lambda rng, number: damages.npz_claims(["x"], {})  # noqa: E731
        yield Door(f"npy of {name}", f"{name}.npy", buffer.getvalue(), partial(_mapped, name), claims)


def _mapped(name: str, path: Path) -> None:
    rows, labels = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    given = {"features": rows, "labels": labels} | {name: path}
    found = oar.Population.from_memmap(given["features"], given["labels"])
    sum(len(chunk.features) for chunk in found.chunks(16))


def _saved(save: Callable[[Path], None]) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "saved.npz")
        return (Path(folder) / "saved.npz").read_bytes()


def _npz(good: bytes, rng: np.random.Generator, number: int) -> Iterator[Damage]:
    with np.load(io.BytesIO(good)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names = list(arrays)
    yield from damages.npz_claims([*names, "signal_9_0", "signal_x", "other"], arrays)
    for name in names:
        yield f"{name} left out", damages.written(damages.packed(arrays, name, None))
        head = {"head": "{}", "settings": '{"latent": 2}'}.get(name)
        for text in () if head is None else ("[]", "{", "null", "[" * 5_000, '{"format": [], "problem": {}}', head):
            member = io.BytesIO()
            np.save(member, np.array(text))
            yield f"{name} = {text[:20]}", damages.written(damages.packed(arrays, name, member.getvalue()))
    if number > 20:
        yield "a bomb", damages.written(_bomb(names[0]))


_bomb = cache(damages.npz_bomb)


def _public() -> Iterator[Door]:
    from oar.datasets import adult, mnist_images, mnist_provenance
    from oar.datasets.idx import idx_content
    from oar.datasets.mnist_shipped import PROVENANCE_FILE, SHIPPED

    images, labels = np.zeros((4, 28, 28), np.uint8), np.arange(4, dtype=np.uint8)

    def read(path: Path) -> None:
        for name, values in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
            other = path.parent / name
            if not path.name.startswith(name) and not other.exists():
                other.write_bytes(idx_content(values))
        mnist_images("train", path.parent, download=False)

    for name, values in (("train-images-idx3-ubyte", images), ("train-labels-idx1-ubyte", labels)):
        claims = lambda rng, number, size=values.ndim: damages.idx_claims(size)  # noqa: E731
        yield Door(name, name, idx_content(values), read, claims)
        bombs = lambda rng, number: damages.bombs(".gz") if number > 20 else iter(())  # noqa: E731
        yield Door(f"{name}.gz", f"{name}.gz", damages.zipped(idx_content(values), ".gz"), read, bombs)
    line = (
        "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
        "United-States, <=50K\n"
    )
    yield Door("Adult", "adult.data", (line * 5).encode(), adult)
    told = (SHIPPED / PROVENANCE_FILE).read_bytes()
    digits = lambda path: mnist_provenance(path.parent)  # noqa: E731
    yield Door("provenance", PROVENANCE_FILE, told, digits, partial(_json, json.loads(told)))
