"""Whose data, and which features, move the query's prediction most? The fall of the goal loss per unit of move.

With L(Δ) the goal loss after a refit on moved data, at Δ = 0:

    a member's leverage     ℓ_i = max_{‖δ_i‖_p ≤ 1} −⟨dL/dδ_i, δ_i⟩ = ‖dL/dδ_i‖_q,     1/p + 1/q = 1
    a feature's leverage    Σ_i |dL/dδ_ij|
    a class's leverage      Σ_{i∈c} ℓ_i

So the total Σ_i ℓ_i is what the loss falls by, to first order, per unit of budget that everybody is given; and a
feature's leverage is what it falls by where everybody moves that feature alone by one unit, each in its better way.

dL/dδ_i = −w̄_i ∇_x s_i by the implicit function theorem (`signals`); for centroids in closed form. Of a defended refit
(`defences`) it is locally exact: who is left out has none, and weights that depend on features are differentiated too,
with

    dL/dw_i = −(s_i − Σ_j w̄_j s_j) / Σw,        s_i = vᵀ∇_θ ℓ_i.

Over many rounds dL/dδ_i is that of one sweep back through the update rule (`online.Rollout`). What another label or
leaving does is in `slopes.labels`, and what is found by true trainings of a black box in `slopes.trainings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_flag, check_seed, check_whole, choose, with_near_names
from oar.defences import Defence, as_defence
from oar.defences.base import DefendedRefit, defended_refit
from oar.errors import NumericsError, OptionError
from oar.online import OnlineProblem, Rollout
from oar.people.wording import counted, lined_up
from oar.pictures.notebook import ShownAsText
from oar.pictures.numbers import number, percent, shortened
from oar.problem import Problem
from oar.progress import limited_time
from oar.questions.slopes.labels import LabelSlopes, label_slopes
from oar.questions.slopes.trainings import TrainedDifferences
from oar.retraining.contribution import Contribution
from oar.signals.base import FACTORED, Step, choose_signal
from oar.signals.implicit import Implicit
from oar.tolerances import CONVERGED, TIGHT
from oar.typing import DefenceLike

Array = NDArray[np.float64]
BY = ("feature", "class", "member", "round", "label")
TRAININGS = 200  # of a black box
TOP = 8  # lines of each kind that are shown


@dataclass(frozen=True, eq=False)
class Leverage(ShownAsText):
    """The leverage of each member, feature and class, per unit of move.

    Attributes:
        problem: the problem that was solved.
        defence: the operator's defence.
        slopes: (n, d) the gradient dL/dδ_ij at the refit before any move, 0 where somebody may not move. On a table, by
            cost. Of people in parts it is made whenever they are read, and what it adds up to is one pass each.
        loss: the goal loss there.
        acts: (n,) the members whose leverage counts.
        note: how the gradient was computed.
        when: (n,) the round in which each arrives, −1 for history; None where there is a single refit.
        labels: (n, k) the fall of the goal loss, to first order, if that class were somebody's label (of soft ones, per
            unit of its move; of targets that are regressed, (n, m), the slope in each value); 0 for its own, and where
            it may not change. None where no labels change.
        leaving: (n,) the fall, to first order, if somebody left; None where nobody may.
        alone: (n,) the most that one member's label or absence promises; None where there is neither.
        margins: (k, d) half-widths of 95 % intervals of the slopes of a member of each class, where these are found by
            trainings of a black box; else None.
        label_margins: (k, k + 1) the same of what each class's members do by labels and, last, by leaving.
    """

    problem: Problem
    defence: Defence
    slopes: Array
    loss: float
    acts: NDArray[np.bool_]
    note: str
    when: NDArray[np.intp] | None = None
    labels: Array | None = None
    leaving: Array | None = None
    alone: Array | None = None
    margins: Array | None = None
    label_margins: Array | None = None

    @property
    def members(self) -> Any:
        """(n,) everyone's leverage, as a Series with the people's index where there is one; 0 for who may not act.

        It is per unit of move; where nobody moves, what the best of its labels or its absence promises.
        """
        return self.problem.people.column(self._members)

    @cached_property
    def _members(self) -> Array:
        if self.alone is not None and not self.problem.moves:
            return self.alone
        slopes: Any = self.slopes
        length = self.problem.allowance.norm.dual.length
        return slopes.each(length) if self.problem.people.streamed else length(slopes)

    @property
    def features(self) -> Any:
        """(d,) each feature's leverage, as a Series by name where features have names."""
        found, names = self._features, self.problem.people.names
        if names is None:
            return found
        import pandas

        return pandas.Series(found, index=list(names))

    @cached_property
    def _features(self) -> Array:
        return np.abs(self.slopes).sum(axis=0)

    @property
    def total(self) -> float:
        """The fall of the goal loss, to first order, per unit of budget given to everyone who may act.

        Where nobody moves: if everyone did what is best of its labels and its absence.
        """
        return float(self._members.sum())

    @property
    def largest(self) -> float:
        """The largest leverage of a member."""
        return float(self._members.max(initial=0.0))

    @property
    def classes(self) -> dict[Any, float]:
        """Each class's leverage; where values are predicted, nobody has a class, and there is none."""
        if self.problem.regresses:
            return {}
        people = self.problem.people
        sums = np.bincount(self._codes, weights=self._members, minlength=len(people.classes))
        return dict(zip(people.classes, sums.tolist(), strict=True))

    @property
    def rounds(self) -> Array:
        """(T,) the leverage of those who arrive in each round; of a problem over time."""
        if self.when is None:
            raise OptionError("rounds: are of an oar.online.OnlineProblem, and this leverage is of a single refit.")
        arrived = self.when >= 0
        return np.bincount(self.when[arrived], weights=self._members[arrived]).astype(np.float64)

    @cached_property
    def _codes(self) -> NDArray[Any]:
        people = self.problem.people
        if self.problem.regresses:
            return np.zeros(people.size, dtype=np.intp)
        return np.concatenate([chunk.codes for chunk in people.chunks()])

    def table(self, by: str = "feature") -> Any:
        """Return a DataFrame of leverage and its share of the total; the largest first.

        Args:
            by: "feature", "class" (with how many people may act), "member" (with their class), of a problem over
                time "round" (in their order), or, where labels change or members leave, "label": what each class as a
                label, and leaving, does at best, and for whom.
        """
        import pandas

        choose("by", by, BY)
        if by == "round":
            frame = pandas.DataFrame({"leverage": self.rounds})
            frame.index.name = by
            return _with_shares(frame)
        people = self.problem.people
        if by == "label":
            return self._by_label()
        if by == "feature":
            names = people.names or range(people.dimensions)
            frame = pandas.DataFrame({"leverage": np.asarray(self.features)}, index=pandas.Index(list(names), name=by))
        elif by == "class":
            if self.problem.regresses:
                raise OptionError("by: 'class' is for models of classes, and values are predicted here; use 'feature'.")
            counts = np.bincount(self._codes[self.acts], minlength=len(people.classes))
            frame = pandas.DataFrame({"members": counts, "leverage": list(self.classes.values())})
            frame.index = pandas.Index(list(people.classes), name=by)
        else:
            rows = np.flatnonzero(self.acts)
            frame = pandas.DataFrame({"leverage": self._members[rows]})
            if not self.problem.regresses:
                frame.insert(0, "class", np.array(people.classes, dtype=object)[self._codes[rows]])
            frame.index = pandas.Index(list(people.row_names[rows]), name=by)
        if self.margins is not None and by != "member":
            frame["margin"] = self._margins_by(by)
        return _with_shares(frame).sort_values("leverage", ascending=False, kind="stable")

    def _margins_by(self, by: str) -> Array:
        """Return half-widths of the leverage of features (d,) or classes (k,): sums of their members'."""
        assert self.margins is not None
        counts = np.bincount(self._codes[self.acts], minlength=len(self.margins))
        if by == "feature":
            return np.asarray(counts @ self.margins)
        return np.asarray(counts * self.problem.allowance.norm.dual.length(self.margins))

    def _by_label(self) -> Any:
        """Return a row for each class as a label, and for leaving: the best, whose it is, and how many it helps."""
        import pandas

        people, falls = self.problem.people, dict[Any, Array]()
        if self.labels is not None:
            names = range(self.labels.shape[1]) if self.problem.regresses else people.classes
            falls |= dict(zip(names, np.abs(self.labels.T) if self.problem.regresses else self.labels.T, strict=True))
        if self.leaving is not None:
            falls["leaving"] = self.leaving
        if not falls:
            raise OptionError("by: 'label' is for labels that change and members who leave; the action has neither.")
        names_of = people.row_names
        rows = [(float(one.max()), names_of[int(one.argmax())], int((one > 0).sum())) for one in falls.values()]
        frame = pandas.DataFrame(rows, columns=["leverage", "member", "members it helps"])
        frame.index = pandas.Index(list(falls), name="label")
        return frame

    def plot(self) -> Any:
        """Return a figure: leverage by feature, and members from the strongest to the weakest, by class."""
        from oar.questions.plots import draw_leverage

        return draw_leverage(self)

    def __str__(self) -> str:
        """Show the total, the largest, and the first of features and classes."""
        head = [
            ("goal loss", number(self.loss)),
            ("leverage", f"{number(self.total)} in all, {self._unit}"),
            ("members", f"{int(self.acts.sum()):,}, the largest leverage of one {number(self.largest)}"),
            ("defence", words(self.defence)),
        ]
        if "not exact" in self.note or "training" in self.note:
            head.append(("slopes", self.note))
        parts = [lined_up(head)]
        for by in self._shown:
            frame = self.table(by)
            rows = [
                (shortened(name, 30), f"{number(row['leverage'])} ({percent(row['share'])})")
                for name, row in frame.head(TOP).iterrows()
            ]
            rest = len(frame) - len(rows)
            rows += [(f"… {rest:,} more", number(float(frame["leverage"].iloc[TOP:].sum())))] if rest else []
            parts.append(lined_up([(f"by {by}", ""), *rows]))
        if self.alone is not None:
            frame = self.table("label")
            told = [
                (f"{name}", f"{number(fall)} at best, by {who} ({helps:,} would help)")
                for name, fall, who, helps in frame.itertuples()
            ]
            parts.append(lined_up([("by label", ""), *told]))
        return "\n\n".join(parts)

    @property
    def _unit(self) -> str:
        if self.problem.moves:
            return f"per unit of everyone's budget (p = {self.problem.allowance.norm})"
        return "if each did what is best of its labels and its absence, to first order"

    @property
    def _shown(self) -> list[str]:
        """The sums that have a meaning here."""
        meant = {"feature": self.problem.moves, "class": not self.problem.regresses, "round": self.when is not None}
        return [by for by, means in meant.items() if means]

    def __repr__(self) -> str:
        """Show the sums in one line."""
        many = counted(int(self.acts.sum()), "member", "members")
        return f"Leverage({many}, total {self.total:.4g}, largest {self.largest:.4g}, defence: {words(self.defence)})"


def _with_shares(frame: Any) -> Any:
    total = frame["leverage"].sum()
    frame["share"] = frame["leverage"] / total if total > 0 else np.nan
    return frame


@with_near_names
def leverage(
    problem: Problem | OnlineProblem,
    defence: DefenceLike | None = None,
    everyone: bool = False,
    *,
    trainings: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
) -> Leverage:
    """Return the leverage of each member, feature and class: the change of the goal loss per unit of move.

    On a table, moves are measured in cost. Columns that may only increase or decrease count in that direction alone,
    and categories count as if they could be mixed. Where labels may change or members leave, it is also what each
    member's other label, or absence, promises to first order; of defences that look at labels, those of before count.

    A black box is trained on random moves of whole classes and on their opposites, as long as budgets: a member's slope
    is the mean of its class, a class's leverage that of moves which its members make in common, and both have
    intervals (`margins`). So it is, with random members of each class, for labels and leaving.

    Args:
        problem: the problem; for several queries, leverage is on the mean of their losses. For an
            oar.online.OnlineProblem it is the leverage of everyone of every round on the losses of the rounds of its
            goal.
        defence: one of `oar.defences` or a list of them: then it is the leverage of the defended training. What is
            deployed, where a defence looks at that, is the defended model fitted to the people as they are. Those that
            only say when there is a refit are refused: one refit does not feel them.
        everyone: whether people who may not act count, too.
        trainings: of a black box: how many trainings at the most; 200 if left out.
        seed: of what a black box is tried on.
        time_limit: seconds after which a black box is trained no more, and what is not known by then is NaN; None is no
            limit. Other models are refitted once, which is not interrupted.
    """
    check_flag("everyone", everyone)
    check_seed(seed)
    defences = as_defence(defence)
    check_trainings(problem, trainings)
    _only_means(problem)
    with limited_time(time_limit):
        way: Callable[..., Leverage] = next(way for fits, way in WAYS if fits(problem))
        return way(problem, defences, everyone, TRAININGS if trainings is None else trainings, seed)


def check_trainings(problem: Problem, trainings: int | None) -> None:
    """Raise for a number of trainings that is none, or of a model that need not be trained to be known."""
    if trainings is None:
        return
    check_whole("trainings", trainings)
    if not problem.model.only_asked:
        raise OptionError(
            f"trainings: is for an oar.BlackBox, and {problem.model.name} is differentiated, got {trainings!r}; leave "
            "it out."
        )


def _of_one_refit(problem: Problem, defences: Defence, everyone: bool, trainings: int, seed: int) -> Leverage:
    check_felt(defences)
    refit = defended_refit(problem.people, problem.model, defences)
    step, slopes = refit_slopes(problem, refit)
    acts = _acting(problem, everyone)
    slopes = np.where(acts[:, None], allowed(problem, slopes), 0.0)
    found = Leverage(problem, defences, slopes, step.loss, acts, step.note)
    if not problem.levers.given:
        return found
    model: Any = refit.model
    trained = replace(problem, people=refit.everyone, model=model).training()
    start = Contribution(None, refit.everyone.target_rows(problem.regresses), refit.everyone.row_weights)

    def scores(rows: Array) -> Array:
        return trained.scores(step.fit.parameters, step.fit.features, step.signal, model.target_rows(rows))

    return _with_levers(found, label_slopes(problem, start, scores, everyone), everyone)


def _with_levers(found: Leverage, levers: LabelSlopes, everyone: bool) -> Leverage:
    """Return a leverage with what labels and absence do; where nobody moves, moves do nothing."""
    slopes = found.slopes if found.problem.moves else np.zeros_like(found.slopes)
    acts = found.acts | levers.may if found.problem.moves or everyone else levers.may
    return replace(
        found,
        slopes=slopes,
        acts=acts,
        labels=levers.labels,
        leaving=levers.leaving,
        alone=levers.best,
        label_margins=levers.margins,
    )


def _by_trainings(problem: Problem, defences: Defence, everyone: bool, trainings: int, seed: int) -> Leverage:
    if getattr(defences, "parts", (defences,)):
        raise OptionError(
            f"defence: must be none for a black box, whose owner defends it inside, got {words(defences)}; wrap what "
            "it does into the black box."
        )
    trials = TrainedDifferences(problem, trainings, seed, everyone)
    known = trials.moves()
    acts = _acting(problem, everyone)
    slopes = np.where(acts[:, None], allowed(problem, known.slopes), 0.0)
    found = Leverage(problem, defences, slopes, known.loss, acts, "", margins=known.margins)
    if problem.levers.given:
        found = _with_levers(found, trials.levers(), everyone)
    return replace(found, note=trials.note)


def _over_time(problem: OnlineProblem, defence: Defence, everyone: bool, trainings: int, seed: int) -> Leverage:
    if getattr(defence, "parts", (defence,)):
        raise OptionError(
            f"defence: is for one refit, got {words(defence)} for a problem over time; let an operator defend itself "
            "in oar.simulate."
        )
    walk = Rollout(problem)
    path = walk.forward(None)
    slopes = walk.gradient(path, None).gradient
    acts = _acting(problem, everyone) & (problem.stream.when >= 0)
    loss = float(problem.weights @ path.losses)
    note = f"Adjoint: one sweep back through {counted(problem.rounds, 'round', 'rounds')} of {problem.rule.name}."
    slopes = np.where(acts[:, None], allowed(problem, slopes), 0.0)
    return Leverage(problem, defence, slopes, loss, acts, note, problem.stream.when)


WAYS: tuple[tuple[Callable[[Problem], bool], Callable[..., Leverage]], ...] = (
    (lambda problem: problem.over_rounds, _over_time),
    (lambda problem: problem.model.only_asked, _by_trainings),
    (lambda problem: True, _of_one_refit),
)


def _acting(problem: Problem, everyone: bool) -> NDArray[np.bool_]:
    acts = problem.allowance.everyones(problem.people.size) > 0
    return np.ones_like(acts) if everyone else acts


def _only_means(problem: Problem) -> None:
    if problem.query.several != "mean":
        raise OptionError(
            f"several: must be 'mean' for a leverage, got {problem.query.several!r}, which has no slope of its own."
        )


def check_felt(defence: Defence) -> None:
    """Raise for a defence that changes the calendar alone, which a single refit does not feel."""
    for part in getattr(defence, "parts", (defence,)):
        own = type(part)
        same = own.prepared is Defence.prepared and own.model_for is Defence.model_for
        if same and own.retrains is not Defence.retrains:
            raise OptionError(
                f"defence: must change whose data a refit reads or what is refitted, got {part!r}, which only says "
                "when there is a refit; oar.simulate shows what that does over rounds."
            )


def words(defence: Defence) -> str:
    """Return defences in a few words."""
    parts = getattr(defence, "parts", (defence,))
    return ", ".join(repr(part) for part in parts) or "none"


def refit_slopes(problem: Problem, refit: DefendedRefit) -> tuple[Step, Array]:
    """Return the step at the defended refit, and dL/dδ (n, d) of everyone, in the features' own units."""
    model = refit.model
    trained = replace(problem, people=refit.everyone, model=model)
    training = trained.training()
    signal, why = choose_signal(training)
    if not isinstance(signal, Implicit):
        raise OptionError(f"model: leverage needs exact gradients, and there are none. {why}")
    tight = Implicit(tolerance=TIGHT)
    if training.parameter_count <= FACTORED and tight.refusal(training) is None:  # a factored H is solved so anyway
        signal = tight
    step = signal.at(training, None, trained.first_query, trained.goal_target, tolerance=TIGHT)
    # What stops before its minimum, as stochastic gradients do, is where its own training ends: that is its refit.
    if not step.fit.converged and step.fit.residual > CONVERGED:
        raise NumericsError(
            f"model: {model.name} must be refitted to a gradient norm of {CONVERGED:.0e}, got "
            f"{step.fit.residual:.1e}; a larger penalty or standardised features make training easier."
        )
    shares = training.weights
    slopes = shares[:, None] * step.gradient
    if step.outcome.own_slopes is not None:  # of members who ask: handed over divided by weights above 0
        slopes = slopes + np.where(shares > 0, shares, 1.0)[:, None] * step.outcome.own_slopes
    if refit.prepared.pull_back is not None:
        scores = training.scores(step.fit.parameters, step.fit.features, step.signal, model.targets(refit.everyone))
        by_weight = -(scores - shares @ scores) / refit.everyone.row_weights.sum()
        slopes[refit.prepared.kept] += refit.prepared.pull_back(by_weight[refit.prepared.kept])
    return step, slopes


def allowed(problem: Problem, slopes: Array) -> Array:
    """Return slopes in the units in which moves are measured, 0 where the loss falls only in a forbidden way."""
    if problem.limits is None:
        return slopes
    measured = problem.measured(query=False)
    region, size = measured.unruled, problem.people.size
    by_cost = slopes[:, measured.columns] / measured.costs
    falls = np.where(by_cost < 0, region.upper[:size] > 0, region.lower[:size] < 0)
    found = np.zeros_like(slopes)
    found[:, measured.columns] = np.where(falls, by_cost, 0.0)
    return found
