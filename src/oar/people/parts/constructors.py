"""How people who stay on disk, or in a cluster, are named: nothing is read here but what their columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from oar.checks import with_near_names
from oar.typing import Client, FilePath, Label

if TYPE_CHECKING:
    from oar.people.parts.population import StreamedPopulation


class PopulationInParts:
    """The constructors of `oar.Population` whose people are read in parts."""

    @classmethod
    def from_parquet(
        cls,
        path: FilePath,
        target: str,
        *,
        features: Sequence[str] | None = None,
        weights: str | None = None,
        classes: Sequence[Label] | None = None,
        engine: str = "local",
        client: Client | None = None,
    ) -> StreamedPopulation:
        """Return people in Parquet files, which are read in parts: as many people as the disk holds.

        `oar.Population.read` reads a file into memory, with words and categories; here every feature is a number.

        Args:
            path: a file, or a folder of them with the same columns.
            target: the column of labels, or of values to be regressed.
            features: the columns that are features; None means all others.
            weights: a column of training weights; None means 1 for everybody.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
            engine: "local" (all cores of this machine) or "dask".
            client: the `dask.distributed.Client` that does the work; None with engine="dask" means a local cluster.
        """
        from oar.people.parts.dask_engine import chosen_engine
        from oar.people.parts.parquet import parquet_parts
        from oar.people.parts.population import StreamedPopulation

        doer = chosen_engine(engine, client)
        parts, columns = parquet_parts(path, target, features, weights)
        people = StreamedPopulation(
            parts, len(columns.features), columns.features, target, weights is not None, doer, str(path)
        )
        return people.knowing(classes)

    @classmethod
    @with_near_names
    def from_memmap(
        cls,
        features: FilePath | ArrayLike,
        labels: FilePath | ArrayLike,
        weights: FilePath | ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        classes: Sequence[Label] | None = None,
    ) -> StreamedPopulation:
        """Return people in arrays on disk, which are read in parts.

        Args:
            features: (n, d) numbers: a `.npy` file's path, a `numpy.memmap`, or any array that can be sliced.
            labels: n labels, likewise.
            weights: n training weights, likewise; None means 1 for everybody.
            names: the features' names, or None.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
        """
        from oar.people.parts.arrays import in_arrays

        people = in_arrays(features, labels, weights, names)
        return people.knowing(classes)

    @classmethod
    @with_near_names
    def from_dask(
        cls,
        features: Any,
        labels: Any,
        weights: Any = None,
        *,
        client: Client | None = None,
        classes: Sequence[Label] | None = None,
    ) -> StreamedPopulation:
        """Return people in a Dask cluster, which reads and processes them partition by partition.

        Args:
            features: a Dask array (n, d) or a Dask DataFrame of numbers.
            labels: a Dask array or Series of n labels, in partitions that match; of a DataFrame, or a column's name.
            weights: training weights, likewise; None means 1 for everybody.
            client: the `dask.distributed.Client` that does the work; None means the current one, or a local cluster.
            classes: the labels that occur, if they are known; otherwise the data are searched for them.
        """
        from oar.people.parts.dask import dask_people

        people = dask_people(features, labels, weights, client)
        return people.knowing(classes)
