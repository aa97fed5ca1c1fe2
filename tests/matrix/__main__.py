"""The command: run every cell, and write docs/matrix.md.

python -m tests.matrix                              everything; --page writes the page, too
python -m tests.matrix --kind "linear SVM" --verb minimal_budget
python -m tests.matrix --read outcomes.json --page  the page of what --json has kept
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from matrix.kinds import KINDS
from matrix.page import PAGE, page
from matrix.running import outcomes
from matrix.verbs import ORDER


def main() -> int:
    """Run what was asked for, each kind in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append", help="just this kind (may be repeated)")
    parser.add_argument("--verb", choices=ORDER, action="append", help="just this verb (may be repeated)")
    parser.add_argument("--limit", type=float, default=45.0, help="seconds for a cell (default 45)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all outcomes to FILE")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take outcomes that --json has written; run nothing")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(PAGE.parents[1])}")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    verbs = asked.verb or ORDER
    if asked.here:
        for one in outcomes(asked.kind[0], verbs, asked.limit):
            print(json.dumps(one), flush=True)
        return 0
    rows = json.loads(asked.read.read_text(encoding="utf-8")) if asked.read else []
    for kind in () if asked.read else asked.kind or KINDS:
        options = [argument for verb in verbs for argument in ("--verb", verb)]
        command = [sys.executable, "-m", "tests.matrix", "--here", "--kind", kind, "--limit", str(asked.limit)]
        done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=False)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        rows += found
        for _, verb, word, seconds, said in found:
            print(f"{kind:<26}{verb:<19}{word:<9}{seconds:7.1f} s  {said[:150]}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if asked.page:
        PAGE.write_text(page(rows, asked.limit), encoding="utf-8")
    answered = sum(row[2] == "answered" for row in rows)
    print(f"{answered} of {len(rows)} cells answered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
