"""People in parts against the same people in memory: answers, moves, audits, and how often data are read."""

import gc
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.people.parts.parquet import ParquetPart
from oar.people.parts.part import Threads
from oar.plans import MemberPlan
from oar.referee import audit
from oar.referee import parts as streamed_newton
from oar.solvers import ProjectedGradient, propose_collective
from oar.streaming import SignalPath, passes, scratch
from oar.streaming.passes import Stride, stepped

ONE_START = ProjectedGradient(tolerance=1e-6, restarts=0)


def blobs(size, classes=3, dimensions=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = 0.9 * rng.standard_normal((classes, dimensions))
    labels = rng.integers(0, classes, size)
    return centres[labels] + rng.standard_normal((size, dimensions)), labels, 0.25 * centres[1] + 0.75 * centres[0]


def written(path, features, labels, rows, weights=None, parts=1, kind=np.float64):
    columns = {f"x{place}": features[:, place].astype(kind) for place in range(features.shape[1])}
    table = pyarrow.table({**columns, "label": labels} | ({} if weights is None else {"weight": weights}))
    if parts == 1:
        parquet.write_table(table, path, row_group_size=rows)
        return path
    path.mkdir()
    for number, some in enumerate(np.array_split(np.arange(len(labels)), parts)):
        parquet.write_table(table.take(some), path / f"{number:02d}.parquet", row_group_size=rows)
    return path


def asked(people, model, query, goal=1, budget=0.3, **options):
    wanted = oar.Query(query, goal, **({"within": 0.1} if model.name == "ridge" else {}))
    return oar.Problem(people, model, wanted, oar.Perturb(budget, **options))


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("weighted", [False, True])
def test_nearest_centroid_is_the_same_in_parts(tmp_path, norm, weighted):
    features, labels, query = blobs(5_000)
    weights = np.random.default_rng(1).uniform(0, 2, 5_000) if weighted else None
    path = written(tmp_path / "people", features, labels, 700, weights, parts=3)
    people = oar.Population.from_parquet(path, "label", weights="weight" if weighted else None)
    here = oar.collective(asked(oar.Population(features, labels, weights), oar.NearestCentroid(), query, norm=norm))
    there = oar.collective(asked(people, oar.NearestCentroid(), query, norm=norm))
    assert there.loss == pytest.approx(here.loss, rel=1e-12)
    assert there.audit.movers == here.audit.movers
    assert there.audit.effort == pytest.approx(here.audit.effort, rel=1e-12)
    np.testing.assert_allclose(there.plan.directions, here.plan.directions, atol=1e-12)
    assert there.passes == 1


@pytest.mark.parametrize(("classes", "norm"), [(2, np.inf), (3, 2)])
def test_softmax_ends_where_it_ends_in_memory(tmp_path, classes, norm):
    features, labels, query = blobs(3_000, classes)
    people = oar.Population.from_parquet(written(tmp_path / "people", features, labels, 700, parts=2), "label")
    model = oar.SoftmaxRegression(1e-2)
    here = oar.collective(asked(oar.Population(features, labels), model, query, norm=norm), solver=ONE_START)
    there = oar.collective(asked(people, model, query, norm=norm), solver=ONE_START)
    assert there.loss == pytest.approx(here.loss, rel=2e-6)
    assert there.proposal.gap <= 1e-6 * there.loss
    assert there.audit.loss_before == pytest.approx(here.audit.loss_before, rel=1e-9)
    assert there.loss == pytest.approx(there.proposal.claimed_loss, rel=1e-8)
    assert there.audit.converged
    assert not there.audit.violations


def test_ridge_in_parts(tmp_path):
    features, labels, query = blobs(4_000)
    values = features @ [1.0, -2.0, 0.5, 3.0] + labels
    people = oar.Population.from_parquet(written(tmp_path / "p.parquet", features, values, 900), "label")
    here, there = (
        oar.collective(asked(one, oar.models.Ridge(1e-2), query, goal=2.0), solver=ONE_START)
        for one in (oar.Population(features, values), people)
    )
    assert there.loss == pytest.approx(here.loss, rel=1e-5, abs=1e-9)
    assert there.audit.loss_before == pytest.approx(here.audit.loss_before, rel=1e-9)
    assert there.prediction == pytest.approx(here.prediction, rel=1e-5)


def test_weights_and_participants_count_in_parts(tmp_path):
    features, labels, query = blobs(3_000)
    rng = np.random.default_rng(3)
    weights = rng.uniform(0, 2, 3_000) * (rng.random(3_000) < 0.9)
    path = written(tmp_path / "p.parquet", features, labels, 400, weights)
    people = oar.Population.from_parquet(path, "label", weights="weight")
    model, few = oar.SoftmaxRegression(1e-2), {"participants": 0.4, "seed": 5}
    here = oar.collective(asked(oar.Population(features, labels, weights), model, query, **few), solver=ONE_START)
    there = oar.collective(asked(people, model, query, **few), solver=ONE_START)
    assert there.loss == pytest.approx(here.loss, rel=2e-6)
    assert there.audit.movers == here.audit.movers
    mask = there.problem.allowance.mask
    moved = np.concatenate([there.plan.of_chunk(chunk) for chunk in people.chunks()])
    assert not moved[~mask].any()
    assert not moved[weights == 0].any()


def test_chunking_and_threads_do_not_matter(tmp_path):
    features, labels, query = blobs(2_000)
    model, found = oar.SoftmaxRegression(1e-2), []
    for rows, threads in ((2_000, 1), (777, 2), (250, 3)):
        people = oar.Population.from_parquet(written(tmp_path / f"{rows}.parquet", features, labels, rows), "label")
        people.engine = Threads(threads)
        found.append(propose_collective(asked(people, model, query), ONE_START))
    for other in found[1:]:
        assert other.claimed_loss == pytest.approx(found[0].claimed_loss, rel=1e-10)
        assert other.gap == pytest.approx(found[0].gap, rel=1e-4)
        assert other.steps == found[0].steps
    moves = [np.concatenate([one.plan.of_chunk(c) for c in one.plan.problem.people.chunks()]) for one in found]
    np.testing.assert_allclose(moves[1], moves[0], atol=1e-9)
    np.testing.assert_allclose(moves[2], moves[0], atol=1e-9)


def test_chunking_does_not_matter_where_only_some_people_are_looked_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "SAMPLE", 300)
    monkeypatch.setattr(streamed_newton, "SOME", 300)
    features, labels, query = blobs(3_000)
    found = []
    for rows in (3_000, 777, 100):
        people = oar.Population.from_parquet(written(tmp_path / f"{rows}.parquet", features, labels, rows), "label")
        found.append(oar.collective(asked(people, oar.SoftmaxRegression(1e-2), query), solver=ONE_START))
    for other in found[1:]:
        assert other.loss == pytest.approx(found[0].loss, rel=1e-10)
        assert other.passes == found[0].passes
        assert other.audit.residual <= 1e-9


def test_arrays_on_disk_and_files_of_arrays(tmp_path):
    features, labels, query = blobs(2_500)
    np.save(tmp_path / "x.npy", features.astype(np.float32))
    np.save(tmp_path / "y.npy", labels)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    from_files = oar.Population.from_memmap(str(tmp_path / "x.npy"), tmp_path / "y.npy")
    from_arrays = oar.Population.from_memmap(mapped, labels, names=list("abcd"))
    here = oar.Population(features.astype(np.float32), labels)
    losses = [oar.collective(asked(one, oar.NearestCentroid(), query)).loss for one in (from_files, from_arrays, here)]
    assert losses[0] == losses[1] == pytest.approx(losses[2], rel=1e-14)
    assert from_arrays.names == ("a", "b", "c", "d")


def test_a_step_reads_the_data_as_often_as_it_says(tmp_path):
    features, labels, query = blobs(3_000)
    people = oar.Population.from_memmap(features, labels)
    read = []

    class Spy(Threads):
        def map(self, function, parts, starts, *arguments):
            read.append(function.__name__)
            return super().map(function, parts, starts, *arguments)

    people.engine = Spy()
    proposal = propose_collective(asked(people, oar.SoftmaxRegression(1e-2), query), ONE_START)
    looked = [name for name in read if name in ("measure", "total", "advance", "compare")]
    assert proposal.passes == len(looked)
    assert read.count("advance") >= proposal.steps
    assert read.count("compare") == proposal.steps + 1
    assert len(looked) <= 14 * (proposal.steps + 1), "a step reads the data far more often than it should"


def test_the_gradient_of_a_step_is_that_of_true_refits():
    features, labels, query = blobs(400)
    people = oar.Population.from_memmap(features, labels)
    problem = asked(people, oar.SoftmaxRegression(1e-2), query)
    training = problem.training()
    fit = training.fit(SignalPath(), training.start(), 1e-12)
    loss, pull, _ = training.goal(fit.parameters, query, problem.goal_target)
    stride = training.stride(fit, training.solve(fit, pull, None, 1e-12))
    (block,) = passes.blocks_of(people.parts[0], 0, training.spec)
    ahead = block.ahead(SignalPath(), stride)

    def refitted(person, move):
        moved = features.copy()
        moved[person] += move
        own = problem.model.training(oar.Population(moved, labels))
        theta = own.fit(own.moved(None), own.start(), 1e-13).parameters
        return own.goal(theta, query, problem.goal_target)[0]

    for person in (0, 17, 399):
        for place in range(4):
            step = 1e-4 * np.eye(4)[place]
            slope = (refitted(person, step) - refitted(person, -step)) / 2e-4
            assert slope == pytest.approx(-ahead[person, place] / 400, rel=1e-4, abs=1e-10)
    assert loss == pytest.approx(refitted(0, np.zeros(4)), rel=1e-10)


def test_what_is_lost_is_walked_again():
    features, labels, query = blobs(2_000)
    people = oar.Population.from_memmap(features, labels)
    problem = asked(people, oar.SoftmaxRegression(1e-2), query)
    undisturbed = propose_collective(problem, ONE_START)

    class Forgetful(Threads):
        def map(self, function, parts, starts, *arguments):
            number = self.traffic.rounds = self.traffic.rounds + 1
            if number % 7 == 0:
                for run in list(scratch._folders):
                    scratch.clear(run)
            return super().map(function, parts, starts, *arguments)

    people.engine = Forgetful()
    forgetful = propose_collective(problem, ONE_START)
    assert forgetful.claimed_loss == undisturbed.claimed_loss
    assert forgetful.gap == undisturbed.gap
    chunk = next(iter(people.chunks()))
    np.testing.assert_array_equal(forgetful.plan.of_chunk(chunk), undisturbed.plan.of_chunk(chunk))


def test_scratch_goes_with_the_plan():
    features, labels, query = blobs(1_500)
    people = oar.Population.from_memmap(features, labels)
    proposal = propose_collective(asked(people, oar.SoftmaxRegression(1e-2), query), ONE_START)
    folder = scratch._folders[proposal.plan.spec.run]
    assert any(folder.iterdir())
    del proposal
    gc.collect()
    assert not folder.exists()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, np.inf]), st.floats(0.0, 2.0), st.floats(0.01, 1.0))
def test_walks_stay_within_limits(seed, p, budget, share):
    rng = np.random.default_rng(seed)
    norm = oar.Perturb(1.0, norm=p).norm
    radii, moves = budget * rng.random(20), np.zeros((20, 3))
    for _ in range(4):
        stride = Stride(np.zeros((1, 4)), np.zeros((1, 4)), float(rng.lognormal(0, 4)), share)
        moves, aims = stepped(stride, norm, radii, moves, rng.normal(size=(20, 3)))
        for some in (moves, aims):
            assert (np.linalg.norm(some, ord=p, axis=1) <= radii * (1 + 1e-12)).all()


def test_the_collective_is_no_worse_than_the_individual():
    features, labels, query = blobs(500, seed=4)
    for budget in (0.1, 2.0):
        problem = asked(oar.Population.from_memmap(features, labels), oar.SoftmaxRegression(1e-2), query, budget=budget)
        together = oar.collective(problem, solver=ProjectedGradient(max_steps=20))
        assert together.loss <= oar.individual(problem).loss * (1 + 1e-9)


def test_individual_is_the_same_in_parts():
    features, labels, query = blobs(2_000)
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)):
        here, there = (
            oar.individual(asked(one, model, query))
            for one in (oar.Population(features, labels), oar.Population.from_memmap(features, labels))
        )
        assert there.loss == pytest.approx(here.loss, rel=1e-9)
        np.testing.assert_allclose(there.plan.query_move, here.plan.query_move, atol=1e-6)


def test_a_plan_that_goes_too_far_is_told(tmp_path):
    features, labels, query = blobs(1_000)
    people = oar.Population.from_memmap(features, labels)
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)):
        wide = propose_collective(asked(people, model, query, budget=0.5))
        narrow = asked(people, model, query, budget=0.2)
        object.__setattr__(wide.plan, "problem", narrow)
        if model.name == "nearest-centroid":
            object.__setattr__(wide.plan, "directions", 2.5 * wide.plan.directions)
        audit = oar.audit(wide.plan)
        assert audit.violations
        assert not audit.success


def test_moves_are_written_part_by_part_and_not_twice(tmp_path):
    features, labels, query = blobs(3_000)
    path = written(tmp_path / "people", features, labels, 500, parts=2)
    people = oar.Population.from_parquet(path, "label")
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)):
        plan = propose_collective(asked(people, model, query)).plan
        folder = tmp_path / model.name
        files = plan.write_moves(folder)
        assert len(files) == len(people.parts) == 6
        table = pyarrow.concat_tables([parquet.read_table(file) for file in files])
        assert table["position"].to_pylist() == list(range(3_000))
        expected = np.concatenate([plan.of_chunk(chunk) for chunk in people.chunks()])
        found = np.column_stack([table[name].to_numpy() for name in people.names])
        np.testing.assert_array_equal(found, expected)
        files[2].unlink()
        before = {file: file.stat().st_mtime_ns for file in files if file.exists()}
        assert plan.write_moves(folder) == files
        assert {file: file.stat().st_mtime_ns for file in before} == before
        assert parquet.read_table(files[2]).num_rows == 500


def test_moves_of_people_in_memory_are_written_alike(tmp_path):
    features, labels, query = blobs(800)
    plan = oar.collective(asked(oar.Population(features, labels), oar.NearestCentroid(), query)).plan
    (file,) = plan.write_moves(tmp_path / "moves")
    table = parquet.read_table(file)
    np.testing.assert_array_equal(np.column_stack([table[f"x{j}"].to_numpy() for j in range(4)]), plan.moves())


def test_memory_does_not_grow_with_the_people(tmp_path):
    """Peak memory of a fresh process, with fifteen times the people: the data alone would take 110 MB more."""
    sizes = (100_000, 1_500_000)
    for size in sizes:
        rng = np.random.default_rng(0)
        schema = pyarrow.schema([*((f"x{j}", pyarrow.float32()) for j in range(10)), ("label", pyarrow.int8())])
        with parquet.ParquetWriter(tmp_path / f"{size}.parquet", schema) as writer:
            for _ in range(0, size, 50_000):
                drawn = [rng.normal(size=50_000).astype(np.float32) for _ in range(10)]
                writer.write_table(pyarrow.table([*drawn, rng.integers(0, 3, 50_000).astype(np.int8)], schema=schema))
    code = """
        import resource, sys, numpy as np, oar
        people = oar.Population.from_parquet(sys.argv[1], "label")
        problem = oar.Problem(people, oar.NearestCentroid(), oar.Query(np.full(10, 0.1), goal=1), oar.Perturb(0.1))
        assert oar.collective(problem).audit.movers == people.size
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    run = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / f"{size}.parquet")],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        for size in sizes
    ]
    small, large = (int(one.stdout) / 1024 for one in run)
    assert large - small < 60, f"{small:.0f} MB with {sizes[0]:,} people, {large:.0f} MB with {sizes[1]:,}"


@pytest.mark.parametrize(
    ("query", "action", "solver", "what"),
    [
        (oar.Query([0.0] * 4, goal=1), oar.Withhold(most=2), "auto", "Perturb"),
        (oar.Query([0.0] * 4, goal=1), oar.Perturb(0.1, participants=oar.Best(3)), "auto", "in memory"),
        (oar.Query([0.0] * 4, goal=1), oar.Perturb(0.1), ProjectedGradient(restarts=2), "restarts"),
        (oar.Query([0.0] * 4, goal=1), oar.Perturb(0.1), "frank-wolfe", "projected-gradient"),
    ],
)
def test_what_needs_everybody_is_refused(query, action, solver, what):
    features, labels, _ = blobs(50)
    people = oar.Population.from_memmap(features, labels)
    with pytest.raises(oar.errors.OptionError, match=what):
        oar.collective(oar.Problem(people, oar.SoftmaxRegression(1e-2), query, action), solver=solver)


def forget():
    for run in list(scratch._folders):
        scratch.clear(run)


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_moves_of_values_are_the_audited_ones_whatever_was_looked_at_before(tmp_path, kind):
    features, labels, query = blobs(1_200)
    values = (10 * (features @ [1.0, -2.0, 0.5, 3.0] + labels)).astype(kind)
    people = oar.Population.from_parquet(written(tmp_path / "p.parquet", features, values, 500), "label")
    _ = people.classes, repr(people)
    result = oar.collective(asked(people, oar.models.Ridge(1e-2), query, goal=20.0), solver=ONE_START)
    kept = np.concatenate([result.plan.of_chunk(chunk) for chunk in people.chunks(passes.BLOCK)])
    forget()
    files = result.plan.write_moves(tmp_path / "moves")
    table = pyarrow.concat_tables([parquet.read_table(file) for file in files])
    found = np.column_stack([table[name].to_numpy() for name in people.names])
    np.testing.assert_allclose(found, kept, atol=1e-12)
    here = MemberPlan(
        asked(oar.Population(features, values), result.problem.model, query, goal=20.0), np.zeros(4), found
    )
    assert oar.audit(here).prediction == pytest.approx(result.prediction, rel=1e-9)


def test_many_different_values_are_no_classes(tmp_path):
    features, _, query = blobs(11_000)
    values = np.arange(11_000)
    people = oar.Population.from_parquet(written(tmp_path / "p.parquet", features, values, 5_000), "label")
    assert "11,000 people" in repr(people)
    problem = asked(people, oar.models.Ridge(1e-2), query, goal=5_500.0)
    plan = propose_collective(problem, ProjectedGradient(max_steps=1)).plan
    assert len(plan.write_moves(tmp_path / "moves")) == 3
    with pytest.raises(oar.errors.DataError, match="10,000 classes"):
        oar.collective(asked(people, oar.NearestCentroid(), query))


def test_other_people_under_the_same_path_get_moves_of_their_own(tmp_path):
    path, folder = tmp_path / "p.parquet", tmp_path / "moves"
    for seed in (1, 2):
        features, _, query = blobs(600)
        labels = np.random.default_rng(seed).permutation(np.arange(600) % 3)
        people = oar.Population.from_parquet(written(path, features, labels, 200), "label")
        plan = propose_collective(asked(people, oar.NearestCentroid(), query, norm=np.inf)).plan
        object.__setattr__(plan, "directions", np.sign(np.arange(1.0, 13.0).reshape(3, 4) - 6.5))
        files = plan.write_moves(folder)
    expected = np.concatenate([plan.of_chunk(chunk) for chunk in people.chunks()])
    table = pyarrow.concat_tables([parquet.read_table(file) for file in files])
    np.testing.assert_array_equal(np.column_stack([table[name].to_numpy() for name in people.names]), expected)


def test_a_column_that_is_called_as_positions_are(tmp_path):
    features, labels, query = blobs(300)
    people = oar.Population.from_memmap(features, labels, names=["position", "position_", "a", "b"])
    (file,) = propose_collective(asked(people, oar.NearestCentroid(), query)).plan.write_moves(tmp_path / "moves")
    assert parquet.read_schema(file).names == ["position__", "position", "position_", "a", "b"]
    with pytest.raises(oar.errors.DataError, match="names"):
        oar.Population.from_memmap(features, labels, names=["a", "a", "b", "c"])


def test_classes_that_are_told_keep_the_engine_and_must_have_somebody():
    features, labels, query = blobs(300)
    people = oar.Population.from_memmap(features, labels)
    people.engine = Threads(1)
    assert people.knowing([0, 1, 2]).engine is people.engine
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression(1e-2)):
        told = oar.Population.from_memmap(features, labels, classes=[0, 1, 2, 7])
        with pytest.raises(oar.errors.DataError, match="class 7"):
            oar.collective(asked(told, model, query))


def test_text_and_numbers_together_are_refused():
    features, labels, query = blobs(300)
    mixed = np.array([str(one) if place % 2 else one for place, one in enumerate(labels)], dtype=object)
    with pytest.raises(oar.errors.DataError, match="one kind"):
        oar.collective(asked(oar.Population.from_memmap(features, mixed), oar.NearestCentroid(), query))


def test_numbers_with_a_point_may_be_classes():
    features, labels, query = blobs(600)
    here, there = (
        oar.collective(asked(one, oar.NearestCentroid(), query, goal=1.0))
        for one in (oar.Population(features, 1.0 * labels), oar.Population.from_memmap(features, 1.0 * labels))
    )
    assert there.loss == pytest.approx(here.loss, rel=1e-12)


def test_classes_and_centroids_come_from_one_reading(tmp_path, monkeypatch):
    """Stating a nearest-centroid problem reads everybody once; planning and other questions then read nobody."""
    features, labels, query = blobs(5_000)
    people = oar.Population.from_parquet(written(tmp_path / "people", features, labels, 700), "label")
    read = []
    monkeypatch.setattr(ParquetPart, "read", lambda self, once=ParquetPart.read: read.append(self) or once(self))
    monkeypatch.setattr(ParquetPart, "read_labels", lambda self: pytest.fail("labels are read on their own"))
    for budget in (0.1, 0.3):
        proposal = oar.solvers.propose_collective(asked(people, oar.NearestCentroid(), query, budget=budget))
        assert len(read) == len(people.parts) > 5
        assert proposal.passes == 1
    audit(proposal.plan)  # is its own, and reads them again
    assert len(read) > len(people.parts)


@pytest.mark.parametrize("kind", ["words", "far apart", "many"])
def test_all_kinds_of_labels_give_the_same_centroids(tmp_path, kind):
    features, labels, query = blobs(2_000)
    named = {"words": np.array(["a", "b", "c"])[labels], "far apart": labels * 10**12, "many": np.arange(2_000) % 40}[
        kind
    ]
    people = oar.Population.from_parquet(written(tmp_path / "people", features, named, 300), "label")
    here, there = (oar.NearestCentroid().fit(one) for one in (oar.Population(features, named), people))
    assert people.classes == oar.Population(features, named).classes
    np.testing.assert_allclose(there.positions, here.positions, rtol=1e-12)
    np.testing.assert_array_equal(there.class_weights, here.class_weights)
