"""An operator who retrains until people's response to its model no longer changes it (Perdomo et al., 2020).

With D(θ) the data that people contribute once θ is deployed, a model is performatively stable if it is optimal for the
data that it causes: θ_PS = argmin_θ R(θ; D(θ_PS)). Within a round the operator repeatedly deploys, lets people respond,
and retrains:

    repeated risk minimisation     θ_{k+1} = argmin_θ R(θ; D(θ_k))
    repeated gradient descent      θ_{k+1} = θ_k − η ∇_θ R(θ_k; D(θ_k))

Where R is γ-strongly convex, its gradient β-Lipschitz in the data, and D ε-sensitive, the first is a contraction by
ε β/γ: it converges linearly where ε < γ/β. Otherwise it may cycle; then the last θ is deployed, and `state.memory`
reports this.

Perdomo, Zrnic, Mendler-Dünner and Hardt (2020), Performative prediction. ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oar.checks import check_number, check_whole, choose, with_near_names
from oar.errors import NumericsError, OptionError
from oar.online.bound_training import bind, flat_form, shares_units
from oar.people import Population
from oar.signals.backpropagation import sharpness
from oar.worlds.deployed.predictions import flat
from oar.worlds.protocol import Respond, State

MOST_STEPS = {"refit": 50, "gradient": 1_000}


@dataclass(frozen=True, eq=False)
class StableFit:
    """The course of a round's retraining.

    Attributes:
        moved: the distance of θ in each step.
        converged: whether θ stopped moving.
    """

    moved: tuple[float, ...]
    converged: bool

    @property
    def steps(self) -> int:
        """The number of responses and refits."""
        return len(self.moved)


@with_near_names
class PerformativelyStable:
    """An operator who retrains on the round's people as they respond to the new model, until nothing changes.

    It learns from the round's people alone, because the response of earlier people to the new model is unknown. The
    record of a round has their last response, from which the deployed model was learned: one move from their unmoved
    features.

    Args:
        model: the deployed model.
        method: "refit" (repeated risk minimisation) or "gradient" (repeated gradient descent).
        rate: η of "gradient"; None for 1 / ‖H‖ at the round's first step.
        tolerance: θ has stopped moving once a step is at most this share of 1 + ‖θ‖; for "gradient", once the norm of
            the gradient is at most this.
        most_steps: the largest number of steps in a round; None means 50, and 1,000 for "gradient".
        name: its name in messages.
    """

    def __init__(
        self,
        model: Any,
        method: str = "refit",
        rate: float | None = None,
        tolerance: float = 1e-6,
        most_steps: int | None = None,
        name: str = "performatively stable",
    ) -> None:
        self.method = choose("method", method, MOST_STEPS)
        if rate is not None:
            if method != "gradient":
                raise OptionError("rate: is for method='gradient'; refits take no steps of a size; leave it out.")
            check_number("rate", rate, above=0)
        if method == "gradient" and not shares_units(model):
            raise OptionError(
                f"model: gradient steps need the same units in every step, got {model!r}, whose scaler is refitted; "
                "standardise the features once, or use method='refit'."
            )
        check_number("tolerance", tolerance, above=0, below=1)
        self.most_steps = MOST_STEPS[method] if most_steps is None else most_steps
        check_whole("most_steps", self.most_steps, 1)
        self.model, self.rate, self.tolerance, self.name = model, rate, tolerance, name

    def begin(self, history: Population) -> State:
        """Fit the model to the history."""
        parameters = self.model.fit(history)
        return State(parameters, flat(parameters), memory=StableFit((), True))

    def retrain(
        self, state: State, batch: Population, number: int, respond: Respond, rng: np.random.Generator
    ) -> State:
        """Learn from people's responses to the learned model, until it no longer changes."""
        step = self._refit if self.method == "refit" else self._descent()
        moved: list[float] = []
        people = batch  # how they respond to what is deployed
        while len(moved) < self.most_steps:
            parameters, left = step(state, people)
            found = flat(parameters)
            if not np.isfinite(found).all():
                raise NumericsError(
                    f"parameters: diverge in step {len(moved) + 1} of a round; give a smaller rate, or more l2."
                )
            moved.append(float(np.linalg.norm(found - state.flat)))
            settled = StableFit(tuple(moved), left <= self.tolerance)
            state = State(parameters, found, memory=settled, learned_from=people)
            if left <= self.tolerance:
                break
            people = respond(state)
        return state

    def _refit(self, state: State, people: Population) -> tuple[Any, float]:
        """Return argmin R, and its distance as a share of 1 + ‖θ‖."""
        parameters = self.model.fit(people)
        away = float(np.linalg.norm(flat(parameters) - state.flat))
        return parameters, away / (1 + float(np.linalg.norm(state.flat)))

    def _descent(self) -> Any:
        """Return a step of gradient descent, whose rate is settled when it is first taken."""
        rate = self.rate

        def step(state: State, people: Population) -> tuple[Any, float]:
            nonlocal rate
            training = bind(self.model, people)
            features, before = training.moved(None), flat_form(training, state.parameters, "parameters")
            if rate is None:
                rate = 1 / max(sharpness(training, before, features)[0], np.finfo(float).tiny)
            gradient = training.risk_gradient(before, features)[1]
            return training.parameters(before - rate * gradient), float(np.linalg.norm(gradient))

        return step
