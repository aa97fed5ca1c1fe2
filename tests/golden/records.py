"""What is recorded of an answer, and how one answer is compared with another.

Answers are the same to the last bit on the machine that recorded them, as long as the algorithm is the same. On
another processor, or where two loops have become one, last bits differ, and long searches end elsewhere. So there are
four verdicts: *identical*; *same* (status, and a loss within 1e-9 of the recorded one); *better*, by more than that;
and *worse*: a higher loss, another status, a lost proof, a broken limit, or more than 5 % more passes or steps. Where
the processor rounds sums otherwise than the recording one (`arithmetic`), that is 1e-7 of losses and 50 % of effort.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import oar
from oar.people.parts.population import StreamedPopulation

from .problems import PROBLEMS

HERE = Path(__file__).resolve().parent / "records"
RELATIVE = 1e-9  # of a loss, by which it may be higher
EFFORT = 1.05  # times as many passes and steps, and a few more
ELSEWHERE = 1e-7, 1.5  # the same two where sums are rounded otherwise
FEW = 3
LONGEST = 300  # steps of which loss and gap are recorded: after that many all bits have spoken
SENTENCES = ("explanation", "solver", "certificate")


@dataclass(frozen=True, eq=False)
class Record:
    """One answer: facts for JSON, and arrays (moves, and the loss and gap of every step)."""

    facts: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def save(self, name: str, folder: Path = HERE) -> None:
        """Write both files."""
        folder.mkdir(exist_ok=True)
        text = json.dumps(self.facts, indent=1, ensure_ascii=False, sort_keys=True)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        np.savez_compressed(folder / f"{name}.npz", **self.arrays)

    @classmethod
    def load(cls, name: str, folder: Path = HERE) -> Record:
        """Read both files."""
        facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        with np.load(folder / f"{name}.npz") as arrays:
            return cls(facts, dict(arrays))


@dataclass(frozen=True)
class Compared:
    """A verdict on one problem, and what differs."""

    name: str
    verdict: str
    differences: tuple[str, ...] = ()


def answer(name: str) -> Record:
    """Ask a golden problem, and return what is recorded of the answer."""
    walked: list[tuple[float, float]] = []
    result = PROBLEMS[name](lambda number, loss, gap: walked.append((loss, gap)))
    audit, proposal = result.audit, result.proposal
    facts = {
        "status": result.status.name,
        "success": bool(audit.success),
        "loss_before": audit.loss_before,
        "loss": audit.loss,
        "prediction": repr(audit.prediction),
        "violations": list(audit.violations),
        "claimed_loss": float(proposal.claimed_loss),
        "gap": float(proposal.gap),
        "bound": float(result.bound),
        "exact": bool(result.exact),
        "finished": bool(proposal.finished),
        "steps": int(proposal.steps),
        "passes": int(proposal.passes),
        "solver": proposal.solver,
        "certificate": result.certificate,
        "explanation": result.explanation,
        "independence": audit.independence.name,
        "arithmetic": arithmetic(),
    }
    arrays = {"trajectory": np.array(walked[:LONGEST]).reshape(-1, 2)}
    for key, values in moved(result.plan).items():
        arrays[key] = np.asarray(values)
    return Record({key: told(value) for key, value in facts.items()}, arrays)


def moved(plan: Any) -> dict[str, Any]:
    """Return everyone's moves, and labels and leavers where they may change."""
    found = {}
    if isinstance(plan.problem, oar.OnlineProblem):
        return {"moves": plan.moves()}
    if isinstance(plan.problem.people, StreamedPopulation):
        with tempfile.TemporaryDirectory() as folder:
            parts = [pd.read_parquet(path) for path in plan.write_moves(Path(folder) / "moves")]
        found["moves"] = pd.concat(parts).sort_values("position").drop(columns="position")
    else:
        found["moves"] = plan.moves()
    if callable(getattr(plan, "labels", None)):
        found["labels"], found["leavers"] = plan.labels(), plan.leavers()
    return found | {"query_move": plan.query_move}


def told(value: Any) -> Any:
    """Return numbers as JSON can tell them to the last bit."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return float(value) if isinstance(value, np.floating) else value


@cache
def arithmetic() -> str:
    """Return a digest of a few products and functions, whose last bits depend on the processor and its libraries."""
    values = np.random.default_rng(0).normal(size=(50, 50))
    found = values @ values.T, values @ values[0], np.exp(values), np.linalg.inv(values), values.sum(axis=0)
    return hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in found)).hexdigest()[:12]


def compare(name: str, old: Record, new: Record) -> Compared:
    """Return what has become of a recorded answer."""
    different = [key for key in old.facts if key != "arithmetic" and old.facts[key] != new.facts.get(key)]
    arrays = [key for key in old.arrays if not _identical(old.arrays[key], new.arrays.get(key))]
    if not different and not arrays:
        return Compared(name, "identical")
    before, after = _number(old.facts["loss"]), _number(new.facts["loss"])
    here = old.facts.get("arithmetic") == new.facts.get("arithmetic")
    relative, effort = (RELATIVE, EFFORT) if here else ELSEWHERE
    slack = relative * abs(before) + 1e-12
    wrong = [
        f"{key}: {old.facts[key]} → {new.facts[key]}"
        for key in ("status", "success", "violations", "loss_before", "independence")
        if _differ(old.facts[key], new.facts[key])
    ]
    if old.facts["exact"] and not new.facts["exact"]:
        wrong.append("exact: no longer proved")
    if not after <= before + slack:
        wrong.append(f"loss: {before!r} → {after!r}")
    for key in ("steps", "passes"):
        if new.facts[key] > effort * old.facts[key] + FEW:
            wrong.append(f"{key}: {old.facts[key]} → {new.facts[key]}")
    if wrong:
        return Compared(name, "worse", tuple(wrong))
    differ = (*(key for key in different if key not in SENTENCES), *arrays)
    sentences = tuple(f"{key}: {old.facts[key]!r} → {new.facts[key]!r}" for key in SENTENCES if key in different)
    return Compared(name, "better" if after < before - slack else "same", (*differ, *sentences))


def _identical(old: NDArray[Any], new: NDArray[Any] | None) -> bool:
    return new is not None and old.shape == new.shape and old.dtype == new.dtype and old.tobytes() == new.tobytes()


def _number(value: Any) -> float:
    return float(value)


def _differ(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return abs(old - new) > RELATIVE * abs(old) + 1e-12
    return bool(old != new)
