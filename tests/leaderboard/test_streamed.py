"""The referee for people in files against scikit-learn's, on people whom both can read."""

import json

import numpy as np
import pytest
from benchmarks.leaderboard import streamed
from benchmarks.leaderboard.problems import Stated
from benchmarks.leaderboard.referee import Referee
from benchmarks.leaderboard.streamed import StreamedReferee, write_clouds

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def clouds(tmp_path, monkeypatch):
    """Return a folder of 3,000 people in parts of 700, read 450 at a time, and the same people in arrays."""
    from pyarrow import dataset

    monkeypatch.setattr(streamed, "CHUNK", 450)
    folder = write_clouds(tmp_path / "clouds", 3_000, part=700)
    files = sorted(map(str, (folder / "people").glob("*.parquet")))
    assert len(files) == 5
    table = dataset.dataset(files, format="parquet").to_table()
    features = np.column_stack([table.column(f"x{place}").to_numpy() for place in range(10)]).astype(float)
    asked = json.loads((folder / "problem.json").read_text())
    labels = table.column("label").to_numpy()
    return folder, Stated(features, labels, np.array(asked["query"]), asked["goal"], asked["budget"], asked["l2"])


def write_moves(folder, moves, rows):
    from pyarrow import parquet

    folder.mkdir()
    for number, start in enumerate(range(0, len(moves), rows)):
        part = {f"x{place}": column for place, column in enumerate(moves[start : start + rows].T)}
        parquet.write_table(pyarrow.table(part), folder / f"part-{number:04d}.parquet")
    return folder


def test_the_query_lies_between_the_means(clouds):
    _, problem = clouds
    means = [problem.features[problem.labels == label].mean(axis=0) for label in (1, 2)]
    assert problem.query == pytest.approx(0.25 * means[0] + 0.75 * means[1])


def test_both_referees_agree(clouds, tmp_path):
    folder, problem = clouds
    moves = np.random.default_rng(1).standard_normal(problem.features.shape)
    moves *= problem.budget / np.linalg.norm(moves, axis=1, keepdims=True)
    referee, other = StreamedReferee(folder), Referee(problem)
    for files, arrays in ((None, None), (write_moves(tmp_path / "moves", moves, 611), moves)):
        found, expected = referee.judge(files), other.judge(arrays)
        assert found.loss == pytest.approx(expected.loss, abs=1e-8)
        assert (found.reached, found.kept) == (expected.reached, expected.kept)
        assert found.longest == pytest.approx(expected.longest)


def test_limits_and_missing_people_are_noticed(clouds, tmp_path):
    folder, problem = clouds
    moves = np.zeros_like(problem.features)
    moves[1_234, 5] = 0.31
    assert not StreamedReferee(folder).judge(write_moves(tmp_path / "far", moves, 1_000)).kept
    with pytest.raises(ValueError, match="keep people's order"):
        StreamedReferee(folder).judge(write_moves(tmp_path / "few", moves[:-10], 1_000))
    with pytest.raises(ValueError, match="got more"):
        StreamedReferee(folder).judge(write_moves(tmp_path / "many", np.vstack([moves, moves]), 1_000))


def test_what_is_not_a_number_is_noticed_wherever_it_stands(clouds, tmp_path):
    folder, problem = clouds
    moves = np.zeros_like(problem.features)
    moves[1_234, 5] = np.nan
    verdict = StreamedReferee(folder).judge(write_moves(tmp_path / "moves", moves, 1_000))
    assert np.isnan(verdict.loss)
    assert not verdict.kept
