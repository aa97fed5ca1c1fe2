"""What a plan does to everybody else: whose predictions change, which way, and how good the model still is.

The model is refitted before and after by its own training, once each, and predicts for everyone; a test holds these
predictions against those of the audit's witnesses. Bystanders are the people whose own data do not change, and who do
not ask as `oar.Members`; a query that is only the same row as somebody's is not known to be that person. Somebody whose
data do change is an actor: their prediction before is at their old features, that after at their new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.errors import DataError, NumericsError
from oar.goals.held_out import held_out_people
from oar.people.grouping import grouped
from oar.people.wording import lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.refits import Refits
from oar.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
SAME = 1e-9  # share of a predicted value that is rounding
NOTICED = 0.01  # share of the predictions' standard deviation by which a value must change to have changed
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
EFFECTS = ("none", "towards", "away", "other")  # by code


class Changes(NamedTuple):
    """How many people there are, of how many the prediction changes, and of how many towards or away from the goal.

    Towards the goal is to its class, and away from it is out of it; of values, nearer to it or farther. Every value
    changes a little when a model is refitted: those count that change by more than 1 % of the standard deviation of
    everybody's predictions before.
    """

    people: int
    changed: int
    towards: int
    away: int

    @property
    def share(self) -> float:
        """The share of the people whose prediction changes."""
        return self.changed / self.people if self.people else 0.0


@dataclass(frozen=True, eq=False)
class Collateral(ShownAsText):
    """What a plan does to predictions other than the query's.

    Attributes:
        result: the plan is its.
        bystanders, actors: what changes for those whose own data stay as they are, and for the others.
        effects: (n,) how each one's prediction changes: positions in `EFFECTS`.
        before, after: (n,) class codes, or (n, o) values, that are predicted before and after.
        acts: (n,) who is an actor.
        by_group: a DataFrame of groups of bystanders; None where no groups were asked for.
        actors_by_group: the same of actors.
        score: "accuracy", or "mean squared error" where values are predicted.
        own_before, own_after: that score on the people themselves, as they were before any move.
        held_out_before, held_out_after: on held-out people; None where there are none.
        held_out_size: how many held-out people there are.
    """

    result: Result
    bystanders: Changes
    actors: Changes
    effects: NDArray[np.intp]
    before: NDArray[Any]
    after: NDArray[Any]
    acts: Mask
    by_group: Any
    score: str
    own_before: float
    own_after: float
    held_out_before: float | None
    held_out_after: float | None
    held_out_size: int = 0
    actors_by_group: Any = None

    @property
    def table(self) -> Any:
        """How many bystanders go from which predicted class (rows) to which (columns), as a DataFrame."""
        import pandas

        if self.result.problem.regresses:
            raise DataError("collateral: values are predicted here, which are no table of classes; use `change`.")
        classes = self.result.problem.people.classes
        counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
        np.add.at(counts, (self.before[~self.acts], self.after[~self.acts]), 1)
        index = (pandas.Index(list(classes), name=name) for name in ("before", "after"))
        return pandas.DataFrame(counts, *index)

    @property
    def change(self) -> Any:
        """Mean and quantiles of how bystanders' predicted values change, as a DataFrame; a column for each output."""
        import pandas

        if not self.result.problem.regresses:
            raise DataError("collateral: classes are predicted here, which have no mean; use `table`.")
        changes = (self.after - self.before)[~self.acts]
        if not len(changes):
            changes = np.full((1, self.before.shape[1]), np.nan)
        rows = np.vstack([changes.mean(axis=0), np.quantile(changes, QUANTILES, axis=0)])
        return pandas.DataFrame(rows, index=["mean", *(f"{share:.0%}" for share in QUANTILES)])

    def frame(self) -> Any:
        """Return a DataFrame of the bystanders whose predictions change: person, before, after, and the effect.

        The effect is "towards" or "away" from the goal, or "other".
        """
        import pandas

        people, rows = self.result.problem.people, np.flatnonzero(~self.acts & (self.effects > 0))
        names = rows if people.index is None else people.index[rows]
        said = {"before": self.before[rows], "after": self.after[rows]}
        if not self.result.problem.regresses:
            said = {name: np.array(people.classes, dtype=object)[codes] for name, codes in said.items()}
        columns = {
            name: list(values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values)
            for name, values in said.items()
        }
        frame = pandas.DataFrame({"person": pandas.Series(list(names), dtype=object), **columns})
        frame["effect"] = np.array(EFFECTS, dtype=object)[self.effects[rows]]
        return frame

    def __str__(self) -> str:
        """Show numbers of people, and scores before and after."""
        rows = [("bystanders", _words(self.bystanders)), ("actors", _words(self.actors))]
        rows.append((self.score, f"{self.own_before:.4g} → {self.own_after:.4g} on the people as they were"))
        if self.held_out_before is not None:
            outside = f"{self.held_out_before:.4g} → {self.held_out_after:.4g}"
            rows.append(("", f"{outside} on {self.held_out_size:,} held-out people"))
        text = lined_up(rows)
        if self.by_group is not None:
            text += f"\n\n{self.by_group.to_string(float_format='{:.3g}'.format)}"
        return text

    def __repr__(self) -> str:
        """Show how many predictions change, in one line."""
        return f"Collateral({_words(self.bystanders)})"


def _words(changes: Changes) -> str:
    several = f"predictions of {changes.changed:,} of {changes.people:,} change ({changes.share:.1%})"
    return f"{several}: {changes.towards:,} towards the goal, {changes.away:,} away from it"


def collateral(result: Result, held_out: Any = None, groups: Any = None) -> Collateral:
    """Return what a result's plan does to the predictions of others, and to how good the model is.

    Args:
        result: of `oar.collective`, `oar.joint` or `oar.individual`.
        held_out: people whom the model is not trained on, to score it by: an `oar.Population`, or of a table a
            DataFrame with the same columns, the target included.
        groups: how bystanders are grouped: a column's name (as it was before any move; numbers of many values are cut
            into quarters), several names, or one value for each person.
    """
    if not isinstance(result, Result):
        raise DataError(f"result: must be what oar.collective returns, got an object of type {type(result).__name__}.")
    problem = result.problem
    others = None if held_out is None else held_out_people(problem.people, problem.regresses, held_out)
    group = None if groups is None else grouped(problem.people, groups)
    refits = Refits(result.plan)
    old, new = refits.fit(refits.before), refits.fit(refits.planned)
    if old is None or new is None:
        raise NumericsError(
            f"result: {problem.model.name} could not be refitted {'before' if old is None else 'after'} the plan, so "
            "nothing can be said of others; a larger penalty makes training easier."
        )
    own_before, own_after = refits.predict(old, refits.features), refits.predict(new, refits.features)
    moved = refits.planned.moves.any(axis=1)
    after = own_after.copy()
    if moved.any():
        after[moved] = refits.predict(new, (refits.features + refits.planned.moves)[moved])
    effects = _effects(problem, own_before, after)
    given = refits.before.rows, refits.before.weights
    acts = refits.actors.copy()
    if problem.asked.among is not None:
        acts[problem.asked.among] = True
    scores = [_score(problem, predicted, *given) for predicted in (own_before, own_after)]
    outside: list[float | None] = [None, None]
    if others is not None:
        outside = [
            _score(problem, refits.predict(fit, others.features), others.rows, others.weights) for fit in (old, new)
        ]
    return Collateral(
        result,
        _counted(effects[~acts]),
        _counted(effects[acts]),
        effects,
        own_before,
        after,
        acts,
        None if group is None else _by_group(group, effects, own_before, after, ~acts, "bystanders"),
        "mean squared error" if problem.regresses else "accuracy",
        own_before=scores[0],
        own_after=scores[1],
        held_out_before=outside[0],
        held_out_after=outside[1],
        held_out_size=0 if others is None else len(others.features),
        actors_by_group=None if group is None else _by_group(group, effects, own_before, after, acts, "actors"),
    )


def _effects(problem: Problem, before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.intp]:
    """Return how each prediction changes, as positions in `EFFECTS`."""
    if problem.regresses:
        old, new = (np.min([_beyond(wish, values) for wish in problem.wishes], axis=0) for values in (before, after))
        slack = SAME * (1 + np.abs(before).max(axis=1))
        noticed = np.maximum(NOTICED * before.std(axis=0), slack[:, None])
        changed = (np.abs(after - before) > noticed).any(axis=1)
        towards, away = changed & (new < old - slack), changed & (new > old + slack)
    else:
        good = sorted({code for wish in problem.wishes for code in wish.codes})  # type: ignore[union-attr]
        changed, had, has = before != after, np.isin(before, good), np.isin(after, good)
        towards, away = changed & has & ~had, changed & had & ~has
    return np.select([towards, away, changed], [1, 2, 3], 0).astype(np.intp)


def _beyond(wish: Any, values: Array) -> Array:
    """Return how far (n,) values (n, o) are from the box that is aimed at."""
    return np.abs(values - np.clip(values, wish.nearest, wish.farthest)).max(axis=1)


def _counted(effects: NDArray[np.intp]) -> Changes:
    counts = np.bincount(effects, minlength=len(EFFECTS))
    return Changes(int(effects.size), int(counts[1:].sum()), int(counts[1]), int(counts[2]))


def _score(problem: Problem, predicted: NDArray[Any], rows: Array, weights: Array) -> float:
    """Return the weighted accuracy, or mean squared error; a soft label is its largest share."""
    if problem.regresses:
        return float(np.average(((predicted - rows) ** 2).mean(axis=1), weights=weights))
    return float(np.average(predicted == rows.argmax(axis=1), weights=weights))


def _by_group(
    group: Any, effects: NDArray[np.intp], before: NDArray[Any], after: NDArray[Any], inside: Mask, people: str
) -> Any:
    """Return a row a group of those inside (n,): how many they are, in a column called `people`, and what changes."""
    import pandas

    frame = pandas.DataFrame({people: inside, "changed": effects > 0, "towards": effects == 1, "away": effects == 2})
    frame = frame.astype(np.intp)
    if after.ndim == 2:
        frame["mean change"] = (after - before).mean(axis=1)
    by = frame[inside].groupby(group[inside], observed=True)
    found = by.sum()
    found.insert(2, "share", found["changed"] / found[people])
    if after.ndim == 2:
        found["mean change"] /= found[people]
    found.index.name = group.name or "group"
    return found
