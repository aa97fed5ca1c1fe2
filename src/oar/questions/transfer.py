"""Transfer of plans: surrogates' predictions against the black box's outcome, by family, number and data.

Plans that are made for one model often work for another (Demontis et al. 2019, for attacks on tests and on training;
Geiping et al. 2021, who plan for several models at once). How often, and how much is lost, depends on how alike
surrogate and truth are, on how many surrogates agree, and on how much is known of the data: so it is measured, plan by
plan, each audited by the black box's own training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import check_seed, is_listing, is_number, with_near_names
from oar.errors import DataError, OptionError
from oar.estimators import BlackBox
from oar.models import Differentiable, LinearSVM, Ridge, Scaled, SoftmaxRegression
from oar.people import Population
from oar.people.wording import counted
from oar.pictures.notebook import ShownAsText
from oar.problem import Problem
from oar.progress import Progress, is_late, shared_time
from oar.recourse import audited
from oar.solvers import propose_collective
from oar.solvers.black_box.surrogate import Surrogate, public_people
from oar.solvers.registry import EffortLike, bounded
from oar.typing import ModelLike, PublicData

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Transferred:
    """One plan by surrogates, and its outcome on the black box.

    Attributes:
        family: of the surrogates. number: how many there were.
        public: their training data: a share, or the name of other people. people: the number of people in it.
        seed: of all draws.
        predicted_loss, predicted_success: the surrogates' predictions for their plan; NaN where they have none.
        loss_before, loss, success: the audited values of the black box.
        rate: where training is random, the share of refits that reach the goal; else 1 or 0.
        trainings: of the black box, to plan and to audit.
        note: what the surrogates could not do, or "".
    """

    family: str
    number: int
    public: str
    people: int
    seed: int
    predicted_loss: float
    predicted_success: bool
    loss_before: float
    loss: float
    success: bool
    rate: float
    trainings: int
    note: str


@dataclass(frozen=True, eq=False)
class Transfer(ShownAsText):
    """Plans by surrogates, predicted against true.

    Attributes:
        problem: the problem that was solved.
        rows: one row for each plan.
        left_out: how many plans were not made, because the time was over.
    """

    problem: Problem
    rows: tuple[Transferred, ...]
    left_out: int = 0

    @property
    def trainings(self) -> int:
        """The number of times that the black box was trained for all of this."""
        return sum(row.trainings for row in self.rows)

    def table(self) -> Any:
        """Return a DataFrame with a row for each plan."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows])

    def summary(self) -> Any:
        """Return a DataFrame of means over seeds, for each family, number and public data."""
        found = self.table()
        keys = ["family", "number", "public"]
        means = found.groupby(keys, sort=False)[["predicted_loss", "loss", "predicted_success", "rate"]].mean()
        return means.rename(columns={"predicted_success": "predicted_rate"})

    def __str__(self) -> str:
        """Show means over seeds, a line for each family, number and amount of public data."""
        lines = [("family", "surrogates", "public", "predicted loss", "true loss", "predicted success", "true success")]
        for (family, number, public), row in self.summary().iterrows():
            said = f"{row['predicted_loss']:.4g}", f"{row['loss']:.4g}", f"{row['predicted_rate']:.0%}"
            lines.append((family, str(number), public, *said, f"{row['rate']:.0%}"))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        before = self.rows[0].loss_before
        head = f"plans by surrogates for {self.problem.model.name}; goal loss before any move {before:.4g}"
        foot = f"{counted(self.trainings, 'training', 'trainings')} of it"
        if self.left_out:
            foot += f"; the time was over before {counted(self.left_out, 'more plan', 'more plans')}"
        return "\n".join([head, *(line.rstrip() for line in aligned), foot])

    def __repr__(self) -> str:
        """Show it in one line."""
        reached, hoped = (sum(getattr(row, name) for row in self.rows) for name in ("success", "predicted_success"))
        plans = counted(len(self.rows), "plan", "plans")
        return f"Transfer({plans} by surrogates: {reached} succeed, {hoped} were predicted to)"

    def plot(self) -> Figure:
        """Return a figure: predicted against true goal losses, and success by amount of data, number and family."""
        from oar.questions.plots import draw_transfer

        return draw_transfer(self)


@with_near_names
def transfer(
    problem: Problem,
    families: ModelLike | Sequence[ModelLike] | Mapping[str, ModelLike | Sequence[ModelLike]] | None = None,
    numbers: int | Sequence[int] = (1, 2, 4),
    public: PublicData | Sequence[PublicData] = (0.1, 0.3, 1.0),
    seeds: int | Sequence[int] = (0,),
    progress: Progress = None,
    *,
    effort: EffortLike = None,
    time_limit: float | None = None,
) -> Transfer:
    """Return how surrogates' plans transfer: their predictions against the black box's audited outcomes, plan by plan.

    Every plan is audited by the black box's own training, which takes a training before and after it, and several of
    both where training is random.

    Args:
        problem: whose model is an `oar.BlackBox(…)`.
        families: models of `oar.models`, or a dict from names to a model or a list of models that take turns; None for
            softmax regression and a linear SVM behind a scaler, and both together (values: ridge regression).
        numbers: how many surrogates, one number or several.
        public: what they are trained on: shares of the people, and others, as from a shifted distribution: an
            oar.Population, or a pair (name, oar.Population). One or several of these.
        seeds: of draws, one or several; each is a plan of its own.
        progress: whether to show plans on stderr; None means "on a terminal". Or a function of step, loss and gap.
        effort: as in `oar.collective`, for each plan.
        time_limit: seconds for all plans together, of which each may take an equal part; after that no further plan is
            made, and `left_out` says how many were not. One is made in any case. None is no limit.
    """
    if not isinstance(problem, Problem) or not isinstance(problem.model, BlackBox):
        raise DataError("problem: must be an oar.Problem(…) with an oar.BlackBox(…) as its model, got another.")
    counts, draws = _several("numbers", numbers), _several("seeds", seeds)
    for seed in draws:
        check_seed(seed)
    named, known = _families(families, problem.regresses), _all_public(public)
    cells = list(product(named.items(), known, counts, draws))
    if not cells:
        raise OptionError("families, numbers, public and seeds: must each hold something, got an empty list.")
    # Settings are checked before anything is trained.
    plans = [
        Surrogate(models=models, public=people, number=number, seed=seed)
        for (_, models), (_, people), number, seed in cells
    ]
    # Who was not drawn may have stayed, weighing nothing.
    sizes = [int((public_people(settings, problem).row_weights > 0).sum()) for settings in plans]
    rows: list[Transferred] = []
    with bounded("transfer", progress, effort, time_limit) as on_step:
        for ((family, _), (name, _), number, seed), settings, size in zip(cells, plans, sizes, strict=True):
            if rows and is_late():
                break
            with shared_time(len(cells) - len(rows)):
                rows.append(_transferred(problem, settings, (family, number, name, size, seed)))
            on_step(len(rows), rows[-1].loss, np.inf)
    return Transfer(problem, tuple(rows), len(cells) - len(rows))


def _transferred(problem: Problem, settings: Surrogate, what: tuple[str, int, str, int, int]) -> Transferred:
    proposal = propose_collective(problem, settings)
    result = audited(proposal)
    assert result.calls is not None
    rate = float(result.success) if result.audit.rate is None else result.audit.rate.share
    return Transferred(
        *what,
        predicted_loss=proposal.claimed_loss,
        predicted_success=bool(proposal.claimed_success),
        loss_before=result.loss_before,
        loss=result.loss,
        success=result.success,
        rate=rate,
        trainings=result.calls.fits,
        note="" if np.isfinite(proposal.claimed_loss) else proposal.note,
    )


def _families(families: Any, regresses: bool) -> dict[str, tuple[Differentiable, ...]]:
    if families is None:
        if regresses:
            return {"ridge": (Scaled(Ridge(1e-2)),)}
        softmax, svm = Scaled(SoftmaxRegression(1e-2)), Scaled(LinearSVM(1e-2))
        return {"softmax": (softmax,), "linear SVM": (svm,), "both": (softmax, svm)}
    if isinstance(families, Differentiable):
        families = [families]
    if not isinstance(families, Mapping):
        families = _several("families", families)
        names = [str(getattr(model, "name", repr(model))) for model in families]
        names = [repr(model) if names.count(name) > 1 else name for model, name in zip(families, names, strict=True)]
        families = dict(zip(_told_apart(names), families, strict=True))
    return {
        str(name): (models,) if isinstance(models, Differentiable) else tuple(models)
        for name, models in families.items()
    }


def _several(argument: str, given: Any) -> list[Any]:
    """Return what was given as a list: one thing, or several."""
    if is_number(given):
        return [given]
    if not is_listing(given):
        raise DataError(f"{argument}: must be one or several in a list, got {given!r}.")
    return list(given)


def _told_apart(names: list[str]) -> list[str]:
    """Return names of which those that are used more than once are numbered."""
    return [
        f"{name} {names[: place + 1].count(name)}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _all_public(given: Any) -> list[tuple[str, Any]]:
    """Return what each of the public data is called, and what it is."""
    match given:
        case Population() | (str(), Population()):
            given = [given]
    found = [_public(one) for one in _several("public", given)]
    names = _told_apart([name for name, _ in found])
    return [(name, what) for name, (_, what) in zip(names, found, strict=True)]


def _public(given: Any) -> tuple[str, Any]:
    match given:
        case (str() as name, Population() as people):
            return name, people
        case Population():
            return "others", given
    if not is_number(given) or not 0 < given <= 1:
        raise DataError(
            f"public: must be shares above 0 and at most 1, or pairs (name, oar.Population), got {given!r}."
        )
    return f"{100 * float(given):.6g}%", float(given)
