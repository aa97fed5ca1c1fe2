"""German credit: a thousand people who were granted a loan, and whether they paid it back as agreed.

The package ships UCI's file with its codes (A11 …) as words. Two cautions: everybody in it was granted credit, so a
"bad" credit is one that was not paid back as agreed, not an application that was turned down; and Ulrike Grömping's
"South German Credit Data: Correcting a Widely Used Data Set" (2019) shows that UCI's documentation explains some codes
wrongly, among them those of `personal_status`, from which a person's sex can therefore not be read. The words here are
those of UCI's documentation, because that is what other work on this file compares with.
"""

from __future__ import annotations

from pathlib import Path

from oar.actions.limits.limit import Limit, Limits
from oar.datasets.dataset import TableDataset, with_levels
from oar.errors import StorageError
from oar.people import Column, Schema

PEOPLE = 1000
FILE = Path(__file__).parent / "data" / "german_credit.csv"
TARGET = "credit"
SOURCE = (
    "H. Hofmann (1994), Statlog (German Credit Data), UCI Machine Learning Repository, "
    "https://doi.org/10.24432/C5NC77, licence CC BY 4.0; codes written as words"
)

# What each column of UCI's file means, in its order: the name here, and a word for each code (none for numbers).
CODES: dict[str, dict[str, str]] = {
    "checking_account": {"A11": "overdrawn", "A12": "below 200 DM", "A13": "200 DM or more", "A14": "no account"},
    "duration": {},
    "credit_history": {
        "A30": "none taken or all repaid",
        "A31": "all at this bank repaid",
        "A32": "repaid duly so far",
        "A33": "late in the past",
        "A34": "critical or credits elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "amount": {},
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to 500 DM",
        "A63": "500 to 1000 DM",
        "A64": "1000 DM or more",
        "A65": "unknown or none",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "below 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "installment_rate": {},
    "personal_status": {
        "A91": "male divorced or separated",
        "A92": "female divorced or separated or married",
        "A93": "male single",
        "A94": "male married or widowed",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "residence": {},
    "property": {
        "A121": "real estate",
        "A122": "savings agreement or life insurance",
        "A123": "car or other",
        "A124": "unknown or none",
    },
    "age": {},
    "other_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rented", "A152": "owned", "A153": "free"},
    "existing_credits": {},
    "job": {
        "A171": "unskilled non-resident or unemployed",
        "A172": "unskilled resident",
        "A173": "skilled",
        "A174": "management or highly qualified",
    },
    "dependents": {},
    "telephone": {"A191": "False", "A192": "True"},
    "foreign_worker": {"A201": "True", "A202": "False"},
    TARGET: {"1": "good", "2": "bad"},
}

# Checking account and savings have no order here: each has a level ("no account", "unknown or none") that lies nowhere
# among the sums, and the people who have it repay better than those with small sums.
ORDINALS = ("employment", "job")
BOOLEANS = ("telephone", "foreign_worker")

LIMITS = Limits(
    {
        # Nobody chooses these, or may be asked to change them to be treated well.
        "age": Limit(immutable=True),
        "personal_status": Limit(immutable=True),
        "foreign_worker": Limit(immutable=True),
        "dependents": Limit(immutable=True),
        # The past cannot be changed.
        "credit_history": Limit(immutable=True),
        # One can open an account and fill it, but an account that the bank knows does not vanish. A switch costs as
        # much as a standard deviation of a number does (cost 1), here as wherever nothing else is said.
        "checking_account": Limit(levels=("overdrawn", "below 200 DM", "200 DM or more")),
        # Savings that the bank has seen cannot become unknown; sums take long to gather, so a switch costs more.
        "savings": Limit(levels=("below 100 DM", "100 to 500 DM", "500 to 1000 DM", "1000 DM or more"), cost=2.0),
        # A loan can be shorter, longer, smaller or larger, as far as this bank has lent: 4 to 72 months, and 250 to
        # 18,424 DM, rounded up. A year and 2,500 DM cost 1: about a standard deviation, in numbers one can remember.
        "duration": Limit(lower=4, upper=72, cost=1.0, unit=12),
        "amount": Limit(lower=250, upper=18_500, cost=1.0, unit=2_500),
        # The share of income that goes into the instalment, as a code from 1 to 4: it follows from the loan's terms.
        "installment_rate": Limit(lower=1, upper=4),
        # What a loan is for is a plan; but a business or a retraining is not made up for a loan's sake.
        "purpose": Limit(
            levels=tuple(
                word for word in CODES["purpose"].values() if word not in ("education", "retraining", "business")
            )
        ),
        # Time with an employer or at an address only grows. The next class of either is years away, so it costs 2.
        "employment": Limit(direction="up", cost=2.0, unit=1),
        "residence": Limit(direction="up", upper=4, cost=2.0, unit=1),
        # A better job can be found, with much effort; a worse one is no advice.
        "job": Limit(direction="up", cost=3.0, unit=1),
        # A guarantor or a co-applicant can be asked; both bind somebody else, so they cost more than a form.
        "other_debtors": Limit(cost=2.0),
        # What one owns can be bought or sold, at a price; the bank does not forget what it has seen.
        "property": Limit(levels=("real estate", "savings agreement or life insurance", "car or other"), cost=3.0),
        "housing": Limit(cost=3.0),
        # Other instalment plans can be paid off or taken up elsewhere.
        "other_plans": Limit(cost=2.0),
        # Credits at this bank can be paid off, down to the one that is asked for; the data know four at most.
        "existing_credits": Limit(direction="down", lower=1, cost=2.0, unit=1),
        # A telephone can be had easily; giving it up is no advice.
        "telephone": Limit(direction="up", cost=0.5),
    }
    # No links: what ties amount, duration and instalment together is a quotient, which is not linear, and needs an
    # income that the table does not have. Age ties nothing, because it does not move.
)


def german_credit() -> TableDataset:
    """Return the 1,000 loans: 20 features, and whether the credit was "good" or "bad".

    Its `limits` are a proposal: who cannot be asked to change what, what can only grow, and what changes cost. The
    comments in `oar.datasets.credit` say why.

    >>> loans = german_credit()
    >>> loans
    TableDataset('german credit', 1,000 × 20, credit: 'good', 'bad')
    >>> loans.frame[["duration", "amount", "employment", "credit"]].head(2)
       duration  amount       employment credit
    0         6    1169  7 years or more   good
    1        48    5951     1 to 4 years    bad
    """
    import pandas

    try:
        # "none" is a level here, not a missing value.
        frame = pandas.read_csv(FILE, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise StorageError(f"{FILE} is missing or damaged ({error}); reinstall the package.") from None
    if frame.shape != (PEOPLE, len(CODES)) or list(frame.columns) != list(CODES):
        raise StorageError(
            f"{FILE} was damaged or changed: it must have {PEOPLE} rows and the columns {', '.join(CODES)}, got "
            f"{len(frame)} rows and {', '.join(map(str, frame.columns))}; reinstall the package."
        )
    return TableDataset("german credit", with_levels(frame, SCHEMA), TARGET, SCHEMA, LIMITS, SOURCE)


def _column(name: str, words: dict[str, str]) -> Column:
    if not words:
        return Column(name, "integer")
    if name in BOOLEANS:
        return Column(name, "boolean")
    return Column(name, "ordinal" if name in ORDINALS else "category", tuple(words.values()))


SCHEMA = Schema(tuple(_column(name, words) for name, words in CODES.items() if name != TARGET))
