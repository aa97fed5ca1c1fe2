"""A name that is too long for any file ends every command in one line that is about that name."""

import pytest
from support.commands import failed
from support.commands import people as applicants

import oar

pytestmark = pytest.mark.usefixtures("least_effort")

LONG = "9" * 300
ASKED = ("--target", "approved", "--goal", "yes", "--budget", "0", "--leave-out", "town")
STUDY = 'data = "{data}"\ntarget = "approved"\nquery = "{query}"\ngoal = "yes"\nbudget = 0.5\nlimits = "{limits}"\n'


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    applicants(40).to_csv("people.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", f"{LONG}.csv", "--query", "0", *ASKED, "--out", "out"),
        ("plan", "people.csv", "--query", f"{LONG}.csv", *ASKED, "--out", "out"),
        ("plan", "people.csv", "--query", "0", *ASKED, "--out", LONG),
        ("audit", LONG, "people.csv"),
        ("schema", f"{LONG}.csv"),
        ("study", LONG),
    ],
    ids=["data", "query", "out", "folder", "table", "store"],
)
def test_commands_say_which_name_it_is(table, arguments):
    told = failed(*arguments)
    assert LONG in told
    assert not told.startswith("oar: out: cannot write to") or arguments[-1] == LONG  # what cannot be read is not that
    assert [path.name for path in table.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("name", ["data", "query", "limits"])
def test_studies_too(table, name):
    told = {"data": "people.csv", "query": "3", "limits": "none"} | {name: f"{LONG}.csv"}
    (table / "study.toml").write_text(STUDY.format(**told))
    assert LONG in failed("study", "study.toml")


def test_parquet_files_and_moves(table):
    people = oar.Population([[0.0], [1.0]], [0, 1])
    problem = oar.Problem(people, oar.NearestCentroid(), oar.Query([0.0], 1), oar.Perturb(1.0))
    with pytest.raises(oar.errors.DataError, match="which is not there"):
        oar.Population.from_parquet(LONG, "kind")
    with pytest.raises(oar.errors.DataError, match="which is not there"):
        oar.audit(problem, moves=f"{LONG}.parquet")
