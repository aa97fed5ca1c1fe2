"""The store: what it refuses, and whose cell is whose."""

import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from support.study_problems import QUERIES, people, problem

import oar
from oar.people import Population
from oar.plans.fingerprints.behaviour import people_digest
from oar.studies.cells import Cell
from oar.studies.store import leases
from oar.studies.store.database import FORMAT, Store

CELLS = [Cell("m", "q", 0.1 * number, 1.0, None) for number in range(4)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def study(path):
    return oar.study(problem(), budgets=[0.2, 0.6], store=path)


def made(path):
    with Store(path, create=True) as store:
        with store.founding() as known:
            known["x"] = 1
        store.add(CELLS)


def test_it_is_in_wal_mode_and_says_what_it_is(study, path):
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    meta = {name: json.loads(value) for name, value in connection.execute("SELECT * FROM meta")}
    connection.close()
    assert (meta["format"], meta["version"]) == (FORMAT, oar.__version__)
    assert set(meta["fingerprint"]) == {"kind", "people", "action", "solver", "models", "queries"}


def test_one_of_a_newer_version_is_refused(study, path):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    for refused in (lambda: oar.results.Study.open(path), lambda: oar.study(problem(), store=path)):
        with pytest.raises(
            oar.errors.StorageError, match=f"format {FORMAT + 1}, of a newer version of oar.*upgrade oar"
        ):
            refused()


def test_what_is_no_study_is_refused(path, tmp_path):
    with pytest.raises(oar.errors.StorageError, match="does not exist"):
        oar.results.Study.open(path)
    assert not path.exists()
    path.write_text("people,approved\n" * 100)
    with pytest.raises(oar.errors.StorageError, match="damaged or is none"):
        oar.results.Study.open(path)
    with pytest.raises(oar.errors.StorageError, match="damaged or is none"):
        oar.study(problem(), store=path)
    assert path.read_text() == "people,approved\n" * 100
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(oar.errors.StorageError, match="another kind of database"):
        oar.study(problem(), store=other)
    assert other.read_bytes() == before
    with pytest.raises(oar.errors.StorageError, match="the folder"):
        oar.study(problem(), store=tmp_path)


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    for path in (tmp_path / "mistyped" / "folder" / "x.db", tmp_path / "file" / "x.db"):
        (tmp_path / "file").touch()
        with pytest.raises(oar.errors.StorageError, match=r"^store: must be .* got .*x\.db, .* is no folder; make it"):
            oar.study(problem(), store=path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_damaged_one_is_refused(study, path):
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(oar.errors.StorageError, match="damaged or is none.*restore a copy"):
        oar.study(problem(), budgets=[0.2, 0.6], store=path)


def test_an_empty_file_as_a_kill_may_leave_it_is_a_new_one(path):
    path.touch()
    with pytest.raises(oar.errors.StorageError, match="is empty; run the study first"):
        oar.results.Study.open(path)
    assert oar.study(problem(), store=path).counts["done"] == 1


def changed_people():
    features = problem().people.features.copy()
    features[17, 1] += 1e-12
    return oar.Population(features, problem().people.labels)


@pytest.mark.parametrize(
    ("other", "settings", "part"),
    [
        ({"people": changed_people()}, {}, "people"),
        ({"people": oar.Population(problem().people.features, problem().people.labels[::-1])}, {}, "people"),
        ({"people": people(weights=np.full(60, 2.0))}, {}, "people"),
        ({"action": oar.Perturb(0.5, norm=1)}, {}, "action"),
        ({"action": oar.Perturb(0.5, participants=np.arange(60) < 50)}, {}, "action"),
        ({"action": oar.Perturb(0.5, participants=0.5, seed=4)}, {}, "action"),  # whose draws others would have
        ({"keep": oar.Keep(changed=0.2)}, {}, "action"),
        ({"query": oar.Query([0.7, 0.81], goal="yes")}, {}, "query '0'"),
        ({"query": oar.Query([0.7, 0.8], goal="no")}, {}, "query '0'"),
        ({}, {"solver": "paper"}, r"solver \(auto.* then, paper.* now\)"),
        ({}, {"models": {"m": oar.SoftmaxRegression(l2=0.2)}}, "model 'm' .*l2=0.1.*l2=0.2"),
    ],
)
def test_a_changed_problem_is_refused_with_what_differs(path, other, settings, part):
    cells = [{"model": "nearest-centroid"}]
    given = {"models": {"nearest-centroid": oar.NearestCentroid(), "m": oar.SoftmaxRegression(l2=0.1)}, "cells": cells}
    first = oar.study(problem(), store=path, **given).table()
    with pytest.raises(oar.errors.StorageError, match=f"fingerprint differs in {part}"):
        oar.study(replace(problem(), **other), store=path, **(given | {"cells": None} | settings))
    assert oar.results.Study.open(path).table().equals(first)


LABELS = (0.1234561, 0.1234564)


@pytest.mark.parametrize(
    ("model", "one", "other"),
    [
        (oar.models.Ridge(), oar.Query([0.7, 0.8], 1_000_001.0, within=1.5), {"goal": 1_000_004.0}),
        (oar.models.Ridge(), oar.Query([0.7, 0.8], 1.23456789, within=1.5), {"goal": 1.23456999}),
        (oar.models.Ridge(), oar.Query([0.7, 0.8], 1.0, within=1.5), {"goal": np.nextafter(1.0, 2.0)}),
        (oar.models.Ridge(), oar.Query([0.7, 0.8], oar.Between(1.0000001, 2)), {"goal": oar.Between(1.0000009, 2)}),
        (oar.models.Ridge(), oar.Query([0.7, 0.8], oar.Between(1, 2)), {"goal": oar.Between(1, 2.0000001)}),
        (oar.NearestCentroid(), oar.Query([0.7, 0.8], LABELS[0]), {"goal": LABELS[1]}),
        (oar.NearestCentroid(), oar.Query([[0.7, 0.8], [0.1, 0.2]], [*LABELS]), {"goal": [*LABELS[::-1]]}),
        (oar.SoftmaxRegression(), oar.Query([0.7, 0.8], LABELS[0], probability=0.5), {"probability": 0.5000000001}),
    ],
)
def test_goals_that_differ_in_a_late_digit_are_other_goals(path, not_asked, model, one, other):
    everyone = oar.Population(problem().people.features, np.repeat(LABELS, 30))
    first = oar.Problem(everyone, model, one, oar.Perturb(0.5))
    oar.study(first, store=path, solver=not_asked)
    oar.study(replace(first, query=replace(one, goal=one.goal)), store=path, solver=not_asked)
    with pytest.raises(oar.errors.StorageError, match="fingerprint differs in query '0'"):
        oar.study(replace(first, query=replace(one, **other)), store=path, solver=not_asked)


def test_more_of_the_same_is_welcome(study, path):
    later = oar.study(problem(budget=9.0), budgets=[0.4], queries={"more": QUERIES["far"]}, store=path).table()
    assert later["query"].tolist() == ["0", "0", "more"]


def test_the_fingerprint_of_people_does_not_depend_on_chunks(monkeypatch):
    whole = people_digest(people())
    chunks = Population.chunks
    monkeypatch.setattr(Population, "chunks", lambda self: chunks(self, 7))
    assert people_digest(people()) == whole
    assert people_digest(people(seed=4)) != whole


def test_black_boxes_are_the_same_after_they_were_called(path):
    from sklearn.neighbors import KNeighborsClassifier

    box = oar.BlackBox(KNeighborsClassifier(3))
    asked = problem(box)
    for _ in range(2):  # the second time it has been trained and asked
        found = oar.study(asked, store=path, solver=oar.solvers.Surrogate())
    assert found.counts["done"] == 1


def test_a_cell_is_claimed_once(path):
    made(path)
    with Store(path) as one, Store(path) as other:
        assert one.take(CELLS[:3]) == CELLS[:3]
        assert other.take(CELLS) == CELLS[3:]
        assert other.release_dead() == 0  # whoever leases them lives: it is this process
        other.finish(CELLS[:1], [{"error": "not mine to say"}], 0.0)
        assert other.states()[CELLS[0].key] == "running"
        one.release()
        assert other.take(CELLS) == CELLS[:3]


def dead_lease(**changes):
    return json.dumps(json.loads(leases.own_lease()) | changes, sort_keys=True)


@pytest.mark.parametrize(
    ("changes", "ago", "alive"),
    [
        ({}, 1e9, True),  # heartbeats do not matter where a process can be seen to live
        ({"born": "another boot/1"}, 0, False),  # another process has its number now
        ({"pid": 2**22 + 1, "born": None}, 0, False),
        ({"host": "elsewhere"}, 0, True),
        ({"host": "elsewhere"}, 2 * leases.LEASE, False),
        ({"host": "elsewhere"}, None, False),
        ({"born": None}, 0, True),
        ({"born": None}, 2 * leases.LEASE, False),
    ],
)
def test_leases_of_the_dead_are_given_back(path, changes, ago, alive):
    beat = None if ago is None else time.time() - ago
    lease = dead_lease(**changes)
    assert leases.lives(lease, beat) is alive
    made(path)
    with Store(path) as gone, Store(path) as other:
        gone.lease = lease
        gone.take(CELLS)
        gone._connection.execute("UPDATE cells SET heartbeat = ?", (beat,))
        assert other.release_dead() == (0 if alive else 4)
        assert other.take(CELLS) == ([] if alive else CELLS)
        if not alive:  # should it wake up after all, what it says comes too late
            gone.finish(CELLS, [{"error": "late"}] * 4, 0.0)
            assert set(other.states().values()) == {"running"}


def test_a_lease_that_cannot_be_read_is_dead():
    assert not leases.lives("", time.time())


def test_heartbeats_come_from_a_thread(path, monkeypatch):
    import oar.studies.store.database as stores

    monkeypatch.setattr(stores, "BEAT", 0.01)
    made(path)
    with Store(path) as store:
        store.take(CELLS)
        store._connection.execute("UPDATE cells SET heartbeat = 0")
        with store.beating():
            deadline = time.monotonic() + 10
            while store._one("SELECT max(heartbeat) FROM cells")[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
        assert store._one("SELECT max(heartbeat) FROM cells")[0] > 0


def test_a_cell_that_fails_says_why_and_others_go_on(path, monkeypatch):
    from oar.studies import work as works

    collective = works.collective

    def failing(asked, **given):
        if asked.allowance.budget == 0.2:
            raise oar.errors.NumericsError("model: no minimum; use a larger penalty.")
        return collective(asked, **given)

    monkeypatch.setattr(works, "collective", failing)
    found = oar.study(problem(), budgets=[0.2, 0.6], solver="paper", store=path)
    table = found.table()
    assert table["status"].tolist() == ["failed", "done"]
    assert table["error"].iloc[0] == "NumericsError: model: no minimum; use a larger penalty."
    assert found.success_rate()["cells"].tolist() == [1]


def test_trouble_of_the_machine_is_no_answer(path, monkeypatch):
    from oar.studies import work as works

    def failing(asked, **given):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(works, "collective", failing)
        with pytest.raises(MemoryError):
            oar.study(problem(), solver="paper", store=path)
    assert oar.results.Study.open(path).counts["pending"] == 1
    assert oar.study(problem(), solver="paper", store=path).counts["done"] == 1


def test_a_full_disk_is_told(path):
    made(path)
    with Store(path) as store:
        store._connection.execute("PRAGMA max_page_count = 6")
        many = [Cell("m" * 500, "q", 0.1 * number, 1.0, None) for number in range(100)]
        with pytest.raises(oar.errors.StorageError, match="disk is full. Make room"):
            store.add(many)
        assert len(store.states()) == 4


def test_several_may_begin_at_once(tmp_path):
    def begin(path, together):
        together.wait()
        with Store(path, create=True) as store:
            with store.founding() as known:
                known.setdefault("x", 1)
            store.add(CELLS)
            return sum(len(store.take([cell])) for cell in CELLS)

    for number in range(25):
        together = threading.Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            begun = [pool.submit(begin, tmp_path / f"{number}.db", together) for _ in range(4)]
            assert sum(one.result() for one in begun) == len(CELLS)
