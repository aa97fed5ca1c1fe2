"""`oar.study`: many cells of one problem, and what came of them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.errors import DataError, OptionError, StorageError, choose
from oar.files import replace_atomically
from oar.pictures.notebook import ShownAsText
from oar.problem import Problem, Query, as_model
from oar.studies.cells import AXES, Cell, grid, listed
from oar.studies.fingerprint import check_same, fingerprint
from oar.studies.hands import check_hands
from oar.studies.rows import COUNTS, FLAGS, JSON
from oar.studies.store import Store
from oar.studies.telling import told
from oar.studies.work import Work

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")


def study(
    problem: Problem,
    *,
    budgets: Sequence[float] | None = None,
    participation: Sequence[float] | None = None,
    queries: Sequence[Query] | Mapping[str, Query] | None = None,
    models: Sequence[Any] | Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    cells: Sequence[Mapping[str, Any]] | None = None,
    store: Any = "study.db",
    solver: Any = "auto",
    workers: int | None = None,
    client: Any = None,
    progress: bool | None = None,
) -> Study:
    """Answer a problem for every combination of budgets, shares, queries, models and seeds, and keep it in a file.

    Every cell is audited. What is finished survives a kill at any moment; the same call goes on from there, and gives
    the same table in the end, to the last bit. Several processes may work on one file. Axes may be longer in a later
    call; people, action and solver, and what a name stands for, may not be others.

    Args:
        problem: what is asked; an axis that is left out has its value.
        budgets: common budgets; factors on everyone's own where those differ.
        participation: shares of everyone who take part, drawn at random; smaller ones are within larger ones.
        queries: who asks, and for what; a list, or a dict by names. A list's are called "0", "1", ….
        models: what is retrained; a list, or a dict by names. A list's are called by their own names.
        seeds: of the draw of those who take part, and of models that have a seed; left out, problem and models keep
            theirs.
        cells: in place of a grid: a list of dicts of "model", "query" (names), "budget", "participation" and "seed".
        store: the SQLite file in which the study is kept.
        solver: as in `oar.collective`.
        workers: how many processes work at once, each on one thread. None begins in this one, and lets as many as there
            are cores join where that pays.
        client: a `dask.distributed.Client` whose workers do it instead.
        progress: whether to show cells and the time left on stderr; None means "on a terminal".
    """
    if not isinstance(problem, Problem):
        raise DataError(f"problem: must be an oar.Problem(…), got an object of type {type(problem).__name__}.")
    check_hands(workers, client)
    work = Work(problem, _named_models(problem, models), _named_queries(problem, queries), solver)
    chosen = _chosen(work, cells, budgets=budgets, participation=participation, seeds=seeds)
    asked = {name: work.asked(Cell(next(iter(work.models)), name, None, None, None)) for name in work.queries}
    for name in work.models:  # models and queries that do not go together are told before the work begins
        for query in work.queries:
            work.asked(Cell(name, query, None, None, None))
    work.drawing(chosen)
    now = fingerprint(problem, work.own, solver, work.models, asked)
    with told(progress) as tell, Store(store, create=True) as opened:
        with opened.founding() as known:
            known["fingerprint"] = check_same(known["fingerprint"], now, store) if "fingerprint" in known else now
            for part, names in (("models", work.models), ("queries", work.queries)):
                known[part] = list(dict.fromkeys([*known.get(part, ()), *names]))
            known["goals"] = known.get("goals", {}) | {name: one.goal_words for name, one in asked.items()}
        opened.add(chosen)
        from oar.studies.running import run

        run(opened, work, chosen, workers, client, tell)
    return Study(Path(store))


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
    if not isinstance(models, Sequence) or isinstance(models, str):
        raise DataError(f"models: must be a list of models, or a dict of them by name, got {models!r}.")
    found = [as_model(model) for model in models]
    twice = {model.name for model in found if sum(other.name == model.name for other in found) > 1}
    return _names("models", {repr(model) if model.name in twice else model.name: model for model in found}, len(found))


def _named_queries(problem: Problem, queries: Any) -> dict[str, Query]:
    if queries is None:
        return {"0": problem.query}
    if isinstance(queries, Query) or not isinstance(queries, Mapping | Sequence):
        raise DataError(f"queries: must be a list of oar.Query(…), or a dict of them by name, got {queries!r}.")
    found = dict(queries) if isinstance(queries, Mapping) else {str(at): one for at, one in enumerate(queries)}
    for name, query in found.items():
        if not isinstance(query, Query):
            raise DataError(f"queries[{name}]: must be an oar.Query(…), got an object of type {type(query).__name__}.")
    return _names("queries", found)


def _names(argument: str, found: dict[Any, Any], number: int | None = None) -> dict[str, Any]:
    if not found:
        raise DataError(f"{argument}: must be at least one, got none; leave it out for the problem's own.")
    if number is not None and number != len(found):
        raise DataError(f"{argument}: must differ from one another, got the same twice; or name them in a dict.")
    for name in found:
        if not isinstance(name, str) or not name:
            raise DataError(f"{argument}: must be called by texts, got {name!r}.")
    return found


@dataclass(frozen=True)
class Study(ShownAsText):
    """A study as it stands in its file; it may still be under way, here or in another process.

    Attributes:
        path: the file.
    """

    path: Path

    @classmethod
    def open(cls, store: Any) -> Study:
        """Return a study that is kept in a file, without its problem; raise for a file that holds none."""
        with Store(store):
            return cls(Path(store))

    def table(self, timing: bool = False) -> pandas.DataFrame:
        """Return a row for each cell, by model, query, participation, budget and seed.

        `success`, `loss` and all that is said of a plan is the audit's; `gap`, `bound`, `exact` and `passes` are the
        solver's. Cells that failed have an `error`. With `timing` there are `seconds` too, which no two runs share.
        """
        import pandas

        with Store(self.path) as store:
            rows, meta = store.rows(), store.meta()
        places = {part: {name: at for at, name in enumerate(meta[part])} for part in ("models", "queries")}

        def place(row: dict[str, Any]) -> tuple:
            numbers = [(row[name] is not None, row[name] or 0) for name in ("participation", "budget", "seed")]
            return places["models"][row["model"]], places["queries"][row["query"]], *numbers

        rows.sort(key=place)
        names = list(rows[0]) if rows else [*AXES, "status"]
        frame = pandas.DataFrame({name: [row[name] for row in rows] for name in names}, columns=names)
        kinds = dict.fromkeys(("seed", *COUNTS), "Int64") | dict.fromkeys(FLAGS, "boolean")
        texts = [
            name for name in names if name in ("model", "query", "status", "outcome", "solver", "witness", "error")
        ]
        kinds |= dict.fromkeys((*texts, *(name for name in JSON if name in names)), "string")
        numbers = dict.fromkeys([name for name in names if name not in kinds], "float64")
        frame = frame.astype({name: kind for name, kind in (kinds | numbers).items() if name in names})
        frame.insert(2, "goal", frame["query"].map(meta["goals"]).astype("string"))
        return frame if timing else frame.drop(columns="seconds")

    def success_rate(self) -> pandas.DataFrame:
        """Return how often the goal is reached, over queries and seeds, by model, participation and budget.

        `rate` is of the cells that are done; `cells` is how many there are of them.
        """
        done = self.table()
        done = done[done["status"] == "done"]
        grouped = done.groupby(["model", "participation", "budget"], dropna=False, sort=False)["success"]
        return grouped.agg(rate=lambda values: float(values.mean()), cells="size").reset_index()

    def to_parquet(self, path: Any, timing: bool = False) -> None:
        """Write the table as Parquet; the file is whole or not there."""
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise OptionError(
                "to_parquet: needs pyarrow; pip install 'oar-recourse[parquet]', or use to_csv."
            ) from None
        buffer = io.BytesIO()
        self.table(timing).to_parquet(buffer, index=False)
        with replace_atomically(Path(path)) as file:
            file.write(buffer.getvalue())

    def to_csv(self, path: Any, timing: bool = False) -> None:
        """Write the table as CSV, numbers to the last bit; the file is whole or not there."""
        text = self.table(timing).to_csv(index=False, lineterminator="\n")
        with replace_atomically(Path(path)) as file:
            file.write(text.encode())

    def plot(self) -> Figure:
        """Return the phase diagram: budget × participation → how often the goal is reached; a panel for each model."""
        from oar.studies.draw_phase import draw

        return draw(self)

    def figure(self, path: Any) -> None:
        """Write the phase diagram to a .png, .svg or .pdf file."""
        kind = choose("path", Path(path).suffix.lower(), FORMATS)[1:]
        buffer = io.BytesIO()
        self.plot().savefig(buffer, format=kind, dpi=160)
        with replace_atomically(Path(path)) as file:
            file.write(buffer.getvalue())

    @property
    def counts(self) -> dict[str, int]:
        """How many cells are pending, running, done and failed."""
        with Store(self.path) as store:
            found = list(store.states().values())
        return {name: found.count(name) for name in ("pending", "running", "done", "failed")}

    def __str__(self) -> str:
        """Show how it stands, and how often the goal is reached."""
        try:
            counts = self.counts
        except StorageError as gone:
            return f"Study({self.path}: {gone})"
        said = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "no cells"
        return f"Study({self.path}: {said})"

    def __repr__(self) -> str:
        """Show how it stands."""
        return str(self)
