"""Tables and arrays of other libraries, and labels beside a frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import oar

FRAME = pd.DataFrame({"income": [1.5, 2.5, 3.5, 0.5], "purpose": ["car", "home", "car", "car"]})
LABELS = ["no", "yes", "yes", "no"]
FEATURES = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 3.0], [4.0, 4.0]])
CODES = np.array([0, 1, 1, 0])


class Polars:
    """What polars' DataFrame has of pandas', and what it has not."""

    def __init__(self, frame):
        self._frame = frame
        self.columns, self.dtypes = list(frame.columns), list(frame.dtypes)

    def to_numpy(self):
        return self._frame.to_numpy()

    def to_pandas(self):
        return self._frame


class WithoutPyarrow(Polars):
    def to_pandas(self):
        raise ModuleNotFoundError("No module named 'pyarrow'")


@pytest.mark.parametrize("labels", [LABELS, np.array(LABELS), pd.Series(LABELS), pd.Series(LABELS, name="approved")])
def test_labels_may_stand_beside_the_frame(labels):
    people = oar.Population.from_frame(FRAME, labels)
    joined = oar.Population.from_frame(FRAME.assign(approved=LABELS), "approved")
    assert people.classes == joined.classes
    assert (people.features == joined.features).all()
    assert list(people.labels) == LABELS
    assert people.target == (getattr(labels, "name", None) or "target")
    assert "target" not in FRAME.columns


def scalars(values):
    import jax.numpy as jnp

    return [jnp.asarray(value) for value in values]


BESIDE = {
    "extension": lambda values: pd.Series(values).array,
    "strings": lambda values: pd.Series(values, dtype="string").array,
    "values": lambda values: pd.Series(values).values,
    "categories": pd.Categorical,
    "index": pd.Index,
    "one column": lambda values: pd.DataFrame({"approved": values}),
    "pyarrow": lambda values: pytest.importorskip("pyarrow").array(values),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_labels_beside_the_frame_are_of_any_kind_that_pandas_has(kind):
    people = oar.Population.from_frame(FRAME, BESIDE[kind](LABELS))
    assert list(people.labels) == LABELS
    assert people.target == ("approved" if kind == "one column" else "target")


def test_labels_may_be_a_list_of_scalars_of_another_library():
    assert list(oar.Population.from_frame(FRAME, scalars(CODES)).labels) == CODES.tolist()
    assert list(oar.Population(FEATURES, scalars(CODES)).labels) == CODES.tolist()


@pytest.mark.parametrize(
    "made", [list, np.array, pd.Series, pd.Index, pd.array, scalars, lambda values: pd.DataFrame({"w": values})]
)
def test_weights_may_stand_beside_the_frame(made):
    weights = [1.0, 2.0, 0.5, 3.0]
    people = oar.Population.from_frame(FRAME, LABELS, weights=made(weights))
    assert people.weights.tolist() == weights
    assert people.schema.names == ("income", "purpose")


def test_labels_beside_a_frame_must_fit_it():
    with pytest.raises(oar.errors.DataError, match="target: must be one column, got a table of 2"):
        oar.Population.from_frame(FRAME, FRAME.assign(approved=LABELS)[["approved", "income"]])
    with pytest.raises(oar.errors.DataError, match="weights: must be one for each of the 4 rows, got 3"):
        oar.Population.from_frame(FRAME, LABELS, weights=[1.0, 2.0, 3.0])
    with pytest.raises(oar.errors.DataError, match="weights: its index must equal"):
        oar.Population.from_frame(FRAME, LABELS, weights=pd.Series([1.0] * 4, index=[3, 2, 1, 0]))
    with pytest.raises(oar.errors.DataError, match="target: must be one for each of the 4 rows, got 3"):
        oar.Population.from_frame(FRAME, LABELS[:3])
    with pytest.raises(oar.errors.DataError, match="target: its index must equal"):
        oar.Population.from_frame(FRAME, pd.Series(LABELS, index=[3, 2, 1, 0]))
    with pytest.raises(oar.errors.DataError, match="which has a column 'purpose', too"):
        oar.Population.from_frame(FRAME, pd.Series(LABELS, name="purpose"))


def test_tables_of_other_libraries_are_read_by_way_of_pandas():
    whole = FRAME.assign(approved=LABELS)
    known = oar.Population.from_frame(whole, "approved")
    for table in (Polars(whole), pytest.importorskip("pyarrow").table(whole)):
        people = oar.Population.from_frame(table, "approved")
        assert people.schema == known.schema
        assert (people.features == known.features).all()
    numbers = pd.DataFrame(FEATURES, columns=["a", "b"])
    assert oar.Population(Polars(numbers), CODES).names == ("a", "b")
    with pytest.raises(oar.errors.OptionError, match=r"WithoutPyarrow is read by way of pandas, .*oar-recourse\[parq"):
        oar.Population.from_frame(WithoutPyarrow(whole), "approved")


def test_a_real_polars_frame():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"income": [1.5, 2.5, 3.5, 0.5], "approved": LABELS})
    assert oar.Population.from_frame(table, "approved").dimensions == 1
    assert oar.Population.from_frame(table.drop("approved"), table["approved"]).classes == ("no", "yes")


def test_arrays_of_jax_and_torch_are_features_labels_and_weights():
    import jax.numpy as jnp

    arrays = [jnp.asarray]
    torch = pytest.importorskip("torch")
    arrays += [torch.as_tensor, lambda values: torch.as_tensor(values).double().requires_grad_()]
    known = oar.Population(FEATURES, CODES)
    for made in arrays:
        people = oar.Population(made(FEATURES), made(CODES), made(np.ones(4)))
        assert people.classes == (0, 1)
        assert np.array_equal(people.features, known.features)
        assert oar.Population.from_frame(FRAME, made(CODES)).classes == (0, 1)
    soft = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    assert oar.Population(FEATURES, jnp.asarray(soft)).has_label_rows
    assert np.array_equal(oar.Population(jnp.asarray(FEATURES, dtype=jnp.bfloat16), CODES).features, FEATURES)
