"""Files that change while people are known by them: nothing is mixed, and what was kept is not used for other data."""

import os
import pickle

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.disks import keep_no_time_of_changes

import oar
from oar.errors import DataError
from oar.people.parts import parquet as reading
from oar.streaming.scratch import Scratch, clear

LABELS = np.arange(2_000) % 2
COLUMNS = {"a": 1.0 + LABELS, "b": 100.0 + LABELS, "label": LABELS}


def write(path, order=("a", "b", "label"), rows=2_000, **other):
    columns = {**COLUMNS, **other}
    parquet.write_table(
        pyarrow.table({name: columns[name][:rows] for name in order}), path, compression="none", use_dictionary=False
    )


def centroids(people):
    return oar.NearestCentroid().fit(people).positions.tolist()


def asked(people):
    return oar.Problem(people, oar.NearestCentroid(), oar.Query([1.4, 100.0], goal=1), oar.Perturb(2.0))


def test_a_file_that_is_replaced_while_it_is_opened_is_read_whole_or_not_at_all(tmp_path, monkeypatch):
    path, other = tmp_path / "people.parquet", tmp_path / "other.parquet"
    write(path)
    write(other, ("b", "a", "label"))
    people = oar.Population.from_parquet(path, "label", features=["a", "b"])

    def late(descriptor, first=os.fstat):  # asked when the file has been opened, before its footer is read
        if other.exists():
            os.replace(other, path)
        return first(descriptor)

    monkeypatch.setattr(os, "fstat", late)
    assert centroids(people) == [[1.0, 100.0], [2.0, 101.0]]
    assert not other.exists()


def test_a_footer_is_not_taken_for_that_of_another_file_of_the_same_size_and_time(tmp_path):
    path = tmp_path / "people.parquet"
    for order in (("a", "b", "label"), ("b", "a", "label")):
        write(path, order)
        os.utime(path, (1e9, 1e9))
        assert centroids(oar.Population.from_parquet(path, "label", features=["a", "b"])) == [
            [1.0, 100.0],
            [2.0, 101.0],
        ]


def test_sums_are_kept_for_the_files_that_they_are_of(tmp_path):
    path = tmp_path / "people.parquet"
    write(path)
    people = oar.Population.from_parquet(path, "label")
    problem = asked(people)
    before = oar.minimal_budget(problem).value
    write(path, a=COLUMNS["a"] + 4.0 * LABELS)
    fresh = oar.minimal_budget(asked(oar.Population.from_parquet(path, "label"))).value
    assert fresh != pytest.approx(before)
    for changed in (problem, asked(people)):
        assert oar.minimal_budget(changed).value == pytest.approx(fresh, rel=1e-12)
    result = oar.collective(problem)
    assert result.loss == pytest.approx(result.proposal.claimed_loss, rel=1e-9)


def test_sums_are_not_sent_along(tmp_path):
    path = tmp_path / "people.parquet"
    write(path)
    people = oar.Population.from_parquet(path, "label")
    centroids(people)
    assert pickle.loads(pickle.dumps(people))._sums == {}


def test_arrays_that_are_written_to_are_read_again():
    rng, features = np.random.default_rng(0), np.zeros((200, 2))
    labels = np.arange(200) % 2
    features[:] = rng.normal(size=features.shape) + 40.0 * labels[:, None]
    people = oar.Population.from_memmap(features, labels)

    def needed():
        query, allowed = oar.Query([1.0, 1.0], goal=1), oar.Perturb(2.0)
        return oar.minimal_budget(oar.Problem(people, oar.NearestCentroid(), query, allowed)).value

    far = needed()
    features -= 36.0 * labels[:, None]
    assert needed() < far / 2


def test_what_a_fit_returns_may_be_changed(tmp_path):
    write(tmp_path / "people.parquet")
    people = oar.Population.from_parquet(tmp_path / "people.parquet", "label")
    first = oar.NearestCentroid().fit(people)
    first.class_weights[:] *= 2
    first.positions[:] *= 2
    assert centroids(people) == [[1.0, 100.0], [2.0, 101.0]]


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)], ids=lambda model: model.name)
def test_a_file_that_has_become_shorter_is_named(tmp_path, model):
    path = tmp_path / "people.parquet"
    write(path)
    people = oar.Population.from_parquet(path, "label", classes=[0, 1])
    write(path, rows=100)
    with pytest.raises(DataError, match=r"^path: files must stay as they are, got .*\.parquet.*2,000 people; make"):
        oar.collective(oar.Problem(people, model, oar.Query([1.4, 100.0], goal=1), oar.Perturb(2.0)))


def test_whole_numbers_beyond_those_of_64_bits_with_a_sign_are_classes(tmp_path):
    labels = np.repeat(np.array([5, 2**63, 2**63 + 1], dtype=np.uint64), 3)
    features = np.arange(9.0)
    parquet.write_table(pyarrow.table({"a": features, "label": labels}), tmp_path / "people.parquet")
    people = oar.Population.from_parquet(tmp_path / "people.parquet", "label")
    assert centroids(people) == [[1.0], [4.0], [7.0]]
    assert people.classes == (5, 2**63, 2**63 + 1)
    assert oar.Population([[one] for one in features], [int(label) for label in labels]).classes == people.classes


def test_addresses_and_arrays_are_refused_with_another_way(tmp_path):
    with pytest.raises(DataError, match=r"path: .* got the address 's3://bucket/people'; mount it, or let Dask"):
        oar.Population.from_parquet("s3://bucket/people", "label")
    write(tmp_path / "people.parquet")
    with pytest.raises(DataError, match=r"weights: must be the name of a column, got .* ndarray; .*from_memmap"):
        oar.Population.from_parquet(tmp_path / "people.parquet", "label", weights=np.ones(2_000))


def test_trials_from_one_place_do_not_push_it_out():
    """A line search that tries several steps from the same moves must find these again, and not walk there anew."""
    scratch, moves = Scratch("trials", 0), np.ones((3, 2))
    try:
        scratch.write("moves", "here", moves)
        for trial in "abc":
            scratch.write("moves", trial, 2 * moves, beside="here")
            assert scratch.read("moves", "here", moves.shape) is not None
        assert scratch.read("moves", "b", moves.shape) is None
        scratch.write("moves", "d", moves, beside="c")
        assert scratch.read("moves", "c", moves.shape) is not None
        assert scratch.read("moves", "here", moves.shape) is None
    finally:
        clear("trials")


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)], ids=lambda model: model.name)
def test_moves_of_people_who_have_changed_since_the_plan_are_not_written(tmp_path, model):
    path = tmp_path / "people.parquet"
    write(path, a=COLUMNS["a"] + np.sin(np.arange(2_000)))
    people = oar.Population.from_parquet(path, "label")
    asked = oar.Problem(people, model, oar.Query([1.4, 100.0], goal=1), oar.Perturb(0.1))
    quick = oar.solvers.ProjectedGradient(max_steps=2) if model.name == "softmax-regression" else "auto"
    plan = oar.collective(asked, solver=quick).plan
    files = plan.write_moves(tmp_path / "moves")
    assert plan.write_moves(tmp_path / "moves") == files  # as often as one likes
    write(path, a=COLUMNS["a"] + np.cos(np.arange(2_000)))  # as many people, but others
    for folder in ("moves", "others"):
        with pytest.raises(DataError, match=r"from the plan to its moves, got .*people\.parquet, which has changed"):
            plan.write_moves(tmp_path / folder)
    assert not list((tmp_path / "others").glob("*"))


def test_a_file_without_people_has_no_say(tmp_path):
    """Writers do not know the types of nothing."""
    write(tmp_path / "b.parquet")
    alone = centroids(oar.Population.from_parquet(tmp_path, "label"))
    for kind in (pyarrow.float64(), pyarrow.null(), pyarrow.string()):
        empty = pyarrow.table({name: pyarrow.array([], kind) for name in ("a", "b", "label")})
        parquet.write_table(empty, tmp_path / "a.parquet")
        assert centroids(oar.Population.from_parquet(tmp_path, "label")) == alone


def test_a_number_that_is_not_finite_is_told_with_its_column(tmp_path):
    write(tmp_path / "people.parquet", b=np.where(np.arange(2_000) == 1_234, np.inf, COLUMNS["b"]))
    with pytest.raises(DataError, match=r"must be finite, got inf in .*row group 0, row 1234, feature 'b';"):
        centroids(oar.Population.from_parquet(tmp_path, "label"))


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)], ids=lambda model: model.name)
def test_a_file_of_the_same_size_and_time_is_not_taken_for_the_one_that_was_planned_for(tmp_path, model):
    path = tmp_path / "people.parquet"
    write(path)
    people = oar.Population.from_parquet(path, "label", classes=[0, 1])
    plan = oar.collective(oar.Problem(people, model, oar.Query([1.4, 100.0], goal=1), oar.Perturb(2.0))).plan
    oar.audit(plan)
    about = path.stat()
    write(path, a=COLUMNS["a"] + 0.5 * LABELS)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    for again in (lambda: oar.audit(plan), lambda: plan.write_moves(tmp_path / "moves")):
        with pytest.raises(DataError, match=r"path: files must stay as they are .*people\.parquet, which has changed"):
            again()


def in_place(path, content):
    """Write other bytes into a file, of which size, inode and times of reading and writing stay as they were."""
    about = path.stat()
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)], ids=lambda model: model.name)
@pytest.mark.parametrize("change", ["values", "columns"])
def test_files_are_known_by_their_content_where_no_time_tells(tmp_path, monkeypatch, model, change):
    """On some disks, or by another clock, the time of the last change is as it was, too."""

    keep_no_time_of_changes(monkeypatch)

    def told(about):
        return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns

    path, other = tmp_path / "people.parquet", tmp_path / "other.parquet"
    write(path)
    write(other, ("b", "a", "label") if change == "columns" else ("a", "b", "label"), a=COLUMNS["a"] + 0.5 * LABELS)
    if change == "columns":  # the same bytes under other names: a footer of the same length
        other.write_bytes(
            path.read_bytes().replace(b"\x01a", b"\x01?").replace(b"\x01b", b"\x01a").replace(b"\x01?", b"\x01b")
        )
    people = oar.Population.from_parquet(path, "label", features=["a", "b"], classes=[0, 1])
    quick = oar.solvers.ProjectedGradient(max_steps=2) if model.name == "softmax-regression" else "auto"
    asked = oar.Problem(people, model, oar.Query([1.4, 100.0], goal=1), oar.Perturb(2.0))
    plan = oar.collective(asked, solver=quick).plan
    oar.audit(plan)
    before = told(path.stat())
    in_place(path, other.read_bytes())
    assert told(path.stat()) == before
    for again in (lambda: oar.audit(plan), lambda: plan.write_moves(tmp_path / "moves")):
        with pytest.raises(
            DataError, match=r"files must stay as they are .*people\.parquet, row group 0, which has changed"
        ):
            again()
    assert not list((tmp_path / "moves").glob("*"))
    fresh = oar.Population.from_parquet(path, "label", features=["a", "b"], classes=[0, 1])
    assert centroids(fresh) == ([[100.0, 1.0], [101.0, 2.0]] if change == "columns" else [[1.0, 100.0], [2.5, 101.0]])


def test_contents_are_looked_at_once_a_plan_and_once_an_audit(tmp_path, monkeypatch):
    looked, whole = [], reading.ParquetPart.content

    def counted(part):
        looked.append(part.name)
        return whole(part)

    monkeypatch.setattr(reading.ParquetPart, "content", counted)
    write(tmp_path / "people.parquet")
    people = oar.Population.from_parquet(tmp_path / "people.parquet", "label")
    problem = oar.Problem(people, oar.SoftmaxRegression(1e-2), oar.Query([1.4, 100.0], goal=1), oar.Perturb(2.0))
    plan = oar.collective(problem, solver=oar.solvers.ProjectedGradient(max_steps=2)).plan
    assert people.passes > 2
    assert len(looked) == 2
    plan.write_moves(tmp_path / "moves")
    assert len(looked) == 3
