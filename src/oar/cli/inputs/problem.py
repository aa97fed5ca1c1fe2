"""A problem read from options, and the problem of a plan as private.json stores it, with the contents of its files."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oar.checks import choose, is_number
from oar.cli.inputs.file_dialects import FileDialect
from oar.cli.inputs.people import Layout, Source, read_people, word
from oar.errors import DataError, OptionError, StorageError
from oar.opening.fields import Fields
from oar.people.wording import nearest, shown

if TYPE_CHECKING:
    from oar.problem import Problem

MODELS = ("softmax", "nearest-centroid", "ridge", "svm", "naive-bayes", "mlp")
MOST_CLASSES = 50  # different numbers; a target of more is values rather than classes
NO_LIMITS = Path("none")
# What the example asks for where nothing else is said: the first person with a bad credit would like a good one.
EXAMPLE = {"query": "1", "goal": ["good"], "budget": 0.25}
PARTS: dict[str, Any] = {"layout": Layout, "written": FileDialect}
LEFT_OUT = ("data", "card_goal", "left_out_if_there")  # people are handed to the auditor by another way
READ: dict[str, Callable[[Fields, str], Any]] = {  # by how dataclasses say it
    "str": Fields.text,
    "bool": Fields.flag,
    "int": lambda content, name: content.whole(name, 0, 2**63 - 1),
    "float": Fields.number,
    "tuple[str, ...]": lambda content, name: tuple(content.texts(name)),
}


@dataclass(frozen=True)
class ProblemArguments:
    """The question asked on the command line; `source` and `problem` are made from it when they are needed."""

    data: Path | None
    layout: Layout
    example: str = ""
    query: str = ""
    goal: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    budget: float | None = None
    norm: str = ""
    model: str = "softmax"
    limits: Path | None = None
    participants: str = "everyone"
    seed: int = 0
    several: str = ""
    share: float | None = None
    move_too: bool = False
    probability: float | None = None
    within: float | None = None
    changed: float | None = None
    lost: float | None = None
    worse: float | None = None
    relabel: int | None = None
    withhold: int | None = None
    card_goal: Any = None  # of an audit, where it is a label or a number

    @cached_property
    def source(self) -> Source:
        """The people."""
        return read_people(self.data, self.example, self.layout)

    @cached_property
    def problem(self) -> Problem:
        """The problem, checked."""
        from oar.problem import Problem

        choose("model", self.model, MODELS)
        _check_classes(self.source.people, self.source.target, self.model)
        model = model_called(self.model, self.layout.plain, self.seed)
        return Problem(self.source.people, model, self.asking, self._action, keep=self.keep)

    @property
    def keep(self) -> Any:
        """The limits on side effects; None where none were given."""
        from oar.goals import Keep

        said = any(value is not None for value in (self.changed, self.lost, self.worse))
        return Keep(changed=self.changed, lost=self.lost, worse=self.worse) if said else None

    def but(self, **changes: Any) -> ProblemArguments:
        """Return the same question but for some of it; people are read once."""
        other = replace(self, **changes)
        other.__dict__["source"] = self.source
        return other

    @property
    def asking(self) -> Any:
        """The query: who asks, and for what."""
        from oar.goals import Members
        from oar.problem import Query

        places = self.source.places(self.asked_of)
        if self.move_too and not places:
            raise OptionError("--move-too: those who ask must be rows of DATA, got a file; leave it out.")
        # Members stay as they are, or are judged where their own moves take them.
        members = [self.source.people.index[place] for place in places]
        rows = Members(members, stay=not self.move_too) if places else self.source.rows(self.asked_of)
        given: dict[str, Any] = {name: getattr(self, name) for name in ("within", "several", "share", "probability")}
        return Query(rows, self._goal, **{name: value for name, value in given.items() if value not in (None, "")})

    @property
    def _goal(self) -> Any:
        if self.barred:
            from oar.goals import AnyBut

            if self.goal:
                raise OptionError("--not: is used in place of --goal, got both; leave one out.")
            if self.model == "ridge":
                raise OptionError(
                    "--not: is for classes, and ridge predicts values; use --goal with a range such as 10..20."
                )
            return AnyBut(*self._labels(self.barred, "not"))
        goals = self.goal or tuple(self._example_says("goal") or ())
        if not goals and self.card_goal is not None:
            return self.card_goal
        if not goals:
            raise OptionError("--goal: must be the prediction that is wanted, got none.")
        if self.model == "ridge":
            return _value_or_range(goals)
        found = self._labels(goals, "goal")
        return found[0] if len(found) == 1 else set(found)

    def _labels(self, words: tuple[str, ...], argument: str) -> list[Any]:
        """Return the target's values that read so."""
        classes = {word(label): label for label in self.source.people.classes}
        truths = {str(label).lower(): label for label in self.source.people.classes if isinstance(label, bool)}
        words = tuple(word(truths.get(each.lower(), each)) for each in words)
        for each in words:
            if each not in classes:
                known = ", ".join(map(shown, list(classes)[:20]))
                raise DataError(
                    f"{argument}: must be a value of {shown(self.source.target)}, one of {known}, got {each!r}."
                    f"{nearest(each, classes)}"
                )
        return [classes[each] for each in words]

    @property
    def _action(self) -> Any:
        from oar.actions import Perturb, Relabel, Withhold

        who = self.who_takes_part()
        parts: list[Any] = []
        budget = self.budget if self.budget is not None else self._example_says("budget")
        if budget is not None:
            limits = self.allowed
            norm = self.norm or ("2" if self.layout.plain else "1")
            choose("norm", norm, ("1", "2", "inf"))
            parts.append(Perturb(budget, norm=norm if norm == "inf" else int(norm), limits=limits, **who))
        elif idle := [name for name in ("norm", "limits") if getattr(self, name)]:
            raise OptionError(
                f"--{idle[0]}: is about moves, and nobody moves without --budget; leave it out, or add that."
            )
        levers: tuple[tuple[Any, int | None], ...] = (Relabel, self.relabel), (Withhold, self.withhold)
        parts += [lever(most=most, **who) for lever, most in levers if most is not None]
        if not parts:
            raise OptionError("--budget: must say how far members may go, got none; or use --relabel or --withhold.")
        return parts[0] if len(parts) == 1 else parts

    @property
    def allowed(self) -> Any:
        """The limits on columns: as observed, overridden by a file's columns; `none` lifts all."""
        from oar.actions.limits.limit import Limits

        if self.limits == NO_LIMITS:
            return None
        if self.limits is None and (self.layout.plain or self.source.limits is not None):
            return self.source.limits
        return self.limits if self.layout.plain else Limits.observed(self.source.people, self.limits)

    def who_takes_part(self) -> dict[str, Any]:
        """Return `participants` for an action; of them who asks stays as it is, unless it moves too."""
        from oar.actions.participation import Best, random_members

        text, size = self.participants, self.source.people.size
        if text == "everyone":
            return {}
        if text.startswith("best:"):
            number = _number((text.removeprefix("best:"),), "participants")
            if not number.is_integer() or number < 1:
                raise OptionError(f"participants: must be a whole number of members after best:, got {text!r}.")
            return {"participants": Best(int(number))}
        if text.endswith("%"):
            share = _number((text.removesuffix("%"),), "participants") / 100
            if not 0 < share <= 1:
                raise OptionError(f"participants: a share must be above 0 % and at most 100 %, got {text!r}.")
            return {"participants": self._others(random_members(size, share, self.seed))}
        column, equals, value = text.partition("=")
        if not equals:
            raise OptionError(
                f"participants: must be everyone, a share such as 20%, best:50 or COLUMN=VALUE, got {text!r}."
            )
        return {"participants": self._others(self.source.members(column, value))}

    def _others(self, mask: Any) -> Any:
        """Return a mask of members; raise where they are nobody but who asks."""
        others = mask.copy()
        others[[] if self.move_too else self.source.places(self.asked_of)] = False
        if not others.any():
            raise DataError(
                f"participants: {self.participants!r} is nobody but those who ask, who stay as they are; let others "
                "take part."
            )
        return mask

    @property
    def asked_of(self) -> str:
        """The people who ask: rows of DATA, or a file."""
        asked = self.query or self._example_says("query")
        if not asked:
            raise OptionError("--query: must be a row of DATA or a file, got none.")
        return asked

    def _example_says(self, name: str) -> Any:
        return EXAMPLE[name] if self.example else None


def model_called(name: str, plain: bool, seed: int) -> Any:
    """Return a model by its name on the command line: of a table behind a scaler, of plain numbers as they are."""
    from oar import models

    if name == "nearest-centroid":
        # Centroids of a table are in standardised columns, or one in dollars would outweigh all others.
        return models.NearestCentroid() if plain else models.Scaled(models.PrototypeNetwork())
    kinds: dict[str, Any] = {
        "softmax": models.SoftmaxRegression,
        "ridge": models.Ridge,
        "svm": models.LinearSVM,
        "naive-bayes": models.GaussianNaiveBayes,
    }
    model = models.MLP(seed=seed) if name == "mlp" else kinds[name]()
    return model if plain else models.Scaled(model)


def _check_classes(people: Any, target: str, model: str) -> None:
    """Refuse numbers that are no classes: a model of classes would have one for each of them, and never end."""
    numbers = [label for label in people.classes if is_number(label)]
    if model != "ridge" and len(numbers) > MOST_CLASSES:
        raise OptionError(
            f"--model: {model} takes every value for a class of its own, and column {shown(target)} has "
            f"{len(numbers):,} different numbers (more than {MOST_CLASSES}); predict values with --model ridge."
        )


def _value_or_range(goals: tuple[str, ...]) -> Any:
    """Return a number, or what lies between two of them: 10..20, with either end open."""
    from oar.goals import Between

    low, dots, high = goals[0].partition("..")
    if len(goals) > 1 or not dots:
        return _number(goals)
    least, most = (_number((end,)) if end else None for end in (low, high))
    if least is not None and most is not None and least > most:
        raise OptionError(f"goal: must be a range from the lower to the higher number, got {goals[0]!r}.")
    return Between(least, most)


def _number(texts: tuple[str, ...], argument: str = "goal") -> float:
    try:
        (text,) = texts
        number = float(text)
        if not math.isfinite(number):
            raise ValueError
    except ValueError:
        raise OptionError(f"{argument}: must be one number, got {' '.join(texts)!r}.") from None
    return number


def asked_to_json(asked: ProblemArguments) -> dict[str, Any]:
    """Return what was asked, and every file that says some of it."""
    query = asked.query
    found = _to_json(asked)
    if Path(query).suffix and os.path.isfile(query):
        found["query"] = _to_json(Path(query))
    return found


def _to_json(value: Any) -> Any:
    if value == NO_LIMITS:  # a word in place of a file
        return str(value)
    if isinstance(value, Path):
        return {"file": value.name, "content": base64.b64encode(value.read_bytes()).decode()}
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in LEFT_OUT}
        return {name: _to_json(each) for name, each in named.items() if each not in (None, (), "")}
    return list(value) if isinstance(value, tuple) else value


def asked_from_json(content: Any, data: Path | None, folder: Path) -> ProblemArguments:
    """Return what was asked, of the people in a file; files are written into a folder again."""
    try:
        return _from_json(ProblemArguments, Fields(content, "asked"), folder, data=data)
    except (DataError, OSError, ValueError) as error:  # no name of a file, no base 64
        raise StorageError(
            f"private.json: what was asked cannot be read ({error}); use the oar that wrote it, or audit plan.json "
            "with the options of the plan."
        ) from None


def _from_json(kind: Any, content: Fields, folder: Path, **given: Any) -> Any:
    known = {field.name: field.type.removesuffix(" | None") for field in fields(kind) if field.name not in LEFT_OUT}
    return kind(**{name: _read_value(content, name, known.get(name), folder) for name in content}, **given)


def _read_value(content: Fields, name: str, kind: str | None, folder: Path) -> Any:
    """Return what a field holds, which must be of the kind that a dataclass says."""
    if kind is None:
        raise DataError(f"field {name!r} is not known")
    if name in PARTS:
        return _from_json(PARTS[name], content.inner(name), folder)
    if kind in READ:
        if not (name == "query" and isinstance(content.any(name), dict)):
            return READ[kind](content, name)
    elif name == "limits" and content.any(name) == str(NO_LIMITS):
        return NO_LIMITS
    file = content.inner(name)
    path = folder / f"{name}-{Path(file.text('file')).name}"
    path.write_bytes(base64.b64decode(file.text("content"), validate=True))
    return str(path) if name == "query" else path
