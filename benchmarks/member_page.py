"""The member's page: main-thread time of one answer with 100 features, `python -m benchmarks.member_page`.

Times are milliseconds inside headless Chromium (by `performance.now()`), one figure a member; the first few are left
out, as they are of code that the browser has not compiled yet. Target: 50 ms. Cards are drawn at random, which is
harder than most real ones: scores bend a lot within a budget.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from oar.plans.cards.file import as_json
from oar.report.member_page import member_page

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

FEATURES, MEMBERS, WARM = 100, 60, 10
TIMED = """([card, members]) => members.map(([row, target, radius]) => {
    const kept = row.map(() => false), begun = performance.now();
    oarMember.plainMove(card, row, target, radius, kept);
    return performance.now() - begun;
})"""


def main() -> None:
    """Measure every family with every norm, and print one table."""
    from support.browser import started_chromium
    from support.member_cards import FAMILIES, random_card, random_members

    print(f"{'family, norm':28}{'median':>10}{'95 %':>10}{'worst':>10}   ms, {FEATURES} features")
    with started_chromium() as browser:
        page = browser.new_page()
        page.set_content(member_page(random_card(None, 2, 2)))
        for family, (model, width) in FAMILIES.items():
            for norm in (1, 2, np.inf):
                card = random_card(model, width, FEATURES, norm, seed=1)
                columns = (array.tolist() for array in random_members(card, MEMBERS + WARM, seed=1))
                members = list(zip(*columns, strict=True))
                taken = np.array(page.evaluate(TIMED, [as_json(card), members]))[WARM:]
                figures = (np.median(taken), np.quantile(taken, 0.95), taken.max())
                print(f"{family + f', {norm:g}':28}" + "".join(f"{figure:10.1f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
