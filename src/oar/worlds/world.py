"""A world: arrivals, an operator, actors, and a label policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oar.checks import check_that, is_text, with_near_names
from oar.errors import DataError, OptionError
from oar.typing import PeopleLike
from oar.worlds.collective import Collective
from oar.worlds.deployed.predictions import check_model
from oar.worlds.people.labels import check_labels, depends_on_decisions
from oar.worlds.rounds.step import before_decision

if TYPE_CHECKING:
    from oar.problem import Query
    from oar.worlds.protocol import Actor, Arrivals, Crowd
    from oar.worlds.protocol import Operator as OperatorLike


@with_near_names
@dataclass(frozen=True, eq=False)
class World:
    """A world: everything that a simulation needs except the collectives' policies.

    Args:
        arrivals: the people of each round: one of `FromPopulation`, `Blobs` and `FromBatches`, or your own `Arrivals`.
        operator: the operator: an `Operator`, or another one of `oar.worlds`.
        collective: a `Collective`, or a list of them; None where nobody acts together.
        others: other actors, in the order in which they act.
        labels: the label policy for people who move: "keep", "oracle" or "relabel". There is no default.
        history: the people on whom the model is fitted before round 0, as an oar.Population or (features, labels); None
            for people drawn like those of round 0.
        holdout: the people on whom accuracy and collateral are measured: the same people in every round, as an
            oar.Population, a pair (features, labels) or a `Crowd` with groups; None for people drawn afresh like those
            of the round, before anybody moves.
        query: an oar.Query whose outcome is recorded where there is no collective.

    A person claimed by several actors is a member of the first alone: collectives come before other actors, each in
    their order, and actors before a decision come first (`oar.worlds.protocol.DecisionArrivals`).
    """

    arrivals: Arrivals
    operator: OperatorLike
    collective: Collective | Sequence[Collective] | None = None
    others: Sequence[Actor] = ()
    labels: str | None = None
    history: PeopleLike | None = None
    holdout: PeopleLike | Crowd | None = None
    query: Query | None = None

    def __post_init__(self) -> None:
        for argument, powers in (
            ("arrivals", ("draw", "label", "classes")),
            ("operator", ("begin", "retrain", "model")),
        ):
            part = getattr(self, argument)
            missing = [power for power in powers if not hasattr(part, power)]
            if missing:
                raise DataError(
                    f"{argument}: must be one of oar.worlds, with {', '.join(powers)}, got an object of type "
                    f"{type(part).__name__} without {missing[0]}."
                )
        check_model(self.operator.model)
        check_labels(self.labels)
        object.__setattr__(self, "others", self._listed("others"))
        early = [actor.name for actor in self.others if before_decision(actor)]
        if early and not depends_on_decisions(self.arrivals):
            raise OptionError(
                f"others: {early[0]!r} acts before a decision, and arrivals have none; give them a method decided, or "
                "leave before_decision out."
            )
        names = [one.name for one in self.collectives] + [one.name for one in self.others]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise OptionError(
                f"name: every collective and actor needs its own, got {twice[0]!r} more than once; rename one."
            )
        if self.query is not None and self.collectives:
            raise OptionError(
                "query: is for a world without a collective, and collectives have their own; leave it out."
            )
        for argument in ("history", "holdout"):
            if getattr(self, argument) is None and not getattr(self.arrivals, "fresh", True):
                raise OptionError(
                    f"{argument}: must be given where arrivals cannot be drawn afresh, got none; hand in an "
                    "oar.Population, or (features, labels)."
                )
        self._check_groups()
        self._check_totals()

    def _check_groups(self) -> None:
        """Raise where nobody will ever be of a members' group: arrivals name theirs, and no decision changes them."""
        groups = getattr(self.arrivals, "group_names", None)
        if groups is None or depends_on_decisions(self.arrivals):
            return
        for one in (*self.collectives, *(getattr(one, "collective", None) for one in self.others)):
            if isinstance(one, Collective) and one.who is not None and one.who not in groups:
                raise DataError(
                    f"who: must be one of the arrivals' groups {list(groups)}, got {one.who!r} for {one.name!r}; "
                    "nobody would ever be a member."
                )

    def _check_totals(self) -> None:
        """Raise for a total that binds nobody: every round's budget is within it, and nobody comes twice."""
        for one in self.collectives if not getattr(self.arrivals, "returning", True) else ():
            if one.total is not None and one.total >= one.caps.budget:
                raise OptionError(
                    f"total: is for people who come again, got {one.total:g} for {one.name!r}, whose budget a round is "
                    f"{one.caps.budget:g}, with arrivals that are somebody else in every round; say who they are "
                    "(FromBatches(…, persons=…)), draw them from a population (FromPopulation), or leave it out."
                )

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All collectives, in their order."""
        found = self._listed("collective")
        for one in found:
            if not isinstance(one, Collective):
                raise DataError(
                    f"collective: must be an oar.worlds.Collective(…) or a list of them, got a {type(one).__name__}."
                )
        return found

    def _listed(self, argument: str) -> tuple[Any, ...]:
        given = getattr(self, argument)
        listed = () if given is None else tuple(given) if isinstance(given, Iterable) else (given,)
        for one in listed if argument == "others" else ():
            missing = [power for power in ("name", "caps", "members", "act") if not hasattr(one, power)]
            if missing:
                raise DataError(f"others: must be actors, got a {type(one).__name__} without {missing[0]}.")
            check_that(is_text(one.name), "others: an actor's name", "a word", one.name)
        return listed
