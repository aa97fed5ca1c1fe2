"""People in parts for tests: blobs in Parquet files, a question about them, and the moves that were written."""

import numpy as np
import pyarrow
import pyarrow.parquet as parquet

import oar


def blobs(size, classes=3, dimensions=3, seed=0):
    """Return features, labels, and somebody between the first two classes."""
    rng = np.random.default_rng(seed)
    centres = 0.9 * rng.standard_normal((classes, dimensions))
    labels = rng.integers(0, classes, size)
    return centres[labels] + rng.standard_normal((size, dimensions)), labels, 0.25 * centres[1] + 0.75 * centres[0]


def table_of(features, labels, **others):
    """Return columns x0, x1, …, label, and others."""
    columns = {f"x{place}": features[:, place] for place in range(features.shape[1])}
    return pyarrow.table({**columns, "label": labels, **others})


def folder_of(path, tables, rows=None):
    """Write tables as the files 00.parquet, 01.parquet, … of a new folder."""
    path.mkdir(parents=True)
    for number, table in enumerate(tables):
        parquet.write_table(table, path / f"{number:02d}.parquet", row_group_size=rows)
    return path


def halves(path, features, labels, rows=None, **others):
    """Write two files of the same people."""
    table, half = table_of(features, labels, **others), len(labels) // 2
    return folder_of(path, [table.slice(0, half), table.slice(half)], rows)


def asked(people, model, query, goal=1, budget=0.3):
    """Return a problem; a goal for values is within 0.1."""
    wanted = oar.Query(query, goal, within=0.1) if model.name == "ridge" else oar.Query(query, goal)
    return oar.Problem(people, model, wanted, oar.Perturb(budget))


def moves_in(folder):
    """Return everyone's moves (n, d) that were written to a folder; positions must be in order."""
    table = parquet.read_table(folder)
    position = table.column("position").to_numpy()
    np.testing.assert_array_equal(position, np.arange(len(position)))
    return np.column_stack([table.column(name).to_numpy() for name in table.column_names if name != "position"])
