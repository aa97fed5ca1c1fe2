"""Side effects of a plan: whose predictions change, in which direction, and how good the model still is.

The model is refitted before and after by its own training, once each, and predicts for everyone; a test holds these
predictions against those of the audit's witnesses. Over several rounds it is the last round's model, and what each
round's predicts is counted beside; people in parts are predicted part by part. Bystanders are the people whose own data
do not change, and who do not ask as `oar.Members`; a query that is only the same row as somebody's is not known to be
that person. Somebody else whose data do change is an actor: their prediction before is at their old features, that
after at their new ones.

In words, counts come as plain mappings, so that reports can say the same of counts that they tell, and nothing of those
that they do not: a count of too few people is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import with_near_names
from oar.errors import DataError, NumericsError
from oar.goals.held_out import held_out_people
from oar.people.groups import grouped
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.plans import Result
from oar.plans.refits import Refits
from oar.problem import Problem
from oar.retraining.side_effects import Predict, score
from oar.typing import Frame, Groups, PeopleLike

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
SAME = 1e-9  # share of a predicted value that is rounding
NOTICED = 0.01  # share of the predictions' standard deviation by which a value must change to have changed
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
EFFECTS = ("none", "towards", "away", "other")  # by code
Counts = Mapping[str, Any]


class PredictionChanges(NamedTuple):
    """Counts of people, of changed predictions, and of changes towards and away from the goal.

    Towards the goal is to its class, and away from it is out of it; of values, nearer to it or farther. Every value
    changes a little when a model is refitted: those count that change by more than 1 % of the standard deviation of
    everybody's predictions before.

    `wanted_before` and `wanted_after` are the shares of them who are predicted the goal (an acceptance rate), and
    `score_before` and `score_after` how right the model is about them: accuracy, or the mean squared error. Everyone
    counts alike, by the label before any change, and after the plan where the own move leads. None of nobody.
    """

    people: int
    changed: int
    towards: int
    away: int
    wanted_before: float | None = None
    wanted_after: float | None = None
    score_before: float | None = None
    score_after: float | None = None

    @property
    def share(self) -> float:
        """The share of the people whose prediction changes."""
        return self.changed / self.people if self.people else 0.0


@dataclass(frozen=True, eq=False)
class Collateral(ShownAsText):
    """The effects of a plan on predictions other than the query's.

    Attributes:
        result: the result whose plan this is.
        bystanders, actors: what changes for those whose own data do not change, and for those who act.
        everyone: what changes for both together, that is for all but the query subjects.
        effects: (n,) how each one's prediction changes: positions in `EFFECTS`.
        before, after: (n,) class codes, or (n, o) values, that are predicted before and after.
        acts, stays: (n,) who is an actor, and who a bystander.
        by_group: a DataFrame of groups of bystanders; None without groups.
        actors_by_group, everyone_by_group: the same of actors, and of both together.
        score: "accuracy", or "mean squared error" where values are predicted.
        own_before, own_after: that score on the people themselves, before any move.
        held_out_before, held_out_after: on held-out people; None where there are none.
        held_out_size: how many held-out people there are.
        by_round: over several rounds a DataFrame of what the model after each of them predicts otherwise, of whom, and
            how good it is; everything else is about the last. None of a single refit.
    """

    result: Result
    bystanders: PredictionChanges
    actors: PredictionChanges
    everyone: PredictionChanges
    effects: NDArray[np.intp]
    before: NDArray[Any]
    after: NDArray[Any]
    acts: Mask
    stays: Mask
    by_group: Any
    score: str
    own_before: float
    own_after: float
    held_out_before: float | None
    held_out_after: float | None
    held_out_size: int = 0
    actors_by_group: Any = None
    everyone_by_group: Any = None
    by_round: Any = None

    @property
    def harms(self) -> bool:
        """Whether more predictions go away from the goal than towards it: in all, of actors, or of bystanders."""
        return bool(harm_words(self.actors._asdict(), self.bystanders._asdict()))

    @property
    def told(self) -> str:
        """The side effects in words; where the plan `harms`, also the limits that would prevent it."""
        return self.told_unless_few(0)

    def told_unless_few(self, fewest: int) -> str:
        """Return the same, without what happens to actors or bystanders where they are fewer than that."""
        problem = self.result.problem
        actors, bystanders = (
            some._asdict() | (dict.fromkeys(("away", "towards")) if some.people < fewest else {})
            for some in (self.actors, self.bystanders)
        )
        both = actors, bystanders
        said, harm = effect_words(prediction_words(problem), *both), harm_words(*both)
        nobody = "There is nobody but who asks." if not self.everyone.people else "Too few people for it to be told."
        said = f"{said[:1].upper()}{said[1:]}." if said else nobody
        if not harm:
            return said
        worse = self.own_after > self.own_before if problem.regresses else self.own_after < self.own_before
        names = ", ".join(f"{name}=…" for name in limiting(both[1], problem.regresses, worse))
        return f"{harm[:1].upper()}{harm[1:]}. {said} Limit that by oar.Keep({names})."

    @property
    def table(self) -> Any:
        """A DataFrame that counts bystanders by predicted class before (rows) and after (columns)."""
        import pandas

        if self.result.problem.regresses:
            raise DataError("collateral: values are predicted here, which are no table of classes; use `change`.")
        classes = self.result.problem.people.classes
        counts = np.zeros((len(classes), len(classes)), dtype=np.intp)
        np.add.at(counts, (self.before[self.stays], self.after[self.stays]), 1)
        index = (pandas.Index(list(classes), name=name) for name in ("before", "after"))
        return pandas.DataFrame(counts, *index)

    @property
    def change(self) -> Any:
        """Mean and quantiles of how bystanders' predicted values change, as a DataFrame; a column for each output."""
        import pandas

        if not self.result.problem.regresses:
            raise DataError("collateral: classes are predicted here, which have no mean; use `table`.")
        changes = (self.after - self.before)[self.stays]
        if not len(changes):
            changes = np.full((1, self.before.shape[1]), np.nan)
        rows = np.vstack([changes.mean(axis=0), np.quantile(changes, QUANTILES, axis=0)])
        return pandas.DataFrame(rows, index=["mean", *(f"{share:.0%}" for share in QUANTILES)])

    def frame(self) -> Any:
        """Return a DataFrame of the bystanders whose predictions change: person, before, after, and the effect.

        The effect is "towards" or "away" from the goal, or "other".
        """
        import pandas

        people, rows = self.result.problem.people, np.flatnonzero(self.stays & (self.effects > 0))
        names = people.row_names[rows]
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
        named = ("bystanders", self.bystanders), ("actors", self.actors)
        rows = [row for name, some in named for row in _rows(name, some, self.score)]
        rows.append((self.score, f"{self.own_before:.4g} → {self.own_after:.4g} on the people as they were"))
        if self.held_out_size:
            outside = f"{self.held_out_before:.4g} → {self.held_out_after:.4g}"
            rows.append(("", f"{outside} on {self.held_out_size:,} held-out people"))
        text = f"{self.told}\n\n{lined_up(rows)}"
        if self.by_group is not None:
            text += f"\n\n{self.by_group.to_string(float_format='{:.3g}'.format)}"
        if self.by_round is not None:
            text += f"\n\n{self.by_round.to_string(float_format='{:.3g}'.format)}"
        return text

    def __repr__(self) -> str:
        """Show what is done to people, in one line."""
        return f"Collateral({self.told})"


def _rows(name: str, changes: PredictionChanges, score: str) -> list[tuple[str, str]]:
    several = f"predictions of {changes.changed:,} of {changes.people:,} change ({changes.share:.1%})"
    rows = [(name, f"{several}: {changes.towards:,} towards the goal, {changes.away:,} away from it")]
    if changes.wanted_before is not None:
        rows.append(("", f"the goal is predicted of {changes.wanted_before:.1%} → {changes.wanted_after:.1%} of them"))
        rows.append(("", f"{score} {changes.score_before:.4g} → {changes.score_after:.4g}"))
    return rows


@with_near_names
def collateral(result: Result, held_out: PeopleLike | Frame | None = None, groups: Groups | None = None) -> Collateral:
    """Return the side effects of a result's plan: on the predictions of others, and on the model's accuracy.

    Args:
        result: of `oar.collective`, `oar.joint` or `oar.individual`.
        held_out: people whom the model is not trained on, to score it by: an `oar.Population`, or of a table a
            DataFrame with the same columns, the target included.
        groups: how bystanders are grouped: a column's name (as it was before any move; numbers of many values are cut
            into quarters), several names, or one value for each person.
    """
    problem = result.problem
    others = [] if held_out is None else [held_out_people(problem.people, problem.regresses, held_out)]
    by = [] if groups is None else [grouped(problem.people, groups)]
    refits = Refits(result.plan)
    old, new = refits.refit(refits.before), refits.refit(refits.planned)
    if old is None or new is None:
        raise NumericsError(
            f"result: {problem.model.name} could not be refitted {'before' if old is None else 'after'} the plan, so "
            "nothing can be said of others; a larger penalty makes training easier."
        )
    moved = np.asarray(refits.moves.any(axis=1))
    rounds = [_told(refits, moved, *both) for both in zip(old.predictors, new.predictors, strict=True)]
    own_before, own_after, after = rounds[-1]
    given = refits.before.parts[1:]
    besides = problem.last_rows.copy()  # over rounds everybody counts once, as they last were
    if problem.asked.among.size:
        besides &= ~np.isin(problem.persons, problem.persons[problem.asked.among])
    active = np.isin(problem.persons, problem.persons[refits.actors])
    acts, stays = active & besides, ~active & besides
    each = _Each.of(problem, own_before, after, given[0])
    scores = _scores(problem, given, own_before, own_after)
    outside: list[Any] = [
        score(problem.regresses, fit.predict(one.features), one.rows, one.weights)
        for one in others
        for fit in (old, new)
    ] or [None, None]
    insides = {"bystanders": stays, "actors": acts, "people": besides}
    frames = {name: each.by_group(group, inside, name) for group in by for name, inside in insides.items()}
    return Collateral(
        result,
        each.counted(stays),
        each.counted(acts),
        each.counted(besides),
        each.effects,
        own_before,
        after,
        acts,
        stays,
        frames.get("bystanders"),
        "mean squared error" if problem.regresses else "accuracy",
        own_before=scores[0],
        own_after=scores[1],
        held_out_before=outside[0],
        held_out_after=outside[1],
        held_out_size=sum(len(one.features) for one in others),
        actors_by_group=frames.get("actors"),
        everyone_by_group=frames.get("people"),
        by_round=_by_round(problem, rounds, given, insides) if problem.over_rounds else None,
    )


def _told(refits: Refits, moved: Mask, old: Predict, new: Predict) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what one model predicts of everyone, what the next does, and that after the own moves."""
    own_before, own_after = old(refits.features), new(refits.features)
    if not moved.any():
        return own_before, own_after, own_after
    there = new(refits.features + refits.moves)
    return own_before, own_after, np.where(moved.reshape(-1, *[1] * (there.ndim - 1)), there, own_after)


def _scores(problem: Problem, given: Any, *several: NDArray[Any]) -> list[float]:
    """Return how good predictions of everyone are, by labels and weights before any change."""
    return [score(problem.regresses, predicted, *given) for predicted in several]


def _by_round(problem: Problem, rounds: list[Any], given: Any, insides: dict[str, Mask]) -> Any:
    """Return a row for the model after each round: whose predictions it changes, and how good it is."""
    import pandas

    rows = []
    for before, after_unmoved, after in rounds:
        each = _Each.of(problem, before, after, given[0])
        row: dict[str, Any] = {}
        for name in ("bystanders", "actors"):
            some = each.counted(insides[name])
            row |= {f"{name} {way}": getattr(some, way) for way in ("changed", "towards", "away")}
        scores = _scores(problem, given, before, after_unmoved)
        rows.append(row | dict(zip(("own_before", "own_after"), scores, strict=True)))
    return pandas.DataFrame(rows, index=pandas.RangeIndex(len(rows), name="round"))


def _beyond(wish: Any, values: Array) -> Array:
    """Return how far (n,) values (n, o) are from the box that is aimed at."""
    return np.abs(values - np.clip(values, wish.nearest, wish.farthest)).max(axis=1)


class _Each(NamedTuple):
    """Effects on each person (n,): kind of change, mean change where values are predicted, who has the goal, scores."""

    effects: NDArray[np.intp]
    mean_change: dict[str, Array]
    measures: dict[str, Array]

    @staticmethod
    def of(problem: Problem, before: NDArray[Any], after: NDArray[Any], rows: Array) -> _Each:
        """Look at everyone's predictions before and after, and at their labels (n, k)."""
        both = {"before": before, "after": after}
        if problem.regresses:
            old, new = (np.min([_beyond(wish, one) for wish in problem.wishes], axis=0) for one in both.values())
            slack = SAME * (1 + np.abs(before).max(axis=1))
            noticed = np.maximum(NOTICED * before.std(axis=0), slack[:, None])
            changed = (np.abs(after - before) > noticed).any(axis=1)
            towards, away = changed & (new < old - slack), changed & (new > old + slack)
            wanted = {"before": old <= slack, "after": new <= slack}
            right = {name: ((values - rows) ** 2).mean(axis=1) for name, values in both.items()}
        else:
            changed = before != after
            wanted = {name: np.isin(codes, problem.wanted_codes) for name, codes in both.items()}
            had, has = wanted.values()
            towards, away = changed & has & ~had, changed & had & ~has
            right = {name: codes == rows.argmax(axis=1) for name, codes in both.items()}
        measures = {f"wanted_{name}": wanted[name].astype(np.float64) for name in both}
        measures |= {f"score_{name}": right[name].astype(np.float64) for name in both}
        change = {"mean change": (after - before).mean(axis=1)} if problem.regresses else {}
        return _Each(np.select([towards, away, changed], [1, 2, 3], 0).astype(np.intp), change, measures)

    def counted(self, inside: Mask) -> PredictionChanges:
        """Return what happens to those inside (n,)."""
        counts = np.bincount(self.effects[inside], minlength=len(EFFECTS))
        means = {name: float(values[inside].mean()) for name, values in self.measures.items() if inside.any()}
        return PredictionChanges(int(inside.sum()), int(counts[1:].sum()), int(counts[1]), int(counts[2]), **means)

    def by_group(self, group: Any, inside: Mask, people: str) -> Any:
        """Return a row a group of those inside (n,): how many they are, in a column called `people`, and the rest."""
        import pandas

        effects = self.effects
        counts = {people: inside, "changed": effects > 0, "towards": effects == 1, "away": effects == 2}
        frame = pandas.DataFrame(counts).astype(np.intp)
        found = frame[inside].groupby(group[inside], observed=True).sum()
        found.insert(2, "share", found["changed"] / found[people])
        for name, values in (self.mean_change | self.measures).items():
            found[name] = pandas.Series(values)[inside].groupby(group[inside], observed=True).mean()
        found.index.name = group.name or "group"
        return found


def prediction_words(problem: Problem) -> str | None:
    """Return the prediction that people can lose or gain, as a sentence has it; None where values are predicted."""
    if problem.regresses:
        return None
    return " or ".join(repr(problem.people.classes[code]) for code in problem.wanted_codes)


def harm_words(actors: Counts, bystanders: Counts) -> str:
    """Say of whom more are harmed than helped: of all, of those who act, or of those who do nothing; else nothing."""
    if _harmed(actors) + _harmed(bystanders) > 0:
        return "more people are harmed by it than helped"
    if _harmed(actors) > 0:
        return "more of the members who act are harmed by it than helped"
    return "more of those who do nothing are harmed by it than helped" if _harmed(bystanders) > 0 else ""


def _harmed(counts: Counts) -> int:
    """Return how many more predictions go away from the goal than towards it; none of counts that are not told."""
    return (counts["away"] or 0) - (counts["towards"] or 0)


def effect_words(prediction: str | None, actors: Counts, bystanders: Counts) -> str:
    """Say what happens to those who act and to those who do nothing; nothing of counts that are not told."""
    said = []
    who = (
        (actors, "member who acts", "members who act"),
        (bystanders, "person who does nothing", "people who do nothing"),
    )
    for counts, one, many in who:
        if counts["away"] is None or not counts["people"]:
            continue
        said.append(f"of {counted(counts['people'], one, many)}, {way_words(prediction, counts)}")
    return "; ".join(said)


def way_words(prediction: str | None, counts: Counts, had: str = "had") -> str:
    """Say how many predictions go away from the goal, and how many towards it."""
    if prediction is None:
        return f"predictions of {counts['away']:,} go away from the goal and of {counts['towards']:,} towards it"
    return f"{counts['away']:,} lose the prediction {prediction} that they {had} and {counts['towards']:,} gain it"


def limiting(bystanders: Counts, values: bool, worse: bool) -> Sequence[str]:
    """Return the limits (`oar.Keep`) on harm of this kind by name, the surest first: of values none can be lost."""
    if values:
        return ["worse"]
    return ["lost", *(["changed"] if _harmed(bystanders) > 0 else []), *(["worse"] if worse else [])]
