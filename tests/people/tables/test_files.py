"""Tables as they really come: what is wrong with them is said, in one line that names the place and the remedy."""

import gzip
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import oar
from oar.actions.limits.limit import Limit, Limits
from oar.people import Column, Schema, read_table

GOOD = b"income,purpose,approved\n1200,car,no\n3100,home,yes\n2500,car,yes\n"
TEN_MEGABYTES = 10_000_000


def refusal(kind, call, *arguments, **options):
    """Return the message of the error that a call must raise; it must be one line that a person can read."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert len(message) < 1_500
    return message


def write(tmp_path, content, name="people.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def people_frame(rows=8, **columns):
    base = {"income": np.linspace(1000.5, 4000, rows), "approved": np.where(np.arange(rows) % 2, "yes", "no")}
    return pd.DataFrame(base | columns)


def read(path, **options):
    return oar.Population.read(path, "approved", **options)


def test_the_good_file_is_good(tmp_path):
    assert read(write(tmp_path, GOOD)).size == 3


class TestFiles:
    def test_a_file_that_is_not_there(self, tmp_path):
        write(tmp_path, GOOD)
        message = refusal(oar.errors.StorageError, read, tmp_path / "peple.csv")
        assert message.endswith("does not exist. Did you mean 'people.csv'?")
        assert "does not exist" in refusal(oar.errors.StorageError, read, tmp_path / "no" / "folder" / "people.csv")

    @pytest.mark.parametrize("name", ["people", "people.csv"])
    def test_a_directory(self, tmp_path, name):
        (tmp_path / name).mkdir()
        message = refusal(oar.errors.StorageError, read, tmp_path / name)
        assert message.startswith("path: must be a file, got the folder")

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
    def test_an_empty_file(self, tmp_path, content):
        message = refusal(oar.errors.StorageError, read, write(tmp_path, content))
        assert message.startswith("path: must be a file with a header and rows")

    def test_no_rows(self, tmp_path):
        path = write(tmp_path, GOOD.splitlines()[0] + b"\n")
        assert "has a header but no rows" in refusal(oar.errors.DataError, read, path)
        assert "at least one row, got none" in refusal(
            oar.errors.DataError, oar.Population.from_frame, people_frame().iloc[:0], "approved"
        )

    def test_a_damaged_zip(self, tmp_path):
        path = write(tmp_path, gzip.compress(GOOD * 100)[:-20], "people.csv.gz")
        assert "cannot be read as a table" in refusal(oar.errors.StorageError, read, path)
        path = write(tmp_path, GOOD, "plain.csv.gz")
        assert "cannot be read as a table" in refusal(oar.errors.StorageError, read, path)

    def test_parquet_that_is_not(self, tmp_path):
        pytest.importorskip("pyarrow")
        path = write(tmp_path, GOOD, "people.parquet")
        assert "cannot be read as Parquet" in refusal(oar.errors.StorageError, read, path)

    @pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
    def test_another_delimiter_is_found_where_it_is_safe(self, tmp_path, delimiter):
        path = write(tmp_path, GOOD.replace(b",", delimiter.encode()))
        if delimiter == " ":
            assert f"read it with sep={delimiter!r}" in refusal(oar.errors.DataError, read, path)
        else:
            assert read(path).size == 3
        assert read(path, sep=delimiter).size == 3

    def test_a_delimiter_that_some_lines_lack_is_not_guessed(self, tmp_path):
        path = write(tmp_path, GOOD.replace(b",", b";").replace(b";", b" ", 3))
        assert "read it with sep=" in refusal(oar.errors.DataError, read, path)
        assert read(write(tmp_path, GOOD.replace(b"no", b"n;o"))).size == 3  # a comma in the header is a delimiter

    def test_a_wrong_delimiter_that_was_asked_for(self, tmp_path):
        assert "read it with sep=','" in refusal(oar.errors.DataError, read, write(tmp_path, GOOD), sep=";")

    def test_semicolons_with_decimal_commas(self, tmp_path):
        path = write(tmp_path, "income;rate;approved\n1200,5;0,25;no\n3100,0;0,5;yes\n")
        assert "such as '1200,5'; read the file with decimal=','" in refusal(oar.errors.DataError, read, path)
        assert read(path, decimal=",").features[0].tolist() == [1200.5, 0.25]

    def test_commas_within_numbers(self, tmp_path):
        # pandas would take the first cell of every row for an index, and shift all the others.
        path = write(tmp_path, "income,age,approved\n1,200,30,no\n3,100,40,yes\n")
        message = refusal(oar.errors.DataError, read, path)
        assert "as many cells as the header has names (3), got more" in message

    def test_an_index_without_a_name(self, tmp_path):
        path = tmp_path / "people.csv"
        people_frame().to_csv(path)
        assert "got none for column 1; if it is an index, read it with index_col=0" in refusal(
            oar.errors.DataError, read, path
        )
        assert read(path, index_col=0).dimensions == 1

    def test_latin_1_bytes(self, tmp_path):
        path = write(tmp_path, GOOD.decode().replace("home", "café").encode("latin-1"))
        assert "name its encoding, such as encoding='latin-1'" in refusal(oar.errors.StorageError, read, path)
        assert read(path, encoding="latin-1").schema["purpose"].levels == ("café", "car")

    def test_a_byte_is_named_by_its_place_in_the_file(self, tmp_path):
        content = GOOD + b"1200,car,no\n" * 200_000 + "1200,é,yes\n".encode("latin-1")
        place = content.index(b"\xe9")
        message = refusal(oar.errors.StorageError, read, write(tmp_path, content))
        assert f"byte 0xe9 at position {place:,};" in message
        packed = refusal(oar.errors.StorageError, read, write(tmp_path, gzip.compress(content), "people.csv.gz"))
        assert "byte 0xe9; name its encoding" in packed

    def test_utf_16_bytes(self, tmp_path):
        path = write(tmp_path, GOOD.decode().encode("utf-16"))
        assert "name its encoding, such as encoding='utf-16'" in refusal(oar.errors.StorageError, read, path)
        assert read(path, encoding="utf-16").size == 3

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32"])
    def test_other_wide_letters(self, tmp_path, encoding):
        path = write(tmp_path, GOOD.decode().encode(encoding))
        assert f"encoding, such as encoding={encoding!r}" in refusal(oar.errors.StorageError, read, path)
        assert read(path, encoding=encoding).size == 3

    def test_a_huge_name(self, tmp_path):
        path = write(tmp_path, GOOD.replace(b"purpose", b"p" * TEN_MEGABYTES))
        assert "column names must be short, got 'ppp" in refusal(oar.errors.DataError, read, path)

    def test_an_encoding_that_does_not_exist(self, tmp_path):
        message = refusal(oar.errors.StorageError, read, write(tmp_path, GOOD), encoding="latin-99")
        assert "unknown encoding: latin-99" in message

    def test_a_byte_order_mark_is_no_part_of_the_first_name(self, tmp_path):
        people = read(write(tmp_path, b"\xef\xbb\xbf" + GOOD))
        assert people.schema.names == ("income", "purpose")
        quoted = b"\xef\xbb\xbf" + GOOD.replace(b"income", b'"income"')
        assert read(write(tmp_path, quoted)).schema.names == ("income", "purpose")

    @pytest.mark.parametrize("options", [{}, {"index_col": "id"}, {"usecols": ["income", "approved"]}])
    def test_a_name_that_occurs_twice(self, tmp_path, options):
        path = write(tmp_path, "id,income,income,approved\n1,1200,3,no\n2,3100,4,yes\n")
        assert "column names must differ, got 'income' twice; rename one" in refusal(
            oar.errors.DataError, read, path, **options
        )

    def test_quoted_newlines_and_delimiters_are_text(self, tmp_path):
        path = write(tmp_path, 'income,purpose,"app\nroved"\n1200,"a new\ncar, red",no\n3100,"say ""home""",yes\n')
        people = oar.Population.read(path, "app\nroved")
        assert people.schema["purpose"].levels == ("a new\ncar, red", 'say "home"')

    def test_a_quote_that_is_never_closed(self, tmp_path):
        path = write(tmp_path, b'income,purpose,approved\n1200,"car,no\n' + b"3100,home,yes\n" * 3)
        assert "cannot be read as a table" in refusal(oar.errors.StorageError, read, path)

    def test_a_huge_cell(self, tmp_path):
        path = write(tmp_path, GOOD.replace(b"home", b"h" * TEN_MEGABYTES))
        message = refusal(oar.errors.DataError, read, path)
        assert "column 'purpose' has a cell of 10,000,000 characters in row 1" in message

    def test_an_option_that_pandas_does_not_know(self, tmp_path):
        message = refusal(oar.errors.OptionError, read_table, write(tmp_path, GOOD), seperator=";")
        assert message.startswith("options: must be one of")
        assert "read whole; leave it out" in refusal(oar.errors.OptionError, read, tmp_path / "people.csv", chunksize=2)

    def test_ragged_rows(self, tmp_path):
        path = write(tmp_path, GOOD + b"1,2,3,4,5\n")
        assert "Expected 3 fields in line 5, saw 5" in refusal(oar.errors.StorageError, read, path)


class TestColumns:
    def population(self, frame, **options):
        return oar.Population.from_frame(frame, "approved", **options)

    def refused(self, frame, **options):
        return refusal(oar.errors.DataError, self.population, frame, **options)

    def test_huge_texts_are_no_categories_and_do_not_flood_the_message(self):
        frame = people_frame(purpose=["car"] * 7 + ["c" * TEN_MEGABYTES])
        assert "column 'purpose': must be categories, got a text of 10,000,000 characters" in self.refused(frame)
        schema = Schema((Column("income", "number"), Column("purpose", "category", ("car", "home"))))
        assert "must be one of 'car', 'home', got 'ccc" in self.refused(frame, schema=schema)
        numbers = Schema((Column("income", "number"), Column("purpose", "number")))
        assert "must be numbers, got the text 'car' in row 0" in self.refused(frame, schema=numbers)

    @pytest.mark.parametrize("constant", [7, 0.5, True, "car", pd.Categorical(["a"] * 8, ordered=True)])
    def test_a_constant_column_is_kept(self, constant):
        frame = people_frame(constant=constant)
        people = self.population(frame)
        assert np.ptp(people.features[:, 1:], axis=0).max() == 0
        decoded = people.encoding.decode(people.features, frame.index)
        pd.testing.assert_frame_equal(decoded, frame.drop(columns="approved"))

    def test_a_target_with_one_value(self):
        message = self.refused(people_frame().assign(approved="yes"))
        assert message.startswith("target: column 'approved' must have at least two different values, got only 'yes'")

    def test_a_target_that_drops_to_one_value(self):
        frame = people_frame(age=[1, np.nan] * 4)
        assert "at least two different values, got only 'no'" in self.refused(frame, missing="drop")

    def test_a_target_that_is_infinite(self):
        frame = people_frame().assign(approved=[1.0, 2.5, np.inf, 3, 4, 5, 6, 7])
        assert "target: column 'approved' must be finite, got inf in row 2" in self.refused(frame)

    def test_a_target_of_lists(self):
        frame = people_frame().assign(approved=pd.Series([[1], [2]] * 4, dtype=object))
        assert "labels: must be hashable" in self.refused(frame)

    def test_mixed_types(self):
        frame = people_frame(age=pd.Series([1, 2.5, "old", 4, 5, 6, 7, 8], dtype=object))
        assert "column 'age': must hold one kind of values, got 1 (int), 'old' (str)" in self.refused(frame)
        frame = people_frame(owner=pd.Series([True, 1, 0, False] * 2, dtype=object))
        assert "must hold one kind of values, got True (bool), 1 (int)" in self.refused(frame)
        frame = people_frame(things=pd.Series([[1], [2]] * 4, dtype=object))
        assert "must be numbers, booleans or text, got [1] (list)" in self.refused(frame)

    @pytest.mark.parametrize("value", [b"a", (1, 2), pd.Interval(0, 1), Decimal("1.5")])
    def test_values_of_one_kind_that_is_no_feature(self, value):
        message = self.refused(people_frame(thing=pd.Series([value] * 8, dtype=object)))
        assert f"column 'thing': must be numbers, booleans or text, got {value!r}" in message

    @pytest.mark.parametrize("value", [date(2020, 1, 31), "2020-01-31", "31.1.2020", "2020-01-31T10:00:00Z"])
    def test_dates_in_other_words(self, value):
        message = self.refused(people_frame(day=pd.Series([value] * 8, dtype=object)))
        assert message.startswith("column 'day': dates are not features")

    def test_all_columns_of_dates_are_named_at_once(self):
        days = {"day": pd.Series(["2020-01-31"] * 8), "paid": pd.Timestamp("2020-01-31")}
        message = self.refused(people_frame(**days))
        assert message.startswith("columns 'day', 'paid': dates are not features; turn them into numbers")
        assert message.endswith("If these are categories, convert them with astype('category').")

    def test_percent_written_as_text(self):
        message = self.refused(people_frame(rate=["5%", "7.5 %"] * 4))
        assert "column 'rate': must be numbers or categories, got numbers in percent written as text" in message
        assert "df['rate'].str.rstrip('% ').astype(float)" in message

    @pytest.mark.parametrize("gap", ["?", "-", " ? "])
    def test_marks_of_missing_values_among_few_numbers(self, gap):
        message = self.refused(people_frame(age=["1", "2", gap, "4"] * 2))
        assert f"3 different numbers written as text, such as '1', and {gap!r}; if that means a missing" in message
        assert self.population(people_frame(place=["north", gap] * 4)).schema["place"].kind == "category"

    @pytest.mark.parametrize("dtype", ["uint8", "int8", "UInt8", "int64"])
    def test_integers_that_move_beyond_their_dtype_are_widened(self, dtype):
        people = self.population(people_frame(age=pd.Series(range(8), dtype=dtype)))
        row = people.features[:1] + [0.0, 0.0]
        assert people.encoding.decode(row)["age"].dtype == dtype
        for far in (-200.0, 300.0):
            back = people.encoding.decode(row + [0.0, far])["age"]
            assert back.tolist() == [far]
            assert back.dtype == "int64"

    def test_a_row_with_a_column_twice(self):
        people = self.population(people_frame(age=range(8)))
        row = pd.Series([1.0, 2.0, 3], index=["income", "income", "age"])
        assert "query: must have each column once, got 'income' twice" in refusal(
            oar.errors.DataError, people.vector, row, "query"
        )

    def test_a_target_that_is_none(self):
        message = refusal(oar.errors.DataError, oar.Population.from_frame, people_frame(), None)
        assert message == "target: must be the name of the column of labels, got None."

    def test_mixed_types_in_a_file(self, tmp_path):
        # pandas reads the whole column as text, so that numbers would become categories without a word.
        lines = [f"{1000 + 7 * number},{'yes' if number % 2 else 'no'}" for number in range(30)]
        path = write(tmp_path, "\n".join(["income,approved", *lines, "unknown,no"]))
        message = refusal(oar.errors.DataError, read, path)
        assert "got 30 different numbers written as text, such as '1000', and 'unknown'" in message
        assert read(path, na_values=["unknown"], missing="drop").size == 30
        frame = read_table(path).astype({"income": "category"})
        assert len(self.population(frame).schema["income"].levels) == 31

    def test_a_word_among_few_numbers(self, tmp_path):
        path = write(tmp_path, "age,approved\n1,no\nfoo,yes\n5,no\n7,yes\n")
        message = refusal(oar.errors.DataError, read, path)
        assert "column 'age': must hold one kind of values, got 3 different numbers written as text" in message
        assert "'foo'" in message
        assert read(path, dtype={"age": "category"}).dimensions == 4

    @pytest.mark.parametrize(
        "values", [["1", "2", "none"], ["a", "b", "c", "1", "2", "3"], ["1", "2", "3", "4 or more"]]
    )
    def test_some_numbers_may_be_categories(self, values):
        people = self.population(people_frame(len(values), rooms=values))
        assert people.schema["rooms"].levels == tuple(sorted(values))

    def test_few_codes_may_be_categories(self):
        people = self.population(people_frame(rooms=["1", "2", "3", "4+"] * 2))
        assert people.schema["rooms"].levels == ("1", "2", "3", "4+")

    def test_text_is_not_parsed_by_a_schema_of_numbers(self):
        schema = Schema((Column("income", "number"), Column("age", "integer")))
        frame = people_frame(age=["30", "40"] * 4)
        assert "column 'age' must be whole numbers, got the text '30' in row 0" in self.refused(frame, schema=schema)

    def test_an_unseen_category_in_a_query(self):
        people = self.population(people_frame(purpose=["car", "home"] * 4))
        message = refusal(oar.errors.DataError, people.vector, {"income": 1.0, "purpose": "hoem"}, "query")
        assert message == "query: column 'purpose' must be one of 'car', 'home', got 'hoem'. Did you mean 'home'?"
        message = refusal(oar.errors.DataError, people.vector, {"income": 1.0, "purpose": "x" * TEN_MEGABYTES}, "query")
        assert message.endswith("(10,000,000 characters).")
        message = refusal(oar.errors.DataError, people.vector, {"income": "1,200", "purpose": "car"}, "query")
        assert "column 'income' must be numbers, got the text '1,200'" in message

    @pytest.mark.parametrize("missing", ["refuse", "drop", "impute"])
    @pytest.mark.parametrize("given", [True, False])
    @pytest.mark.parametrize("dtype", [float, object])
    def test_a_column_of_only_missing_values(self, missing, given, dtype):
        frame = people_frame(empty=pd.Series([None] * 8, dtype=dtype))
        for column in (Column("empty", "number"), Column("empty", "integer"), Column("empty", "category", ("a",))):
            schema = Schema((Column("income", "number"), column)) if given else None
            message = self.refused(frame, missing=missing, schema=schema)
            assert "column 'empty'" in message
            assert "must have at least one value, got only missing ones; drop" in message

    def test_labels_are_not_filled_in_nor_said_to_be(self):
        frame = people_frame().assign(approved=["no", None, "yes", "no"] * 2)
        message = self.refused(frame)
        assert "column 'approved' is never filled in: choose missing='drop'" in message
        assert "impute" not in message
        assert "or choose missing='drop'" in self.refused(frame, missing="impute")
        assert self.population(frame, missing="drop").size == 6

    @pytest.mark.parametrize("columns", [{"age": "integer"}, ["age"], 3, "schema.toml"])
    def test_a_schema_of_what_is_no_column(self, columns):
        assert "columns: must be oar.people.Column(name, kind) each" in refusal(oar.errors.DataError, Schema, columns)

    def test_weights_are_not_filled_in(self):
        frame = people_frame(count=[1.0, np.nan] * 4)
        message = self.refused(frame, weights="count", missing="impute")
        assert "column 'count' has missing values, and a label or a weight is not filled in" in message
        assert self.population(frame.assign(approved=["no", "yes", "yes", "no"] * 2), weights="count", missing="drop")

    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    @pytest.mark.parametrize("missing", ["refuse", "drop", "impute"])
    def test_infinite_values(self, value, missing):
        frame = people_frame(rate=[0.5, 1.0, value, 2, 3, 4, 5, 6])
        assert f"column 'rate' must be finite, got {value} in row 2" in self.refused(frame, missing=missing)
        gapped = people_frame(rate=[value, 1.0, value, np.nan, value, value, value, 6])
        assert "column 'rate' must be finite" in self.refused(gapped.drop(index=7), missing="impute")

    def test_infinite_values_in_a_file(self, tmp_path):
        path = write(tmp_path, GOOD.replace(b"3100", b"inf"))
        assert "column 'income' must be finite, got inf in row 1" in refusal(oar.errors.DataError, read, path)

    def test_a_limit_on_a_column_that_does_not_exist(self):
        people = self.population(people_frame())
        message = refusal(oar.errors.OptionError, Limits({"incme": Limit(immutable=True)}).check, people.schema)
        assert message.endswith("got 'incme'. Did you mean 'income'?")

    @pytest.mark.parametrize(
        "values", [[2**53 + 1] * 8, pd.Series([2**53 + 1.0] * 8), pd.Series([10**25] * 8, dtype=object), [-(2**62)] * 8]
    )
    def test_whole_numbers_beyond_what_a_float_tells_apart(self, values):
        message = self.refused(people_frame(account=values))
        assert "column 'account' must be whole numbers below 2^53" in message
        assert "drop it if it is an identifier, or give a schema in which its kind is 'number'" in message

    def test_whole_numbers_beyond_a_float_may_be_rounded_if_one_says_so(self):
        schema = Schema((Column("income", "number"), Column("wealth", "number")))
        people = self.population(people_frame(wealth=[2**60 + 1] * 8), schema=schema)
        assert people.features[0, 1] == 2.0**60
        assert self.population(people_frame(count=[2**53 - 1] * 8)).features[0, 1] == 2**53 - 1

    def test_numbers_with_hundreds_of_digits(self):
        frame = people_frame(account=pd.Series([10**400] * 8, dtype=object))
        schema = Schema((Column("income", "number"), Column("account", "number")))
        assert "column 'account'" in self.refused(frame, schema=schema)
        assert "column 'account'" in self.refused(frame)

    def test_whole_numbers_of_thirty_digits_in_a_file(self, tmp_path):
        path = write(tmp_path, GOOD.replace(b"3100", b"123456789012345678901234567890"))
        assert "column 'income'" in refusal(oar.errors.DataError, read, path)

    def test_yes_and_no_are_a_category(self):
        frame = people_frame(owner=["yes", "no"] * 4)
        people = self.population(frame)
        assert people.schema["owner"] == Column("owner", "category", ("no", "yes"))
        schema = people.schema.replace("owner", kind="boolean")
        message = self.refused(frame, schema=schema)
        assert "column 'owner' must be true or false, got the text 'yes' in row 0" in message
        assert "true_values=['yes'] and false_values=['no']" in message

    def test_yes_and_no_are_booleans_if_the_file_is_read_so(self, tmp_path):
        path = write(tmp_path, "owner,approved\nyes,1\nno,0\nyes,0\n")
        people = read(path, true_values=["yes"], false_values=["no"])
        assert people.schema["owner"].kind == "boolean"
        assert people.features[:, 0].tolist() == [1, 0, 1]

    @pytest.mark.parametrize(
        ("texts", "options"),
        [
            (["1,200", "3,100.50", "900"], {"thousands": ","}),
            (["1.200", "3.100,50", "900"], {"thousands": ".", "decimal": ","}),
            (["1'200", "3'100.50", "-900"], {"thousands": "'"}),
        ],
    )
    def test_thousands_separators(self, tmp_path, texts, options):
        rows = "".join(f'"{text}",{label}\n' for text, label in zip(texts, ("no", "yes", "no"), strict=True))
        path = write(tmp_path, "income,approved\n" + rows)
        message = refusal(oar.errors.DataError, read, path)
        assert f"got numbers written as text, such as {min(texts[:2])!r}; read the file with thousands=" in message
        assert read(path, **options).features[:2, 0].tolist() == [1200, 3100.5]


def test_decimal_commas_are_not_taken_for_categories(tmp_path):
    path = tmp_path / "commas.csv"
    path.write_text("x;t\n" + "\n".join(f"{i % 9},{i % 7};{i % 2}" for i in range(90)))
    with pytest.raises(oar.errors.DataError, match="decimal=','"):
        oar.Population.read(path, "t", sep=";")
    people = oar.Population.read(path, "t", sep=";", decimal=",")
    assert people.schema["x"].kind == "number"


@pytest.mark.parametrize("sep", ["::", "§", r"\s+"])
def test_separators_that_pandas_reads_slowly_are_no_warning(tmp_path, recwarn, sep):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n3,4\n".replace(",", " " if sep == r"\s+" else sep))
    assert read_table(path, sep=sep).to_numpy().tolist() == [[1, 2], [3, 4]]
    assert not recwarn.list
