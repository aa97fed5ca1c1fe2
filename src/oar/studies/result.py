"""The result of a study, read from its file: tables, exports, and the phase diagram."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.checks import choose, with_near_names
from oar.errors import OptionError, StorageError
from oar.files import replace_atomically, write_text
from oar.people.tables.spreadsheet import harmless_csv
from oar.pictures.notebook import ShownAsText
from oar.studies.cells import AXES, MOST
from oar.studies.rows import COUNTS, FLAGS, JSON
from oar.studies.store.database import Store
from oar.typing import FilePath

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

TO_COME = ("pending", "running")  # how cells stand that are not finished
FORMATS = (".png", ".svg", ".pdf")
TEXTS = ("model", "query", "status", "outcome", "solver", "witness", "error", *JSON)


def extent(table: pandas.DataFrame) -> str:
    """Return the numbers of queries and draws of a table's cells, in words."""
    queries, draws = table["query"].nunique(), max(1, table["seed"].nunique(dropna=False))
    return f"{queries:,} {'query' if queries == 1 else 'queries'} and {draws:,} {'draw' if draws == 1 else 'draws'}"


def panels_of(table: pandas.DataFrame) -> tuple[str, list[tuple[str, pandas.DataFrame]]]:
    """Return what is drawn from left to right, budgets or numbers of labels and leavers, and a table for each panel.

    Where both differ, each number has a panel of its own.
    """
    if MOST not in table:
        return "budget", [(str(model), some) for model, some in table.groupby("model", sort=False)]
    if table["budget"].nunique(dropna=False) <= 1:
        return MOST, [(str(model), some) for model, some in table.groupby("model", sort=False)]
    each = table.groupby(["model", MOST], sort=False, dropna=False)
    return "budget", [(f"{model}, {MOST} {number}", some) for (model, number), some in each]


def rates_of(table: pandas.DataFrame) -> pandas.DataFrame:
    """Return how often the goal is reached in a table's finished cells, as `Study.success_rate` does."""
    done = table[table["status"] == "done"]
    by = ["model", "participation", "budget", *(name for name in (MOST,) if name in done)]
    grouped = done.groupby(by, dropna=False, sort=False)["success"]
    return grouped.agg(rate=lambda values: float(values.mean()), cells="size").reset_index()


@dataclass(frozen=True)
class Study(ShownAsText):
    """A study in its file; it may still be running, here or in another process.

    Attributes:
        path: the file.
    """

    path: Path

    @classmethod
    @with_near_names
    def open(cls, store: FilePath) -> Study:
        """Return the study in a file, without its problem; raise for a file without a study."""
        with Store(store):
            return cls(Path(store).absolute())

    def table(self, timing: bool = False) -> pandas.DataFrame:
        """Return a row for each cell, by model, query, participation, budget, seed and `most`, if cells have that.

        `success`, `loss` and all findings about a plan are the audit's; `gap`, `bound`, `exact` and `passes` are the
        solver's. Failed cells have an `error`. With `timing` there are `seconds` too, which differ between runs.
        """
        import pandas

        with Store(self.path) as store:
            rows, meta = store.rows(), store.meta()
        places = {part: {name: at for at, name in enumerate(meta.get(part, ()))} for part in ("models", "queries")}
        if any(row["model"] not in places["models"] or row["query"] not in places["queries"] for row in rows):
            raise StorageError(
                f"store: must be a study's file, got {self.path}, which is damaged: it has cells of models or queries "
                "that it does not name; restore a copy of it, or name another."
            )

        def place(row: dict[str, Any]) -> tuple:
            numbers = [(row[name] is not None, row[name] or 0) for name in ("participation", "budget", "seed", MOST)]
            return places["models"][row["model"]], places["queries"][row["query"]], *numbers

        rows.sort(key=place)
        names = list(rows[0]) if rows else [*AXES, "status"]
        if any(row[MOST] is not None for row in rows):
            names.insert(len(AXES), names.pop(names.index(MOST)))
        else:
            names = [name for name in names if name != MOST]
        frame = pandas.DataFrame({name: [row[name] for row in rows] for name in names}, columns=names)
        kinds = dict.fromkeys(("seed", MOST, *COUNTS), "Int64") | dict.fromkeys(FLAGS, "boolean")
        kinds |= dict.fromkeys(TEXTS, "string")
        numbers = dict.fromkeys([name for name in names if name not in kinds], "float64")
        frame = frame.astype({name: kind for name, kind in (kinds | numbers).items() if name in names})
        frame.insert(2, "goal", frame["query"].map(meta.get("goals", {})).astype("string"))
        return frame if timing else frame.drop(columns="seconds")

    @property
    def factors(self) -> bool:
        """Whether budgets are factors on individual budgets."""
        with Store(self.path) as store:
            return bool(store.meta().get("factors"))

    def success_rate(self) -> pandas.DataFrame:
        """Return how often the goal is reached, over queries and seeds, by model, participation, budget and `most`.

        `rate` is the rate among finished cells; `cells` is their number.
        """
        return rates_of(self.table())

    @with_near_names
    def to_parquet(self, path: FilePath, timing: bool = False) -> None:
        """Write the table as Parquet; the file is whole or not there."""
        _check_ending(path, "to_parquet", ".csv")
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise OptionError(
                "to_parquet: needs pyarrow; pip install 'oar-recourse[parquet]', or use to_csv."
            ) from None
        table = self.table(timing)
        with replace_atomically(Path(path)) as file:
            table.to_parquet(file, index=False)

    @with_near_names
    def to_csv(self, path: FilePath, timing: bool = False) -> None:
        """Write the table as CSV, numbers to the last bit; the file is whole or not there.

        An apostrophe precedes any text that a spreadsheet would take for a formula.
        """
        _check_ending(path, "to_csv", ".parquet")
        text = harmless_csv(self.table(timing), JSON)
        write_text(path, text)

    def plot(self) -> Figure:
        """Return the phase diagram: budget × participation → how often the goal is reached; a panel for each model.

        Where only the numbers of labels or leavers differ (`most`), these take the place of budgets.
        """
        from oar.studies.phase_diagram import draw

        return draw(self)

    @with_near_names
    def figure(self, path: FilePath) -> None:
        """Write the phase diagram to a .png, .svg or .pdf file."""
        kind = choose("path", Path(path).suffix.lower(), FORMATS)[1:]
        figure = self.plot()
        with replace_atomically(Path(path)) as file:
            figure.savefig(file, format=kind, dpi=160)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of cells that are pending, running, done and failed."""
        with Store(self.path) as store:
            found = list(store.states().values())
        return {name: found.count(name) for name in ("pending", "running", "done", "failed")}

    def __str__(self) -> str:
        try:
            counts = self.counts
        except StorageError as gone:
            return f"Study({self.path.name}: {gone})"
        said = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "no cells"
        return f"Study({self.path.name}: {said})"

    __repr__ = __str__


def _check_ending(path: Any, method: str, other: str) -> None:
    if Path(path).suffix.lower() == other:
        raise OptionError(f"{method}: must be a file of its own kind, got {str(path)!r}; use the method for {other}.")
