"""Adult: people of the 1994 census of the United States, and whether they earned more than 50,000 dollars a year.

The files are not shipped; `adult` reads them as UCI publishes them, with their quirks: no header, a blank after every
comma, "?" for what is missing, an empty last line, and in adult.test a first line that is no data and a dot after every
label.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from oar.actions.limits.limit import Limit, Limits
from oar.checks import with_near_names
from oar.datasets.dataset import TableDataset, with_levels
from oar.datasets.idx import read_content
from oar.errors import StorageError
from oar.people import Column, Schema
from oar.people.tables.missing import without_missing
from oar.people.wording import listed

if TYPE_CHECKING:
    import pandas

TARGET = "income"
CLASSES = ("<=50K", ">50K")
WEIGHTS = "weight"
FILES = ("adult.data", "adult.test")
SOURCE = (
    "B. Becker, R. Kohavi (1996), Adult, UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20, "
    "licence CC BY 4.0"
)
BY_HAND = "Get adult.data and adult.test from https://doi.org/10.24432/C5XW20 (zipped as .gz or not)."

# Names of the columns in the files, in their order. `education_number` says in numbers what `education` says in words.
FILE_COLUMNS = f"""
age workclass {WEIGHTS} education education_number marital_status occupation relationship race sex capital_gain
capital_loss hours_per_week native_country {TARGET}
""".split()
NUMBERS = ("age", WEIGHTS, "education_number", "capital_gain", "capital_loss", "hours_per_week")

# Levels are fixed rather than read off a file, so that any part of the data has the same coordinates as the whole.
_EDUCATION = "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm Bachelors"
_COUNTRIES = """
Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany Greece Guatemala
Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua
Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago
United-States Vietnam Yugoslavia
"""


def _category(name: str, levels: str) -> Column:
    return Column(name, "category", tuple(levels.split()))


SCHEMA = Schema(
    (
        Column("age", "integer"),
        _category(
            "workclass",
            "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
        ),
        Column("education", "ordinal", (*_EDUCATION.split(), "Masters", "Prof-school", "Doctorate")),
        _category(
            "marital_status",
            "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed",
        ),
        _category(
            "occupation",
            "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
            "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
            "Transport-moving",
        ),
        _category("relationship", "Husband Not-in-family Other-relative Own-child Unmarried Wife"),
        _category("race", "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
        _category("sex", "Female Male"),
        Column("capital_gain", "integer"),
        Column("capital_loss", "integer"),
        Column("hours_per_week", "integer"),
        _category("native_country", _COUNTRIES),
    )
)

LIMITS = Limits(
    {
        # Time passes, and only forwards; the file's oldest are 90. Ten years cost 1.
        "age": Limit(direction="up", upper=90, unit=10),
        # Nobody chooses these.
        "race": Limit(immutable=True),
        "sex": Limit(immutable=True),
        "native_country": Limit(immutable=True),
        # Whom one lives with is one's own affair: no advice may ask for a marriage or a divorce.
        "marital_status": Limit(immutable=True),
        "relationship": Limit(immutable=True),
        # What was learnt stays; one more level is a year or more of work.
        "education": Limit(direction="up", cost=1.0, unit=1),
        # Employers change; to stop being paid is no advice. A change of work is a large step.
        "workclass": Limit(
            levels=("Federal-gov", "Local-gov", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov"), cost=2.0
        ),
        # Nobody is asked to become a soldier.
        "occupation": Limit(
            levels=tuple(level for level in SCHEMA["occupation"].levels if level != "Armed-Forces"), cost=2.0
        ),
        # Gains and losses are what the tax form says: never negative, and cut off at what the file can hold. Their
        # tails are long, so that a standard deviation is no good unit: 5,000 and 500 dollars cost 1.
        "capital_gain": Limit(lower=0, upper=99_999, unit=5_000),
        "capital_loss": Limit(lower=0, upper=4_356, unit=500),
        # A week has 168 hours, and more than 80 of work are no advice (who works more may stay). Ten hours cost 1.
        "hours_per_week": Limit(lower=1, upper=80, unit=10),
    },
    # A further level of education takes a year at least.
    links=["change(education) <= change(age)"],
)


@with_near_names
def adult(path: str | Path, *, missing: str = "drop", weighted: bool = False) -> TableDataset:
    """Return the people of UCI's Adult files: 12 features, and an income of "<=50K" or ">50K".

    `education_number` is left out, because `education`, an ordinal, says the same. Its `limits` are a proposal; the
    comments in `oar.datasets.census` say why.

    Args:
        path: adult.data or adult.test (zipped as .gz or not), or a folder with one of them or both; both together are
            one table, adult.data first, with the index counting on.
        missing: what to do about missing values ("?" in workclass, occupation and native_country): "drop" these people
            (of 48,842 stay 45,222, of adult.data's 32,561 stay 30,162), "impute" the most frequent level, or "refuse".
        weighted: whether the census's own weights (fnlwgt: how many people each stands for) are training weights, in a
            column "weight"; otherwise they are left out.
    """
    import pandas

    parts = [_read_part(file) for file in _files(Path(path))]
    frame = pandas.concat(parts, ignore_index=True)
    frame = frame.drop(columns=["education_number"] if weighted else ["education_number", WEIGHTS])
    frame = without_missing(with_levels(frame, SCHEMA), SCHEMA, missing, [TARGET, WEIGHTS] if weighted else [TARGET])
    return TableDataset("adult", frame, TARGET, SCHEMA, LIMITS, SOURCE, WEIGHTS if weighted else None)


def _files(path: Path) -> list[Path]:
    """Return the files to be read, in order."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise StorageError(f"path: must be a file or a folder that exists, got {path}. {BY_HAND}")
    found = []
    for name in FILES:
        spellings = [path / f"{name}.gz", path / name]
        found += [file for file in spellings if file.is_file()][:1]
    if not found:
        raise StorageError(f"path: {path} must hold adult.data or adult.test, got neither. {BY_HAND}")
    return found


def _read_part(path: Path) -> pandas.DataFrame:
    """Return one file as it is, but for its quirks; refuse what is not one of Adult's files."""
    import pandas

    content = read_content(path)
    if content.startswith(b"|"):  # adult.test's first line: "|1x3 Cross validator"
        content = content.partition(b"\n")[2]
    texts = [place for place, name in enumerate(FILE_COLUMNS) if name not in NUMBERS]
    try:
        frame = pandas.read_csv(
            BytesIO(content),
            header=None,
            skipinitialspace=True,
            na_values=["?"],
            keep_default_na=False,
            dtype={place: str for place in texts},
        )
    except (ValueError, pandas.errors.ParserError) as error:
        raise StorageError(f"{path} is not one of Adult's files ({str(error).strip()}). {BY_HAND}") from None
    if len(frame.columns) != len(FILE_COLUMNS):
        raise StorageError(
            f"{path} is not one of Adult's files: it must have {len(FILE_COLUMNS)} columns between commas, got "
            f"{len(frame.columns)}. {BY_HAND}"
        )
    frame.columns = pandas.Index(FILE_COLUMNS)
    frame[TARGET] = frame[TARGET].str.removesuffix(".")
    _check_values(frame, path)
    return frame


def _check_values(frame: pandas.DataFrame, path: Path) -> None:
    """Raise for the first value that Adult does not have: a damaged line, other columns, or another file."""
    import pandas

    for name in NUMBERS:
        if not pandas.api.types.is_integer_dtype(frame[name]):
            wrong = frame[name][pandas.to_numeric(frame[name], errors="coerce").mod(1) != 0].iloc[0]
            raise StorageError(f"{path} is not one of Adult's files: {name} must be whole numbers, got {wrong!r}.")
    known = {column.name: column.levels for column in SCHEMA if column.levels} | {TARGET: CLASSES}
    for name, levels in known.items():
        # Only three columns have gaps; a label or a level that is absent elsewhere is a line that was cut off.
        gaps = name in ("workclass", "occupation", "native_country")
        right = frame[name].isin(levels) | (frame[name].isna() if gaps else False)
        if not right.all():
            wrong = frame[name][~right].iloc[0]
            raise StorageError(
                f"{path} is not one of Adult's files, or is damaged: {name} must be one of "
                f"{listed(levels, 8, str)}, got {str(wrong)[:80]!r} in row "
                f"{frame.index[~right][0]}. {BY_HAND}"
            )
