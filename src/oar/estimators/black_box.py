"""A model that can only be trained and asked, with every call counted.

Nothing is assumed of it: it may be a scikit-learn estimator, gradient-boosted trees, an object of the user's own with
`fit` and `predict`, or a function that trains somewhere else and returns a function that predicts. It is trained on
copies, so that what it does to its inputs does us no harm; if it does anything, `notes` say so.
"""

from __future__ import annotations

import copy
import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from oar.checks import check_flag, check_seed, choose, is_number, is_whole, with_near_names
from oar.errors import DataError, EstimatorError, OptionError
from oar.estimators.rows import EstimatorData, RowConversion, last_step, seed_names, takes, unfitted, weight_argument
from oar.estimators.twin import Array
from oar.models.protocol import Capabilities, asked_of_rows, class_code
from oar.people import Population
from oar.people.wording import counted
from oar.progress import check_interrupted
from oar.typing import Estimator

LARGEST = 2**31 - 1  # the largest seed that every library takes
LEAST = 1e-6  # probabilities are not told apart below this: forests say 0 where they mean "few"
LOOKED_AT = 2  # trainings, and questions, whose inputs are compared with what they were
CHANGES = "It changes the data that it is given, in place; it was given copies, so that nothing of yours changed."
IDLE = "Training was found not to be random on these people, so that {} of its BlackBox did nothing."
NO_PROBABILITIES = (
    "It has no predict_proba, so the goal loss is a label distance: how far from the query the nearest place is, in "
    "standard deviations of the features, to which it gives the goal."
)


@dataclass
class Calls:
    """The numbers of calls of a black box.

    Attributes:
        fits: trainings that were begun. failures: those that raised.
        predictions: questions, of however many people. rows: people asked about in all of them.
        seconds: time inside its own training. longest: that of the longest one.
    """

    fits: int = 0
    failures: int = 0
    predictions: int = 0
    rows: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def since(self, before: Calls) -> Calls:
        """Return what was called since `before`, a `copy` of these counts at that time."""
        fewer = {name: value - getattr(before, name) for name, value in vars(self).items()}
        return Calls(**fewer | {"longest": self.longest})

    def __add__(self, other: Calls) -> Calls:
        """Return what was called in two parts."""
        both = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Calls(**both | {"longest": max(self.longest, other.longest)})

    def copy(self) -> Calls:
        """Return these counts as they are now."""
        return Calls(**vars(self))

    def __str__(self) -> str:
        failed = f" ({self.failures:,} failed)" if self.failures else ""
        asked = counted(self.predictions, "question", "questions")
        return f"{counted(self.fits, 'training', 'trainings')}{failed}, {asked} about {self.rows:,} rows"


@dataclass(frozen=True)
class Rate:
    """A share of refits, with Wilson's interval for the share of all refits that could be.

    >>> Rate(18, 20)
    Rate(18 of 20 refits, 90 %; 70–97 % with confidence 0.95)
    """

    successes: int
    refits: int
    confidence: float = 0.95

    @property
    def share(self) -> float:
        """The share of these refits."""
        return self.successes / self.refits

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval: those p for which so many successes are within z standard deviations of n p."""
        from scipy.special import ndtri

        z, n = float(ndtri(0.5 + self.confidence / 2)), self.refits
        middle = (self.share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * (self.share * (1 - self.share) / n + z**2 / (4 * n**2)) ** 0.5
        return max(0.0, middle - half), min(1.0, middle + half)

    def __repr__(self) -> str:
        low, high = (f"{100 * end:.0f}" for end in self.interval)
        shown = f"{self.successes} of {self.refits} refits, {100 * self.share:.0f} %"
        return f"Rate({shown}; {low}–{high} % with confidence {self.confidence:g})"


@dataclass(frozen=True, eq=False)
class BoxOutputs:
    """Outputs of a black box for m people: log-probabilities (m, k), or values (m, o); for labels alone, codes (m,)."""

    outputs: NDArray[Any]
    labels_alone: bool = False


@with_near_names
class BlackBox(Capabilities):
    """A black box: anything with `fit` and `predict_proba` or `predict`, or a training function. Calls are counted.

    A function is called as `train(features, labels)`, with `sample_weight=` and `seed=` too where it has such
    arguments; it returns an object with `predict_proba` or `predict`, or a function from features (m, d) to
    probabilities (m, k), in the order of `people.classes`, or to labels or values (m,).

    Where training is random, a single refit is not conclusive. Audits refit `refits` times with seeds other than those
    of planning, and report a success if the share of refits that reach the goal is, by Wilson's interval, at least
    `at_least`. Every `random_state` is set to such a seed unless `randomised` is False: then the estimator is trained
    as it is.

    The prediction is that of its own `predict`, where it has one; probabilities give the goal loss.

    Args:
        estimator: the estimator; it is cloned or copied, and never fitted itself.
        sees: for people with a schema: "table", the original columns; or "coordinates", an array of numbers.
            "auto" is the table for pipelines and functions, and coordinates for everything else.
        labels: "given", the original labels, or "codes", 0, 1, … in the order of `people.classes`. "auto" is codes for
            XGBoost, which accepts no others.
        regresses: whether it predicts values; None to ask scikit-learn's `is_regressor`.
        randomised: whether training is random; None to determine this for each Population by training up to three
            times.
        refits: the number of refits in an audit of random training.
        at_least: the share of refits that must reach the goal.
        confidence: of the interval for that share.
        seed: the seed from which all seeds are drawn.
        name: its name in results; None for the estimator's own name.

    Attributes:
        calls: the numbers of trainings and predictions.
        notes: observations: ignored seeds, changed inputs, missing probabilities.
    """

    smooth = False
    scales_itself = True
    only_asked = True

    def __init__(
        self,
        estimator: Estimator | Callable[..., Any],
        *,
        sees: str = "auto",
        labels: str = "auto",
        regresses: bool | None = None,
        randomised: bool | None = None,
        refits: int = 20,
        at_least: float = 0.5,
        confidence: float = 0.95,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        self.estimator: Any = estimator
        self._function = not callable(getattr(estimator, "fit", None))
        wanted = "estimator: must be an object with fit, or a function that trains, got"
        if isinstance(estimator, type):
            raise DataError(f"{wanted} the class {estimator.__name__}; make one, with (…).")
        if self._function and not callable(estimator):
            raise DataError(f"{wanted} {type(estimator).__name__}.")
        if not self._function and not any(callable(getattr(estimator, way, None)) for way in WAYS):
            raise DataError(
                f"estimator: must have predict_proba or predict beside fit, got a {type(estimator).__name__} with "
                "neither; wrap it in an object that has one."
            )
        self.sees = choose("sees", sees, ("auto", "table", "coordinates"))
        self.labels = choose("labels", labels, ("auto", "given", "codes"))
        for argument, flag in (("regresses", regresses), ("randomised", randomised)):
            if flag is not None:
                check_flag(argument, flag)
        if not is_whole(refits) or refits < 2:
            raise DataError(f"refits: must be a whole number of at least 2, got {refits!r}.")
        for argument, share in (("at_least", at_least), ("confidence", confidence)):
            if not is_number(share) or not 0 < share < 1:
                raise DataError(f"{argument}: must be a number between 0 and 1, got {share!r}.")
        check_seed(seed)
        self.regresses = self._predicts_values() if regresses is None else bool(regresses)
        most = Rate(int(refits), int(refits), float(confidence)).interval[0]
        if most < at_least:
            raise OptionError(
                f"refits: must be enough to be sure of a share of at_least={at_least:g}, got {refits}: even all of "
                f"these show {most:.3g} at most, with confidence {confidence:g}; allow more refits, or a smaller share."
            )
        settings = {"refits": refits, "at_least": at_least, "confidence": confidence}
        settings |= {} if self._function else {"seed": seed}  # a function is handed one, random or not
        usual = inspect.signature(BlackBox).parameters
        self._of_random = [name for name, value in settings.items() if value != usual[name].default]
        check_not_idle(self._of_random, randomised is False)
        self.randomised, self.refits, self.at_least = randomised, int(refits), float(at_least)
        self.confidence, self.seed = float(confidence), int(seed)
        self._found_random: WeakKeyDictionary[Population, bool] = WeakKeyDictionary()
        kind = getattr(estimator, "__name__", None) if self._function else type(estimator).__name__
        self.name = name or f"black box {kind or type(estimator).__name__}"
        self.calls, self._notes = Calls(), dict[str, None]()

    def __repr__(self) -> str:
        return f"BlackBox({self.estimator!r})"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed, in sentences."""
        return tuple(self._notes)

    def note(self, sentence: str) -> None:
        """Keep something that was noticed; once."""
        self._notes[sentence] = None

    def is_random(self, people: Population) -> bool | None:
        """Report whether training on these people is random, as declared or as found by trying; None if unknown."""
        return self._found_random.get(people) if self.randomised is None else self.randomised

    def found_random(self, people: Population, found: bool) -> None:
        """Store whether training was found to be random; this may differ for other people."""
        self._found_random[people] = found
        if not found and self._of_random:
            self.note(IDLE.format(" and ".join(self._of_random)))

    def _predicts_values(self) -> bool:
        if self._function or not hasattr(self.estimator, "__sklearn_tags__"):
            return getattr(self.estimator, "_estimator_type", None) == "regressor"
        from sklearn.base import is_regressor

        return bool(is_regressor(self.estimator))

    # -- what problems ask of every model ----------------------------------------------------------------------------

    def check(self, people: Population) -> None:
        """Raise where it cannot be trained on these people."""
        if self.regresses:
            people.value_rows()
        else:
            people.check_class_weights()
            if len(people.classes) < 2:
                raise DataError(f"labels: {self.name} needs at least two classes, got only {people.classes[0]!r}.")
        if people.weights is not None:
            self._weight_argument(people.weights)

    def target_rows(self, targets: Any) -> Any:
        """Return class shares, or values, as they are."""
        return targets

    def goal_target(self, people: Population, goal: Any) -> Array:
        """Return the value (o,) that is wanted."""
        width = people.value_rows().shape[1]
        try:
            value = np.atleast_1d(np.asarray(goal, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            value = np.empty(0)
        if value.shape != (width,) or not np.isfinite(value).all():
            raise DataError(f"goal: must be {width} finite number(s) for {self.name}, got {goal!r}.")
        return value

    # -- what every model answers (`oar.models.protocol.Model`); what is learned is a box that can be asked ------------

    def training(self, people: Population) -> Any:
        """Refuse: there is nothing to differentiate."""
        raise OptionError(
            f"model: must be one that can be differentiated here, got {self.name}, which can only be trained "
            "and asked; oar.collective plans for it, and for this use a model of oar.models."
        )

    @with_near_names
    def fit(self, people: Population) -> Box:
        """Train it once, with its own seed, on people as they are."""
        self.check(people)
        return self.train(people, np.asarray(people.features, dtype=np.float64), self.seed)

    @asked_of_rows
    def probabilities(self, parameters: Box, features: Any) -> Array:
        """Return class probabilities (..., k), none of them below 1e-6."""

        def asked(rows: Array) -> Array:
            said = parameters.says(rows)
            if self.regresses or said.labels_alone:
                raise OptionError(f"model: {self.name} gives no probabilities; use predict.")
            return np.exp(said.outputs)

        return _row_by_row(asked, features)

    @asked_of_rows
    def predict(self, parameters: Box, features: Any) -> NDArray[Any]:
        """Return class codes (...), or values (..., o), by its own `predict` where it has one."""
        return _row_by_row(parameters.predictions, features)

    @asked_of_rows
    def goal_loss(self, parameters: Box, features: Any, goal: Any) -> Array:
        """Return −log p(goal | x) (...), or half the squared distance from a value (o,)."""
        if self.regresses:
            return 0.5 * ((self.predict(parameters, features) - np.asarray(goal, dtype=np.float64)) ** 2).sum(axis=-1)
        found = self.probabilities(parameters, features)
        return -np.log(found[..., class_code(goal, found.shape[-1])])

    # -- calls -------------------------------------------------------------------------------------------------------

    @property
    def seedable(self) -> bool:
        """Whether there is a seed to be set."""
        return takes(self.estimator, "seed") if self._function else bool(seed_names(self.estimator))

    def handing(self, people: Population) -> RowConversion:
        """Return how people are passed to it."""
        table = self.sees == "table" or (self.sees == "auto" and (self._function or hasattr(self.estimator, "steps")))
        known = type(last_step(self.estimator)).__module__.split(".")[0]
        codes = self.labels == "codes" or (self.labels == "auto" and known == "xgboost")
        return RowConversion(people, table=table, codes=codes and not self.regresses, regresses=self.regresses)

    def train(self, people: Population, features: Array, seed: int) -> Box:
        """Train it once on people with these features (n, d), their labels and weights; counted.

        Raises:
            EstimatorError: where its own training raises.
        """
        handing = self.handing(people)
        handed = handing.handed(people, features)
        before = copy.deepcopy(handed) if self.calls.fits < LOOKED_AT else handed
        self.calls.fits += 1
        began = time.perf_counter()
        check_interrupted()
        try:
            fitted = self._trained(handed, seed)
        except Exception as reason:
            check_interrupted()  # which may be what made it fail
            self.calls.failures += 1
            raise EstimatorError(
                f"estimator: training {self.name} failed at training number {self.calls.fits}, with "
                f"{type(reason).__name__}: {reason}"
            ) from reason
        finally:
            took = time.perf_counter() - began
            self.calls.seconds += took
            self.calls.longest = max(self.calls.longest, took)
        if before is not handed and not all(map(_same, before, handed)):
            self.note(CHANGES)
        return Box(self, fitted, handing)

    def _trained(self, handed: EstimatorData, seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it has to say is between it and its owner
            weights = {} if handed.weights is None else self._weight_argument(handed.weights)
            if self._function:
                seeds = {"seed": seed} if self.seedable else {}
                return self.estimator(handed.rows, handed.labels, **weights, **seeds)
            clonable = callable(getattr(self.estimator, "get_params", None))
            fresh = unfitted(self.estimator) if clonable else copy.deepcopy(self.estimator)
            names = seed_names(fresh)
            if names and self.randomised is not False:
                fresh.set_params(**dict.fromkeys(names, seed))
            found = fresh.fit(handed.rows, handed.labels, **weights)
            return fresh if found is None else found

    def _weight_argument(self, weights: Array) -> dict[str, Any]:
        if not self._function and hasattr(self.estimator, "steps"):
            return weight_argument(self.estimator, weights)
        if not takes(self.estimator if self._function else self.estimator.fit, "sample_weight"):
            raise OptionError(
                f"weights: {self.name} cannot be trained with weights (it has no argument sample_weight), and people "
                "have some; leave them out of the Population."
            )
        return {"sample_weight": weights}


def check_not_idle(settings: list[str], never_random: bool) -> None:
    """Refuse settings of random training where it is said not to be random."""
    if never_random and settings:
        raise OptionError(
            f"{settings[0]}: is of random training, which randomised=False says this is not; leave it out."
        )


WAYS = ("predict_proba", "predict")


class Box:
    """A black box after one training: it can be asked about people, and every question counts."""

    def __init__(self, black_box: BlackBox, fitted: Any, handing: RowConversion) -> None:
        self.black_box, self.fitted, self._handing = black_box, fitted, handing
        ways = [way for way in (*WAYS, "__call__") if callable(getattr(fitted, way, None))]
        if not ways:
            raise EstimatorError(
                f"estimator: training {black_box.name} must give something with predict_proba or predict, or a "
                f"function, got {type(fitted).__name__}."
            )
        self._way = "predict" if black_box.regresses and ways[0] in WAYS else ways[0]

    def says(self, features: Array) -> BoxOutputs:
        """Ask about people (m, d): for probabilities where it has them, else for labels; or for values."""
        return self._read(self._asked(self._way, features))

    def _asked(self, way: str, features: Array) -> NDArray[Any]:
        box, rows = self.black_box, self._handing.rows(features)
        before = copy.deepcopy(rows) if box.calls.predictions < LOOKED_AT else rows
        box.calls.predictions += 1
        box.calls.rows += len(features)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = np.asarray(getattr(self.fitted, way)(rows))
        except Exception as reason:
            raise EstimatorError(
                f"estimator: asking {box.name} failed, with {type(reason).__name__}: {reason}"
            ) from reason
        if before is not rows and not _same(before, rows):
            box.note(CHANGES)
        if told.shape[:1] != (len(features),):
            raise EstimatorError(
                f"estimator: {box.name} must answer for each of {len(features)} people, got an array of {told.shape}."
            )
        return told

    @property
    def decides(self) -> bool:
        """Whether it has a `predict` of its own beside probabilities, which need not be for the most probable class."""
        return self._way == "predict_proba" and callable(getattr(self.fitted, "predict", None))

    def predictions(self, features: Array) -> NDArray[Any]:
        """Return class codes (m,), or values (m, o), of people (m, d), by its own `predict` where it has one."""
        if self.decides:
            return self._codes(self._asked("predict", features))
        said = self.says(features)
        direct = said.labels_alone or self.black_box.regresses
        return said.outputs if direct else said.outputs.argmax(axis=1)

    def _read(self, told: NDArray[Any]) -> BoxOutputs:
        if self.black_box.regresses:
            values = told.reshape(len(told), -1).astype(np.float64)
            if not np.isfinite(values).all():
                raise EstimatorError(f"estimator: {self.black_box.name} must predict finite numbers, got others.")
            return BoxOutputs(values)
        if told.ndim == 2 and (told.shape[1] > 1 or self._way == "predict_proba"):
            return BoxOutputs(self._log_probabilities(told))
        self.black_box.note(NO_PROBABILITIES)
        return BoxOutputs(self._codes(told), labels_alone=True)

    def _codes(self, told: NDArray[Any]) -> NDArray[np.intp]:
        """Return labels (m,) as codes."""
        kinds, where = np.unique(told.reshape(len(told)), return_inverse=True)
        return self._class_places(kinds.tolist())[where]

    def _class_places(self, classes: Any) -> NDArray[np.intp]:
        try:
            return self._handing.class_places(classes)
        except DataError as reason:
            raise EstimatorError(str(reason)) from reason

    def _log_probabilities(self, told: NDArray[Any]) -> Array:
        people, shares = self._handing.people, np.asarray(told, dtype=np.float64)
        if not np.isfinite(shares).all() or (shares < 0).any() or not (shares.sum(axis=1) > 0).all():
            raise EstimatorError(
                f"estimator: probabilities of {self.black_box.name} must be finite and not negative, got others."
            )
        found, places = np.zeros((len(shares), len(people.classes))), np.arange(len(people.classes))
        if getattr(self.fitted, "classes_", None) is not None:
            places = self._class_places(self.fitted.classes_)
        if places.size != shares.shape[1]:
            raise EstimatorError(
                f"estimator: {self.black_box.name} must give a probability for each of {places.size} classes, got "
                f"{shares.shape[1]}."
            )
        found[:, places] = shares / shares.sum(axis=1, keepdims=True)
        return np.log(np.maximum(found, LEAST))


def _row_by_row(ask: Callable[[Array], NDArray[Any]], features: Any) -> NDArray[Any]:
    """Return what is said of people (..., d) by who is asked about rows (m, d)."""
    rows = np.asarray(features, dtype=np.float64)
    found = ask(rows.reshape(-1, rows.shape[-1]))
    return found.reshape((*rows.shape[:-1], *found.shape[1:]))


def _same(before: Any, after: Any) -> bool:
    """Report whether what was handed over is still as it was."""
    if hasattr(before, "equals"):
        return bool(before.equals(after))
    return np.shape(before) == np.shape(after) and bool(np.all(before == after))


def drawn_seed(*path: int) -> int:
    """Return one seed for a place in our own order of draws, the same for the same path."""
    return int(np.random.SeedSequence(path).generate_state(1)[0] % LARGEST)
