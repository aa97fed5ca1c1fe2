import datetime
import enum
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oar
from oar.people.labels import LabelCoding, label_array


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


ROWS = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 3.0]]
LABELS = {
    "int": [5, 5, -2, 7],
    "huge int": [10**15, 1, 1, 2],
    "str": ["b", "a", "b", "c"],
    "bool": [True, False, True, True],
    "float": [0.5, 1.5, 0.5, 2.5],
    "tuple": [(1, "a"), (1, "b"), (1, "a"), (2, "a")],
    "mixed": [1, "a", (2,), "a"],
    "enum": [Colour.RED, Colour.BLUE, Colour.RED, Colour.RED],
    "date": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)] * 2,
    "frozenset": [frozenset({1}), frozenset({2}), frozenset({1}), frozenset({2})],
    "bytes": [b"a", b"b", b"a", b"b"],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_any_hashable_type(labels):
    people = oar.Population(ROWS, labels)
    assert set(people.classes) == set(labels)
    assert [people.classes[code] for code in people.codes(0, 4)] == labels
    assert all(type(label) is type(labels[0]) for label in people.classes) or len({type(x) for x in labels}) > 1


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_the_whole_way_with_any_label(labels):
    people = oar.Population(ROWS, labels)
    for goal in people.classes:
        problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([9.0, -9.0], goal), oar.Perturb(30.0))
        result = oar.collective(problem)
        assert result.prediction == goal
        assert result.plan.moves(ROWS, labels).shape == (4, 2)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30))
def test_integer_labels_are_coded_as_by_numpy(labels):
    coding = LabelCoding(label_array(labels))
    classes, codes = np.unique(np.array(labels), return_inverse=True)
    assert list(coding.classes) == classes.tolist()
    np.testing.assert_array_equal(coding.encode(np.array(labels)), codes)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint64", "int32", "<U3", "object", "float32", "bool"])
def test_label_arrays_of_any_dtype(dtype):
    labels = np.array([0, 1, 1, 0]).astype(dtype)
    people = oar.Population(ROWS, labels)
    assert len(people.classes) == 2
    np.testing.assert_array_equal(people.codes(0, 4), [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([[0.0], [np.nan]], [0, 1], r"features: must be finite, got nan in row 1, column 0"),
        ([[0.0], [np.inf]], [0, 1], r"features: must be finite, got inf in row 1"),
        ([0.0, 1.0], [0, 1], r"features: must be two-dimensional"),
        ([[0.0], [1.0, 2.0]], [0, 1], r"features: must be a rectangle"),
        (np.zeros((0, 2)), [], r"at least one person"),
        (np.zeros((2, 0)), [0, 1], r"at least one person and one feature"),
        ([["a"], ["b"]], [0, 1], r"features: must be real numbers"),
        (np.array([[1j], [2j]]), [0, 1], r"features: must be real numbers"),
        (np.array([[1, "x"], [2, "y"]], dtype=object), [0, 1], r"features: must be numbers"),
        ([[0.0], [1.0]], [0], r"labels: must be one for each of the 2 people, got 1"),
        ([[0.0], [1.0]], [[0], [1]], r"labels: must be hashable"),
        ([[0.0], [1.0]], np.array([[0], [1]]), r"labels: must be one-dimensional"),
        ([[0.0], [1.0]], [0, None], r"labels: must not be missing, got None at position 1"),
        ([[0.0], [1.0]], [0.0, np.nan], r"labels: must not be missing"),
        ([[0.0], [1.0]], "ab", r"labels: must be one label for each person"),
        ([[0.0], [1.0]], 3, r"labels: must be one label for each person"),
    ],
)
def test_bad_input_gets_one_clear_error(features, labels, message):
    with pytest.raises(oar.errors.DataError, match=message):
        oar.Population(features, labels)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "weights: must not be negative"),
        ([1.0, np.nan], "weights: must be finite"),
        ([1.0], "weights: must have one value for each of the 2 people"),
        (["a", "b"], "weights: must be numbers"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(oar.errors.DataError, match=message):
        oar.Population([[0.0], [1.0]], [0, 1], weights)


def test_a_class_without_weight_is_refused_where_labels_are_classes():
    people = oar.Population([[0.0], [1.0]], [0, 1], [1.0, 0.0])
    for model in (oar.NearestCentroid(), oar.SoftmaxRegression()):
        with pytest.raises(
            oar.errors.DataError, match=r"weights: every class needs some weight.* total of 0 for class 1"
        ):
            oar.Problem(people, model, oar.Query([0.0], 1), oar.Perturb(1.0))


def test_values_need_no_weight():
    features = np.array([[0.0], [1.0], [2.0], [7.0]])
    for values in ([0, 1, 2, 9], [0.0, 1.0, 2.0, 9.0], np.array([0.0, 1.0, 2.0, 9.0])):
        people = oar.Population(features, values, [1.0, 1.0, 1.0, 0.0])
        query = oar.Query([1.5], goal=1.0, within=0.6)
        result = oar.collective(oar.Problem(people, oar.models.Ridge(1e-6), query, oar.Perturb(0.1)))
        assert result.audit.prediction_before == pytest.approx(1.5, abs=1e-3)


@pytest.mark.parametrize("model", [oar.SoftmaxRegression(), oar.models.MLP((2,)), oar.models.GaussianNaiveBayes()])
def test_a_class_that_nobody_has_a_share_of_is_refused(model):
    shares = pd.DataFrame({"no": [0.3, 0.6], "yes": [0.7, 0.4], "never": [0.0, 0.0]})
    message = "labels: every class needs some weight to be fitted, got a total of 0 for column 'never'"
    with pytest.raises(oar.errors.DataError, match=message):
        oar.Problem(oar.Population([[0.0], [1.0]], shares), model, oar.Query([0.0], "no"), oar.Perturb(1.0))
    unheard = oar.Population([[0.0], [1.0], [2.0]], np.eye(3), [1.0, 1.0, 0.0])
    with pytest.raises(oar.errors.DataError, match="total of 0 for column 2"):
        oar.Problem(unheard, model, oar.Query([0.0], 1), oar.Perturb(1.0))


def test_an_empty_class_is_refused():
    labels = pd.Series(pd.Categorical(["a", "b"], categories=["a", "b", "c"]))
    with pytest.raises(oar.errors.DataError, match=r"class 'c' has no members"):
        oar.Population([[0.0], [1.0]], labels)
    with pytest.raises(oar.errors.DataError, match=r"class 'c' has no members"):
        oar.Population([[0.0], [1.0]], pd.Categorical(["a", "b"], categories=["a", "b", "c"]))


def test_finite_values_whose_sum_overflows_are_not_called_infinite():
    people = oar.Population([[1.7e308], [1.7e308], [0.0]], [0, 0, 1])
    with pytest.raises(oar.errors.DataError, match="rescale"):
        oar.NearestCentroid().fit(people)


def frame(**changes):
    columns = {"age": [20, 30, 40, 50], "income": [1.5, 2.5, 3.5, 4.5]} | changes
    return pd.DataFrame(columns, index=["p", "q", "r", "s"])


def test_a_frame_keeps_names_and_index():
    people = oar.Population(frame(), [0, 0, 1, 1])
    assert people.names == ("age", "income")
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query({"income": 2.0, "age": 25}, 1), oar.Perturb(3.0))
    np.testing.assert_array_equal(problem.query_features, [25.0, 2.0])
    moves = oar.collective(problem).plan.moves()
    assert list(moves.columns) == ["age", "income"]
    assert list(moves.index) == ["p", "q", "r", "s"]
    pd.testing.assert_frame_equal(oar.collective(problem).plan.moves(frame(), [0, 0, 1, 1]), moves)


def test_integer_features_do_not_truncate_moves():
    features = np.array([[0], [1], [5], [6]])
    problem = oar.Problem(
        oar.Population(features, [0, 0, 1, 1]), oar.NearestCentroid(), oar.Query([2], 1), oar.Perturb(0.25)
    )
    moves = oar.collective(problem).plan.moves(features, [0, 0, 1, 1])
    assert moves.dtype == np.float64
    np.testing.assert_allclose(np.abs(moves), 0.25)
    mixed = oar.Population(frame(), [0, 0, 1, 1])
    result = oar.collective(
        oar.Problem(mixed, oar.NearestCentroid(), oar.Query([25, 2.0], 1), oar.Perturb(0.25, norm=np.inf))
    )
    assert (result.plan.moves().dtypes == np.float64).all()
    np.testing.assert_allclose(np.abs(result.plan.moves()), 0.25)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "column names must differ, got 'a' twice"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "got column 'b' of type"),
        (pd.DataFrame({"a": [1.0, np.nan]}), "missing value in row 1, column 'a'"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "missing value in row 1, column 'a'"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "got inf in row 1, column 'a'"),
    ],
)
def test_bad_frames(features, message):
    with pytest.raises(oar.errors.DataError, match=message):
        oar.Population(features, [0, 1])


def test_a_series_in_another_order_is_refused():
    shuffled = pd.Series([0, 0, 1, 1], index=["q", "p", "r", "s"])
    with pytest.raises(oar.errors.DataError, match="labels: its index must equal"):
        oar.Population(frame(), shuffled)
    people = oar.Population(frame(), [0, 0, 1, 1])
    for change in ({"budget": shuffled}, {"budget": 1.0, "participants": shuffled == 1}):
        with pytest.raises(oar.errors.DataError, match="its index must equal"):
            oar.Problem(people, oar.NearestCentroid(), oar.Query([1, 1], 1), oar.Perturb(**change))


def test_nothing_is_copied_or_changed():
    features, labels = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1])
    before = features.copy(), labels.copy()
    people = oar.Population(features, labels)
    assert np.shares_memory(people.features, features)  # a view, through which nobody can write
    assert not people.features.flags.writeable
    assert features.flags.writeable
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([1, 1], 1), oar.Perturb(1.0))
    oar.joint(problem)
    np.testing.assert_array_equal(features, before[0])
    np.testing.assert_array_equal(labels, before[1])


@pytest.mark.parametrize("layout", ["C", "F", "strided", "float32", "read-only"])
def test_any_memory_layout(layout):
    rng = np.random.default_rng(0)
    plain, labels = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    features = {
        "C": plain,
        "F": np.asfortranarray(plain),
        "strided": np.repeat(plain, 2, axis=1)[:, ::2],
        "float32": plain.astype(np.float32),
        "read-only": plain.copy(),
    }[layout]
    features.flags.writeable = False
    centroids = oar.NearestCentroid().fit(oar.Population(features, labels)).positions
    expected = [plain[labels == code].mean(axis=0) for code in range(3)]
    np.testing.assert_allclose(centroids, expected, rtol=1e-6 if layout == "float32" else 1e-12)


def test_label_rows_have_codes_and_columns_in_the_order_of_the_classes():
    shares = np.array([[0.7, 0.1, 0.2], [0.0, 0.9, 0.1]])
    people = oar.Population(np.zeros((2, 1)), pd.DataFrame(shares, columns=["c", "a", "b"]))
    assert people.classes == ("a", "b", "c")
    np.testing.assert_array_equal(people.class_rows(), shares[:, [1, 2, 0]])
    np.testing.assert_array_equal(people.value_rows(), shares)
    (chunk,) = people.chunks()
    np.testing.assert_array_equal(chunk.codes, [2, 0])
    assert chunk.codes.dtype == np.int32


def test_memory_is_one_chunk():
    features, labels = np.random.default_rng(0).random((500_000, 4)), np.arange(500_000) % 3
    problem = oar.Problem(
        oar.Population(features, labels), oar.NearestCentroid(), oar.Query([0.5] * 4, 1), oar.Perturb(0.1)
    )
    oar.collective(problem)  # imports done
    tracemalloc.start()
    problem = oar.Problem(
        oar.Population(features, labels), oar.NearestCentroid(), oar.Query([0.5] * 4, 1), oar.Perturb(0.1)
    )
    oar.collective(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < features.nbytes / 2
    assert peak < 8e6


def test_some_people_keep_all_classes() -> None:
    people = oar.Population(np.arange(8.0).reshape(4, 2), ["b", "a", "c", "a"], weights=[1.0, 2.0, 3.0, 4.0])
    some = people.some(np.array([3, 0]))
    assert some.classes == ("a", "b", "c")
    assert some.codes(0, 2).tolist() == [0, 1]
    assert some.features.tolist() == [[6.0, 7.0], [0.0, 1.0]]
    assert some.weights is not None
    assert some.weights.tolist() == [4.0, 1.0]
    with pytest.raises(oar.errors.DataError, match="'c'"):
        some.check_class_weights()


def test_people_by_codes_know_classes_that_nobody_has() -> None:
    people = oar.Population.of_codes(np.ones((2, 3)), np.array([2, 0]), ("a", "b", "c"))
    assert people.classes == ("a", "b", "c")
    assert people.codes(0, 2).tolist() == [2, 0]
    assert people.size == 2
    assert not people.class_rows()[:, 1].any()


def test_a_model_may_say_its_classes_itself_and_nobody_needs_a_label():
    people = oar.Population([[0.0], [1.0], [4.0]], ["yes", "?", "no"])
    told = people.of_classes(("maybe", "no", "yes"), np.array([0, 0, 1]))
    assert told.classes == ("maybe", "no", "yes")
    assert told.codes(0, 3).tolist() == [2, 0, 1]
    assert told.coding.position("maybe", "goal") == 0  # a class that nobody had
    assert told.of_classes(told.classes, np.zeros(3)) is told
    assert people.classes == ("?", "no", "yes")
    by_number = oar.Population([[0.0], [1.0]], [7, 1]).of_classes((0, 1), np.array([0, 0]))
    assert by_number.codes(0, 2).tolist() == [0, 1]


def test_weights_are_there_for_everyone_and_before_anybody_left():
    people = oar.Population([[0.0], [1.0], [4.0]], ["no", "no", "yes"])
    left = people.contributing(np.array([1.0, 0.0, 1.0]), people.class_rows())
    assert people.first_row_weights.tolist() == left.first_row_weights.tolist() == [1.0, 1.0, 1.0]
    assert left.row_weights.tolist() == [1.0, 0.0, 1.0]
    assert people.features[people.present].tolist() == [[0.0], [1.0], [4.0]]
    assert left.features[left.present].tolist() == [[0.0], [4.0]]


def test_people_are_named_by_their_index_or_their_position():
    frame = pd.DataFrame({"a": [0.0, 1.0]}, index=["x", "y"])
    assert list(oar.Population(frame, ["no", "yes"]).row_names) == ["x", "y"]
    assert list(oar.Population(frame.to_numpy(), ["no", "yes"]).row_names) == [0, 1]


def test_only_people_of_a_table_have_its_encoding():
    frame = pd.DataFrame({"a": [0.0, 1.0], "t": ["no", "yes"]})
    people = oar.Population.from_frame(frame, target="t")
    assert people.table is people.encoding
    with pytest.raises(oar.errors.DataError, match="must come as a table"):
        _ = oar.Population([[0.0], [1.0]], ["no", "yes"]).table


def test_columns_of_soft_labels_are_read_in_the_order_of_the_classes():
    shares = pd.DataFrame({"yes": [0.25, 1.0], "no": [0.75, 0.0]})
    people = oar.Population([[0.0], [1.0]], shares)
    assert people.classes == ("no", "yes")
    assert people.class_rows().tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert people.some(np.array([1])).class_rows().tolist() == [[0.0, 1.0]]
