"""The worth of a defence: leverage before and after, its cost in accuracy, and what a plan still achieves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_seed, is_whole, with_near_names
from oar.defences import Defence, as_defence
from oar.defences.base import defended_refit
from oar.errors import DataError, OptionError
from oar.goals.held_out import held_out_people
from oar.people.wording import lined_up
from oar.pictures.notebook import ShownAsText
from oar.pictures.numbers import loss, number
from oar.plans import Plan, Result
from oar.problem import Problem
from oar.progress import is_late, limited_time
from oar.questions.leverage import Leverage, check_felt, leverage, words
from oar.referee.contributions import Contributions
from oar.referee.verdicts import AuditSummary, judged
from oar.referee.witnesses.refits import refit
from oar.retraining.side_effects import score
from oar.typing import DefenceLike, Frame, PeopleLike

Array = NDArray[np.float64]
UNDEFENDED = as_defence(None)


class GoalOutcome(NamedTuple):
    """The outcome of a plan for the query: the goal loss, and whether the goal is reached."""

    loss: float
    success: bool


@dataclass(frozen=True, eq=False)
class Worth(ShownAsText):
    """The worth of a defence, compared with no defence.

    Attributes:
        defence: what it is.
        before, after: leverage without it and with it.
        score: "accuracy", or "mean squared error" where values are predicted.
        score_before, score_after: without it and with it, on people whom the model was not trained on.
        scored: the people on whom it was measured.
        plan_before, plan_after: what a plan does without it and with it, by fresh refits; None where none was given.
    """

    defence: Defence
    before: Leverage
    after: Leverage
    score: str
    score_before: float
    score_after: float
    scored: str
    plan_before: GoalOutcome | None = None
    plan_after: GoalOutcome | None = None

    def table(self) -> Any:
        """Return a DataFrame of what is measured: before, after, and their difference."""
        import pandas

        rows: list[tuple[str, float, float]] = [
            ("total leverage", self.before.total, self.after.total),
            ("largest leverage of one", self.before.largest, self.after.largest),
        ]
        after = self.after.classes
        rows += [(f"leverage of class {name}", value, after[name]) for name, value in self.before.classes.items()]
        rows.append((self.score, self.score_before, self.score_after))
        if self.plan_before is not None and self.plan_after is not None:
            rows.append(("goal loss under the plan", self.plan_before.loss, self.plan_after.loss))
            rows.append(("goal reached by the plan", float(self.plan_before.success), float(self.plan_after.success)))
        frame = pandas.DataFrame(rows, columns=["what", "before", "after"]).set_index("what")
        frame["difference"] = frame["after"] - frame["before"]
        return frame

    def __str__(self) -> str:
        """Show before and after, a line for each."""
        lines = [("defence", words(self.defence))]
        for name, row in self.table().iterrows():
            said = f"{loss(row['before'])} → {loss(row['after'])}"
            if name == "goal reached by the plan":
                said = " → ".join("yes" if row[when] else "no" for when in ("before", "after"))
            elif name == self.score:
                said += f", on {self.scored}"
            lines.append((str(name), said))
        return lined_up(lines)

    def __repr__(self) -> str:
        """Show the sums in one line."""
        total = f"{number(self.before.total)} → {number(self.after.total)}"
        score = f"{number(self.score_before)} → {number(self.score_after)}"
        return f"Worth({words(self.defence)}: leverage {total}, {self.score} {score})"


@with_near_names
def worth(
    problem: Problem,
    defence: DefenceLike,
    held_out: PeopleLike | Frame | None = None,
    plan: Plan | Result | None = None,
    folds: int | None = None,
    seed: int = 0,
    *,
    time_limit: float | None = None,
) -> Worth:
    """Return the worth of a defence: its effect on leverage, on accuracy, and on a plan.

    Leverage and plan concern one refit. Delayed or random retraining, which acts over rounds, is refused here: use
    `oar.simulate`.

    Args:
        problem: the problem to solve.
        defence: one of `oar.defences`, or a list of them.
        held_out: people whom the model is not trained on, as an oar.Population (of a table, a DataFrame); None to
            cross-validate on the people themselves.
        plan: a plan of this problem, or the result that holds it: it is audited again, against the defended operator.
            It is a plan for an operator who does not defend itself, so others may do better: to plan against a defended
            model, give `oar.Problem` what `defence.model_for(model)` returns.
        folds: of the cross-validation; None means 5.
        seed: of who is in which fold.
        time_limit: seconds after which no further fold is begun, beside the first; `scored` says how many there were.
            None is no limit.
    """
    problem.only_one_refit("oar.questions.worth")
    defences = as_defence(defence)
    if not getattr(defences, "parts", (defences,)):
        raise OptionError("defence: must be one of oar.defences or a list of them, got none.")
    check_felt(defences)
    check_seed(seed)
    if folds is not None and held_out is not None:
        raise OptionError("folds: are for a cross-validation, and held-out people were given; leave one of them out.")
    folds = 5 if folds is None else folds
    if not is_whole(folds) or not 2 <= folds <= problem.people.size:
        raise DataError(f"folds: must be a whole number from 2 to {problem.people.size}, got {folds!r}.")
    planned = [] if plan is None else [_plan(problem, plan)]
    both = UNDEFENDED, defences
    if held_out is None:
        with limited_time(time_limit):
            scores, scored = _cross_validated(problem, both, folds, seed)
    else:
        others = held_out_people(problem.people, problem.regresses, held_out)
        trained = [defended_refit(problem.people, problem.model, each) for each in both]
        predicted = [one.model.predict(one.fit(), others.features) for one in trained]
        scores = [score(problem.regresses, one, others.rows, others.weights) for one in predicted]
        scored = f"{len(others.rows):,} held-out people"
    done = [_done(one, each) for one in planned for each in both]
    measure = "mean squared error" if problem.regresses else "accuracy"
    before, after = (leverage(problem, each) for each in both)
    return Worth(defences, before, after, measure, scores[0], scores[1], scored, *done)


def _plan(problem: Problem, given: Any) -> Plan:
    plan = given.plan if isinstance(given, Result) else given
    if not isinstance(plan, Plan) or plan.problem.people is not problem.people:
        raise DataError(
            "plan: must be a plan of this problem's people, as oar.collective(problem) returns it, got "
            f"{'one of other people' if isinstance(plan, Plan) else f'an object of type {type(given).__name__}'}."
        )
    return plan


def _done(plan: Plan, defence: Defence) -> GoalOutcome:
    """Refit from scratch on what the plan hands in, defended, and judge as audits do.

    What is deployed, for defences that look at that, is the model before anybody moved.
    """
    problem = plan.problem
    deployed = defence.model_for(problem.model).fit(problem.people)
    features = np.asarray(problem.people.features, dtype=np.float64) + np.asarray(plan.moves(), dtype=np.float64)
    handed_in = Contributions(plan).after.with_features(features)
    trained = defended_refit(handed_in, problem.model, defence, deployed)
    found, asked = refit(trained.model, trained.everyone, features), problem.asked
    points = asked.points + plan.query_move if asked.members is None else features[asked.members]
    heard = [
        judged(problem, wish, found.outputs(point[None])[0], partial(found.loss, point))
        for wish, point in zip(problem.wishes, points, strict=True)
    ]
    told = AuditSummary(problem, heard, heard).reported(True)
    return GoalOutcome(told["loss"], told["success"])


def _cross_validated(problem: Problem, defences: Sequence[Defence], folds: int, seed: int) -> tuple[list[float], str]:
    """Score everyone by the refit without its fold, with each of some defences; and say how many folds there were.

    Folds hold as many of each class as can be. Who is the only one of its class (of some weight) stays in every refit,
    and is not scored.
    """
    people = problem.people
    codes = np.zeros(people.size, dtype=np.intp) if problem.regresses else people.codes(0, people.size)
    weights, rng = people.row_weights, np.random.default_rng(seed)
    rows = people.target_rows(problem.regresses)
    fold, place = np.full(people.size, -1), 0
    for code in np.unique(codes):
        mine = rng.permutation(np.flatnonzero((codes == code) & (weights > 0)))
        if mine.size > 1:
            fold[mine] = (place + np.arange(mine.size)) % folds
            place += mine.size
    features = np.asarray(people.features, dtype=np.float64)
    predicted = [np.zeros(rows.shape if problem.regresses else people.size) for _ in defences]
    numbers = np.unique(fold[fold >= 0])
    if not numbers.size:
        raise DataError(
            "people: nobody can be held out, since everyone is the only one of its class; give held_out people."
        )
    done = 0
    for one in numbers:
        if done and is_late():
            break
        out = fold == one
        for defence, found in zip(defences, predicted, strict=True):
            trained = defended_refit(people.some(np.flatnonzero(~out)), problem.model, defence)
            found[out] = trained.model.predict(trained.fit(), features[out])
        done += 1
    scored = np.isin(fold, numbers[:done])
    scores = [score(problem.regresses, found[scored], rows[scored], weights[scored]) for found in predicted]
    early = "" if done == numbers.size else f"{done} of "
    return scores, f"{early}{folds} folds"
