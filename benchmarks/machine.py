"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("oar-recourse", "numpy", "scipy", "scikit-learn")


def machine() -> dict[str, Any]:
    """Return processor, versions, and how many threads BLAS may use."""
    blas = {f"{pool['internal_api']} {pool['version']}": pool["num_threads"] for pool in _blas_pools()}
    return {
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "blas_threads": blas,
    }


def peak_resident() -> float | None:
    """Return the most memory that this process ever held, in GB; None where the system does not say.

    On Linux `ru_maxrss` of a child starts from what its parent held, so the kernel's own mark goes first.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e9
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _blas_pools() -> list[dict[str, Any]]:
    import scipy.linalg  # noqa: F401  (pools are only listed once their library is loaded)

    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe(facts: dict[str, Any]) -> str:
    """Return the facts in two lines."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    threads = ", ".join(f"{name}: {number} threads" for name, number in facts["blas_threads"].items())
    load = "" if facts["load"] is None else f", load {facts['load']:.1f} at the start"
    return f"{facts['processor']}, {facts['cpus']} CPUs{load}\nPython {facts['python']}, {versions}; BLAS {threads}"
