"""Studies on a Dask cluster of processes."""

import os
import threading
import time

import pytest
from support.people_in_parts import blobs
from support.study_problems import QUERIES, QUICK, problem, run_small

import oar
from oar.studies.cells import Cell
from oar.studies.executors.executors import DaskExecutor
from oar.studies.work import Work

distributed = pytest.importorskip("distributed")
LONG = 600.0  # seconds for what happens at once on an idle machine
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, from threads and ports that are not ours


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def test_a_cluster_answers_as_this_process_does(cluster, tmp_path):
    axes = {"budgets": [0.2, 0.6], "participation": [0.5, 1.0], "seeds": [0, 1], "queries": QUERIES}
    with distributed.Client(cluster) as client:
        far = run_small(tmp_path / "far.db", client=client)
        far_sums = oar.study(problem(), **axes, store=tmp_path / "far_sums.db", client=client)
    assert far.table().equals(run_small(tmp_path / "near.db", workers=1).table())
    near_sums = oar.study(problem(), **axes, store=tmp_path / "near_sums.db", workers=1)
    assert far_sums.table().equals(near_sums.table())


def test_arrays_are_aligned_on_workers_too(cluster):
    """NumPy adds up those that are not in another order, and last bits would depend on who answers."""

    def aligned_there():
        from oar.studies.executors import executors as executor

        return [work.problem.people.features.flags.aligned for work in executor._received.values()]

    features, labels, query = blobs(60)
    asked = oar.Problem(
        oar.Population(features, labels), oar.SoftmaxRegression(), oar.Query(query, goal=1), oar.Perturb(0.1)
    )
    work = Work(asked, {"model": asked.model}, {"0": asked.query}, QUICK)
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        executor = DaskExecutor(work, client)
        (unit,) = work.units([Cell("model", "0", 0.1, 1.0, None)])
        assert executor.start(unit).result(LONG)[0]["loss"] > 0
        assert [each for held in client.run(aligned_there).values() for each in held] == [True]
        executor.stop()
        assert not any(client.run(aligned_there).values())  # and nothing stays


def test_a_worker_that_dies_costs_nothing_but_time(cluster, tmp_path):
    once = tmp_path / "once"
    asked = problem(oar.SoftmaxRegression(), participants=dies_once(str(once)))
    once.touch()  # here it must not
    expected = oar.study(asked, budgets=[0.1, 0.2, 0.3], solver=QUICK, store=tmp_path / "near.db").table()
    asked = problem(oar.SoftmaxRegression(), participants=dies_once(str(once)))
    once.unlink()
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        found = oar.study(asked, budgets=[0.1, 0.2, 0.3], solver=QUICK, store=tmp_path / "far.db", client=client)
    assert once.exists()
    assert found.table().equals(expected)


def test_a_problem_that_its_only_holder_took_along_is_sent_again(cluster):
    """Copies may not have reached all workers, as where these are busy, when the one that has it dies."""
    asked = problem(oar.SoftmaxRegression())
    work = Work(asked, {"model": asked.model}, {"0": asked.query}, QUICK)
    (unit,) = work.units([Cell("model", "0", 0.1, 1.0, None)])
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=LONG)
        executor = DaskExecutor(work, client)
        client.cancel([executor._work], force=True)  # what the scheduler does with data that nobody has any more
        assert executor.start(unit).result(LONG)[0]["loss"] > 0
        executor.stop()


def dies_once(path):
    """Return participants, a function that ends the first worker which asks it."""

    def everyone(people):
        here = os.environ.get("OAR_TEST_HERE") == str(os.getpid())
        if not here:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))  # one of them, also where two ask at once
            except FileExistsError:
                pass
            else:
                os._exit(9)
        return people.features[:, 0] > -9

    return everyone


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setenv("OAR_TEST_HERE", str(os.getpid()))


def test_a_lost_cluster_is_told_and_what_is_done_is_kept(tmp_path):
    begun = tmp_path / "begun"
    asked = problem(oar.SoftmaxRegression(), participants=never_ends(str(begun)))
    short = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    )

    def close_once_begun():
        while not begun.exists():
            time.sleep(0.05)
        short.close(timeout=5)

    with distributed.Client(short.scheduler_address, timeout=2) as client:
        closing = threading.Thread(target=close_once_begun)
        closing.start()
        with pytest.raises(oar.errors.OARError, match="the Dask cluster did not finish.*run the same study again"):
            oar.study(asked, budgets=[0.1, 0.2], solver=QUICK, store=tmp_path / "study.db", client=client)
        closing.join()
    assert oar.results.Study.open(tmp_path / "study.db").counts["pending"] == 2


def never_ends(path):
    def everyone(people):
        if os.environ.get("OAR_TEST_HERE") != str(os.getpid()):
            open(path, "w").close()
            time.sleep(600)
        return people.features[:, 0] > -9

    return everyone
