"""Attacks on everything that is called proved, impossible or a bound: problems at random, and a search for better.

`python -m tests.campaigns.proofs --number 10000`
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import oar

from . import proofs_of_plans
from .proofs_of_advice import Attack, drawn
from .proofs_of_others import KINDS
from .tally import Tally, parser


def attacked(seed: int) -> tuple[str, str]:
    """Return what was refuted of one problem (nothing where it held), and what became of it."""
    rng = np.random.default_rng([2, seed])
    try:
        if seed % 4 == 3:
            return proofs_of_plans.refuted(rng, *proofs_of_plans.drawn(rng))
        if seed % 4 == 1:
            return KINDS[seed // 4 % len(KINDS)](rng)
        attack = Attack(rng, drawn(rng))
    except (oar.errors.DataError, oar.errors.NumericsError) as error:
        return "", type(error).__name__
    advice = attack.advice
    return attack.refuted(), f"{advice.status}{' proved' if advice.proved else ''}"


def main(arguments: list[str] | None = None) -> int:
    """Attack one problem after the other."""
    asked = parser("proofs", __doc__ or "").parse_args(arguments)
    number = asked.number or (None if asked.minutes else 10_000)
    tally, became = Tally("proofs", minutes=asked.minutes, number=number), {}
    warnings.simplefilter("ignore")
    seed = 1_000_000 * asked.seed
    while tally.goes_on():
        refuted, outcome = attacked(seed)
        tally.note(not refuted, f"seed {seed}: {refuted}")
        became[outcome] = became.get(outcome, 0) + 1
        seed += 1
    print("; ".join(f"{count} {outcome}" for outcome, count in sorted(became.items())))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
