"""The golden problems: small ones, of every kind that `oar.collective` and its sisters answer.

Each is a function without arguments that returns a result, seeded, and quick. `record` tells it every step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import oar
from oar.models import MLP, GaussianNaiveBayes, LinearSVM, PrototypeNetwork, Ridge, Scaled, SoftmaxRegression
from oar.online import ExponentialMeans, FullRefit, GradientSteps, OnlineProblem, Stream, Window

Ask = Callable[[Any], Any]
PROBLEMS: dict[str, Ask] = {}
"""By name: functions of a listener for steps that return an answer."""

BLOCK = np.arange(150).reshape(3, 50)[:, ::2].ravel()  # every second flower


def golden(name: str) -> Callable[[Ask], Ask]:
    """Register a problem."""

    def add(ask: Ask) -> Ask:
        assert name not in PROBLEMS, name
        PROBLEMS[name] = ask
        return ask

    return add


def flowers(weighted: bool = False, every: int = 1) -> oar.Population:
    """Return 75 flowers of Iris, or fewer."""
    iris = oar.datasets.iris()
    rows = BLOCK[::every]
    weights = np.random.default_rng(5).uniform(0.5, 2.0, rows.size) if weighted else None
    return oar.Population(iris.features[rows], iris.labels[rows], weights)


def flower(toward: int = 2, share: float = 0.25, **settings: Any) -> oar.Query:
    """Return one between the means of classes 2 and 0, which would like to be called a 2."""
    iris = oar.datasets.iris()
    means = [iris.features[iris.labels == label].mean(axis=0) for label in (0, 1, 2)]
    return oar.Query(share * means[2] + (1 - share) * means[0], toward, **settings)


def line(weighted: bool = False) -> oar.Population:
    """Return people with a real-valued target."""
    rng = np.random.default_rng(11)
    features = rng.normal(size=(60, 3))
    values = features @ [1.0, -0.5, 0.2] + rng.normal(0, 0.3, 60)
    return oar.Population(features, values, rng.uniform(0.5, 2, 60) if weighted else None)


def loans(size: int = 90) -> pd.DataFrame:
    """Return a small table of applicants."""
    rng = np.random.default_rng(23)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, size),
            "income": rng.normal(2_500, 600, size).round(),
            "savings": rng.gamma(2.0, 1_500, size).round(2),
            "months": rng.integers(2, 10, size) * 6,
            "owns_home": rng.random(size) < 0.3,
            "purpose": rng.choice(["business", "car", "education"], size),
        }
    )
    score = frame["income"] / 600 + frame["savings"] / 2_000 - frame["months"] / 15 + frame["owns_home"]
    score += frame["purpose"].map({"business": -0.5, "car": 0.0, "education": 0.5}) + rng.normal(0, 0.5, size)
    return frame.assign(approved=np.where(score > score.median(), "yes", "no"))


FREE = {"age": oar.Limit(immutable=True), "income": oar.Limit(direction="up"), "savings": oar.Limit(lower=0)}
STEPS = FREE | {"months": oar.Limit(lower=12, upper=60, step=6), "purpose": oar.Limit(levels=("car", "education"))}
LINKS = ["savings <= 5 * income", "0 <= change(income) <= 900"]
RULES = ["if purpose == 'education' then months <= 48"]
ASKS = {"age": 31, "income": 2_100, "savings": 700.0, "months": 48, "owns_home": False, "purpose": "business"}


def table(model: Any, budget: float = 0.5, norm: float = 2, limits: oar.Limits | None = None, **more: Any) -> Any:
    """Return a problem about applicants."""
    people = oar.Population.from_frame(loans(), "approved")
    limits = oar.Limits(STEPS) if limits is None else limits
    return oar.Problem(people, model, oar.Query(ASKS, "yes"), oar.Perturb(budget, norm=norm, limits=limits), **more)


def collective(problem: Any, on_step: Any, **settings: Any) -> Any:
    """Return the answer, with every step told to a listener."""
    return oar.collective(problem, progress=on_step, **settings)


# Nearest centroid.
for norm in (1, 2, float("inf")):

    @golden(f"centroid-l{norm}")
    def _(on_step: Any, norm: float = norm) -> Any:
        return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(1.2, norm=norm)), on_step)


@golden("centroid-weights")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(True), oar.NearestCentroid(), flower(), oar.Perturb(1.2)), on_step)


@golden("centroid-share-of-people")
def _(on_step: Any) -> Any:
    action = oar.Perturb(1.2, participants=0.6, seed=3)
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(), action), on_step)


@golden("centroid-best-members")
def _(on_step: Any) -> Any:
    action = oar.Perturb(1.5, participants=oar.Best(20))
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(), action), on_step)


@golden("centroid-own-budgets")
def _(on_step: Any) -> Any:
    budgets = np.random.default_rng(2).uniform(0.0, 2.0, BLOCK.size)
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(budgets)), on_step)


@golden("centroid-one-class-moves")
def _(on_step: Any) -> Any:
    action = oar.Perturb(1.5, participants=flowers().labels == 2)
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(), action), on_step)


@golden("centroid-paper")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(1.2))
    return collective(problem, on_step, solver="paper")


@golden("centroid-gradient")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(1.2))
    return collective(problem, on_step, solver="projected-gradient")


@golden("centroid-individual")
def _(on_step: Any) -> Any:
    return oar.individual(oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(1.2)))


@golden("centroid-joint")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(), oar.NearestCentroid(), flower(), oar.Perturb(0.8))
    return oar.joint(problem, progress=on_step)


@golden("centroid-several-queries")
def _(on_step: Any) -> Any:
    asked = oar.Query(np.array([flower().features, flower(share=0.4).features]), 2)
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), asked, oar.Perturb(0.8)), on_step)


@golden("centroid-any-but")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(oar.AnyBut(0)), oar.Perturb(0.8)), on_step)


@golden("centroid-relabel")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(share=0.4), oar.Relabel(most=4)), on_step)


@golden("centroid-withhold")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(share=0.4), oar.Withhold(most=4)), on_step)


@golden("centroid-moves-and-labels")
def _(on_step: Any) -> Any:
    action = [oar.Perturb(0.4), oar.Relabel(most=3)]
    return collective(oar.Problem(flowers(), oar.NearestCentroid(), flower(share=0.4), action), on_step)


@golden("centroid-table")
def _(on_step: Any) -> Any:
    return collective(table(oar.NearestCentroid(), budget=0.02), on_step)


# Softmax regression.
QUICK = oar.solvers.ProjectedGradient(restarts=0, max_steps=100)

for norm, solver in ((1, "auto"), (2, "auto"), (float("inf"), QUICK)):

    @golden(f"softmax-l{norm}")
    def _(on_step: Any, norm: float = norm, solver: Any = solver) -> Any:
        problem = oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Perturb(0.2, norm=norm))
        return collective(problem, on_step, solver=solver)


@golden("softmax-weights")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(True), SoftmaxRegression(), flower(), oar.Perturb(0.3)), on_step)


@golden("softmax-share-of-people")
def _(on_step: Any) -> Any:
    action = oar.Perturb(0.5, participants=0.5, seed=1)
    return collective(oar.Problem(flowers(), SoftmaxRegression(), flower(), action), on_step)


@golden("softmax-best-members")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(every=2), SoftmaxRegression(), flower(), oar.Perturb(0.8, participants=oar.Best(10)))
    return collective(problem, on_step, solver=QUICK)


@golden("softmax-frank-wolfe")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Perturb(0.3))
    return collective(problem, on_step, solver="frank-wolfe")


@golden("softmax-one-shot")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Perturb(0.3))
    return collective(problem, on_step, solver="one-shot")


@golden("softmax-unrolled")
def _(on_step: Any) -> Any:
    problem = oar.Problem(flowers(every=2), SoftmaxRegression(), flower(), oar.Perturb(0.3))
    return collective(problem, on_step, signal="unrolled", solver=oar.solvers.ProjectedGradient(restarts=0))


@golden("softmax-individual")
def _(on_step: Any) -> Any:
    return oar.individual(oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Perturb(0.8)))


@golden("softmax-joint")
def _(on_step: Any) -> Any:
    return oar.joint(oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Perturb(0.2)), progress=on_step)


@golden("softmax-several-queries")
def _(on_step: Any) -> Any:
    asked = oar.Query(np.array([flower().features, flower(share=0.4).features]), 2, several="worst")
    return collective(oar.Problem(flowers(), SoftmaxRegression(), asked, oar.Perturb(0.3)), on_step)


@golden("softmax-members-ask")
def _(on_step: Any) -> Any:
    asked = oar.Query(oar.Members([30, 40]), 2)
    return collective(oar.Problem(flowers(), SoftmaxRegression(), asked, oar.Perturb(0.3)), on_step)


@golden("softmax-probability")
def _(on_step: Any) -> Any:
    asked = flower(probability=0.3)
    return collective(oar.Problem(flowers(), SoftmaxRegression(), asked, oar.Perturb(0.3)), on_step)


@golden("softmax-keep")
def _(on_step: Any) -> Any:
    problem = oar.Problem(
        flowers(),
        SoftmaxRegression(),
        flower(),
        oar.Perturb(0.5, participants=0.8, seed=0),
        keep=oar.Keep(changed=0.02),
    )
    return collective(problem, on_step, solver=QUICK)


@golden("softmax-relabel")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Relabel(most=4)), on_step)


@golden("softmax-soft-labels")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Relabel(soft=0.1)), on_step)


@golden("softmax-withhold")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(), SoftmaxRegression(), flower(), oar.Withhold(most=4)), on_step)


@golden("softmax-moves-and-strikes")
def _(on_step: Any) -> Any:
    action = [oar.Perturb(0.2), oar.Withhold(most=3)]
    return collective(oar.Problem(flowers(), SoftmaxRegression(), flower(), action), on_step)


# Other models.
def _wants(goal: float) -> oar.Query:
    return oar.Query([0.2, 0.1, -0.3], goal, within=0.05)


for norm in (1, 2):

    @golden(f"ridge-l{norm}")
    def _(on_step: Any, norm: float = norm) -> Any:
        return collective(oar.Problem(line(), Ridge(), _wants(0.6), oar.Perturb(0.2, norm=norm)), on_step)


@golden("ridge-weights-range")
def _(on_step: Any) -> Any:
    asked = oar.Query([0.2, 0.1, -0.3], oar.Between(0.5, 0.7))
    return collective(oar.Problem(line(True), Ridge(), asked, oar.Perturb(0.2)), on_step)


@golden("ridge-relabel")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(line(), Ridge(), _wants(0.6), oar.Relabel(soft=0.2)), on_step)


@golden("svm")
def _(on_step: Any) -> Any:
    solver = oar.solvers.ProjectedGradient(restarts=0, max_steps=40)
    problem = oar.Problem(flowers(every=2), LinearSVM(), flower(), oar.Perturb(0.3))
    return collective(problem, on_step, solver=solver)


@golden("naive-bayes")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(every=2), GaussianNaiveBayes(), flower(), oar.Perturb(0.5)), on_step)


@golden("prototypes")
def _(on_step: Any) -> Any:
    return collective(oar.Problem(flowers(every=2), PrototypeNetwork(), flower(), oar.Perturb(0.5)), on_step)


@golden("mlp")
def _(on_step: Any) -> Any:
    solver = oar.solvers.ProjectedGradient(restarts=0, max_steps=6)
    model = MLP((4,), l2=0.01)
    return collective(oar.Problem(flowers(every=2), model, flower(), oar.Perturb(0.3)), on_step, solver=solver)


# Tables.
@golden("table-free")
def _(on_step: Any) -> Any:
    limits = oar.Limits(FREE | {"months": oar.Limit(immutable=True), "purpose": oar.Limit(immutable=True)})
    limits = oar.Limits(limits.columns | {"owns_home": oar.Limit(immutable=True)})
    return collective(table(Scaled(SoftmaxRegression()), limits=limits), on_step)


for norm in (1, 2, float("inf")):

    @golden(f"table-steps-l{norm}")
    def _(on_step: Any, norm: float = norm) -> Any:
        return collective(table(Scaled(SoftmaxRegression()), norm=norm), on_step)


@golden("table-links")
def _(on_step: Any) -> Any:
    return collective(table(Scaled(SoftmaxRegression()), limits=oar.Limits(STEPS, links=LINKS)), on_step)


@golden("table-rules")
def _(on_step: Any) -> Any:
    return collective(table(Scaled(SoftmaxRegression()), limits=oar.Limits(STEPS, links=LINKS, rules=RULES)), on_step)


@golden("table-individual")
def _(on_step: Any) -> Any:
    return oar.individual(table(Scaled(SoftmaxRegression()), limits=oar.Limits(STEPS, links=LINKS, rules=RULES)))


@golden("table-joint")
def _(on_step: Any) -> Any:
    return oar.joint(table(Scaled(SoftmaxRegression()), budget=0.3), progress=on_step)


# People in Parquet, in two cuts.
def _in_parts(parts: int) -> oar.Population:
    people = flowers()
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    for number, rows in enumerate(np.array_split(np.random.default_rng(1).permutation(BLOCK.size), parts)):
        frame = pd.DataFrame(people.features[rows], columns=list("abcd")).assign(label=people.labels[rows])
        frame.to_parquet(folder / f"{number}.parquet")
    return oar.Population.from_parquet(folder, target="label")


for parts in (2, 5):

    @golden(f"parquet-{parts}-softmax")
    def _(on_step: Any, parts: int = parts) -> Any:
        return collective(oar.Problem(_in_parts(parts), SoftmaxRegression(), flower(), oar.Perturb(0.2)), on_step)

    @golden(f"parquet-{parts}-centroid")
    def _(on_step: Any, parts: int = parts) -> Any:
        return collective(oar.Problem(_in_parts(parts), oar.NearestCentroid(), flower(), oar.Perturb(1.2)), on_step)


# Models that others wrote.
@golden("pipeline-scaler-logistic")
def _(on_step: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    return collective(oar.Problem(flowers(every=2), model, flower(), oar.Perturb(0.3)), on_step)


@golden("pipeline-pca-ridge")
def _(on_step: Any) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge as SklearnRidge
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(PCA(2), SklearnRidge())
    return collective(oar.Problem(line(), model, _wants(0.4), oar.Perturb(0.2)), on_step)


@golden("black-box-forest")
def _(on_step: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    box = oar.BlackBox(RandomForestClassifier(5, random_state=0), randomised=False)
    return collective(oar.Problem(flowers(every=2), box, flower(), oar.Perturb(1.0)), on_step, solver="surrogate")


@golden("black-box-tree-search")
def _(on_step: Any) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    box = oar.BlackBox(DecisionTreeClassifier(max_depth=3, random_state=0), randomised=False)
    solver = oar.solvers.DirectSearch(refits=25)
    return collective(oar.Problem(flowers(every=2), box, flower(), oar.Perturb(1.0)), on_step, solver=solver)


@golden("black-box-labels")
def _(on_step: Any) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    box = oar.BlackBox(KNeighborsClassifier(5))
    solver = oar.solvers.DirectSearch(refits=25)
    return collective(oar.Problem(flowers(every=2), box, flower(), oar.Relabel(most=4)), on_step, solver=solver)


# Several rounds.
def _rounds(model: Any, rule: Any, action: Any, **settings: Any) -> OnlineProblem:
    people = flowers()
    rows = np.random.default_rng(9).permutation(BLOCK.size)
    thirds = [(people.features[part], people.labels[part]) for part in np.array_split(rows, 3)]
    stream = Stream.of_batches(
        thirds, history=(people.features, people.labels), who=True if settings.get("shared") else None
    )
    return OnlineProblem(stream, model, rule, flower(), action, **settings)


@golden("rounds-centroid-means")
def _(on_step: Any) -> Any:
    return collective(_rounds(oar.NearestCentroid(), ExponentialMeans(0.5), oar.Perturb(1.2)), on_step)


@golden("rounds-centroid-shared-budget")
def _(on_step: Any) -> Any:
    return collective(_rounds(oar.NearestCentroid(), FullRefit(), oar.Perturb(1.2), shared=True), on_step)


@golden("rounds-softmax-window")
def _(on_step: Any) -> Any:
    return collective(_rounds(SoftmaxRegression(), Window(2), oar.Perturb(0.3)), on_step)


@golden("rounds-softmax-gradient-steps")
def _(on_step: Any) -> Any:
    problem = _rounds(SoftmaxRegression(), GradientSteps(0.3, 4), oar.Perturb(0.3))
    return collective(problem, on_step, solver=oar.solvers.ProjectedGradient(max_steps=30))


@golden("rounds-softmax-every-round")
def _(on_step: Any) -> Any:
    problem = _rounds(SoftmaxRegression(), FullRefit(), oar.Perturb(0.3, norm=1), goal_for="every")
    return collective(problem, on_step)
