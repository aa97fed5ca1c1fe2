"""Adult: the real files, and small ones with the same quirks."""

import gzip

import numpy as np
import pytest

import oar
from oar.datasets import adult

FIRST = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
ROWS = [
    FIRST + "United-States, <=50K",
    "52, Self-emp-inc, 287927, HS-grad, 9, Married-civ-spouse, Exec-managerial, Wife, White, Female, 15024, 0, 40, "
    "United-States, >50K",
    "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, 0, 0, 60, South, >50K",
]


def write(folder, data=True, test=True, zipped=False):
    """Write small files as UCI would, and return the folder."""
    contents = {}
    if data:
        contents["adult.data"] = "\n".join(ROWS) + "\n\n"
    if test:
        contents["adult.test"] = "|1x3 Cross validator\n" + "".join(f"{row}.\n" for row in ROWS[:2]) + "\n"
    for name, text in contents.items():
        content = text.encode()
        (folder / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(content) if zipped else content)
    return folder


class TestRealFiles:
    @pytest.mark.parametrize(
        ("part", "missing", "size", "rich"),
        [
            ("", "drop", 45_222, 11_208),
            ("adult.data.gz", "drop", 30_162, 7_508),
            ("adult.test.gz", "drop", 15_060, 3_700),
            ("", "impute", 48_842, 11_687),
            ("adult.data.gz", "impute", 32_561, 7_841),
        ],
    )
    def test_counts_are_the_published_ones(self, adult_data, part, missing, size, rich):
        census = adult(adult_data / part, missing=missing)
        assert census.frame[census.target].value_counts().to_dict() == {"<=50K": size - rich, ">50K": rich}
        assert census.population.size == size
        assert census.population.dimensions == 88

    def test_education_is_in_the_order_of_its_number(self, adult_data):
        from oar.datasets.census import SCHEMA, _read_part

        raw = _read_part(adult_data / "adult.data.gz")
        ranks = raw["education"].map({level: rank for rank, level in enumerate(SCHEMA["education"].levels, start=1)})
        assert (ranks == raw["education_number"]).all()


@pytest.mark.parametrize("zipped", [True, False])
def test_both_files_are_one_table_without_their_quirks(tmp_path, zipped):
    census = adult(write(tmp_path, zipped=zipped))
    assert census.frame[census.target].tolist() == ["<=50K", ">50K", "<=50K", ">50K"]
    assert census.frame.index.tolist() == [0, 1, 3, 4]  # the person with a gap was the third
    assert census.frame["native_country"].tolist() == ["United-States"] * 4
    assert census.frame["hours_per_week"].dtype.kind == "i"
    assert "weight" not in census.frame
    assert len(census.schema) == 12
    for said in ("Becker", "Kohavi (1996)", "10.24432/C5XW20", "CC BY 4.0"):
        assert said in census.source


@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
def test_one_file_or_a_folder_with_one(tmp_path, name):
    folder = write(tmp_path, data=name == "adult.data", test=name == "adult.test")
    assert len(adult(folder).frame) == len(adult(folder / name).frame) == 2


def test_gaps_are_dropped_filled_in_or_refused(tmp_path):
    write(tmp_path, test=False)
    filled = adult(tmp_path, missing="impute").frame
    assert len(filled) == 3
    assert not filled.isna().any().any()
    with pytest.raises(oar.errors.DataError, match="got some in 1 of 3 rows, the first in column 'workclass', row 2"):
        adult(tmp_path, missing="refuse")
    with pytest.raises(oar.errors.OptionError, match="missing: must be one of"):
        adult(tmp_path, missing="keep")


def test_the_census_weights_if_wanted(tmp_path):
    census = adult(write(tmp_path, test=False), weighted=True)
    np.testing.assert_array_equal(census.population.weights, [77516, 287927])
    assert "weight" not in census.population.names
    assert adult(tmp_path).population.weights is None


def test_any_part_has_the_coordinates_of_the_whole(tmp_path):
    people = adult(write(tmp_path)).population
    assert people.dimensions == 88
    assert people.features[:, list(people.names).index("education")].tolist() == [12, 8, 12, 8]


def test_limits_fit_the_columns_and_spare_who_people_are(tmp_path):
    census = adult(write(tmp_path))
    checked = census.limits.check(census.schema)
    for name in ("race", "sex", "native_country", "marital_status", "relationship"):
        assert checked.columns[name].immutable
    assert checked.columns["age"].direction == checked.columns["education"].direction == "up"
    assert set(checked.columns) == set(census.schema.names)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not one of Adult's files"),
        ("a,b,c\n1,2,3\n", "must have 15 columns between commas, got 3"),
        (ROWS[0].replace("39", "old") + "\n", "age must be whole numbers, got 'old'"),
        (ROWS[0].replace("39", "39.5") + "\n", "age must be whole numbers, got .*39.5"),
        (ROWS[0].replace("39", "?") + "\n", "age must be whole numbers, got .*nan"),
        (ROWS[0] + "\n" + FIRST + "United-States\n", "income must be one of <=50K, >50K, got '' in row 1"),
        (ROWS[0].replace("Male", "male") + "\n", "sex must be one of Female, Male, got 'male' in row 0"),
        (ROWS[0] + "\n" + ROWS[1] + ", more\n", "is not one of Adult's files .*Expected 15 fields"),
    ],
)
def test_other_files_and_damaged_ones_are_named(tmp_path, content, message):
    path = tmp_path / "adult.data"
    path.write_text(content)
    with pytest.raises(oar.errors.StorageError, match=message):
        adult(path)


def test_a_place_without_the_files_says_where_they_are(tmp_path):
    with pytest.raises(
        oar.errors.StorageError, match=r"path: must be a file or a folder that exists.*10\.24432/C5XW20"
    ):
        adult(tmp_path / "nowhere")
    with pytest.raises(oar.errors.StorageError, match=r"must hold adult\.data or adult\.test, got neither"):
        adult(tmp_path)
