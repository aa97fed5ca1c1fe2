"""Attacks on the package: `python -m tests.campaigns` for all of them, `python -m tests.campaigns.NAME` for one."""

import sys
from pathlib import Path

_tests = str(Path(__file__).resolve().parents[1])
if _tests not in sys.path:  # the support of the tests is that of the campaigns
    sys.path.append(_tests)
