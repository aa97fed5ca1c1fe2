"""Statement of a problem: a query with a goal, a population, a model and an action."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.actions import Allowance, Perturb, Relabel, Withhold
from oar.actions.choice import Levers, as_action, part_of, parts_of
from oar.actions.limits.limit import Limits
from oar.actions.limits.plausible import EVERYWHERE, NOBODY, Everywhere, Neighbourhood
from oar.actions.own_action import Action, with_changes
from oar.actions.participation import Best
from oar.actions.perturb import check_budget
from oar.actions.relabel import NO_LABELS
from oar.actions.sets.cost_region import CostRegion, distance_scales, measure, spreads_of
from oar.actions.withhold import NO_LEAVERS
from oar.checks import check_that, choose, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.estimators.black_box import BlackBox
from oar.estimators.recognise import is_estimator, recognised
from oar.estimators.twin import Twin
from oar.goals import Aimed, Between, ClassWish, GoalText, ValueWish, Wish, wish_words
from oar.goals.keep import Anchors, Keep, SideEffectLimits
from oar.goals.reading import QueryPoints, read_points, read_wishes
from oar.goals.wishes import KINDS, Aggregate, mean
from oar.models import Differentiable
from oar.people import Population
from oar.people.tables import scales
from oar.typing import ActionLike, Goal, ModelLike, QueryFeatures

OF_PEOPLE = ("asked", "allowance", "limits", "levers", "best")  # read of people, action and query, whatever the model


@with_near_names
@dataclass(frozen=True, eq=False)
class Query:
    """The query subject, or several: features, and the goal, which is the desired prediction.

    Args:
        features: (d,) numbers; a Series, a dict or a one-row frame is matched to the columns by name. Several people
            are (q, d) numbers, a frame of q rows, a list of Series or dicts, or `oar.Members` of the population.
        goal: the label that the model should predict; a set of labels, any of which will do; or `oar.AnyBut`. For
            models that predict values: a value (with `within`), or a range, `oar.Between`. Several people may have a
            list of goals, one for each.
        budget: how far the query itself may move (for `individual` and `joint`); None means the
            members' common budget.
        within: for models that predict values: the tolerance within which the goal is reached.
        probability: the least probability of the goal; None where a prediction of the goal suffices.
        several: the objective for several people: the "mean" of their losses, the "worst", or the "share" that does not
            reach its goal.
        share: the share of several people who must reach their goal for a success; None means all.
    """

    features: QueryFeatures
    goal: Goal
    budget: float | None = None
    within: float | None = None
    probability: float | None = None
    several: str = "mean"
    share: float | None = None

    def __post_init__(self) -> None:
        for name in ("budget", "within"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_budget(getattr(self, name), f"Query {name}"))
        choose("several", self.several, KINDS)
        for name, most in (("probability", "below 1"), ("share", "at most 1")):
            value = getattr(self, name)
            fits = value is None or (is_number(value) and 0 < value <= 1 and (value < 1 or name == "share"))
            check_that(fits, f"Query {name}", f"a number above 0 and {most}", value)


@with_near_names
@dataclass(frozen=True, eq=False)
class Problem:
    """People, model, query and action: everything that a solver needs, checked when it is made.

    The action is a Perturb, a Relabel or a Withhold, or a list of them, each at most once; or one of your own, an
    `oar.actions.Action`. `keep`, an `oar.Keep`, limits a plan's side effects.

    >>> from oar.models import NearestCentroid
    >>> people = Population([[0.0], [1.0], [4.0]], ["no", "no", "yes"])
    >>> Problem(people, NearestCentroid(), Query([1.5], goal="yes"), Perturb(0.5))
    Problem(nearest-centroid, 3 people × 1, goal 'yes', Perturb(budget=0.5, norm=2))
    """

    people: Population
    model: Differentiable | BlackBox
    query: Query
    action: Any
    keep: Keep | None = None

    over_rounds: ClassVar[bool] = False
    """Whether the model is retrained more than once, as people arrive: an `oar.OnlineProblem`."""

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self, people: Population, model: ModelLike, query: Query, action: ActionLike, keep: Keep | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", as_action(self.action))
        object.__setattr__(self, "model", as_model(self.model))
        if self.people.streamed:
            object.__setattr__(self, "model", self.model.in_parts(self.people))
        self.model.check(self.people)
        if self.own_action is not None and (self.people.streamed or self.people.encoding is not None):
            got = "people in parts" if self.people.streamed else "a table"
            raise OptionError(
                f"action: of one's own ({self.own_action.name!r}) is for plain features in memory, got {got}; use an "
                "oar.Perturb(…)."
            )
        object.__setattr__(self, "people", self.model.prepared(self.people))
        _ = self.wishes, self.allowance, self.levers, self.best, self.limits, self.kept
        self.model.check_question(bool(self.asked.among.size), self.levers.given)
        if not self.several:
            for name, usual in (("several", "mean"), ("share", None)):
                if getattr(self.query, name) != usual:
                    raise OptionError(f"Query {name}: is for several people, and one is asked about; leave it out.")

    @property
    def regresses(self) -> bool:
        """Whether the model predicts values rather than classes."""
        return self.model.regresses

    @cached_property
    def asked(self) -> QueryPoints:
        """The query subjects: one person, several, or members."""
        return read_points(self.people, self.query.features)

    @cached_property
    def wishes(self) -> tuple[Wish, ...]:
        """The goal of each of them."""
        return read_wishes(self.people, self.model, self.query, self.asked)

    def wishes_by(self, code: int | None) -> tuple[Wish, ...]:
        """Return everyone's goal; if any of several classes will do, that of the class that is to be predicted."""
        return self.wishes if code is None else tuple(wish.by(code) for wish in self.wishes)  # type: ignore[union-attr]

    @cached_property
    def wanted_codes(self) -> list[int]:
        """Codes of the classes that any query has as its goal: the predictions that others can lose."""
        return sorted({code for wish in self.wishes for code in wish.codes})  # type: ignore[union-attr]

    @cached_property
    def caution(self) -> str:
        """A warning where one column's scale dominates the others, for plain features without a scaler; else ""."""
        if self.people.streamed or self.limits is not None or self.model.scales_itself:
            return ""
        return scales.caution(self.people)

    @property
    def several(self) -> bool:
        """Whether there are several queries, or members, who move with their data."""
        return not self.asked.single

    @cached_property
    def plain(self) -> bool:
        """Whether there is one query with one label or value as its goal, as exact solutions and proofs require."""
        return not self.several and self.wishes[0].plain

    @property
    def undecided(self) -> bool:
        """Whether one query's goal is any of several classes: plans may be for each of them."""
        return not self.several and not self.plain and not self.regresses and self.query.probability is None

    @property
    def within(self) -> float:
        """The tolerance of the goal's value, where there is one query with one value."""
        if self.query.within is not None:
            return self.query.within
        wish = self.wishes[0]
        assert isinstance(wish, ValueWish)
        assert self.plain
        return float(wish.high[0] - wish.target[0])

    @property
    def enough(self) -> float:
        """The share of the query subjects who must reach their goal."""
        return 1.0 if self.query.share is None else self.query.share

    @cached_property
    def goal(self) -> int:
        """The goal's class code, where there is one query with one label."""
        wish = self.wishes[0]
        assert isinstance(wish, ClassWish)
        assert self.plain
        return wish.codes[0]

    @cached_property
    def goal_label(self) -> Any:
        """The goal as a prediction would show it: a class's label, or a value; else as the query says it."""
        if not self.plain or isinstance(self.query.goal, Between):
            return self.query.goal
        if self.regresses:
            value = self.goal_target
            return float(value[0]) if value.size == 1 else value
        return self.people.classes[self.goal]

    @property
    def published_goal(self) -> Any:
        """The goal as a card has it: a label, a number or a tuple of them; else in words."""
        if not self.plain or self.query.probability is not None or isinstance(self.query.goal, Between):
            several = f" for {len(self.wishes):,} people" if self.several else ""
            return GoalText(f"{self.goal_words}{several}")
        return tuple(self.goal_label.tolist()) if isinstance(self.goal_label, np.ndarray) else self.goal_label

    @property
    def goal_words(self) -> str:
        """The goal in a few words."""
        words, least = wish_words(self.goal_label), self.query.probability
        return words if least is None else f"{words} with probability at least {least:g}"

    @property
    def goal_target(self) -> NDArray[np.float64]:
        """The (first) goal as a target (o,) of a differentiable model."""
        return self.wishes[0].target

    def combined(self, losses: NDArray[np.float64], reached: NDArray[np.bool_]) -> tuple[float, bool]:
        """Return the objective, from each query's loss (q,), and whether enough of them reach their goals."""
        share = float(np.mean(reached))
        loss = {"mean": losses.mean(), "worst": losses.max(), "share": 1.0 - share}[self.query.several]
        return float(loss) if np.isfinite(losses).all() else np.nan, bool(share >= self.enough - np.finfo(float).eps)

    @property
    def query_features(self) -> NDArray[np.float64]:
        """The query's features, in the order of the population's columns; raises for several queries."""
        if self.several:
            raise OptionError(f"query: must be one person here, got {self._who_ask}")
        return self.first_query

    @property
    def first_query(self) -> NDArray[np.float64]:
        """The features of the first query."""
        return self.asked.points[0]

    @cached_property
    def kept(self) -> SideEffectLimits | None:
        """The limits on side effects, with the people on whom they are measured; None where there are none."""
        return None if self.keep is None else self.keep.resolved(self.people, self.regresses)

    def training(self, together: Aggregate | None = None, by: int | None = None, anchors: Anchors | None = None) -> Any:
        """Bind the model to the people, and to what the queries want.

        `together` combines the losses of several queries; None means their mean. If any of several classes will do,
        `by` is the code of the one to be predicted; None means the nearest. The mean loss of `anchors` is added.
        """
        training = self._bound()
        if self.plain and anchors is None:
            return training
        points = self.asked.points if self.several else None
        return Aimed(training, self.wishes_by(by), points, self.asked.members, together or mean, anchors)

    def _bound(self) -> Any:
        if not self.people.streamed:
            return self.model.training(self.people)
        from oar.streaming import training_in_parts

        return training_in_parts(self.model, self.people, self.allowance)  # type: ignore[arg-type]

    @cached_property
    def allowance(self) -> Allowance:
        """The feasible moves of each member; for a user-defined action, the balls that contain everybody's set.

        People of zero weight do not move, because that would have no effect; nor do members who are queries and stay.
        """
        allowance = (self.own_action or part_of(self.action, Perturb) or Perturb(0.0)).allowance(self.people)
        useful = np.zeros(self.people.size, dtype=bool)
        useful[self.people.present] = True
        if self.asked.members is None:
            useful[self.asked.among] = False
        if useful.all():
            return allowance
        return dataclasses.replace(allowance, mask=allowance.acting(self.people.size) & useful)

    @cached_property
    def persons(self) -> NDArray[np.intp]:
        """The number of the person (n,) that each row is of; over rounds a person may have several rows."""
        return np.arange(self.people.size)

    @cached_property
    def last_rows(self) -> NDArray[np.bool_]:
        """The mask (n,) that counts everybody once: over rounds the last row of each person."""
        return np.ones(self.people.size, dtype=bool)

    @property
    def own_action(self) -> Action | None:
        """The author's own action; None where members move within balls or a table's limits."""
        return self.action if isinstance(self.action, Action) else None

    @property
    def everyone_acts(self) -> bool:
        """Whether everybody takes part, except query subjects who stay."""
        others = self.allowance.acting(self.people.size).copy()
        others[self.asked.among] = True
        return bool(others.all())

    @cached_property
    def levers(self) -> Levers:
        """What members may do besides moving; false where moving is all."""
        relabel, withhold = part_of(self.action, Relabel), part_of(self.action, Withhold)
        if not (relabel or withhold):
            return Levers()
        if self.best is not None:
            raise OptionError(
                f"participants: oar.Best chooses who moves where moving is all, got {self.action!r}; give a mask, or "
                "leave the other actions out."
            )
        if relabel and self.regresses and self.model.only_asked:
            raise OptionError(
                f"Relabel: {self.model.name} predicts values, and values of a black box's people are not changed, got "
                f"{relabel!r}; use Perturb or Withhold, or a model of oar.models with Relabel(soft=...)."
            )
        soft = relabel and relabel.soft is not None
        if soft and self.model.plain_means:
            raise OptionError(
                "soft: nearest centroid knows hard labels alone; use Relabel(most=...), or "
                "oar.models.PrototypeNetwork(), which is the same model and takes soft labels."
            )
        if soft and isinstance(self.model, Twin) and not self.regresses:
            raise OptionError(
                f"soft: {self.model.name} is trained on one label a person; use Relabel(most=...), or a model of "
                "oar.models, which takes soft labels."
            )
        labels = relabel.limits(self.people, self.regresses, self.model.name) if relabel else NO_LABELS
        leaving = withhold.limits(self.people) if withhold else NO_LEAVERS
        if self.asked.members is None:  # who asks as it is takes no part
            others = np.ones(self.people.size, dtype=bool)
            others[self.asked.among] = False
            labels = dataclasses.replace(labels, mask=labels.mask & others)
            leaving = dataclasses.replace(leaving, mask=leaving.mask & others)
        return Levers(labels, leaving)

    @cached_property
    def best(self) -> Best | None:
        """How many members are to be chosen, and among whom; None where the participants are fixed.

        Until they are chosen, `allowance` lets all candidates move.
        """
        perturb = part_of(self.action, Perturb)
        return perturb.participants if perturb is not None and isinstance(perturb.participants, Best) else None

    @property
    def moves(self) -> bool:
        """Whether members may move their features."""
        return self.own_action is not None or part_of(self.action, Perturb) is not None

    @property
    def only_free_moves(self) -> bool:
        """Whether members move within balls before one refit, one query wants one label or value, and that is all."""
        free = self.just_moves and self.within_balls and not self.over_rounds
        return self.plain and self.query.probability is None and free

    def named(self, part: Any) -> Any:
        """Return whom a part of the action names as its participants; None for everybody who could act."""
        return part.participants

    @property
    def schedule(self) -> tuple[Any, ...]:
        """What tells who is retrained on when, and how, of problems over rounds; empty for one refit."""
        return ()

    @property
    def just_moves(self) -> bool:
        """Whether moving is all that members do, it is settled who they are, and nobody else must be left alone."""
        return not self.levers.given and self.best is None and self.keep is None

    @property
    def within_balls(self) -> bool:
        """Whether members move within balls: people are not a table, and the action is not user-defined."""
        return self.limits is None and self.own_action is None

    @cached_property
    def themselves(self) -> Problem:
        """The same for those who ask, of whom each may move itself from where it stands, while nobody else acts."""
        perturb = part_of(self.action, Perturb) or Perturb(0.0)
        if not self.levers.given and self.asked.members is None:
            return self
        query = self.query if self.asked.members is None else self._asking_from(self.asked.points)
        return dataclasses.replace(self, query=query, action=self.own_action or perturb)

    @cached_property
    def singly(self) -> tuple[Problem, ...]:
        """The same for each of those who ask alone."""
        goals = self.query.goal if isinstance(self.query.goal, list) else [self.query.goal] * len(self.wishes)
        asking = [
            dataclasses.replace(self.query, features=point, goal=goal, several="mean", share=None)
            for point, goal in zip(self.asked.points, goals, strict=True)
        ]
        return tuple(dataclasses.replace(self, query=query) for query in asking)

    def asking_after(self, move: NDArray[np.float64]) -> Problem:
        """Return the same after an own move (d,) of who asks, or (q, d) of several."""
        return dataclasses.replace(self, query=self._asking_from(self.asked.points + move))

    def _asking_from(self, points: NDArray[np.float64]) -> Query:
        if len(points) > 1:
            return dataclasses.replace(self.query, features=points)
        goal = self.query.goal[0] if isinstance(self.query.goal, list) and self.several else self.query.goal
        return dataclasses.replace(self.query, features=points[0], goal=goal, several="mean", share=None)

    def only_moves(self, what: str) -> None:
        """Raise unless moving is all that members may do; `what` supports nothing else."""
        if self.levers.given:
            raise OptionError(
                f"action: must be an oar.Perturb(…) alone for {what}, got {self.action!r}; "
                "oar.collective plans other labels and strikes."
            )

    def only_one_refit(self, what: str) -> None:
        """Raise where the model is retrained round by round; `what` is asked about one refit of everybody."""
        if self.over_rounds:
            raise OptionError(
                f"problem: {what} is for one refit, got one over time; plan that with oar.collective(problem), or ask "
                "about a round of it as an oar.Problem."
            )

    def only_one(self, what: str) -> None:
        """Raise where there are several queries; `what` is for one."""
        if self.several:
            raise OptionError(f"query: must be one person for {what}, got {self._who_ask}")

    @property
    def _who_ask(self) -> str:
        """Say who ask where that is more than one person with features of its own, and what to do."""
        members = self.asked.members
        if members is not None and len(members) == 1:
            return (
                f"the member at position {int(members[0])} (oar.Members), who asks from wherever the plan moves it; "
                "ask with its features instead, as in oar.Query(people.features[…], goal=…)."
            )
        return "several; ask about one at a time."

    def only_plain(self, what: str) -> None:
        """Raise unless there is one query with one label or value; `what` supports no other goals."""
        if not self.plain or self.query.probability is not None:
            raise OptionError(
                f"query: must be one person with one label or value as goal for {what}, got {self.goal_words}"
                f"{' for several' if self.several else ''}; oar.collective knows such goals."
            )

    def only_balls(self, what: str) -> None:
        """Raise where people have limits other than a budget, as on a table; `what` does not support them."""
        if self.own_action is not None:
            raise OptionError(
                f"action: must be an oar.Perturb(…) for {what}, which knows balls, got {self.own_action.name!r}, an "
                "action of one's own; use oar.collective, and hand members their rows of plan.moves()."
            )
        if self.limits is not None:
            raise OptionError(
                f"people: must be plain features for {what}, got a table, whose limits it does not know; use "
                "oar.collective, oar.individual or oar.cheapest."
            )

    @property
    def query_budget(self) -> float:
        """How far the query itself may move."""
        if self.query.budget is not None:
            return self.query.budget
        if self.allowance.single:
            return float(self.allowance.budget)
        raise DataError(
            "Query budget: must be given where the members' budgets differ, got none; "
            "use oar.Query(x, goal, budget=...)."
        )

    @cached_property
    def limits(self) -> Limits | None:
        """The limits of a table's columns, checked against its schema; None where people are not a table."""
        perturb = part_of(self.action, Perturb)
        limits = None if perturb is None else perturb.limits
        if self.people.encoding is None:
            if limits is not None:
                raise DataError(
                    "limits: are for people with a schema; make them with oar.Population.from_frame(df, target=…)."
                )
            return None
        checked = (limits or Limits()).check(self.people.encoding.schema).naming(self.people.index, self.people.size)
        if checked.plausible is not None:
            checked.plausible.check(self.people.size)
        return checked

    def measured(self, query: bool) -> CostRegion:
        """Return what members of a table and, last, the query may do, measured in cost; the query only if `query`.

        It is of those coordinates alone that somebody may move.
        """
        people = self.people
        radii = np.append(self.allowance.everyones(people.size), self.query_budget if query else 0.0)
        # Costs are settled before anybody leaves.
        weights = people.first_row_weights
        found = measure(
            self.limits or Limits(),
            people.table,
            np.vstack([people.features, self.first_query]),
            np.append(weights / weights.sum(), 0.0),
            radii,
            self.allowance.norm,
            people.index,
            # The query, last, has no gaps.
            False if people.imputed is None else np.vstack([people.imputed, np.zeros_like(people.imputed[:1])]),
        ).reduced()
        return dataclasses.replace(found, where=self.neighbourhood, who=np.append(np.arange(people.size), NOBODY))

    @cached_property
    def neighbourhood(self) -> Neighbourhood | Everywhere:
        """The neighbourhood structure of the people, where moves must be plausible."""
        people, limits = self.people, self.limits or Limits()
        if limits.plausible is None:
            return EVERYWHERE
        features, weights = np.asarray(people.features, dtype=np.float64), people.first_row_weights
        scales = distance_scales(limits, people.table, spreads_of(features, weights / weights.sum()))
        return Neighbourhood(limits.plausible, features, scales)

    def with_action(self, **changes: Any) -> Problem:
        """Return the same problem with some settings of its action changed; who takes part stays as it was drawn."""
        if self.own_action is not None:
            changes = {"participants": self.allowance.mask, "seed": None} | changes
            return dataclasses.replace(self, action=with_changes(self.own_action, self.allowance, changes))
        perturb = part_of(self.action, Perturb)
        if perturb is None:
            raise OptionError(f"action: must hold an oar.Perturb(…) to have its settings changed, got {self.action!r}.")
        if "participants" not in changes:
            drawn = self.allowance.mask
            changes |= {"participants": drawn if self.best is None else Best(self.best.number, drawn), "seed": None}
        changed = dataclasses.replace(perturb, **changes)
        parts = [changed if part is perturb else part for part in parts_of(self.action)]
        # Over rounds a list of Perturbs is one for each round.
        return dataclasses.replace(self, action=parts if len(parts) > 1 else changed)

    def of_model(self, model: Differentiable) -> Problem:
        """Return the same question of another model that people of this kind can be fitted to.

        Who asks, who acts and within which limits stays as it was read.
        """
        model.check(self.people)
        other = object.__new__(type(self))
        kept = {*OF_PEOPLE, *(field.name for field in dataclasses.fields(self))}
        other.__dict__.update({name: vars(self)[name] for name in kept & vars(self).keys()} | {"model": model})
        return other

    def __repr__(self) -> str:
        size = f"{self.people.size:,} people × {self.people.dimensions}"
        queries = f"{len(self.wishes):,} queries, " if self.several else ""
        return f"Problem({self.model.name}, {size}, {queries}goal {self.goal_words}, {self.action!r})"


def as_model(model: Any) -> Differentiable | BlackBox:
    """Return a model that problems know: ours as it is, of an estimator that others wrote its twin."""
    if isinstance(model, Differentiable | BlackBox):
        return model
    if is_estimator(model):
        return recognised(model)
    raise DataError(
        f"model: must be oar.NearestCentroid(), one of oar.models or a scikit-learn estimator, got {model!r}; "
        "wrap a loss of your own in oar.models.Custom, and anything with fit and predict in oar.BlackBox."
    )
