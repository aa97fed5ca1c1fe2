"""People in parts on real Dask clusters of processes: the same answers as here, also when a worker dies."""

import functools
import gc
import logging
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.disks import keep_no_time_of_changes
from support.people_in_parts import asked, blobs, folder_of, halves, moves_in, table_of

import oar
from oar.people.parts import dask_engine
from oar.people.parts.dask_engine import ONE_THREAD, DaskEngine
from oar.people.parts.part import Part
from oar.solvers import ProjectedGradient
from oar.streaming import SignalPath

pytest.importorskip("distributed")
from dask import array as dask_array
from dask import config as dask_config
from distributed import Client, LocalCluster

PEOPLE = 4_000
LONG = 600.0  # seconds for what happens at once on an idle machine
MODELS = {
    "centroid": oar.NearestCentroid(),
    "softmax": oar.SoftmaxRegression(1e-2),
    "ridge": oar.models.Ridge(1e-2),
}
SOLVERS = {"softmax": ProjectedGradient(max_steps=3), "ridge": ProjectedGradient(max_steps=3), "centroid": "auto"}
QUIET = {"distributed.logging": {"distributed": "critical"}, "distributed.comm.timeouts.connect": "10s"}


@pytest.fixture(scope="module")
def people_of():
    """Features, labels (classes, or for ridge regression values) and a query, for each model."""
    features, labels, query = blobs(PEOPLE)
    values = features @ [1.0, -0.5, 0.2] + 0.1 * labels
    return {
        "centroid": (features, labels, query),
        "softmax": (features, labels, query),
        "ridge": (features, values, query),
    }


@pytest.fixture(scope="module")
def here(people_of, tmp_path_factory):
    """What threads of this process find, with each model: the result, and everyone's moves."""
    found = {}
    for name, (features, labels, query) in people_of.items():
        folder = tmp_path_factory.mktemp(name)
        people = oar.Population.from_parquet(halves(folder / "people", features, labels, 1_000), "label")
        found[name] = solved(people, name, query, folder / "moves")
    return found


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A cluster of two processes, with a thread each."""
    with started_cluster(2, tmp_path_factory.mktemp("cluster")) as one, Client(one, set_as_default=False) as client:
        yield client


def started_cluster(workers, folder):
    with dask_config.set(QUIET):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            local_directory=str(folder),
            env=ONE_THREAD,
        )


def solved(people, name, query, folder):
    result = oar.collective(asked(people, MODELS[name], query), solver=SOLVERS[name])
    result.plan.write_moves(folder)
    return result, moves_in(folder)


def agree(found, expected):
    (result, moves), (known, theirs) = found, expected
    assert result.loss == pytest.approx(known.loss, rel=1e-10, abs=1e-12)
    assert result.audit.loss_before == pytest.approx(known.audit.loss_before, rel=1e-10)
    assert result.proposal.gap == pytest.approx(known.proposal.gap, abs=1e-10)
    assert result.passes == known.passes
    np.testing.assert_allclose(moves, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "rows"), [("softmax", 700), ("softmax", 2_000), ("ridge", 900), ("centroid", 450)])
def test_a_cluster_finds_what_this_process_finds(client, people_of, here, tmp_path, name, rows):
    features, labels, query = people_of[name]
    folder = halves(tmp_path / "people", features, labels, rows)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    agree(solved(people, name, query, tmp_path / "moves"), here[name])
    assert people.engine.traffic.received > 0


def test_dask_arrays_are_worked_on_where_they_are(client, people_of, here, tmp_path):
    features, labels, query = people_of["softmax"]
    chunked = dask_array.from_array(features, chunks=(1_000, 2)), dask_array.from_array(labels, chunks=1_700)
    people = oar.Population.from_dask(*chunked, client=client)
    agree(solved(people, "softmax", query, tmp_path / "moves"), here["softmax"])
    assert people.classes == (0, 1, 2)
    homes = client.who_has([part.held for part in people.parts])
    assert [people.engine._homes[start] for start in people.starts] == [
        homes[part.held.key][0] for part in people.parts
    ]


def test_dask_tables_with_labels_in_words_and_weights(client, people_of, tmp_path):
    import pandas
    from dask import dataframe

    features, labels, query = people_of["softmax"]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, PEOPLE)
    words = np.array(["first", "second", "third"])[labels]
    frame = pandas.DataFrame(features, columns=["a", "b", "c"]).assign(label=words, weight=weights)
    people = oar.Population.from_dask(dataframe.from_pandas(frame, npartitions=3), "label", "weight", client=client)
    assert people.names == ("a", "b", "c")
    there = oar.collective(asked(people, oar.NearestCentroid(), query, "second"))
    known = oar.collective(
        asked(oar.Population(frame[["a", "b", "c"]], words, weights), there.problem.model, query, "second")
    )
    assert there.loss == pytest.approx(known.loss, rel=1e-10)
    np.testing.assert_allclose(there.plan.directions, known.plan.directions, atol=1e-10)


def test_dask_tables_of_several_kinds_of_numbers(client, people_of):
    import pandas
    from dask import dataframe

    features, labels, query = people_of["softmax"]
    frame = pandas.DataFrame(features, columns=["a", "b", "c"]).assign(label=labels)
    mixed = frame.assign(b=frame["b"].round().astype("Int64"), c=frame["c"] > 0)
    people = oar.Population.from_dask(dataframe.from_pandas(mixed, npartitions=3), "label", client=client)
    there = oar.collective(asked(people, oar.NearestCentroid(), query))
    known = oar.Population(mixed[["a", "b", "c"]].astype(float), labels)
    assert there.loss == pytest.approx(oar.collective(asked(known, oar.NearestCentroid(), query)).loss, rel=1e-10)
    mixed.loc[7, "b"] = pandas.NA
    people = oar.Population.from_dask(dataframe.from_pandas(mixed, npartitions=3), "label", client=client)
    with pytest.raises(oar.errors.DataError, match="got nan in partition 0, row 7, feature 'b'"):
        oar.collective(asked(people, oar.SoftmaxRegression(), query))


def test_a_folder_of_small_files_that_dask_reads(tmp_path, client):
    """Dask joins small files, in another way for each choice of columns."""
    import pyarrow
    from dask import dataframe
    from pyarrow import parquet

    labels = np.arange(2_000) % 2
    for number in range(4):
        some = slice(500 * number, 500 * number + 500)
        columns = {"a": 1.0 + labels[some], "b": 100.0 + labels[some], "label": labels[some]}
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{number}.parquet")
    people = oar.Population.from_dask(dataframe.read_parquet(tmp_path), "label", client=client)
    assert people.size == 2_000
    assert oar.NearestCentroid().fit(people).positions.tolist() == [[1.0, 100.0], [2.0, 101.0]]


def test_workers_know_files_by_their_content(client, tmp_path, monkeypatch):
    keep_no_time_of_changes(monkeypatch)
    features, labels, query = blobs(400)
    folder = halves(tmp_path / "people", features, labels)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    plan = oar.collective(asked(people, MODELS["centroid"], query)).plan
    path = sorted(folder.rglob("*.parquet"))[-1]
    halves(tmp_path / "others", features + 1e-3, labels)
    other = (tmp_path / "others" / path.relative_to(folder)).read_bytes()
    about = path.stat()
    assert len(other) == about.st_size
    path.write_bytes(other)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    for again in (lambda: oar.audit(plan), lambda: plan.write_moves(tmp_path / "moves")):
        with pytest.raises(
            oar.errors.DataError, match=f"files must stay as they are .*{path.name}, .*which has changed"
        ):
            again()


# What is lost


def killing(people, monkeypatch, on_pass, kill):
    """Have somebody killed in the middle of a pass, when its first part has come back."""
    whole, passes = people.engine.map, [0]

    def map_and_kill(*arguments):
        passes[0] += 1
        for number, result in enumerate(whole(*arguments)):
            yield result
            if number == 0 and passes[0] == on_pass:
                kill()

    monkeypatch.setattr(people.engine, "map", map_and_kill)
    return passes


def test_the_only_worker_is_killed_and_takes_everything_along(people_of, here, tmp_path, monkeypatch):
    features, labels, query = people_of["softmax"]
    folder = halves(tmp_path / "people", features, labels, 1_000)
    monkeypatch.setattr(dask_engine, "LOOK", 1.0)
    monkeypatch.setattr(dask_engine, "PATIENCE", LONG)  # a busy machine takes its time to start another worker
    with started_cluster(1, tmp_path / "cluster") as cluster, Client(cluster, set_as_default=False) as client:
        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        (address, pid), *others = client.run(os.getpid).items()
        assert not others
        passes = killing(people, monkeypatch, 20, lambda: os.kill(pid, signal.SIGKILL))
        agree(solved(people, "softmax", query, tmp_path / "moves"), here["softmax"])
        assert passes[0] > 30
        assert address not in client.run(os.getpid)

        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        with pytest.raises(
            oar.errors.EngineError, match=r"tried on \d+ workers, and all of them died.*smaller row groups"
        ):
            list(people.mapped(lambda part, start: os._exit(1)))


@pytest.fixture
def processes(tmp_path):
    """A scheduler and two workers that nobody starts again, as processes; yields its address, and all three."""
    started, address = [], tmp_path / "scheduler.json"
    environment = os.environ | ONE_THREAD | {"DASK_LOGGING__DISTRIBUTED": "critical"}

    def start(*command):
        with open(tmp_path / f"{len(started)}.log", "wb") as log:
            started.append(subprocess.Popen([sys.executable, "-m", *command], env=environment, stdout=log, stderr=log))

    try:
        start(
            "distributed.cli.dask_scheduler",
            "--scheduler-file",
            address,
            "--port",
            "0",
            "--no-dashboard",
            "--host",
            "127.0.0.1",
        )
        for number in (1, 2):
            options = "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", str(number)
            start(
                "distributed.cli.dask_worker",
                "--scheduler-file",
                address,
                *options,
                "--local-directory",
                tmp_path / "scratch",
            )
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=30)


def test_a_lost_worker_is_done_without_and_a_lost_scheduler_is_told(processes, people_of, here, tmp_path, monkeypatch):
    features, labels, query = people_of["softmax"]
    address, (scheduler, *workers) = processes
    folder = halves(tmp_path / "people", features, labels, 1_000)
    with dask_config.set(QUIET), Client(scheduler_file=str(address), set_as_default=False, timeout=4) as client:
        client.wait_for_workers(2, timeout=LONG)
        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        killing(people, monkeypatch, 20, workers[0].kill)
        agree(solved(people, "softmax", query, tmp_path / "moves"), here["softmax"])
        assert len(client.scheduler_info()["workers"]) == 1

        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        killing(people, monkeypatch, 20, scheduler.kill)
        begun = time.monotonic()
        with pytest.raises(
            oar.errors.EngineError, match=r"connection to the Dask scheduler at .* was lost.*make a new Client"
        ):
            solved(people, "softmax", query, tmp_path / "other moves")
        with pytest.raises(oar.errors.EngineError, match="start the scheduler and its workers again"):
            people.loaded()
        assert time.monotonic() - begun < 120  # it does not hang
    assert not (tmp_path / "other moves").exists()


def test_workers_that_do_not_come_are_told(tmp_path, monkeypatch):
    features, labels, _ = blobs(100)
    folder = halves(tmp_path / "people", features, labels)
    monkeypatch.setattr(dask_engine, "PATIENCE", 0.3)
    monkeypatch.setattr(dask_engine, "LOOK", 0.3)
    with started_cluster(0, tmp_path / "cluster") as cluster, Client(cluster, set_as_default=False) as client:
        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        with pytest.raises(oar.errors.EngineError, match=r"must have a worker, got none within .*; start some"):
            people.loaded()
        never = client.submit(sum, [1, 2], pure=False)
        with pytest.raises(oar.errors.EngineError, match="must have a worker"):  # who are all gone while they work
            people.engine._received([(never, "nobody")])


def test_parts_stay_with_their_workers_and_new_ones_get_a_share(client):
    engine, parts, starts = DaskEngine(client), [Part()] * 12, list(range(0, 120, 10))
    two = engine._settled(parts, starts, {"a": 1, "b": 1})
    assert two == ["a", "b"] * 6
    assert engine._settled(parts[:1], starts[:1], {"a": 1, "b": 1}) == ["a"]
    three = engine._settled(parts, starts, {"a": 1, "b": 1, "c": 1})
    assert [three.count(one) for one in "abc"] == [4, 4, 4]
    assert all(new in (old, "c") for old, new in zip(two, three, strict=True))
    without = engine._settled(parts, starts, {"a": 1, "c": 2})
    assert [without.count(one) for one in "ac"] == [4, 8]
    assert all(new == old or old == "b" for old, new in zip(three, without, strict=True))


# What is sent


def test_what_a_pass_sends_does_not_depend_on_the_people(client, tmp_path):
    per_pass = []
    for size in (2_000, 8_000):
        features, labels, query = blobs(size)
        folder = halves(tmp_path / "people" / str(size), features, labels)
        people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
        training = asked(people, MODELS["softmax"], query).training()
        training._run("risk", SignalPath(), np.zeros(training.shape))  # by which workers know what all parts need
        before = oar.people.parts.part.Traffic(**vars(people.engine.traffic))
        training._run("risk", SignalPath(), np.ones(training.shape))
        one = people.engine.traffic.since(before)
        assert one.rounds == 1
        per_pass.append((one.sent, one.received))
    assert per_pass[0] == pytest.approx(per_pass[1], abs=20)  # numbers of people are a few digits longer
    assert all(0 < size < 5_000 for size in per_pass[1])


def test_the_proposal_says_what_was_sent(client, people_of, tmp_path):
    features, labels, query = people_of["softmax"]
    folder = halves(tmp_path / "people", features, labels)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    problem = asked(people, MODELS["softmax"], query)
    notes = [oar.collective(problem, solver=ProjectedGradient(max_steps=1)).proposal.note for _ in range(2)]
    sizes = [[float(size) for size in re.findall(r"[\d.]+(?= kB)", note)] for note in notes]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)  # of this solve, and not of those before
    assert "kB sent" in notes[0]
    assert "kB received" in notes[0]


def test_workers_forget_what_nobody_needs(client, people_of, tmp_path):
    features, labels, query = people_of["softmax"]
    folder = halves(tmp_path / "people", features, labels)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    training = asked(people, MODELS["softmax"], query).training()
    training._run("risk", SignalPath(), np.zeros(training.shape))
    (where,) = [one for spec, one in people.engine._sent.items() if spec is training.spec]
    key = where.key
    assert client.who_has()[key]
    del training, where
    gc.collect()
    deadline = time.monotonic() + 30
    while key in client.who_has() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert key not in client.who_has()


# What goes wrong


def test_a_part_that_cannot_be_read_is_named_from_afar(client, tmp_path):
    features, labels, query = blobs(300)
    folder = folder_of(tmp_path / "people", [table_of(features, labels)] * 2)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    (folder / "01.parquet").unlink()
    with pytest.raises(oar.errors.DataError, match=r"path: .*01\.parquet, row group 0 cannot be read"):
        oar.collective(asked(people, oar.NearestCentroid(), query))


def test_workers_that_lack_something_are_told(client, tmp_path, monkeypatch):
    features, labels, _ = blobs(100)
    folder = halves(tmp_path / "people", features, labels)
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    with pytest.raises(
        oar.errors.EngineError, match=r"got one without no_such_module; install 'oar-recourse\[dask,jax"
    ):
        list(people.mapped(functools.partial(__import__, "no_such_module")))
    monkeypatch.setattr(dask_engine, "installed", lambda: "99.0")
    people = oar.Population.from_parquet(folder, "label", engine="dask", client=client)
    with pytest.raises(
        oar.errors.EngineError, match=r"every worker must have oar-recourse 99\.0.*, got \d.* at tcp://"
    ):
        people.loaded()


def test_what_is_no_client_is_refused(client, tmp_path):
    with pytest.raises(oar.errors.DataError, match="client: must be a dask.distributed.Client, got str"):
        DaskEngine("tcp://127.0.0.1:8786")
    features, labels, _ = blobs(100)
    with pytest.raises(oar.errors.OptionError, match="client: is for engine='dask'"):
        oar.Population.from_parquet(halves(tmp_path / "people", features, labels), "label", client=client)
    with pytest.raises(
        oar.errors.OptionError, match=r"engine: must be one of 'local', 'dask', got 'das'\. Did you mean"
    ):
        oar.Population.from_parquet(tmp_path / "people", "label", engine="das")
    chunked = dask_array.from_array(features, chunks=50)
    with pytest.raises(oar.errors.DataError, match="labels: must be a Dask array like the features, got ndarray"):
        oar.Population.from_dask(chunked, labels, client=client)
    with pytest.raises(oar.errors.DataError, match="features: must be a Dask array"):
        oar.Population.from_dask(features, labels, client=client)
    for argument, wrong in (("labels", {"labels": chunked[:-3, 0]}), ("weights", {"weights": chunked[:-3, 0]})):
        with pytest.raises(oar.errors.DataError, match=f"{argument}: must be one for each of the"):
            oar.Population.from_dask(**{"features": chunked, "labels": chunked[:, 0], **wrong}, client=client)
    with pytest.raises(oar.errors.DataError, match="labels: must be one-dimensional"):
        oar.Population.from_dask(chunked, chunked, client=client)
    from dask import dataframe

    table = dataframe.from_dask_array(chunked, columns=["a", "b", "label"][: features.shape[1]])
    with pytest.raises(oar.errors.DataError, match="weights: must be a column of the features.*got 'nobody'"):
        oar.Population.from_dask(table, "b", "nobody", client=client)
