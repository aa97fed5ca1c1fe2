"""The protocol of defences, which may change data before training, the model and the calendar; and a defended refit.

A defence is an immutable set of settings with three methods. It is deterministic given `rng`, so a defended refit is a
function like any refit, and can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oar.checks import is_listing, with_near_names
from oar.errors import OptionError
from oar.models.training import Array
from oar.people import Population
from oar.typing import DefenceLike

Mask = NDArray[np.bool_]
SEED = 0  # of a defended refit


@dataclass(frozen=True, eq=False)
class Prepared:
    """The people on whom the operator trains.

    Attributes:
        people: those who are kept, in their order, with their new weights.
        kept: (n,) which contributors are kept.
        pull_back: the map from dL/dw' (m,), for the m kept people's new weights, to dL/dx (m, d), for their features;
            None where weights do not depend on features.
    """

    people: Population
    kept: Mask
    pull_back: Callable[[Array], Array] | None = None


class Defence:
    """Base class of defences; by itself, each of its methods does nothing."""

    name: ClassVar[str] = "none"

    def prepared(self, people: Population, model: Any, parameters: Any, rng: np.random.Generator) -> Prepared:
        """Return whose data are trained on.

        A defence never empties a class that had somebody of positive weight.

        Args:
            people: the contributors.
            model: the model to be trained, as `model_for` returned it.
            parameters: the deployed parameters, as `model.fit` returns them; None before any fit.
            rng: the source of random draws.
        """
        return Prepared(people, np.ones(people.size, dtype=bool))

    def model_for(self, model: Any) -> Any:
        """Return the model to train in this model's place; raise an OptionError if the defence does not apply to it."""
        return model

    def retrains(self, number: int, rng: np.random.Generator) -> bool:
        """Return whether there is a refit in round `number` (0, 1, …)."""
        return True


@with_near_names
@dataclass(frozen=True, init=False)
class Together(Defence):
    """Several defences, one after the other: each is applied to the output of the one before it.

    There is a refit in a round only if all of them say so.

    >>> len(Together(Defence(), [Defence(), Defence()]).parts)
    3
    """

    parts: tuple[Defence, ...]
    name: ClassVar[str] = "together"

    def __init__(self, *defences: Any) -> None:
        """Read defences, or lists of them."""
        object.__setattr__(self, "parts", tuple(part for given in defences for part in _parts(given)))

    def prepared(self, people: Population, model: Any, parameters: Any, rng: np.random.Generator) -> Prepared:
        """Return the data as all defences together prepare them, one after the other."""
        kept, stages = np.arange(people.size), []
        for part in self.parts:
            stage = part.prepared(people, model, parameters, rng)
            kept = kept[stage.kept]
            stages.append((people, stage))
            people = stage.people
        mask = np.zeros(stages[0][0].size if stages else people.size, dtype=bool)
        mask[kept] = True
        if all(stage.pull_back is None for _, stage in stages):
            return Prepared(people, mask)
        return Prepared(people, mask, lambda by_weight: _through(stages, by_weight)[mask])

    def model_for(self, model: Any) -> Any:
        """Return the model as all defences together replace it, one after the other."""
        for part in self.parts:
            model = part.model_for(model)
        return model

    def retrains(self, number: int, rng: np.random.Generator) -> bool:
        """Ask all defences, so that the draws of one do not depend on the answer of another."""
        return all([part.retrains(number, rng) for part in self.parts])


def as_defence(given: DefenceLike | None) -> Defence:
    """Read a defence, a list of them, or None for no defence."""
    parts = _parts(given)
    return parts[0] if len(parts) == 1 else Together(*parts)


def _parts(given: Any) -> tuple[Defence, ...]:
    match given:
        case None:
            return ()
        case Together():
            return given.parts
        case Defence():
            return (given,)
    if is_listing(given):
        return tuple(part for one in given for part in _parts(one))
    raise OptionError(
        "defence: must be one of oar.defences, such as oar.defences.TrimmedCentroids(0.1), or a list of them, got "
        f"{given!r}."
    )


def _through(stages: list[tuple[Population, Prepared]], by_weight: Array) -> Array:
    """Return dL/dx (n, d) of everybody from dL/dw of the last stage's weights, w_{k+1} = w_k · f_k(x).

    Backwards through a stage: dL/dx += dL/dw_{k+1} ∂w_{k+1}/∂x, then dL/dw_k = dL/dw_{k+1} f_k, and 0 for the dropped.
    """
    slopes = np.zeros((len(by_weight), stages[-1][1].people.dimensions))
    for people, stage in reversed(stages):
        if stage.pull_back is not None:
            slopes = slopes + stage.pull_back(by_weight)
        before, after = people.row_weights[stage.kept], stage.people.row_weights
        factors = np.divide(after, before, out=np.zeros_like(after), where=before > 0)
        wide, longer = np.zeros((people.size, slopes.shape[1])), np.zeros(people.size)
        wide[stage.kept], longer[stage.kept] = slopes, by_weight * factors
        slopes, by_weight = wide, longer
    return slopes


@dataclass(frozen=True, eq=False)
class DefendedRefit:
    """The refit of a defended operator to the contributors."""

    model: Any  # the model that is trained
    prepared: Prepared  # the people on whom it is trained, and their weights
    everyone: Population  # all contributors, in their places; people who are left out have weight 0

    def fit(self) -> Any:
        """Return the model's parameters."""
        return self.model.fit(self.prepared.people)


def defended_refit(people: Population, model: Any, defence: Defence, deployed: Any = None) -> DefendedRefit:
    """Return a defended refit on contributors; `deployed` are earlier parameters, None for those of a fit to them."""
    defended = defence.model_for(model)
    if deployed is None and any(type(part).prepared is not Defence.prepared for part in _parts(defence)):
        deployed = defended.fit(people)
    prepared = defence.prepared(people, defended, deployed, np.random.default_rng(SEED))
    if prepared.people is people:
        return DefendedRefit(defended, prepared, people)
    weights = np.zeros(people.size)
    weights[prepared.kept] = prepared.people.row_weights
    return DefendedRefit(defended, prepared, reweighed(people, defended, weights))


def reweighed(people: Population, model: Any, weights: Array) -> Population:
    """Return the same people with other weights."""
    regresses = getattr(model, "regresses", False)
    return people.contributing(weights, people.target_rows(regresses), regresses)
