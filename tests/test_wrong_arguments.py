"""Wrong things in every argument of every public callable, one at a time: each is taken, or refused by an OARError."""

import inspect
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import oar
from oar import models, online, questions, results, signals, solvers
from oar.errors import OARError

WRONG = {
    "None": None,
    "3": 3,
    "'x'": "x",
    "[]": [],
    "an array": np.zeros((2, 2)),
    "array(1.)": np.array(1.0),
    "10**400": 10**400,
    "an object": object(),
}
ROOMS = {"": oar, "questions.": questions, "online.": online, "models.": models, "solvers.": solvers}
ROOMS |= {"results.": results, "signals.": signals}
EXCEPTIONS = {
    "made by the package alone; users read what it holds": """
        questions.Alternative questions.Alternatives questions.BudgetAnswer questions.CoalitionAnswer
        questions.Collateral questions.Credit questions.Leverage questions.Power questions.PrivateCard
        questions.ShareAnswer questions.Transfer questions.Transferred questions.Worth online.Back online.Followed
        online.Happened online.OnlineAudit online.OnlinePlan online.OnlineResult online.Path online.PulledBack
        online.Round online.RoundOutcome online.Update models.Centroids solvers.Sweep results.Advice results.Answer
        results.Audit results.Card results.Independence results.LeverPlan results.Plan results.QueryOutcome
        results.Result results.Robustness results.RoundsCard results.Status results.Study signals.Memory signals.Outcome
        signals.Step solvers.Task
    """,
    "bases and protocols, to derive from": """
        online.Rule models.Differentiable models.Model solvers.Solver signals.Signal
    """,
    "called by solvers and signals of one's own, with what they were handed": """
        signals.as_signal signals.choose_signal signals.refit solvers.propose_collective solvers.propose_individual
        solvers.propose_joint solvers.shortest_move
    """,
    "takes nothing": "solvers.registered",
    "starts workers, who take minutes to fail": "Population.from_dask",
    "has words of its own for each, with what to call instead": "Population.from_parquet",
    "needs what is not installed everywhere": "models.from_torch models.from_equinox",
}
EXCEPT = {name for names in EXCEPTIONS.values() for name in names.split()}

FEATURES = np.random.default_rng(0).normal(size=(12, 2)) + 2.0 * (np.arange(12) % 2)[:, None]
LABELS = np.arange(12) % 2
PEOPLE = oar.Population(FEATURES, LABELS)
QUERY = oar.Query([0.7, 0.6], 1)
PROBLEM = oar.Problem(PEOPLE, oar.NearestCentroid(), QUERY, oar.Perturb(0.5))
SOFTMAX = oar.SoftmaxRegression(0.1)
LINEAR = oar.Problem(PEOPLE, SOFTMAX, QUERY, oar.Perturb(0.5))
STREAM = online.Stream.of_batches([(FEATURES, LABELS)] * 2)
OVER_ROUNDS = oar.OnlineProblem(STREAM, oar.NearestCentroid(), online.FullRefit(), QUERY, oar.Perturb(0.5))
WORLD = oar.worlds.World(
    oar.worlds.FromPopulation(PEOPLE, 6), oar.worlds.Operator(oar.NearestCentroid()),
    oar.worlds.Collective("us", QUERY, oar.Perturb(0.2)), history=PEOPLE, labels="keep",
)  # fmt: skip
RESULT, FOLLOWED = oar.collective(PROBLEM), oar.collective(LINEAR)
CARD = RESULT.plan.card()
FITTED, MEANS = SOFTMAX.fit(PEOPLE), oar.NearestCentroid().fit(PEOPLE)
FRAME = pd.DataFrame(FEATURES, columns=["a", "b"]).assign(label=LABELS)
TABLE = oar.Population.from_frame(FRAME, "label")
CHEAPEST = oar.Cheapest(TABLE, SOFTMAX)
GIVEN = {  # what stands in for a parameter that must be given
    "features": FEATURES, "labels": LABELS, "goal": 1, "people": PEOPLE, "model": SOFTMAX, "query": QUERY,
    "action": oar.Perturb(0.5), "stream": STREAM, "rule": online.FullRefit(), "budget": 0.5, "number": 2,
    "who": [0, 1], "estimator": lambda X, y: (lambda rows: np.zeros(len(rows), dtype=int)), "problem": PROBLEM,
    "world": WORLD, "rounds": 1, "plan": RESULT.plan, "result": RESULT, "defence": oar.defences.TrimmedCentroids(0.1),
    "epsilon": 1.0, "rate": 0.5, "pull": 0.5, "batches": [(FEATURES, LABELS)], "when": np.zeros(12, dtype=int),
    "columns": (), "scale": [1.0, 1.0], "weights": np.eye(2), "loss": "x", "init": "x", "models": (SOFTMAX,),
    "layers": [models.Dense(np.eye(2))], "name": "x", "effort": None, "solver": "x", "queries": [[0.7, 0.6]],
    "goals": [1], "budgets": [0.5], "parameters": FITTED, "label": 1, "reality": lambda round: round.asked,
    "targets": [0, 1], "frame": FRAME, "target": "label", "path": "card.json", "folder": "moves", "store": "x.db",
    "tables": {"a": {"kind": "number"}}, "card": CARD,
}  # fmt: skip
ONLINE = oar.collective(OVER_ROUNDS)
HELD = {  # methods of what users hold
    "SoftmaxRegression": (SOFTMAX, "fit predict probabilities goal_loss"),
    "NearestCentroid": (oar.NearestCentroid(), "fit predict probabilities goal_loss distances"),
    "Ridge": (models.Ridge(), "fit"),
    "Population": (oar.Population, "from_frame read from_memmap"),
    "Schema": (oar.Schema, "load from_tables infer"),
    "Stream": (online.Stream, "of_batches"),
    "Card": (oar.results.Card, "load"),
    "Study": (oar.results.Study, "open"),
    "OnlinePlan": (online.OnlinePlan, "load"),
    "cheapest": (CHEAPEST, "of"),
    "card": (CARD, "respond doubts save"),
    "plan": (FOLLOWED.plan, "moves followed robustness write_moves"),
    "plan of means": (RESULT.plan, "moves followed robustness write_moves"),
    "plan over rounds": (ONLINE.plan, "moves save robustness"),
    "datasets": (oar.datasets, "adult german_credit iris mnist_images mnist_embedding mnist_decoder mnist_provenance"),
}
PROBLEMS = {
    "follow": OVER_ROUNDS,
    "online.OnlineProblem": OVER_ROUNDS,
    "online.Rollout": OVER_ROUNDS,
    "OnlinePlan.load": OVER_ROUNDS,
}
PROBLEMS |= {"online.centroid_weights": OVER_ROUNDS}


def public():
    """Yield every public callable by its name."""
    for prefix, room in ROOMS.items():
        for name in room.__all__:
            value = getattr(room, name)
            if callable(value) and prefix + name not in EXCEPT and not (prefix and value in vars(oar).values()):
                yield prefix + name, value


def parameters(value):
    return [
        one
        for one in inspect.signature(value).parameters.values()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]


def tried(name, value, tmp_path=None):
    """Yield calls with one wrong argument each, what they are, and one call without what must be given."""
    known = GIVEN | ({"problem": PROBLEMS[name]} if name in PROBLEMS else {})
    known |= {"parameters": MEANS} if name.startswith("NearestCentroid") else {}
    needed = {one.name: known[one.name] for one in parameters(value) if one.default is one.empty}
    for one in needed:
        yield f"{name} without {one}", partial(value, **{key: given for key, given in needed.items() if key != one})
    for one in parameters(value):
        for wrong, thing in WRONG.items():
            yield f"{name}({one.name}={wrong})", partial(value, **needed | {one.name: thing})


def methods():
    """Yield public methods of what users hold, by their names; of models' with what they have learned."""
    for name, (holder, known) in HELD.items():
        for method in known.split():
            yield f"{name}.{method}", getattr(holder, method)


CALLABLES = dict(public()) | dict(methods())


@pytest.mark.parametrize("name", CALLABLES)
def test_wrong_things_are_taken_or_refused_by_our_errors(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed = []
    for said, call in tried(name, CALLABLES[name]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except OARError:
            pass
        except Exception as error:
            failed.append(f"{said}: {type(error).__name__}: {error}")
    assert failed == []


@pytest.mark.parametrize(
    "content", ["null", "[]", '{"format": "oar-private", "version": 1, "key": "00", "asked": null}']
)
def test_a_damaged_private_file_is_told_in_our_words(content, tmp_path):
    from oar.report.files.manifest import read_private

    (tmp_path / "private.json").write_text(content)
    with pytest.raises(oar.errors.StorageError, match=r"is damaged \(.*must be a mapping of names to values, got"):
        read_private(tmp_path)


def test_a_solvers_masked_moves_are_refused():
    class Masked(solvers.Solver):
        name, auto = "masked", False

        def propose(self, task, settings):
            return np.ma.masked_array(np.zeros((12, 2)), np.eye(12, 2, dtype=bool))

    solvers.register(Masked)
    try:
        with pytest.raises(oar.errors.DataError, match="masked values; fill them first"):
            oar.collective(LINEAR, solver="masked")
    finally:
        solvers.unregister("masked")
