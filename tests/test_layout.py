"""Tests stand where their subject stands, and replace nothing that is private to the package."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src"
WITHOUT_SOURCE = {"docs", "golden", "matrix", "campaigns", "leaderboard"}  # pages, records, cells, attacks, benchmarks
OF_SEVERAL = {
    "the whole package": """
        test_exception_types.py test_front_door.py test_idle_options.py test_layout.py test_public_types.py
        test_wrong_arguments.py
    """,
    "the command, whichever it is": """
        cli/test_bad_input.py cli/test_first_steps.py cli/test_half_characters.py cli/test_long_names.py
    """,
    "what becomes of a kind of problem in the whole room": """
        estimators/test_refusals.py estimators/transformers/test_gradients.py
        estimators/transformers/test_pipelines.py estimators/transformers/test_pipelines_of_cores.py
        estimators/transformers/test_pipelines_of_tables.py models/autodiff/test_odd_people.py
        models/centroid/test_without_jax.py models/torch/test_library.py people/parts/test_bad_parts.py
        people/tables/test_in_and_out.py questions/least/test_centroids.py questions/least/test_tables.py
        questions/test_over_rounds.py signals/test_any_model.py solvers/centroids/test_adversity.py
        studies/test_people_in_parts.py
        studies/test_trouble.py worlds/operators/test_in_worlds.py worlds/policies/test_lacking_classes.py
    """,
    "what several modules promise together": """
        oar_paper/test_tables.py questions/test_answers.py referee/test_audit.py referee/test_held_to.py
        referee/test_submitted_moves.py solvers/cheapest/test_promises.py solvers/cheapest/test_proofs.py
        solvers/discrete/test_brute_force.py solvers/discrete/test_trifles.py
        worlds/actors/test_poison.py
    """,
}
EXCEPTED = {name: reason for reason, names in OF_SEVERAL.items() for name in names.split()}


def subjects(folder: Path) -> set[str]:
    """Return the names of the modules and rooms that the files of a folder of tests can be of, its own among them."""
    place = folder.relative_to(TESTS)
    beside_the_library = place.parts[:1] in (("oar_paper",), ("oar_stories",))
    room = SOURCE / place if beside_the_library else SOURCE / "oar" / place
    return {path.stem for path in [*room.glob("*"), room] if path.stem[0] != "_"}


def mirrored(path: Path) -> bool:
    """Report whether a file of tests is named for a module or room that stands where it does, and maybe for more."""
    name = path.stem.removeprefix("test_")
    return any(name == one or name.startswith(f"{one}_") for one in subjects(path.parent))


def test_tests_stand_where_their_subject_stands():
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("test_*.py")}
    files = {name: path for name, path in files.items() if name.split("/")[0] not in WITHOUT_SOURCE}
    assert len(files) > 200
    astray = {name for name, path in files.items() if not mirrored(path)}
    assert astray - set(EXCEPTED) == set()  # name it test_x.py or test_x_y.py where x is its module
    assert set(EXCEPTED) - astray == set()  # whichever has found its module comes off the list


def called(node: ast.Call) -> str:
    """Return the last name of what is called; empty where it is called by none. To write out every call takes long."""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def replaced(tree: ast.Module) -> list[str]:
    """Return what is replaced by name in a file, as it is written, by setattr, monkeypatch's too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ("setattr", "delattr"):
            [target, *others] = node.args
            words = [target.value] if isinstance(target, ast.Constant) else [ast.unparse(target)]
            words += [one.value for one in others[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            found.append(".".join(words))
    return found


def is_private(name: str) -> bool:
    """Report whether some part of a dotted name begins with one underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ('monkeypatch.setattr("oar.people.parts.parquet._stamp", None)', True),
        ('patch.setattr(module._Lanes, "run", None)', True),
        ('setattr(work.Work, "_answered", None)', True),
        ('monkeypatch.setattr(scipy.optimize, "milp", None)', False),
        ('monkeypatch.setattr("oar.cli.terminal.EVERY", 60.0)', False),
    ],
)
def test_a_private_name_is_known_however_it_is_written(line, refused):
    [name] = replaced(ast.parse(line))
    assert is_private(name) is refused


def test_nothing_private_to_the_package_is_replaced():
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    found = [
        f"{path.relative_to(TESTS)}: {name}"
        for path, text in texts.items()
        if "setattr" in text or "delattr" in text  # to parse the others would find nothing, and takes a while
        for name in replaced(ast.parse(text))
        if is_private(name) and not name.startswith("typer.")  # which is no part of the package
    ]
    assert found == []
