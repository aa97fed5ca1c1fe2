"""The command: compare golden problems with what was recorded of them, or record them anew.

python -m tests.golden                     compare all
python -m tests.golden softmax-l2 svm      compare some
python -m tests.golden --record softmax-l2 record some anew (a deliberate change, in a commit of its own)
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .problems import PROBLEMS
from .records import Record, answer, compare


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, and return 1 if anything is worse, or not even the same where that is asked for."""
    parsing = argparse.ArgumentParser(
        prog="python -m tests.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsing.add_argument("names", nargs="*", metavar="NAME", help="problems; all of them by default")
    parsing.add_argument("--record", action="store_true", help="record these anew")
    parsing.add_argument("--identical", action="store_true", help="fail unless all bits are as recorded")
    asked = parsing.parse_args(arguments)
    if unknown := sorted(set(asked.names) - set(PROBLEMS)):
        parsing.error(f"no golden problem {', '.join(unknown)}; there are {', '.join(PROBLEMS)}")
    verdicts: Counter[str] = Counter()
    for name in asked.names or PROBLEMS:
        began = time.perf_counter()
        found = answer(name)
        if asked.record:
            found.save(name)
            verdict, differences = "recorded", ()
        else:
            compared = compare(name, Record.load(name), found)
            verdict, differences = compared.verdict, compared.differences
        verdicts[verdict] += 1
        print(f"{name}: {verdict}, {time.perf_counter() - began:.1f} s", flush=True)
        for difference in differences:
            print(f"    {difference}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return int(verdicts["worse"] > 0 or (asked.identical and set(verdicts) - {"identical"} != set()))


if __name__ == "__main__":
    sys.exit(main())
