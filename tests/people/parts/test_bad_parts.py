"""People in parts who are not as they should be, and full disks: what is wrong is named, and nothing is half done."""

import errno
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.disks import fill_the_disk, keep_no_time_of_changes
from support.people_in_parts import asked, blobs, folder_of, moves_in, table_of

import oar
from oar.errors import DataError, OptionError, StorageError
from oar.files import unfinished_name
from oar.solvers import ProjectedGradient
from oar.streaming import scratch

ONE_STEP = ProjectedGradient(max_steps=1)
FEATURES, LABELS, QUERY = blobs(600)
TABLE = table_of(FEATURES, LABELS)
FIRST, SECOND = TABLE.slice(0, 300), TABLE.slice(300)


def by_centroids(people, goal=1):
    return oar.collective(asked(people, oar.NearestCentroid(), QUERY, goal))


def by_softmax(people, goal=1):
    return oar.collective(asked(people, oar.SoftmaxRegression(1e-2), QUERY, goal), solver=ONE_STEP)


def in_folder(path, tables, rows=None, **options):
    return oar.Population.from_parquet(folder_of(path / "people", tables, rows), "label", **options)


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pyarrow.array(values))


@pytest.fixture(scope="module")
def expected():
    """The answer for everybody, from memory."""
    return by_centroids(oar.Population(FEATURES, LABELS))


# Files


def garbled(path, start, stop):
    """Put noise into a file's pages; its footer stays."""
    content = bytearray(path.read_bytes())
    assert stop < len(content) - int.from_bytes(content[-8:-4], "little") - 8
    content[start:stop] = np.random.default_rng(0).bytes(stop - start)
    path.write_bytes(content)


@pytest.mark.parametrize("keep", [0, 3, 500])
def test_a_file_without_its_footer_is_named_at_once(tmp_path, keep):
    folder = folder_of(tmp_path / "people", [FIRST, SECOND])
    corrupt = folder / "01.parquet"
    corrupt.write_bytes(corrupt.read_bytes()[:keep])
    with pytest.raises(
        DataError, match=r"path: every file must be a Parquet file, got '.*01\.parquet'.*write it again"
    ):
        oar.Population.from_parquet(folder, "label")


@pytest.mark.parametrize("solve", [by_centroids, by_softmax])
def test_garbage_behind_a_good_footer_is_named_while_it_is_read(tmp_path, solve):
    folder = folder_of(tmp_path / "people", [FIRST, SECOND])
    garbled(folder / "01.parquet", 4, 1_500)
    people = oar.Population.from_parquet(folder, "label")
    with pytest.raises(DataError, match=r"path: .*01\.parquet, row group 0 cannot be read .*; write this file again"):
        solve(people)


def test_a_wrong_checksum_is_seen_where_numbers_look_like_numbers(tmp_path):
    (tmp_path / "people").mkdir()
    path = tmp_path / "people" / "00.parquet"
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    parquet.write_table(TABLE, path, **options)
    by_centroids(oar.Population.from_parquet(path, "label"))
    garbled(path, 1_000, 1_008)  # one person's feature, in a page of plain numbers
    with pytest.raises(DataError, match=r"00\.parquet, row group 0 cannot be read"):
        by_centroids(oar.Population.from_parquet(path, "label"))


@pytest.mark.parametrize("solve", [by_centroids, by_softmax])
def test_a_part_that_goes_bad_leaves_no_half_of_its_moves(tmp_path, monkeypatch, solve):
    # A disk that goes bad changes no time, as whoever writes to a file does.
    keep_no_time_of_changes(monkeypatch)
    folder = folder_of(tmp_path / "people", [FIRST, SECOND])
    whole, written = (folder / "01.parquet").read_bytes(), (folder / "01.parquet").stat().st_mtime_ns
    plan = solve(oar.Population.from_parquet(folder, "label")).plan
    garbled(folder / "01.parquet", 4, 1_500)
    os.utime(folder / "01.parquet", ns=(written, written))
    with pytest.raises(DataError, match=r"01\.parquet, row group 0, which has changed since"):
        plan.write_moves(tmp_path / "moves")
    assert set(os.listdir(tmp_path / "moves")) <= {"part-000000.parquet"}
    (folder / "01.parquet").write_bytes(whole)
    os.utime(folder / "01.parquet", ns=(written, written))
    assert len(plan.write_moves(tmp_path / "moves")) == 2
    assert moves_in(tmp_path / "moves").shape == FEATURES.shape


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "people.csv").write_text("x0,label\n1,2\n")
    (tmp_path / "nothing").mkdir()
    for path, message in (
        (tmp_path / "people.csv", r"every file must be a Parquet file, got '.*people\.csv'"),
        (
            tmp_path / "nothing",
            r"must hold Parquet files \(\.parquet, .*\), got the folder '.*nothing', which has none",
        ),
        (tmp_path / "nowhere", r"must be a Parquet file or a folder of them, got '.*nowhere', which is not there"),
        (5, "must be a Parquet file or a folder of them, got an object of type int"),
    ):
        with pytest.raises(DataError, match=f"path: {message}"):
            oar.Population.from_parquet(path, "label")


def test_what_others_leave_in_a_folder_is_not_read(tmp_path, expected):
    folder = folder_of(tmp_path / "people", [FIRST, SECOND])
    for name in ("_SUCCESS", "_metadata.parquet", ".02.parquet", "notes.txt"):
        (folder / name).write_text("no people")
    assert by_centroids(oar.Population.from_parquet(folder, "label")).loss == pytest.approx(expected.loss, rel=1e-12)


# Schemas


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (SECOND.drop_columns(["x1"]), r"path: .*columns of .*00\.parquet, got .*01\.parquet without 'x1'"),
        (SECOND.drop_columns(["label"]), r"path: .*columns of .*00\.parquet, got .*01\.parquet without 'label'"),
        (
            with_column(SECOND, "x1", ["tall"] * 300),
            r"features: every column must be numeric, got 'x1' of type string in .*01\.parquet",
        ),
        (
            with_column(SECOND, "label", ["one"] * 300),
            r"target: labels must be of one kind in all files, got 'label' as text \(string\) in .*01\.parquet and as "
            r"whole number \(int64\) in .*00\.parquet; write one of them again",
        ),
        (
            with_column(SECOND, "label", LABELS[300:] + 0.5),
            r"as number \(double\) in .*01\.parquet and as whole number \(int64\) in .*00\.parquet",
        ),
        (SECOND.rename_columns(["x0", "x0", "x2", "label"]), r"got 'x0' twice in .*01\.parquet"),
    ],
)
def test_files_that_do_not_go_together_are_refused(tmp_path, second, message):
    with pytest.raises(DataError, match=message):
        in_folder(tmp_path, [FIRST, second])


@pytest.mark.parametrize(
    ("tables", "tolerance"),
    [
        ([FIRST, SECOND.select(["label", "x2", "x0", "x1"])], 1e-12),
        ([FIRST, SECOND.append_column("more", pyarrow.array(["words"] * 300))], 1e-12),
        ([FIRST, with_column(SECOND, "x1", FEATURES[300:, 1].astype(np.float32))], 1e-6),
        ([FIRST, with_column(SECOND, "label", LABELS[300:].astype(np.int8))], 1e-12),
        ([FIRST.slice(0, 0), FIRST, SECOND.slice(0, 0), SECOND], 1e-12),
    ],
    ids=["other order", "one more column", "float32", "int8 labels", "empty parts"],
)
def test_files_that_differ_harmlessly_are_fine(tmp_path, expected, tables, tolerance):
    people = in_folder(tmp_path, tables)
    assert by_centroids(people).loss == pytest.approx(expected.loss, rel=tolerance)
    assert by_softmax(people).audit.movers == 600


def test_words_may_be_kept_as_a_dictionary_in_some_files(tmp_path, expected):
    words = np.array(["a", "b", "c"])[LABELS]
    second = with_column(SECOND, "label", pyarrow.array(words[300:]).dictionary_encode())
    people = in_folder(tmp_path, [with_column(FIRST, "label", words[:300]), second])
    assert people.classes == ("a", "b", "c")
    assert by_centroids(people, "b").loss == pytest.approx(expected.loss, rel=1e-12)


def test_nobody_at_all_is_refused(tmp_path):
    with pytest.raises(DataError, match="path: must hold at least one person, got '.*people' with none"):
        in_folder(tmp_path, [FIRST.slice(0, 0), SECOND.slice(0, 0)])


def test_a_class_in_one_part_only_counts(tmp_path):
    labels = np.where(np.arange(600) < 300, LABELS % 2, LABELS)
    people = in_folder(tmp_path, [table_of(FEATURES, labels).slice(0, 300), table_of(FEATURES, labels).slice(300)], 100)
    assert people.classes == (0, 1, 2)
    np.testing.assert_array_equal(people.class_sums(None), np.bincount(labels))
    for solve in (by_centroids, by_softmax):
        here = solve(oar.Population(FEATURES, labels), 2)
        assert solve(people, 2).audit.loss_before == pytest.approx(here.audit.loss_before, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "lable"}, r"target: must be a column of .*00\.parquet, one of \['x0', 'x1', 'x2', 'label'\]"),
        ({"weights": "weight"}, r"weights: must be a column of .*00\.parquet, .* got 'weight'"),
        ({"weights": "label"}, "weights: must be another column than the target"),
        (
            {"features": ["x0", "x9"]},
            "features: must be columns of .* other than target and weights, among .*, got 'x9'",
        ),
        (
            {"features": ["x0", "label"]},
            "features: must be columns of .* other than target and weights, among .*, got 'label'",
        ),
        ({"features": ["x0", "x0"]}, "features: must differ, got 'x0' twice"),
        ({"features": "x0"}, r"features: must be a list of columns, got 'x0'; say features=\['x0'\]"),
        ({"features": []}, "features: must be at least one column, got none"),
        ({"classes": []}, r"classes: must be different labels, at least one, got \[\]"),
        ({"classes": [0, 1, 1]}, r"classes: must be different labels, at least one, got \[0, 1, 1\]"),
        ({"classes": 3}, "classes: must be a list of the labels that occur, got 3"),
        ({"classes": "012"}, "classes: must be a list of the labels that occur, got '012'"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, options, message):
    folder = folder_of(tmp_path / "people", [FIRST, SECOND])
    with pytest.raises(DataError, match=message):
        oar.Population.from_parquet(folder, **({"target": "label"} | options))


# People


def spoilt(column, value, row=450):
    """Return the two tables, of which the second holds a value that cannot be."""
    values = TABLE.column(column).to_pylist()
    values[row] = value
    table = with_column(TABLE, column, values)
    return [table.slice(0, 300), table.slice(300)]


@pytest.mark.parametrize("solve", [by_centroids, by_softmax])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "x2",
            np.nan,
            r"features: must be finite, got nan in .*01\.parquet, row group 1, row 50, feature 'x2'; drop",
        ),
        (
            "x2",
            np.inf,
            r"features: must be finite, got inf in .*01\.parquet, row group 1, row 50, feature 'x2'; drop",
        ),
        (
            "x1",
            None,
            r"features: must be finite, got 1 missing values of 'x1' in .*, row group 1, the first in row 50; drop or",
        ),
        ("label", None, r"labels: must not be missing, got 1 missing values of 'label' in .*01\.parquet, row group 1"),
    ],
)
def test_values_that_cannot_be_are_found_where_they_are(tmp_path, solve, column, value, message):
    people = in_folder(tmp_path, spoilt(column, value), 100)
    with pytest.raises(DataError, match=message):
        solve(people)


@pytest.mark.parametrize(
    ("value", "told"), [(-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf"), (None, "1 missing values")]
)
def test_weights_that_cannot_be_are_found(tmp_path, value, told):
    weights = [1.0] * 600
    weights[450] = value
    table = TABLE.append_column("weight", pyarrow.array(weights))
    people = in_folder(tmp_path, [table.slice(0, 300), table.slice(300)], weights="weight")
    with pytest.raises(DataError, match=rf"weights: must be finite.*, got {re.escape(told)}.* in .*01\.parquet"):
        by_centroids(people)


def test_a_class_that_weighs_nothing_is_refused(tmp_path):
    people = in_folder(tmp_path, [TABLE.append_column("weight", pyarrow.array((LABELS != 1) * 1.0))], weights="weight")
    with pytest.raises(
        DataError, match="weights: every class needs some weight to be fitted, got a total of 0 for class 1"
    ):
        by_centroids(people)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_values_to_be_regressed_must_be_finite(tmp_path, value):
    values = FEATURES[:, 0].copy()
    values[450] = value
    table = table_of(FEATURES, values)
    people = in_folder(tmp_path, [table.slice(0, 300), table.slice(300)])
    problem = asked(people, oar.models.Ridge(1e-2), QUERY, 0.5)
    with pytest.raises(DataError, match=rf"labels: must be finite, got {value} in .*01\.parquet, row group 0, row 150"):
        oar.collective(problem)


def test_words_are_not_regressed(tmp_path):
    people = in_folder(tmp_path, [with_column(TABLE, "label", np.array(["a", "b", "c"])[LABELS])])
    with pytest.raises(DataError, match="labels: must be numbers to be regressed by ridge"):
        oar.collective(asked(people, oar.models.Ridge(1e-2), QUERY, 0.5))


@pytest.mark.parametrize("solve", [by_centroids, by_softmax])
def test_a_label_that_is_none_of_the_classes_is_named(tmp_path, solve):
    people = in_folder(tmp_path, [FIRST, with_column(SECOND, "label", np.full(300, 7))], classes=[0, 1, 2])
    with pytest.raises(DataError, match=r"labels: must be one of the classes 0, 1, 2, got 7\. It is in .*01\.parquet"):
        solve(people)


def test_classes_that_nobody_has(tmp_path):
    people = in_folder(tmp_path, [FIRST, SECOND], classes=[0, 1, 2, 9])
    for solve in (by_centroids, by_softmax):
        with pytest.raises(DataError, match="every class needs some weight to be fitted, got none for class 9"):
            solve(people)


def test_arrays_that_do_not_go_together_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", FEATURES)
    for arguments, message in (
        ((FEATURES[0], LABELS), "features: must be a two-dimensional array"),
        ((FEATURES, LABELS[:-1]), "labels: must be one for each of the 600 people"),
        ((FEATURES, LABELS, np.ones(3)), "weights: must be one for each of the 600 people"),
        ((FEATURES[:0], LABELS[:0]), "people: must be at least one, got these arrays with none"),
    ):
        with pytest.raises(DataError, match=message):
            oar.Population.from_memmap(*arguments)
    with pytest.raises(DataError, match="names: must be one for each of the 3 features, got 2"):
        oar.Population.from_memmap(tmp_path / "rows.npy", LABELS, names=["a", "b"])
    words = oar.Population.from_memmap(FEATURES.astype(str), LABELS)
    with pytest.raises(DataError, match="features: must be real numbers, got an array of type <U"):
        by_centroids(words)


# What needs everybody at once


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return in_folder(tmp_path_factory.mktemp("parts"), [FIRST, SECOND])


@pytest.mark.parametrize("name", ["features", "labels"])
def test_there_are_no_arrays_of_everybody(people, name):
    with pytest.raises(
        OptionError, match=r"people: .* needs everybody in memory, got .*people.* use people\.loaded\(\)"
    ):
        getattr(people, name)
    np.testing.assert_array_equal(getattr(people.loaded(), name), FEATURES if name == "features" else LABELS)


SOFTMAX = oar.SoftmaxRegression(1e-2)


@pytest.mark.parametrize(
    ("model", "query", "action", "options"),
    [
        (SOFTMAX, oar.Query(QUERY, 1), oar.Relabel(most=3), {}),
        (SOFTMAX, oar.Query(QUERY, 1), oar.Withhold(most=3), {}),
        (oar.NearestCentroid(), oar.Query(QUERY, 1), oar.Withhold(most=3), {}),
        (SOFTMAX, oar.Query(QUERY, 1), oar.Perturb(0.1, participants=oar.Best(5)), {}),
        (oar.SoftmaxRegression(0.0), oar.Query(QUERY, 1), oar.Perturb(0.1), {}),
        (oar.models.LinearSVM(1e-2), oar.Query(QUERY, 1), oar.Perturb(0.1), {}),
        (oar.models.MLP(l2=1e-2), oar.Query(QUERY, 1), oar.Perturb(0.1), {}),
    ],
)
def test_questions_that_need_memory_say_so(people, model, query, action, options):
    with pytest.raises(OptionError, match=r"in parts|needs everybody in memory"):
        oar.collective(oar.Problem(people, model, query, action, **options))


@pytest.mark.parametrize(
    "ask",
    [
        lambda problem: oar.minimal_budget(problem),
        lambda problem: oar.minimal_coalition(problem),
        lambda problem: oar.collective(problem, solver=ProjectedGradient(restarts=3)),
        lambda problem: oar.collective(problem, signal="unrolled"),
        lambda problem: oar.collective(problem, solver=ONE_STEP).plan.moves(),
        lambda problem: oar.collective(problem, solver=ONE_STEP).plan.card(),
    ],
)
def test_other_questions_say_so_too(people, ask):
    with pytest.raises(OptionError, match=r"people in parts|in memory"):
        ask(asked(people, SOFTMAX, QUERY))


def test_tables_limits_are_for_tables(people):
    action = oar.Perturb(0.1, limits=oar.Limits())
    with pytest.raises(DataError, match="limits: are for people with a schema"):
        oar.collective(oar.Problem(people, SOFTMAX, oar.Query(QUERY, 1), action))


# Disks


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("solve", [by_centroids, by_softmax])
def test_a_full_disk_while_moves_are_written_and_the_rest_afterwards(tmp_path, monkeypatch, solve):
    plan = solve(in_folder(tmp_path, [FIRST, SECOND], 150)).plan
    plan.write_moves(tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        fill_the_disk(patch, 3)
        told = (
            r"cannot write .*part-00000\d\.parquet: No space left on device.* the same folder goes on with the others"
        )
        with pytest.raises(StorageError, match=told):
            plan.write_moves(tmp_path / "moves")
    there = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "moves").iterdir()}
    assert 1 <= len(there) < 4
    assert all(re.fullmatch(r"part-00000\d\.parquet", name) for name in there)
    assert len(plan.write_moves(tmp_path / "moves")) == 4
    assert {
        name: (tmp_path / "moves" / name).stat().st_mtime_ns for name in there
    } == there  # these were not written again
    np.testing.assert_array_equal(moves_in(tmp_path / "moves"), moves_in(tmp_path / "undisturbed"))


def test_what_a_killed_run_left_behind_is_removed(tmp_path):
    plan = by_centroids(in_folder(tmp_path, [FIRST, SECOND])).plan
    (first, second) = plan.write_moves(tmp_path / "moves")
    whole = first.read_bytes()
    left, own = tmp_path / "moves" / unfinished_name(first.name, 0), tmp_path / "moves" / ".part-000000.parquet.x7f_k2"
    for one in (left, own):
        one.write_bytes(whole[:100])
        os.utime(one, (0, 0))
    first.write_bytes(whole[: len(whole) // 2])
    assert plan.write_moves(tmp_path / "moves") == [first, second]
    assert sorted(os.listdir(tmp_path / "moves")) == [own.name, first.name, second.name]
    assert first.read_bytes() == whole


def test_a_folder_of_another_plan_is_refused(tmp_path):
    people = in_folder(tmp_path, [FIRST, SECOND])
    by_centroids(people).plan.write_moves(tmp_path / "moves")
    before = {path.name: path.read_bytes() for path in (tmp_path / "moves").iterdir()}
    other = oar.collective(asked(people, oar.NearestCentroid(), QUERY, 2)).plan
    with pytest.raises(
        StorageError, match=r"holds part-000000\.parquet, which is not of this plan; choose an empty or a new folder"
    ):
        other.write_moves(tmp_path / "moves")
    with pytest.raises(StorageError, match=r"holds 00\.parquet, which is not of this plan"):
        other.write_moves(tmp_path / "people")
    assert {path.name: path.read_bytes() for path in (tmp_path / "moves").iterdir()} == before


def test_a_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_text("here already")
    plan = by_centroids(in_folder(tmp_path, [TABLE])).plan
    for place in (tmp_path / "file", tmp_path / "file" / "moves"):
        with pytest.raises(StorageError, match="cannot write to .*file.*Choose a folder you can write to"):
            plan.write_moves(place)


def test_scratch_on_a_full_disk_says_where_and_how_much(monkeypatch, tmp_path):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = scratch.Scratch("full", 0)
    with monkeypatch.context() as patch:
        patch.setattr(scratch.os, "replace", full)
        with pytest.raises(StorageError, match=r"is full: people in parts need .* set TMPDIR to a larger"):
            kept.write("moves", "key", np.zeros((5, 2)))
    assert [path.name for path in scratch.folder_of("full").iterdir()] == [".oar-scratch"]  # whose folder it is
    scratch.clear("full")


def test_a_disk_that_takes_no_more_ends_the_solve_and_leaves_nothing(tmp_path):
    """A process that may not write large files: what a solve keeps on disk does not fit."""
    folder_of(tmp_path / "people", [table_of(*blobs(40_000)[:2])])
    program = """
        import resource, sys
        import oar
        from oar.errors import StorageError
        people = oar.Population.from_parquet("people", "label")
        problem = oar.Problem(people, oar.SoftmaxRegression(1e-2), oar.Query([0.1, 0.2, 0.3], 1), oar.Perturb(0.3))
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        try:
            oar.collective(problem)
        except StorageError as error:
            print(error)
    """
    (tmp_path / "scratch").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"{tmp_path / 'scratch'} is full: people in parts need " in ran.stdout
    assert list((tmp_path / "scratch").rglob("*")) == []
