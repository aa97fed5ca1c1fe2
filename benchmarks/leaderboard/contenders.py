"""Who takes part: what runs it, in which environment, and what it would need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.leaderboard.problems import Entry

NUMBER = 8  # bytes


@dataclass(frozen=True)
class Contender:
    """Somebody who proposes moves.

    Attributes:
        name: in tables and figures.
        runner: its program in `peers/`.
        environment: its list of pins in `peers/`; None means the environment of this clone.
        told: what its program is told beside the folder.
        floor: bytes of its process before there are any people.
        numbers: from a problem to how many numbers it holds for each person, as measured; what it needs is an estimate.
        only: names of the problems that it is for; None means all.
        pins_only: as in `benchmarks.environments.environment`.
        streams: whether it can read people from Parquet part by part.
        cannot: what of the problem it cannot do.
    """

    name: str
    runner: str
    environment: str | None
    told: tuple[str, ...] = ()
    floor: float = 2e8
    numbers: Callable[[Entry], float] = lambda entry: 10.0 * (entry.width + entry.classes)
    only: tuple[str, ...] | None = None
    pins_only: bool = True
    streams: bool = False
    cannot: str = ""

    def needs(self, entry: Entry) -> float:
        """Return about how many bytes it would need."""
        return self.floor + NUMBER * self.numbers(entry) * entry.size


CONTENDERS = (
    Contender("OAR", "run_oar.py", None, streams=True),
    Contender("optimistix, implicit", "run_optimistix.py", "optimistix", floor=4e8),
    Contender(
        "jaxopt, implicit",
        "run_jaxopt.py",
        "jaxopt",
        floor=4e8,
        numbers=lambda entry: 25.0 * (entry.width + entry.classes),
    ),
    Contender(
        "TorchOpt, unrolled",
        "run_torchopt.py",
        "torchopt",
        # Every one of the 100 steps leaves some arrays of outputs behind, to walk back through.
        numbers=lambda entry: 80.0 * (5 * entry.classes + entry.width),
        pins_only=False,
    ),
    Contender(
        "ART, gradient matching",
        "run_art.py",
        "art",
        floor=4e8,
        pins_only=False,
        cannot="boxes only (drawn back onto the ball), members of the goal's class only, no refit in its aim",
    ),
    Contender(
        "scipy L-BFGS-B, by hand",
        "run_scipy.py",
        "scipy",
        ("L-BFGS-B",),
        # All products of two features for the Hessian, and ten pairs of vectors that L-BFGS remembers.
        numbers=lambda entry: 2.0 * (entry.width + 1) ** 2 + 30 * entry.width + 5 * entry.classes,
    ),
    Contender(
        "scipy SLSQP, by hand",
        "run_scipy.py",
        "scipy",
        ("SLSQP",),
        numbers=lambda entry: 3.0 * entry.size * entry.width**2,
        only=("iris", "iris-far"),
        cannot="matrices grow with the square of N: Iris only",
    ),
    Contender(
        "the paper's heuristic",
        "run_paper.py",
        "scipy",
        numbers=lambda entry: 2.0 * (entry.width + 1) ** 2 + 6 * (entry.width + entry.classes),
        cannot="one step, no refit afterwards",
    ),
)
