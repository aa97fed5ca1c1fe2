"""The outcome of German credit in words: facts for results.json, lines for a terminal, and a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oar.worlds.people.labels import KEEP, ORACLE, RELABEL
from oar_stories.credit.applicant import AS_A_MEMBER, HELPED, ITSELF, OWN_SHORTEST, OWN_WAYS
from oar_stories.credit.people import NEW, SAME, asking
from oar_stories.story import known

if TYPE_CHECKING:
    from oar_stories.credit.story import CreditSettings

NICE, SHORTEST = "nice", "shortest"
POLICIES = (KEEP, ORACLE, RELABEL)
ADOPTIONS = (0.0, 0.1, 0.5, 1.0)
KEYS = ("come", "advice", "labels", "adoption", "helped")
KINDS = "stay / follow the features / are the model's own"  # of labels, in the order of POLICIES
Means = Mapping[Any, Any]


def credit_facts(settings: CreditSettings, means: Means, overall: Means) -> dict[str, Any]:
    """Return every number by case and year, and what the applicant's credit costs whom."""
    years = range(1, settings.rounds + 1)
    return {
        "oracle": "the likelier label by the logistic regression of the whole table",
        "applicant": {
            "row": asking(),
            "effort over all years, in cost": {
                "collective": collective_effort(settings, overall),
                **{way: own_effort(settings, overall, way) for way in OWN_WAYS},
            },
        },
        "cases": [
            {
                **{name: value for name, value in zip(KEYS, key, strict=True) if value is not None},
                "all years": known(measured),
                "years": [{"year": year, **known(means[*key, year])} for year in years if (*key, year) in means],
            }
            for key, measured in overall.items()
        ],
    }


def own(overall: Means, way: str, labels: str = KEEP, adoption: float = 0.0) -> Any:
    """Return what the applicant gets by itself, over all years, where so many others follow advice."""
    return overall[NEW, way, labels if adoption else KEEP, adoption, ITSELF]


def own_effort(settings: CreditSettings, overall: Means, way: str) -> float:
    """Return how far the applicant goes by itself in all years together, on average; nobody else moves."""
    return float(own(overall, way)["effort"]["mean"] * settings.rounds)


def collective_effort(settings: CreditSettings, overall: Means) -> float:
    """Return how far all members of the collective go in all years together, on average."""
    return float(overall[NEW, None, KEEP, None, HELPED[1]]["effort"]["mean"] * settings.rounds)


def valid(overall: Means, come: str, advice: str, labels: str, adoption: float) -> dict[str, float]:
    """Return how much advice is valid after the next refit: mean, least and greatest."""
    helped = ITSELF if advice in OWN_WAYS else None
    return dict(overall[come, advice, labels if adoption else KEEP, adoption, helped]["next"])


def credit_lines(overall: Means) -> list[tuple[str, ...]]:
    """Return how much advice is valid after the next refit; the applicant's own ways among it."""
    kinds = [(SAME, NICE), (SAME, SHORTEST), (NEW, NICE), *((NEW, way) for way in OWN_WAYS)]
    return [
        (
            f"the applicant: {advice}" if advice in OWN_WAYS else f"{come}, {advice}",
            labels,
            *(_share(valid(overall, come, advice, labels, adoption)["mean"]) for adoption in ADOPTIONS),
        )
        for come, advice in kinds
        for labels in POLICIES
    ]


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def credit_summary(settings: CreditSettings, means: Means, overall: Means) -> list[str]:
    """Say what came out, and what did not."""

    def falls(come: str, advice: str, labels: str) -> str:
        return " → ".join(f"{valid(overall, come, advice, labels, adoption)['mean']:.2f}" for adoption in ADOPTIONS)

    last = [means[NEW, None, KEEP, None, helped, settings.rounds] for helped in HELPED]
    got = [one["chance"]["mean"] for one in last]
    said = [
        "Of advice that 0 / 10 / 50 / 100 % of the same people follow, one refit leaves valid: "
        f"{falls(SAME, SHORTEST, KEEP)} (shortest way) and {falls(SAME, NICE, KEEP)} (NICE) if labels stay, "
        f"{falls(SAME, NICE, ORACLE)} (NICE) if they follow the features.",
        f"In year {settings.rounds} the applicant who asks has a chance of {got[0]:.0%} if nobody helps, "
        f"{got[1]:.0%} with a collective, and {got[2]:.0%} if others game the model meanwhile.",
        *_by_itself(settings, overall),
    ]
    baseline = valid(overall, NEW, NICE, KEEP, 0.0)["mean"]
    if baseline < 0.995:
        said.append(
            f"With new applicants every year {1 - baseline:.0%} of all advice fails at the next refit though nobody "
            "follows it: other people and drift move the model, too."
        )
    if valid(overall, SAME, NICE, ORACLE, 1.0)["mean"] < 0.995:
        said.append("Labels that follow the features do not keep all advice valid here.")
    if got[1] <= got[0]:
        said.append("The collective did not help the applicant here.")
    elif last[1]["success"]["mean"] < 1:
        said.append("The collective did not get the applicant credit in every repetition.")
    return said


def _by_itself(settings: CreditSettings, overall: Means) -> list[str]:
    """Say what the applicant can do by itself, and what the collective's help costs beside that."""
    shortest = own(overall, OWN_SHORTEST)["burden"]["mean"]
    if math.isnan(shortest):
        return ["In no year has the applicant both need of a way to credit by itself and one to go."]

    def kept(way: str) -> str:
        nobody = own(overall, way)["success"]["mean"]
        every = " / ".join(f"{own(overall, way, labels, 1.0)['success']['mean']:.0%}" for labels in POLICIES)
        return f"{nobody:.0%} of all refits ({every} if everybody else follows advice and labels {KINDS})"

    said = [
        "By itself, the applicant has credit at once for a cost of "
        f"{own_effort(settings, overall, OWN_SHORTEST):.2f}, the shortest way over what it may change in the year in "
        f"which it is first refused ({shortest:.2f} on average over all such years). If it stays there, it has "
        f"credit after {kept(OWN_SHORTEST)}. (That counts the refits of all years; the table counts, of every year's "
        "way, the next refit alone.)"
    ]
    members, alone = collective_effort(settings, overall), own_effort(settings, overall, AS_A_MEMBER)
    if alone > 0:
        said.append(f"If it goes {settings.budget:g}, as a member of the collective may, after {kept(AS_A_MEMBER)}.")
    if members > 0:
        helped = overall[NEW, None, KEEP, None, HELPED[1]]["success"]["mean"]
        said.append(
            f"The collective gets it credit after {helped:.0%} of all refits, and its members together go "
            f"{members / settings.rounds:.1f} a year, {members:.0f} in {settings.rounds} years: {members / alone:,.0f} "
            f"times as far as the applicant's {alone:.2g}."
        )
    return said
