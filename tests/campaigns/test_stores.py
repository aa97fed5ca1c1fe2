"""The campaign against stores, in short: a case of every kind, and some more."""

import json
import os
import sqlite3
from contextlib import closing

import pytest
from support.study_problems import problem

import oar
from oar.studies.store import leases
from oar.studies.store.database import Store

from . import stores


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return stores.undisturbed(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_stores_are_read_or_refused_in_one_line(seed, whole):
    damage, wrong = stores.attack(seed, whole)
    assert wrong is None, (damage, wrong)


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, ending):
    path = tmp_path / "study.db"
    if ending:
        oar.study(problem(), store=path)
    os.mkfifo(f"{path}{ending}")
    with stores.within(20), pytest.raises(oar.errors.StorageError, match="a pipe; "):
        oar.study(problem(), store=path)


def test_a_view_that_never_ends_is_refused(tmp_path):
    path = tmp_path / "study.db"
    oar.study(problem(), store=path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE cells")
        connection.execute(f"CREATE VIEW cells AS {stores.NEVER}")
    with stores.within(20), pytest.raises(oar.errors.StorageError, match="cells_1' is not as a study has it"):
        oar.results.Study.open(path)


def test_nobody_waits_for_a_process_that_has_not_the_store_open(tmp_path):
    path, other = tmp_path / "study.db", os.getppid()
    oar.study(problem(), store=path)
    claim = json.dumps(json.loads(leases.own_lease()) | {"pid": other, "born": leases._born(other)})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE cells SET status = 'running', claim = ?, heartbeat = 1e18", (claim,))
    with Store(path) as store:
        assert leases.lives(claim, 1e18)
        assert store.release_dead() == 1
    with stores.within(20):
        assert oar.study(problem(), store=path).counts["done"] == 1
