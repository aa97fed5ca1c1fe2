"""One exception type for one mistake, everywhere in the library."""

import ast
import builtins
import re
from pathlib import Path

import pytest

import oar

SOURCE = Path(oar.__file__).parent
NUMBER = r"(an? )?(finite |whole |positive )?(number|share|probability)\b"
WRONG_BY_ITSELF = re.compile(rf": must be ({NUMBER}|True or False|finite|a function|a mapping|a list|a tuple|text\b)")
NOT_INSTALLED = re.compile(r"not installed")


def text_of(node: ast.expr) -> str:
    """Return the text of a message, with what is filled in left out."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    return "" if not isinstance(node, ast.BinOp) else text_of(node.left) + text_of(node.right)


@pytest.fixture(scope="module")
def raised() -> list[tuple[str, str, str]]:
    """Return (place, exception, message) of everything that is raised by name, the command's own words left out."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                place = f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}"
                found.append((place, ast.unparse(node.exc.func), text_of(node.exc.args[0])))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check_that":
                place, (argument, wanted) = f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node.args[1:3]
                found.append((place, "DataError", f"{text_of(argument)}: must be {text_of(wanted)}"))
    return [one for one in found if not one[0].startswith("cli/")]


def test_a_value_that_is_wrong_by_itself_is_a_data_error(raised):
    found = [one for one in raised if one[1] in ("DataError", "OptionError") and WRONG_BY_ITSELF.search(one[2])]
    assert len(found) > 100
    assert [one for one in found if one[1] != "DataError"] == []


def test_a_package_that_is_not_installed_is_an_option_error(raised):
    found = [one for one in raised if NOT_INSTALLED.search(one[2])]
    assert len(found) >= 5
    assert [one for one in found if one[1] != "OptionError"] == []


def test_what_is_said_of_an_argument_is_said_by_an_error_of_ours(raised):
    found = [one for one in raised if re.search(r"^\w*: (must be|is for|needs) ", one[2])]
    assert len(found) > 300
    assert [one for one in found if hasattr(builtins, one[1])] == []


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: oar.Perturb(-1.0), "DataError"),
        (lambda: oar.SoftmaxRegression(l2=-1.0), "DataError"),
        (lambda: oar.solvers.ProjectedGradient(max_steps=0.5), "DataError"),
        (lambda: oar.signals.Neumann(terms=0), "DataError"),
        (lambda: oar.online.Window(0), "DataError"),
        (lambda: oar.defences.TrimmedCentroids(2.0), "DataError"),
        (lambda: oar.worlds.Replan(horizon=0), "DataError"),
        (lambda: oar.Limit(step=-1), "DataError"),
        (lambda: oar.Perturb(1.0, nrom=2), "OptionError"),
        (lambda: oar.Perturb(1.0, norm=3), "OptionError"),
        (lambda: oar.models.MLP(activation="reluu"), "OptionError"),
        (lambda: oar.defences.TrimmedCentroids(0.1, trim=1), "OptionError"),
    ],
)
def test_the_same_mistake_is_the_same_type_everywhere(wrong, kind):
    with pytest.raises(oar.errors.OARError) as told:
        wrong()
    assert type(told.value).__name__ == kind
