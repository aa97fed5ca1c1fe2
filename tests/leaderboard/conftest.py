"""Benchmarks are no part of the package, so the clone itself has to be on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
