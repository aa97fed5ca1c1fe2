"""Files as spreadsheets export them, and columns that are no features."""

from __future__ import annotations

import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from support.commands import done, people, run

pytestmark = pytest.mark.usefixtures("least_effort")

ASKED = ["--target", "approved", "--query", "1", "--goal", "yes", "--budget", "0.2"]
PYTHON = re.compile(
    r"\b(sep|index_col|thousands|decimal|na_values|encoding|usecols|missing|dtype)=|astype|to_numeric|df\."
)


def failed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1
    assert not PYTHON.search(result.stderr), result.stderr
    return result.stderr


def shown(*arguments):
    return done("schema", *arguments)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_row_numbers_are_refused_with_the_option_to_use(folder):
    frame = people()
    frame.insert(0, "nr", range(1, 91))
    frame.to_csv("people.csv", index=False)
    said = failed("plan", "people.csv", *ASKED, "--out", "plan")
    assert "column 'nr' is no feature that people could change, it counts the rows, from 1 to 90" in said
    for option in ("--id nr", "--leave-out nr", "--feature nr"):
        assert option in said
        assert "nr" in shown("people.csv", "--target", "approved", "--feature", "nr")
    assert "nr" not in shown("people.csv", "--target", "approved", "--id", "nr")
    assert "counts the rows" in failed("schema", "people.csv", "--target", "approved")
    plain = ["--plain", "--leave-out", "purpose", "--leave-out", "town", "--leave-out", "owner"]
    assert "--id nr" in failed("plan", "people.csv", *ASKED, *plain, "--out", "plan")


def test_an_index_without_a_name_is_called_by_its_place(folder):
    people().to_csv("people.csv")
    said = failed("plan", "people.csv", *ASKED, "--out", "plan")
    assert "got none for column 1, which counts the rows, from 0 to 89; use --id 'column 1'" in said
    for name in ("column 1", "Unnamed: 0"):
        for option in ("--id", "--leave-out"):
            assert shown("people.csv", "--target", "approved", option, name).splitlines()[1].startswith("income")
    frame = people().assign(notes=["x", "y", "z"] * 30).rename(columns={"notes": ""})
    frame.to_csv("people.csv", index=False)
    assert "got none for column 7; use --id 'column 7'" in failed("plan", "people.csv", *ASKED, "--out", "plan")


def test_a_spreadsheets_export_is_read(folder):
    frame = people()[["income", "age", "purpose", "approved"]]
    text = frame.assign(income=[f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in frame["income"]])
    text["age"] = ["unbekannt" if place == 3 else str(age) for place, age in enumerate(frame["age"])]
    text.to_csv("people.csv", index=False, sep=";")
    target = ["people.csv", "--target", "approved"]
    both = "read the file with --thousands '.' and --decimal ','."
    assert both in failed("schema", *target)
    assert both in failed("schema", *target, "--decimal", ",")  # the thousands are what is missing
    german = [*target, "--decimal", ",", "--thousands", "."]
    assert "--na 'unbekannt'" in failed("schema", *german)
    told = shown(*german, "--na", "unbekannt").splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["income", "number"], ["age", "integer"]]
    assert told[-1] == "1 of 90 rows have missing values: plan with --missing drop or --missing impute."


@pytest.mark.parametrize(("sep", "said"), [("§", "§"), ("  ", r"\s+"), ("\t", r"\t"), ("\t", "\t"), ("^", "^")])
def test_cells_may_be_apart_by_any_character_or_by_blanks(folder, sep, said):
    people().to_csv("people.csv", index=False)
    text = (folder / "people.csv").read_text()
    (folder / "other.csv").write_text(text.replace(",", sep))
    asked = ["--target", "approved"]
    assert shown("other.csv", "--sep", said, *asked) == shown("people.csv", *asked)


def test_a_workbook_is_read_as_a_file_is(folder):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("people.xlsx") as book:
        people(seed=3).to_excel(book, sheet_name="old")
        people().to_excel(book, sheet_name="new", index=False)
    people().to_csv("people.csv", index=False)
    people(seed=3).to_csv("old.csv", index=False)
    asked = ["--target", "approved"]
    assert shown("people.xlsx", "--sheet", "new", *asked) == shown("people.csv", *asked)
    assert "got none for column 1, which counts the rows" in failed("schema", "people.xlsx", *asked)
    assert shown("people.xlsx", "--leave-out", "column 1", *asked) == shown("old.csv", *asked)
    assert failed("schema", "people.xlsx", "--sheet", "news") == (
        "oar: --sheet: must be a sheet of people.xlsx, got 'news'; its sheets are 'old', 'new'. Did you mean 'new'?\n"
    )
    words = people().astype({"age": object})
    words.loc[3, "age"] = "unknown"
    words.to_excel("words.xlsx", index=False)
    assert "if 'unknown' means a missing value, read the file with --na 'unknown'" in failed("schema", "words.xlsx")
    assert "1 of 90 rows have missing values" in shown("words.xlsx", "--na", "unknown")
    assert "--sep: is for texts, and people.xlsx is a workbook" in failed("schema", "people.xlsx", "--sep", ";")
    (folder / "torn.xlsx").write_bytes((folder / "people.xlsx").read_bytes()[:1000])
    assert "cannot be read as a workbook" in failed("schema", "torn.xlsx")
    pd.DataFrame([["a", "a", "t"], [1, 2, "x"]]).to_excel("twice.xlsx", header=False, index=False)
    assert "column names must differ, got 'a' twice" in failed("schema", "twice.xlsx")


def test_a_workbook_without_openpyxl_says_what_to_install(folder, monkeypatch):
    def without(*arguments, **options):
        raise ImportError("Missing optional dependency 'openpyxl'")

    monkeypatch.setattr(pd, "read_excel", without)
    with zipfile.ZipFile(folder / "people.xlsx", "w") as packed:
        packed.writestr("xl/workbook.xml", "")
    assert "pip install 'oar-recourse[excel]', or save the sheet as .csv" in failed("schema", "people.xlsx")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--sheet", "one"], "--sheet: is for sheets of an .xlsx file, and people.csv is no workbook"),
        (["--sep", "::"], "--sep: must be one character, "),
        (["--sep", ""], "--sep: must not be empty, got ''; say what it is, or leave it out."),
        (["--weights", ""], "--weights: must not be empty, got ''; say what it is, or leave it out."),
        (["--decimal", ",,"], "--decimal: must be one mark"),
        (["--thousands", "0"], "--thousands: must be one mark"),
        (["--thousands", "."], "--thousands: is the decimal mark, too"),
        (["--decimal", ",", "--thousands", ","], "must be different marks"),
    ],
)
def test_options_of_files_are_checked(folder, options, complaint):
    people().to_csv("people.csv", index=False)
    assert complaint in failed("schema", "people.csv", *options)


def faulty():
    """Tables of which each brings out another hint of the library."""
    good = people()
    many = [f"text {place % 85}" for place in range(90)]
    return {
        "gap": good.assign(income=[None, *good["income"][1:]]),
        "empty": good.assign(nothing=np.nan),
        "dates": good.assign(born=["2001-02-03"] * 45 + ["2002-02-03"] * 45),
        "grouped": good.assign(income=["1,200"] * 45 + ["1,300"] * 45),
        "marks": good.assign(income=[*map(str, good["income"][:-1]), "?"]),
        "names": good.assign(who=many),
        "large": good.assign(code=[2**60 + place % 7 for place in range(90)]),
        "infinite": good.assign(income=[np.inf, *good["income"][1:]]),
        "unlabelled": good.assign(approved=[None, *good["approved"][1:]]),
        "constant": good.assign(approved="yes"),
    }


@pytest.mark.parametrize("case", list(faulty()))
def test_hints_are_options(folder, case):
    faulty()[case].to_csv("people.csv", index=False)
    failed("plan", "people.csv", *ASKED, "--out", "plan")


def test_percent_signs_are_read_and_told(folder):
    frame = people().assign(rate=[f"{place % 40}%" for place in range(90)], code=["1%", "x"] * 45)
    frame.to_csv("people.csv", index=False)
    said = shown("people.csv", "--target", "approved")
    assert re.search(r"rate +integer", said)
    assert re.search(r"code +category", said)
    told = done("plan", "people.csv", *ASKED, "--leave-out", "town", "--out", "plan")
    assert re.search(r"read as percent +rate: 5% is the number 5", told)
    assert "rate: 5% is the number 5" in (folder / "plan" / "report.html").read_text()


def test_several_columns_of_dates_are_refused_at_once(folder):
    frame = people().assign(applied="22.07.2024", paid="2024-07-22")
    frame.to_csv("people.csv", index=False)
    assert "columns 'applied', 'paid': dates are not features" in failed("plan", "people.csv", *ASKED, "--out", "plan")


def test_plain_columns_say_that_they_are_why_gaps_are_not_filled(folder):
    people()[["income", "age", "approved"]].to_csv("people.csv", index=False)
    said = failed("plan", "people.csv", *ASKED, "--plain", "--missing", "impute", "--out", "plan")
    assert "--missing: must be refuse or drop with --plain" in said
    assert "leave out --plain" in said
