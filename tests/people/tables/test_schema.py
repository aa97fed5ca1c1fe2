"""Tables in, tables out: schema, encoding, missing values, files, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oar
from oar.people import Column, Schema, read_table
from oar.people.tables.encoding import Encoding

GRADES = ["low", "middle", "high"]


def table(rows=12, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(3000, 800, rows).round(2),
            "age": rng.integers(18, 70, rows),
            "owner": rng.random(rows) < 0.5,
            "grade": pd.Categorical(rng.choice(GRADES, rows), categories=GRADES, ordered=True),
            "purpose": rng.choice(["car", "home", "school"], rows),
            "approved": np.where(np.arange(rows) % 2, "yes", "no"),
        },
        index=[f"p{number}" for number in range(rows)],
    )


def test_a_schema_is_inferred_printed_and_edited():
    schema = Schema.infer(table().drop(columns="approved"))
    assert [column.kind for column in schema] == ["number", "integer", "boolean", "ordinal", "category"]
    assert str(schema).splitlines()[4] == "grade    ordinal   low < middle < high"
    changed = schema.replace("age", kind="number").replace("purpose", levels=("car", "home", "school", "boat"))
    assert changed["age"].kind == "number"
    assert changed["purpose"].levels[-1] == "boat"
    with pytest.raises(oar.errors.OptionError, match="Did you mean 'income'"):
        schema["incom"]
    with pytest.raises(oar.errors.OptionError, match="must be one of 'kind', 'levels'"):
        schema.replace("age", kinds="number")


def test_whole_numbers_are_integers_also_as_floats_or_objects():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0, 1], "c": [0.5, 1.0], "d": pd.Series([3, 4], dtype=object)})
    assert [column.kind for column in Schema.infer(frame)] == ["integer", "boolean", "number", "integer"]


@pytest.mark.parametrize("name", ["age", "net income", 'with "quotes"', "ünder.dotted"])
def test_a_schema_survives_its_file(tmp_path, name):
    schema = Schema((Column(name, "ordinal", ("a \\ b", 'c "d"', "é")), Column("x", "category", (2, 2.5, True))))
    schema.save(tmp_path / "schema.toml")
    assert Schema.load(tmp_path / "schema.toml") == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[columns.age]\nkind = 'whole'", "columns.age kind: must be one of"),
        ("[columns.age]\nkid = 'integer'", "columns.age: must be one of 'kind', 'levels', got 'kid'"),
        ("[columns.age]\nkind = 'category'", "columns.age levels: must name the values"),
        ("[columns.age]\nkind = 'integer'\nlevels = [1]", "columns.age levels: are for ordinals and categories"),
        ("[columns.age]\nlevels = [1]", "columns.age kind: must be one of"),
        ("age = 3", "columns: must be a table for each column"),
        ("[columns", "must be a TOML file"),
    ],
)
def test_a_wrong_schema_file_is_named(tmp_path, text, message):
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(oar.errors.OARError, match=message.replace("[", r"\[")):
        Schema.load(tmp_path / "schema.toml")


@given(seed=st.integers(0, 1000), rows=st.integers(1, 30))
@settings(max_examples=20)
def test_decoding_undoes_encoding_dtypes_and_index_included(seed, rows):
    frame = table(rows, seed).drop(columns="approved").astype({"age": "int32", "income": "float32"})
    schema = Schema.infer(table(60).drop(columns="approved")).replace("purpose", levels=("car", "home", "school"))
    encoding = Encoding(schema, tuple(frame.dtypes))
    coordinates = encoding.encode(frame)
    assert coordinates.shape == (rows, 7)
    pd.testing.assert_frame_equal(encoding.decode(coordinates, frame.index), frame)
    np.testing.assert_array_equal(encoding.encode_row(frame.iloc[0], "row"), coordinates[0])


def test_a_population_of_a_table_and_a_query_in_its_words():
    frame = table(40)
    people = oar.Population.from_frame(frame, target="approved")
    assert people.dimensions == 7
    assert people.names[-1] == "purpose=school"
    assert people.classes == ("no", "yes")
    row = frame.drop(columns="approved").iloc[0]
    problem = oar.Problem(people, oar.SoftmaxRegression(), oar.Query(row, "yes"), oar.Perturb(0.1))
    np.testing.assert_array_equal(problem.query_features, people.features[0])
    with pytest.raises(
        oar.errors.DataError, match="must be one of 'car', 'home', 'school', got 'caar'. Did you mean 'car'"
    ):
        _ = oar.Problem(
            people, oar.SoftmaxRegression(), oar.Query(dict(row) | {"purpose": "caar"}, "yes"), oar.Perturb(0.1)
        )


def test_weights_are_a_column_too():
    frame = table(20).assign(count=2.0)
    people = oar.Population.from_frame(frame, "approved", weights="count")
    assert people.weights.tolist() == [2.0] * 20
    assert "count" not in people.names


def gapped():
    frame = table(9)
    frame.loc["p1", "income"] = np.nan
    frame.loc["p2", "purpose"] = None
    frame["age"] = frame["age"].astype("Int64")
    frame.loc["p3", "age"] = pd.NA
    return frame


def test_missing_values_are_refused_dropped_or_filled_in_as_chosen():
    frame = gapped()
    with pytest.raises(
        oar.errors.DataError, match="missing values, got some in 3 of 9 rows, the first in column 'income', row 'p1'"
    ):
        oar.Population.from_frame(frame, "approved")
    assert oar.Population.from_frame(frame, "approved", missing="drop").size == 6
    filled = oar.Population.from_frame(frame, "approved", missing="impute")
    assert filled.size == 9
    assert filled.features[1, 0] == frame["income"].median()
    assert filled.features[3, 1] in frame["age"].dropna().tolist()
    usual = frame["purpose"].mode().iloc[0]
    assert filled.features[2, list(filled.names).index(f"purpose={usual}")] == 1
    with pytest.raises(oar.errors.OptionError, match="missing: must be one of 'refuse', 'drop', 'impute'"):
        oar.Population.from_frame(frame, "approved", missing="ignore")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(age=f["age"].astype(object).where(f.index != "p3", "old")), "column 'age'.*one kind"),
        (lambda f: f.assign(when=pd.Timestamp("2020-01-01")), "column 'when': dates are not features"),
        (lambda f: f.assign(name=[f"n{i}" for i in range(len(f))]), "column 'name' is no feature, it names people"),
        (lambda f: f.assign(income=np.where(f.index == "p3", np.inf, f["income"])), "'income' must be finite.*'p3'"),
        (lambda f: f.iloc[:0], "at least one row"),
        (lambda f: f[["approved"]], "must have features beside the target"),
        (lambda f: f.drop(columns="approved").assign(aproved=1), "target: must be a column.*Did you mean 'aproved'"),
        (lambda f: pd.concat([f, f[["age"]]], axis=1), "column names must differ, got 'age' twice"),
        (lambda f: f.assign(empty=np.nan), "only missing ones"),
    ],
)
def test_tables_that_cannot_be_are_refused_with_the_column(change, message):
    frame = change(table(120))
    with pytest.raises(oar.errors.DataError, match=message):
        oar.Population.from_frame(frame, "approved", missing="impute" if "empty" in frame else "refuse")


def test_a_given_schema_is_kept_to():
    frame = table(20)
    schema = Schema.infer(frame.drop(columns="approved"))
    for wrong, message in (
        (frame.assign(owner=3), "'owner' must be true or false, got .*3"),
        (frame.assign(age=frame["age"] + 0.5), "'age' must be whole numbers"),
        (frame.drop(columns="age"), "must have column 'age', got none"),
        (frame.assign(extra=1), "got 'extra' too"),
        (frame.assign(purpose="boat"), "'purpose' must be one of 'car', 'home', 'school', got 'boat'"),
    ):
        with pytest.raises(oar.errors.DataError, match=message):
            oar.Population.from_frame(wrong, "approved", schema=schema)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.tsv", "people.parquet"])
def test_files_are_read(tmp_path, name):
    frame = table(30).reset_index(drop=True)
    frame["grade"] = frame["grade"].astype(str)
    path = tmp_path / name
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    people = oar.Population.read(path, "approved")
    assert people.size == 30
    assert people.schema["age"].kind == "integer"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "is empty"),
        (b"a,b,y\n", {}, "has a header but no rows"),
        (b"a b y\n1 2 no\n", {}, "as if its delimiter were ' '"),
        ("a,b,y\n1,é,no\n".encode("latin-1"), {}, "is not utf-8.*latin-1"),
        (b"a,a,y\n1,2,no\n", {}, "column names must differ, got 'a' twice"),
        (b"a,b,y\n1,2,no\n3,4,5,6,yes\n", {}, "cannot be read as a table"),
        (b'a,b,y\n1,"2,no\n' + b"3,4,yes\n" * 2000, {}, "cell of .* characters|cannot be read"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, options, message):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    with pytest.raises(oar.errors.OARError, match=message):
        read_table(path, **options)


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(oar.errors.StorageError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "people.xls").write_bytes(b"PK")
    with pytest.raises(oar.errors.OptionError, match=r"must end in \.csv"):
        read_table(tmp_path / "people.xls")


def test_a_header_that_only_looks_doubled_is_kept(tmp_path):
    (tmp_path / "people.csv").write_text("a,a.1,y\n1,2,no\n3,4,yes\n")
    assert list(read_table(tmp_path / "people.csv").columns) == ["a", "a.1", "y"]
