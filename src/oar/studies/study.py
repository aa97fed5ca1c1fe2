"""`oar.study`: many cells of one problem, checked before the first one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from oar.checks import check_kind, check_that, is_listing, is_text, with_near_names
from oar.errors import DataError, OptionError
from oar.problem import Problem, Query, as_model
from oar.progress import is_shown, limited_time, live_line
from oar.solvers.registry import EffortLike, check_known, default_effort
from oar.studies.cells import Cell, grid, listed
from oar.studies.executors.executors import check_executor
from oar.studies.executors.running import run
from oar.studies.fingerprints.study import ADDRESS, check_same, fingerprint, is_same
from oar.studies.result import Study
from oar.studies.store.database import Store
from oar.studies.work import Work
from oar.typing import Client, FilePath, ModelLike, SolverLike

BETWEEN = 10.0  # seconds between lines of progress where there is no terminal


@with_near_names
def study(
    problem: Problem,
    *,
    budgets: Sequence[float] | None = None,
    participation: Sequence[float] | None = None,
    queries: Sequence[Query] | Mapping[str, Query] | None = None,
    models: Sequence[ModelLike] | Mapping[str, ModelLike] | None = None,
    seeds: Sequence[int] | None = None,
    most: Sequence[int] | None = None,
    cells: Sequence[Mapping[str, object]] | None = None,
    store: FilePath = "study.db",
    solver: SolverLike = "auto",
    effort: EffortLike = None,
    time_limit: float | None = None,
    workers: int | None = None,
    client: Client | None = None,
    progress: bool | None = None,
) -> Study:
    """Solve a problem for every combination of budgets, shares, queries, models, seeds and numbers; store the results.

    Every cell is audited. Finished cells survive a kill at any moment; the same call resumes there, and gives the same
    table in the end, to the last bit. Several processes may work on one file. A later call may extend the axes, and
    must have the same people, action, solver, effort, time limit and meaning of names.

    Args:
        problem: the problem, of one refit or over rounds; it gives the value of every axis that is left out.
        budgets: common budgets; factors on everyone's own where those differ. For a custom action they are its reach,
            and it needs a method `scaled`.
        participation: shares of everyone who take part, drawn at random and nested; with `oar.Best`, shares of
            those among whom the most useful are chosen.
        queries: the queries; a list, or a dict by names. The names of a list are "0", "1", ….
        models: the models; a list, or a dict by names. A list uses the models' own names.
        seeds: of the draw of the participants, and of models with a seed; by default those of problem and models.
        most: for `oar.Relabel` and `oar.Withhold`: the largest numbers of labels that may change, or members who may
            leave, in place of the action's own `most` or `share`.
        cells: in place of a grid: a list of dicts of "model", "query" (names), "budget", "participation", "seed" and
            "most".
        store: the SQLite file of the study.
        solver: as in `oar.collective`.
        effort: as in `oar.collective`, for every cell.
        time_limit: as in `oar.collective`, for each cell.
        workers: the number of processes, each on one thread. None begins with this one, and adds as many as there are
            cores where that saves time.
        client: a `dask.distributed.Client` with workers to use instead.
        progress: whether to show cells and the time left on stderr; None means "on a terminal".
    """
    check_executor(workers, client)
    check_known(solver)
    if any(getattr(part, "held", None) is not None for part in getattr(problem.people, "parts", ())):
        raise DataError(
            "people: a study hands people to other processes, got a Dask collection, whose partitions stay with their "
            "workers; write it to Parquet and use oar.Population.from_parquet, or use people.loaded()."
        )
    with default_effort(effort) as level, limited_time(time_limit):  # which refuse what is none
        named = _named_models(problem, models), _named_queries(problem, queries)
    work = Work(problem, *named, solver, effort=level, time_limit=time_limit)
    chosen = _chosen(work, cells, budgets=budgets, participation=participation, seeds=seeds, most=most)
    asked = {name: work.asked(Cell(next(iter(work.models)), name, None, None, None)) for name in work.queries}
    for name in work.models:  # models and queries that do not go together are told before the work begins
        for query in work.queries:
            work.asked(Cell(name, query, None, None, None))
    work.drawing(chosen)
    work.stamps = problem.people.stamps()  # before people are read, so that no change goes unnoticed
    now = fingerprint(problem, work.own, solver, work.models, asked, work.effort, time_limit)
    line = live_line(BETWEEN) if is_shown(progress) else nullcontext(lambda _: None)
    with line as tell, Store(store, create=True) as opened:
        with opened.founding() as known:
            if "fingerprint" in known and not opened.begun and not is_same(known["fingerprint"], now):
                opened.forget()  # whoever asked before asked for what could not be
                known.clear()
            if "fingerprint" in known:
                now = check_same(known["fingerprint"], now, store, work.models, problem)
            known["fingerprint"] = now
            for part, names in (("models", work.models), ("queries", work.queries)):
                known[part] = list(dict.fromkeys([*known.get(part, ()), *names]))
            known["factors"] = not problem.allowance.single
            known["goals"] = known.get("goals", {}) | {name: one.goal_words for name, one in asked.items()}
        opened.add(chosen)
        run(opened, work, chosen, workers, client, tell)
    return Study(Path(store).absolute())


def _chosen(work: Work, cells: Any, **axes: Any) -> list[Cell]:
    names = list(work.models), list(work.queries)
    if cells is not None:
        for name, value in axes.items():
            if value is not None:
                raise OptionError(f"{name}: is an axis of a grid, and cells= is a list; leave one out.")
        return listed(cells, names, work.own)
    chosen = grid(names, work.own, **axes)
    if len({cell.seed for cell in chosen}) > 1 and all(work.asks_for(cell).seed is None for cell in chosen):
        raise OptionError(
            "seeds: would do nothing, because everyone or nobody takes part and no model has a seed; leave them out, "
            "or give participation=."
        )
    return chosen


def _named_models(problem: Problem, models: Any) -> dict[str, Any]:
    if models is None:
        return {problem.model.name: problem.model}
    if isinstance(models, Mapping):
        return _names("models", {name: as_model(model) for name, model in models.items()})
    check_that(is_listing(models), "models", "a list of models, or a dict of them by name", models)
    found = [as_model(model) for model in models]
    twice = {model.name for model in found if sum(other.name == model.name for other in found) > 1}
    # An object's address is another in every process, and no name to be found again by.
    called = {ADDRESS.sub("", repr(model)) if model.name in twice else model.name: model for model in found}
    return _names("models", called, len(found))


def _named_queries(problem: Problem, queries: Any) -> dict[str, Query]:
    if queries is None:
        return {"0": problem.query}
    listed = isinstance(queries, Mapping | Sequence) and not isinstance(queries, Query)
    check_that(listed, "queries", "a list of oar.Query(…), or a dict of them by name", queries)
    found = dict(queries) if isinstance(queries, Mapping) else {str(at): one for at, one in enumerate(queries)}
    for name, query in found.items():
        check_kind(f"queries[{name}]", query, Query, "an oar.Query(…)")
    return _names("queries", found)


def _names(argument: str, found: dict[Any, Any], number: int | None = None) -> dict[str, Any]:
    if not found:
        raise DataError(f"{argument}: must be at least one, got none; leave it out for the problem's own.")
    if number is not None and number != len(found):
        raise DataError(f"{argument}: must differ in what they are called, got one name twice; name them in a dict.")
    for name in found:
        check_that(is_text(name), argument, "called by texts", name)
    return found
