"""What is a feature, a weight and a class of people in files, and what is not."""

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression
from support.people_in_parts import asked, blobs, halves, table_of

import oar

L2 = 0.05


def frame_of(size=300, **others):
    features, labels, _ = blobs(size)
    return pd.DataFrame(features, columns=["a", "b", "c"]).assign(label=labels, **others)


@pytest.mark.parametrize(
    "indexed",
    [
        lambda frame: frame[frame["a"] > -5].sample(frac=1.0, random_state=0),
        lambda frame: frame.set_index(pd.Index(np.arange(300) ** 2, name="person")),
    ],
)
def test_an_index_that_pandas_wrote_is_no_feature(tmp_path, indexed):
    frame = indexed(frame_of())
    frame.to_parquet(tmp_path / "people.parquet")
    assert len(parquet.read_schema(tmp_path / "people.parquet").names) == 5
    people = oar.Population.from_parquet(tmp_path / "people.parquet", "label")
    assert people.names == ("a", "b", "c")
    np.testing.assert_array_equal(people.loaded().features, frame[["a", "b", "c"]])


def test_an_index_may_be_named_as_a_feature(tmp_path):
    frame_of().set_index("a").to_parquet(tmp_path / "people.parquet")
    assert oar.Population.from_parquet(tmp_path / "people.parquet", "label").names == ("b", "c")
    named = oar.Population.from_parquet(tmp_path / "people.parquet", "label", features=["a", "b"])
    assert named.names == ("a", "b")


@pytest.mark.parametrize("notes", [b"{", b"[1]", b"{}"])
def test_notes_that_are_not_from_pandas_are_left_alone(tmp_path, notes):
    features, labels, _ = blobs(50)
    table = table_of(features, labels)
    parquet.write_table(table.replace_schema_metadata({b"pandas": notes}), tmp_path / "people.parquet")
    assert oar.Population.from_parquet(tmp_path / "people.parquet", "label").names == ("x0", "x1", "x2")


def test_what_dask_writes_is_read_without_its_index(tmp_path):
    """Dask calls an index without a name so, and notes it as an index."""
    frame = frame_of().set_index(pd.Index(np.arange(300) ** 2, name="__null_dask_index__"))
    folder = tmp_path / "people"
    folder.mkdir()
    frame[:150].to_parquet(folder / "part.0.parquet")
    frame[150:].to_parquet(folder / "part.1.parquet")
    assert oar.Population.from_parquet(tmp_path / "people", "label").names == ("a", "b", "c")


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_weights_that_were_rewritten_are_read_anew(tmp_path, factor):
    """The same factor on all weights changes nothing, and an audit by scikit-learn agrees."""
    features, labels, query = blobs(400)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    table = table_of(features, labels, w=weights)
    parquet.write_table(table, tmp_path / "people.parquet")
    people = oar.Population.from_parquet(tmp_path / "people.parquet", "label", weights="w")
    before = oar.collective(asked(people, oar.SoftmaxRegression(L2), query))
    parquet.write_table(table_of(features, labels, w=factor * weights), tmp_path / "people.parquet")
    after = oar.collective(asked(people, oar.SoftmaxRegression(L2), query))
    assert people.total_weight == pytest.approx(factor * weights.sum())
    np.testing.assert_allclose(people.weights, factor * weights)
    assert after.loss == pytest.approx(before.loss, rel=1e-6)
    known = LogisticRegression(C=1 / (L2 * weights.sum()), tol=1e-10, max_iter=10_000).fit(features, labels, weights)
    unmoved = oar.collective(asked(people, oar.SoftmaxRegression(L2), query, budget=0.0)).loss
    assert unmoved == pytest.approx(-known.predict_log_proba([query])[0, 1], rel=1e-6)


def test_a_number_of_two_widths_is_not_two_classes(tmp_path):
    features, _, query = blobs(200)
    labels = np.where(np.arange(200) % 2, 0.1, 0.5)
    for name, width in (("a", np.float32), ("b", np.float64)):
        parquet.write_table(table_of(features, labels.astype(width)), tmp_path / f"{name}.parquet")
    people = oar.Population.from_parquet(tmp_path, "label")
    with pytest.raises(oar.errors.DataError, match="labels: must be of one width.*same in float32"):
        oar.collective(asked(people, oar.NearestCentroid(), query, 0.5))
    valued = oar.collective(asked(people, oar.models.Ridge(1.0), query, 0.3))
    assert np.isfinite(valued.loss)


@pytest.mark.parametrize("model", [oar.NearestCentroid(), oar.SoftmaxRegression(L2)])
def test_infinity_is_no_class(model):
    features, labels, query = blobs(200)
    endless = np.where(np.arange(200) == 77, np.inf, labels)
    with pytest.raises(oar.errors.DataError, match="labels: must be finite, got inf"):
        oar.collective(asked(oar.Population.from_memmap(features, endless), model, query))


def test_mistakes_are_told_by_their_own_argument(tmp_path):
    features, labels, _ = blobs(100)
    halves(tmp_path / "people", features, labels, w=np.repeat("heavy", 100))
    with pytest.raises(oar.errors.DataError, match="weights: must be a column of numbers, got 'w' of type string"):
        oar.Population.from_parquet(tmp_path / "people", "label", features=["x0"], weights="w")
    with pytest.raises(oar.errors.DataError, match=r"features: must be columns.*among.*got 'x00'\. Did you mean 'x0'"):
        oar.Population.from_parquet(tmp_path / "people", "label", features=["x00"])
    with pytest.raises(oar.errors.DataError, match="not there; name the folder itself, '.*people'"):
        oar.Population.from_parquet(tmp_path / "people" / "*.parquet", "label")
    with pytest.raises(oar.errors.DataError, match="type list; put several files into one folder"):
        oar.Population.from_parquet([tmp_path / "people"], "label")
    (tmp_path / "people.csv").write_text("a,label\n1,2\n")
    with pytest.raises(oar.errors.DataError, match="or use oar.Population.read"):
        oar.Population.from_parquet(tmp_path / "people.csv", "label")
    parquet.write_table(table_of(features, labels).drop_columns(["label"]), tmp_path / "people" / "moves.parquet")
    with pytest.raises(
        oar.errors.DataError, match="without 'label'; write it again with that column, or take it out of"
    ):
        oar.Population.from_parquet(tmp_path / "people", "label", features=["x0"])


def test_arrays_are_told_what_they_must_be(tmp_path):
    features, labels, _ = blobs(100)
    features.tofile(tmp_path / "bare")
    with pytest.raises(oar.errors.DataError, match=r"features: must be a .npy file.*numpy.memmap\(path, dtype, shape"):
        oar.Population.from_memmap(tmp_path / "bare", labels)
    np.save(tmp_path / "objects.npy", np.array(["a", 1], dtype=object), allow_pickle=True)
    with pytest.raises(oar.errors.DataError, match=r"labels: .*astype\(str\) for labels"):
        oar.Population.from_memmap(features, tmp_path / "objects.npy")
    with pytest.raises(oar.errors.DataError, match="got an object of type list"):
        oar.Population.from_memmap([[1.0]], labels)
    with pytest.raises(oar.errors.DataError, match="names: must be a list of texts, got 'abc'"):
        oar.Population.from_memmap(features, labels, names="abc")
    missing = np.array(["a"] * 100, dtype=object)
    missing[41] = None
    with pytest.raises(oar.errors.DataError, match="missing one in rows 0 to 99, row 41"):
        assert oar.Population.from_memmap(features, missing).classes


def test_a_table_of_several_kinds_of_numbers_is_one_of_numbers():
    frame = frame_of(member=np.arange(300) % 2 == 0)
    people = oar.Population.from_memmap(frame.drop(columns="label"), frame["label"].to_numpy())
    np.testing.assert_array_equal(people.loaded().features[:, 3], np.arange(300) % 2 == 0)


def test_groups_by_columns_need_memory_and_say_so(tmp_path):
    features, labels, query = blobs(100)
    people = oar.Population.from_parquet(halves(tmp_path / "people", features, labels), "label")
    with pytest.raises(oar.errors.OptionError, match="participants: a group by columns needs everybody in memory"):
        oar.Problem(people, oar.NearestCentroid(), oar.Query(query, goal=1), oar.Perturb(1, participants={"x0": 1}))
