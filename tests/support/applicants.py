"""Applicants for credit as a bank's table of 150,000 has them: heavy tails, codes, gaps and a column of row numbers.

Made up, and shaped after what is known of "Give Me Some Credit": the columns' names, quarters, tails, and the codes 96
and 98 among counts of late payments.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

TARGET = "SeriousDlqin2yrs"
LATE = ("NumberOfTime30-59DaysPastDueNotWorse", "NumberOfTimes90DaysLate", "NumberOfTime60-89DaysPastDueNotWorse")


def applicants(size=150_000, seed=0, extreme=0.02, coded=0.002):
    """A table whose first column, without a name, counts its rows.

    `extreme` use their credit up to 50,000 times over, and of `coded` it is not known how often they paid late.
    """
    rng = np.random.default_rng(seed)
    risk = rng.normal(0, 1, size)  # nobody sees it
    used = np.clip(rng.beta(0.45, 0.9, size) + 0.25 * risk, 0, 1.1)
    used = np.where(rng.random(size) < extreme, np.exp(rng.uniform(np.log(1.2), np.log(50_000), size)), used)
    income = np.exp(rng.normal(8.6, 0.65, size) - 0.3 * risk).round()
    income = np.where(rng.random(size) < 0.02, rng.integers(0, 2, size), income)
    unknown = rng.random(size) < 0.2
    debts = np.exp(rng.normal(7.2, 0.9, size))
    frame = pd.DataFrame(
        {
            TARGET: (risk + rng.normal(0, 0.3, size) > 1.5).astype(int),
            "RevolvingUtilizationOfUnsecuredLines": used,
            "age": np.clip(rng.normal(52, 15, size) - 6 * risk, 21, 103).round().astype(int),
            LATE[0]: np.minimum(rng.poisson(np.exp(1.5 * risk - 2.6)), 13),
            # Where no income is known, the ratio is what they owe.
            "DebtRatio": np.where(unknown, debts.round(), debts / np.maximum(income, 1)),
            "MonthlyIncome": np.where(unknown, np.nan, income),
            "NumberOfOpenCreditLinesAndLoans": rng.poisson(rng.gamma(3, 2.8, size)),
            LATE[1]: np.minimum(rng.poisson(np.exp(1.8 * risk - 4)), 17),
            "NumberRealEstateLoansOrLines": rng.poisson(rng.gamma(2, 0.5, size)),
            LATE[2]: np.minimum(rng.poisson(np.exp(1.6 * risk - 4)), 11),
            "NumberOfDependents": np.where(rng.random(size) < 0.026, np.nan, rng.poisson(0.75, size)),
        },
        index=pd.RangeIndex(1, size + 1),
    )
    unknown_payments = rng.random(size) < coded
    codes = rng.choice([96, 98], (size, 1), p=[0.02, 0.98])
    frame[list(LATE)] = np.where(unknown_payments[:, None], codes, frame[list(LATE)])
    return frame
