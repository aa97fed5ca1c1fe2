"""The command: help with examples that work, clear endings, nothing half-written."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import oar
from oar.cli import app

OAR = [sys.executable, "-c", "from oar.cli import main; main()"]
MODULE = [sys.executable, "-m", "oar"]
COMMANDS = ("reproduce", "embed-mnist")


def run(*arguments, **how):
    return subprocess.run([*OAR, *map(str, arguments)], capture_output=True, text=True, check=False, **how)


def test_the_package_runs_as_the_command():
    alike = [subprocess.run([*how, "--version"], capture_output=True, text=True, check=True) for how in (OAR, MODULE)]
    assert alike[0].stdout == alike[1].stdout == f"oar {oar.__version__}\n"


@pytest.fixture
def calls(monkeypatch):
    """Put recorders in the place of the library's functions, and return what they are called with."""
    seen = {}

    def reproduce(out, **options):
        seen["reproduce"] = {"out": out, **options}
        options["on_stage"]("drawing", 8, 9)

    def embed_mnist(out, **options):
        seen["embed-mnist"] = {"out": out, **options}
        options["on_epoch"](1, 200.0)
        return {"nearest_centroid_accuracy": {"train": 0.875}}

    monkeypatch.setattr("oar_paper.reproduce.reproduce", reproduce)
    monkeypatch.setattr("oar_paper.embedding.embed.embed_mnist", embed_mnist)
    return seen


def test_version():
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"oar {oar.__version__}\n")


def test_help_lists_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in (*COMMANDS, "schema"):
        assert command in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_the_help_works(command, calls):
    shown = CliRunner().invoke(app, [command, "--help"]).output
    example = re.search(r"Example: (oar .+)", shown).group(1)
    result = CliRunner().invoke(app, shlex.split(example)[1:])
    assert result.exit_code == 0, result.output
    assert str(calls[command]["out"]) in example
    assert "Done." in result.output


def test_options_arrive(calls, tmp_path):
    CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--quick", "--seed", "7"])
    options = calls["reproduce"]
    assert (options["out"], options["quick"], options["seed"], options["extended"]) == (tmp_path, True, 7, False)
    CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--extended"])
    assert calls["reproduce"]["extended"]
    arguments = ["--folder", "m", "--out", "o", "--epochs", "3", "--seed", "2", "--checkpoint", "c.npz"]
    CliRunner().invoke(app, ["embed-mnist", *arguments])
    options = calls["embed-mnist"]
    assert (options["settings"].epochs, options["settings"].seed) == (3, 2)
    assert (options["folder"].name, options["checkpoint"].name) == ("m", "c.npz")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Usage"),
        (("reproduce",), "--out"),
        (("reproduce", "--out", "x", "--seed", "-1"), "--seed"),
        (("reproduce", "--out", "x", "--seed", "one"), "--seed"),
        (("reproduce", "--out", "x", "--fast"), "--fast"),
        (("embed-mnist", "--out", "x", "--epochs", "0"), "--epochs"),
        (("reprodoce",), "reprodoce"),
    ],
)
def test_bad_options_are_refused_with_exit_code_2(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2
    assert complaint in result.output
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("reproduce", "--out", tmp_path / "file" / "out")
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.fullmatch(r"oar: --out: must be a folder that can be written to, got .+file/out.+\n", result.stderr)


def test_a_folder_that_cannot_be_written_to_fails_before_any_work(tmp_path, monkeypatch):
    def work(*arguments):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("oar_paper.reproduce.find", work)
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "file" / "out")]).exit_code == 1


def test_missing_images_are_one_clear_line(tmp_path):
    pytest.importorskip("jax")
    result = run("embed-mnist", "--folder", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("oar: --folder: must be a folder that exists")
    assert "pass it as --folder, or set" in result.stderr


def test_interrupting_leaves_nothing_half_written(tmp_path):
    out = tmp_path / "deep" / "out"
    process = subprocess.Popen(
        [*OAR, "reproduce", "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        patience = time.monotonic() + 60
        while not (out.parent.is_dir() and any(out.parent.iterdir())):  # the hidden folder: work has begun
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < patience
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert (printed, complaint) == ("", "oar: interrupted; nothing was written.\n")
    assert not list(tmp_path.iterdir())


def test_errors_of_the_library_have_no_traceback(monkeypatch):
    def fail(out, **options):
        raise oar.errors.DataError("something: must be otherwise, got this.")

    monkeypatch.setattr("oar_paper.reproduce.reproduce", fail)
    result = CliRunner().invoke(app, ["reproduce", "--out", "x"])
    assert result.exit_code == 1
    assert result.stderr == "oar: something: must be otherwise, got this.\n"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(out, **options):
        raise ZeroDivisionError

    monkeypatch.setattr("oar_paper.reproduce.reproduce", fail)
    assert isinstance(CliRunner().invoke(app, ["reproduce", "--out", "x"]).exception, ZeroDivisionError)


PEOPLE = "income,purpose,owner,approved\n1200.5,car,True,no\n3100,home,False,yes\n,car,True,yes\n"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table people.csv in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path / "people.csv"


def test_the_example_of_schema_works(table):
    shown = CliRunner().invoke(app, ["schema", "--help"]).output
    example = re.search(r"Example: (oar .+)", shown).group(1)
    result = CliRunner().invoke(app, shlex.split(example)[1:])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "column   kind      levels",
        "income   number",
        "purpose  category  car, home",
        "owner    boolean",
        "1 of 3 rows have missing values: plan with --missing drop or --missing impute.",
        "Done. Edit schema.toml",
    ]
    written = oar.Schema.load(table.parent / "schema.toml")
    people = oar.Population.read(table, "approved", schema=written, missing="drop")
    assert people.schema == written


def test_schema_does_not_write_over_a_file_unless_it_is_told_to(table):
    command, file = ["schema", "people.csv", "--target", "approved", "--output", "s.toml"], table.parent / "s.toml"
    file.write_text("edited")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert file.read_text() == "edited"
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    people = oar.Population.read(table, "approved", schema=file, missing="drop")
    assert people.schema == oar.Schema.load(file)


def test_schema_without_a_target_describes_every_column_and_writes_nothing(table):
    result = CliRunner().invoke(app, ["schema", "people.csv"])
    assert result.exit_code == 0
    assert "approved  category  no, yes" in result.output
    assert [file.name for file in table.parent.iterdir()] == ["people.csv"]


def test_schema_of_a_file_in_another_layout(table):
    table.write_bytes(PEOPLE.replace(",", ";").replace("home", "café").encode("latin-1"))
    arguments = ["schema", "people.csv", "--target", "approved", "--sep", ";", "--encoding", "latin-1"]
    assert "café, car" in CliRunner().invoke(app, arguments).output
    table.write_text(PEOPLE.replace(",", "\t"))
    assert "car, home" in CliRunner().invoke(app, ["schema", "people.csv", "--sep", r"\t"]).output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["people.csv", "--target", "aproved"], "target: must be a column .* Did you mean 'approved'?"),
        (["peple.csv"], "oar: peple.csv does not exist. Did you mean 'people.csv'?"),
        (["people.csv", "--sep", ";"], "read it with --sep ','"),
        (["people.csv", "--encoding", "latin-99"], "unknown encoding: latin-99"),
        (["people.csv", "--target", "approved", "--output", "people.csv/schema.toml"], "cannot write to people.csv"),
        (["."], "file: must be a file, got the folder"),
    ],
)
def test_schema_says_what_is_wrong_in_one_line(table, arguments, complaint):
    result = CliRunner().invoke(app, ["schema", *arguments])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(complaint, result.stderr)
    assert len(result.stderr.splitlines()) == 1
    assert table.read_text() == PEOPLE


def test_importing_the_command_is_light():
    heavy = ("matplotlib", "sklearn", "jax", "pandas", "scipy", "rich")
    code = f"import sys, oar.cli; print(*set({heavy}) & set(sys.modules))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "\n"
