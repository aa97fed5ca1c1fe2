"""Settings of a reproduction: everything, or a coarse version of everything in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from oar.checks import check_whole


@dataclass(frozen=True)
class ReproductionSettings:
    """Everything that, with the data, determines `results.json`.

    Attributes:
        quick: whether this is the coarse version.
        seed: of every random draw: Figure 1's flowers, the participants of each share, the cells that are audited, the
            pictures in the strip.
        iris_budgets, mnist_budgets: Figure 2's ε.
        shares: Figure 2's participation shares.
        figure1_draws: how many draws of 20 flowers Figure 1 is chosen from.
        mnist_pairs: how many of MNIST's 90 ordered pairs of classes are swept (None: all).
        iris_audited_cells, mnist_audited_cells: how many of all pairs' cells are solved again, harder, and audited.
    """

    quick: bool
    seed: int
    iris_budgets: tuple[float, ...]
    mnist_budgets: tuple[float, ...]
    shares: tuple[float, ...]
    figure1_draws: int
    mnist_pairs: int | None
    iris_audited_cells: int
    mnist_audited_cells: int


def reproduction_settings(quick: bool = False, seed: int = 0) -> ReproductionSettings:
    """Return the settings of a full or a quick run."""
    return ReproductionSettings(
        quick=bool(quick),
        seed=check_whole("seed", seed, 0),
        iris_budgets=_steps(3.0, 6 if quick else 24),
        mnist_budgets=_steps(2.5, 5 if quick else 25),
        shares=_steps(1.0, 5 if quick else 20),
        figure1_draws=100,
        mnist_pairs=12 if quick else None,
        iris_audited_cells=6 if quick else 50,
        mnist_audited_cells=3 if quick else 25,
    )


def _steps(last: float, count: int) -> tuple[float, ...]:
    # By division, so that 0.3 is 0.3 and not 0.30000000000000004.
    return tuple(last * step / count for step in range(count + 1))
