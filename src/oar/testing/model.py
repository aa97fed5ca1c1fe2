"""`check_model`: does a model keep what planning relies on?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oar.errors import DataError, OARError, OptionError
from oar.estimators.black_box import BlackBox
from oar.estimators.cores.centroid import CentroidTwin
from oar.estimators.twin import Twin
from oar.models.autodiff.custom import Custom
from oar.models.differentiable import Differentiable
from oar.models.training import Array, Fit, Training
from oar.testing.report import Fault, Report, checked, compared
from oar.tolerances import AGREEMENT
from oar.typing import Features, Goal, Labels, Row, Weights

DRAWN = 40  # people, where none are given
DIRECTIONS = 3
STEP = 1e-5
THROUGH_STEP = 1e-3
THROUGH_AGREEMENT = 1e-3
PEOPLE = 20  # whose outputs are compared with their losses, at the most
FAR = 3.0  # spreads that people and query are moved by, to see whether everything holds there too
SHIFT = 10.0  # spreads that everybody is shifted by together
SHIFT_AGREEMENT = 1e-5
START_SIZES = (0.5, 1.0, 2.0, 4.0)  # how far from the initial parameters other refits start, beside their own size


def check_model(
    model: Differentiable,
    features: Features | None = None,
    targets: Labels | None = None,
    weights: Weights | None = None,
    *,
    query: Row | None = None,
    goal: Goal | None = None,
    dimensions: int = 3,
    outputs: int = 3,
    training: Callable[..., Training] | None = None,
    tolerance: float = 1e-8,
    seed: int = 0,
    raises: bool = True,
) -> Report:
    """Check a model against finite differences and true refits, and say what it lacks.

    What it claims to be, `convex` or `equivariant`, is tried: refits from other starts, and with everyone shifted.

    Args:
        model: what is checked.
        features: (n, d) people to check it on; None draws forty of them.
        targets: n labels or values, or (n, o) class shares or values; given together with features.
        weights: (n,) not negative; None draws some for drawn people, and weighs given people alike.
        query: (d,) features of the query; None takes a point between people.
        goal: (o,) its target; None takes the first class, or zeros.
        dimensions: d of drawn people.
        outputs: o of drawn people.
        training: what binds the model to data; None for its own way, `model.bound`.
        tolerance: the gradient norm to which it is refitted.
        seed: what is drawn is drawn from this.
        raises: whether a failed check raises a ConformanceError, which lists all of them with advice; otherwise only
            the returned report does: `print` it.

    >>> from oar.models.naive_bayes import GaussianNaiveBayes
    >>> check_model(GaussianNaiveBayes()).passed
    True
    """
    rng = np.random.default_rng(seed)
    _check_kinds(model, features, targets)
    regresses = model.regresses
    if features is None:
        features, targets, weights = _people(rng, dimensions, outputs, regresses)
    features, targets = _numbers("features", features), _target_rows(model, targets)
    if len(features) != len(targets):
        raise DataError(f"targets: must be one for each of the {len(features)} people, got {len(targets)}.")
    weights = np.ones(len(features)) if weights is None else np.asarray(weights, dtype=np.float64)
    if query is None:
        query = 0.5 * (features[0] + features[-1]) + 0.1 * rng.standard_normal(features.shape[1])
    if goal is None:
        goal = np.zeros(targets.shape[1]) if regresses else np.eye(targets.shape[1])[0]
    if isinstance(model, Custom):
        model = model.completed(targets.shape[1])
    people = (features, targets, weights / weights.sum())
    make = training or (lambda model, *people: model.bound(*people))
    case = Case(model, make, *people, np.asarray(query, float), np.asarray(goal, float), tolerance, seed)
    return checked(model.name, case, CHECKS, raises, _said)


def _check_kinds(model: Any, features: Any, targets: Any) -> None:
    ours = isinstance(model, Differentiable | type)
    if isinstance(model, BlackBox | CentroidTwin | Twin) or (not ours and callable(getattr(model, "fit", None))):
        raise OptionError(
            f"model: must be one of oar.models, or one of your own (Custom, or a Differentiable), got {model!r}; there "
            "is nothing to check of estimators: they are recognised or only called, and audited by their own fit."
        )
    if not isinstance(model, Differentiable) or model.plain_means:
        raise OptionError(
            f"model: must be one of oar.models, or one of your own (Custom, or a Differentiable), got {model!r}; "
            "nearest centroid is not differentiated, and has nothing to check."
        )
    if (features is None) != (targets is None):
        missing, given = ("targets", "features") if targets is None else ("features", "targets")
        raise DataError(f"{missing}: must be given together with {given}, got none; give both or neither.")


def _numbers(argument: str, given: Any) -> Array:
    """Return people by something, (n, ·), or raise a DataError."""
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{argument}: must be numbers, got {given!r}.") from None
    if numbers.ndim != 2 or 0 in numbers.shape:
        raise DataError(f"{argument}: must be rows of numbers, one for each person, got shape {numbers.shape}.")
    return numbers


def _target_rows(model: Differentiable, targets: Any) -> Array:
    """Return targets (n, o); labels, one a person, become shares of their classes, and single values rows of one."""
    given = np.asarray(targets)
    if given.ndim != 1:
        return _numbers("targets", targets)
    if model.regresses:
        return _numbers("targets", given[:, None])
    classes, codes = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"targets: must be labels of at least two classes, got {len(classes)}.")
    return np.asarray(model.target_rows(np.eye(len(classes))[codes]))


def _said(reason: Exception) -> str:
    """Return what to do about an error: ours say so themselves."""
    if isinstance(reason, OARError):
        return "Change what the message names."
    missing = "Give the model initial, outputs and example_loss."
    return missing if isinstance(reason, NotImplementedError) else "The model's own code raised this; mend it there."


def _people(rng: np.random.Generator, dimensions: int, outputs: int, values: bool) -> tuple[Array, Array, Array]:
    """Draw people: overlapping classes, or values that are a noisy linear function."""
    codes = np.arange(DRAWN) % outputs
    features = rng.standard_normal((outputs, dimensions))[codes] + rng.standard_normal((DRAWN, dimensions))
    targets = np.eye(outputs)[codes]
    if values:
        targets = features @ rng.standard_normal((dimensions, outputs)) + 0.3 * rng.standard_normal((DRAWN, outputs))
    return features, targets, rng.uniform(0.5, 1.5, DRAWN)


@dataclass
class Case:
    """A model, the data that it is checked on, and what was computed for it so far."""

    model: Differentiable
    make: Callable[..., Training]
    features: Array
    targets: Array
    weights: Array
    query: Array
    goal: Array
    tolerance: float
    seed: int

    @cached_property
    def training(self) -> Any:
        """The model bound to the data."""
        return self.make(self.model, self.features, self.targets, self.weights)

    @cached_property
    def fit(self) -> Fit:
        """A refit from scratch."""
        return self.training.fit(self.training.moved(None), self.training.start(), self.tolerance)

    @cached_property
    def signal(self) -> Array:
        """The direction v = H⁻¹ g at the refit."""
        gradient = self.training.goal(self.fit.parameters, self.query, self.goal)[1]
        return self.training.solve(self.fit, gradient, None, 1e-8)

    @cached_property
    def elsewhere(self) -> Array:
        """Parameters close to the start, where nothing is special."""
        start = self.training.start()
        return start + 0.01 * (1 + np.abs(start)) * self.draw(start.shape)

    def draw(self, shape: tuple[int, ...]) -> Array:
        """Draw standard normal numbers; the same ones for the same shape."""
        return np.random.default_rng([self.seed, *shape]).standard_normal(shape)

    def directions(self) -> Array:
        """Draw a few directions in parameter space."""
        return self.draw((DIRECTIONS, self.training.parameter_count))


def initial(case: Case) -> str:
    """Initial parameters are a pytree of finite floats, the same ones every time."""
    first, second = (_start(case) for _ in range(2))
    if not np.array_equal(first, second):
        raise Fault(
            "two calls of initial() differ.",
            "Draw random numbers from a fixed seed inside initial(), not from a global.",
        )
    return f"{first.size} parameters."


def _start(case: Case) -> Array:
    """Return the initial parameters, asked for afresh."""
    if not case.model.by_jax:
        return case.make(case.model, case.features, case.targets, case.weights).start()
    import jax

    from oar.models.autodiff.passes import flattened

    with jax.enable_x64(True):
        return flattened(case.model, case.features.shape[1], case.targets.shape[1])[0]


def loss(case: Case) -> str:
    """The loss is a finite scalar that JAX can trace."""
    value, gradient = case.training.risk_gradient(case.training.start(), case.training.moved(None))
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise Fault(
            f"the risk at the initial parameters is {value}, {int((~np.isfinite(gradient)).sum())} of "
            f"{gradient.size} gradient entries are not finite.",
            "Look for logarithms, roots or norms of zero; use jax.nn.log_softmax, logsumexp, and jnp.where inside too.",
        )
    if not gradient.any():
        raise Fault(
            "the gradient at the initial parameters is exactly zero.",
            "Train on a smooth loss (cross-entropy, not errors counted), from parameters that are not all alike.",
        )
    return f"{value:.6g} at the initial parameters."


def outputs(case: Case) -> str:
    """Outputs are one finite vector for one person, as long as the target."""
    got, wanted = case.training.outputs(case.training.start(), case.query), (case.targets.shape[1],)
    if np.shape(got) != wanted:
        raise Fault(
            f"outputs have shape {np.shape(got)} for targets of shape {wanted}.",
            "Return one logit a class, or one value for each target value, for one person's features (d,).",
        )
    if not np.isfinite(got).all():
        raise Fault(f"outputs are {got} at the query.", "Return finite logits, not log-probabilities that reach −inf.")
    return f"shape {wanted}."


def pure(case: Case) -> str:
    """The model's functions return the same each time that they are called, compiled or not."""
    if not case.model.by_jax:
        return _pure_passes(case)
    import jax
    import jax.numpy as jnp

    from oar.models.autodiff.passes import compiled, flattened

    dimensions, outputs = case.features.shape[1], case.targets.shape[1]
    with jax.enable_x64(True):
        theta, unravel = flattened(case.model, dimensions, outputs)
        theta = theta + 0.01 * (1 + np.abs(theta)) * case.draw(theta.shape)
        tree = unravel(jnp.asarray(theta))
        row, target = jnp.asarray(case.features[0]), jnp.asarray(case.targets[0])
        functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "loss": (case.model.example_loss, (row, target)),
            "query_loss": (case.model.query_loss, (row, target)),
            "outputs": (case.model.outputs, (row,)),
            "penalty": (case.model.penalty, ()),
            "gauge": (case.model.gauge, ()),
        }
        for name, (function, arguments) in functions.items():
            once = np.asarray(compiled(case.model, dimensions, outputs, name)(theta, {}, *arguments), float)
            for _ in range(2):
                again = np.asarray(function(tree, *arguments), float)
                if not np.allclose(again, once, rtol=1e-6, atol=1e-9, equal_nan=True):
                    raise Fault(
                        f"{name} returns {again} when it is called, and {once} when it is compiled.",
                        "Keep randomness (numpy.random), counters and other state out of it: it must depend on its "
                        "arguments alone.",
                    )
    return "functions return the same each time."


def _pure_passes(case: Case) -> str:
    """The same of a model that nothing compiles: its training returns the same each time."""
    training, at = case.training, case.elsewhere
    features = training.moved(None)
    functions: dict[str, Callable[[], Any]] = {
        "loss": lambda: training.risk_gradient(at, features)[0],
        "query_loss": lambda: training.goal(at, case.query, case.goal)[0],
        "outputs": lambda: training.outputs(at, case.query),
    }
    for name, function in functions.items():
        once, again = (np.asarray(function(), float) for _ in range(2))
        if not np.allclose(again, once, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise Fault(
                f"{name} returns {once} when it is called, and {again} when it is called again.",
                "Keep randomness, counters and other state out of it: it must depend on its arguments alone.",
            )
    return "functions return the same each time."


def outputs_fit_losses(case: Case) -> str:
    """The class with the largest output is the one with the least query loss; a predicted value costs least."""
    rows = np.concatenate([case.query[None], case.features[:: -(-len(case.features) // PEOPLE)]])
    check = _values_cost_least if case.model.regresses else _classes_cost_least
    check(case, rows)
    return f"they agree for {len(rows)} people."


def _losses(case: Case, row: Array, targets: Array) -> Array:
    return np.array([case.training.goal(case.fit.parameters, row, target)[0] for target in targets])


def _classes_cost_least(case: Case, rows: Array) -> None:
    width = case.targets.shape[1]
    goals = np.eye(width) if width > 1 else np.array([[0.0], [1.0]])
    differ = False
    for row in rows:
        found, losses = case.training.outputs(case.fit.parameters, row), _losses(case, row, goals)
        code, rounding = case.model.predicted_class(found), 1e-9 * (1 + np.abs(losses).max())
        differ |= bool(np.ptp(losses) > rounding)
        if not losses[code] <= losses.min() + rounding:
            raise Fault(
                f"outputs {found} predict class {code}, but query_loss is least for class {losses.argmin()}: {losses}.",
                "Return outputs that are larger the likelier a class is, and a query_loss that is smaller the likelier "
                "its target is; look for a wrong sign in either.",
            )
    if not differ:
        raise Fault("query_loss is the same for every class.", "Make query_loss depend on its target: the goal.")


def _values_cost_least(case: Case, rows: Array) -> None:
    spreads = np.where(np.ptp(case.targets, axis=0) > 0, case.targets.std(axis=0), 1.0)
    for row in rows:
        found = case.training.outputs(case.fit.parameters, row)
        own = float(_losses(case, row, found[None])[0])
        cheapest = float("nan")
        for near, far in (_goals_beside(case, row, found, spreads), _predictions_beside(case, row, found, spreads)):
            cheapest = float(np.fmin(cheapest, min(near.min(), far.min())))
            if own <= near.min() + 1e-9 * (1 + abs(own)) and own < far.min():
                break
        else:
            raise Fault(
                f"outputs {found} cost {own:.6g} where they are the goal, but goals and predictions beside them cost "
                f"{cheapest:.6g}.",
                "Return the values that the loss compares with targets, and a query_loss that is least where the "
                "prediction is the goal; look for a wrong sign in either.",
            )


def _goals_beside(case: Case, row: Array, found: Array, spreads: Array) -> tuple[Array, Array]:
    """Return what goals a little and far beside a prediction cost: a likelihood may have terms of its own in θ."""
    beside = np.vstack([np.diag(spreads), -np.diag(spreads)])
    near, far = (_losses(case, row, found + size * beside) for size in (0.1, 1.0))
    return near, far


def _predictions_beside(case: Case, row: Array, found: Array, spreads: Array) -> tuple[Array, Array]:
    """Return what predictions a little and far beside a goal cost: a likelihood may have terms of its own in y."""
    training, at = case.training, case.fit.parameters
    costs: tuple[list[float], list[float]] = [], []
    for direction in case.directions():
        change = (training.outputs(at + STEP * direction, row) - found) / STEP
        rate = float(np.abs(change / spreads).max())
        if rate > 0:
            for some, size in zip(costs, (0.1, 1.0), strict=True):
                some += [training.goal(at + sign * size / rate * direction, row, found)[0] for sign in (1, -1)]
    near, far = (np.array(some or [-np.inf]) for some in costs)
    return near, far


def gradient(case: Case, at: Array | None = None, moves: Array | None = None) -> str:
    """The risk's gradient matches differences of the risk."""
    at, features, said = case.elsewhere if at is None else at, case.training.moved(moves), ""
    slope = case.training.risk_gradient(at, features)[1]
    for direction in case.directions():
        up, down = (case.training.risk_gradient(at + sign * STEP * direction, features)[0] for sign in (1, -1))
        scale = 1e-3 * float(np.linalg.norm(slope) * np.linalg.norm(direction))
        advice = "Remove stop_gradient, custom derivatives, hard decisions and randomness from the loss."
        said = compared("the slope", slope @ direction, [(up - down) / (2 * STEP)], scale, AGREEMENT, advice)
    return said


def product(case: Case) -> str:
    """Hessian products are symmetric, and match differences of the gradient."""
    features, at, said = case.training.moved(None), case.elsewhere, ""
    directions = case.directions()
    images = [case.training.product(at, features, direction) for direction in directions]
    for direction, image in zip(directions, images, strict=True):
        up, down = (case.training.risk_gradient(at + sign * STEP * direction, features)[1] for sign in (1, -1))
        other, scale = directions[0], 1e-3 * float(np.linalg.norm(image) * np.linalg.norm(directions[0]))
        advice = "Use a loss with continuous second derivatives; remove stop_gradient and custom derivatives."
        differences = float(other @ (up - down)) / (2 * STEP)
        said = compared("a curvature", float(other @ image), [differences], scale, AGREEMENT, advice)
        advice = "The Hessian is not symmetric: the loss is not the integral of its gradient (stop_gradient?)."
        compared("uᵀHv", float(other @ image), [float(direction @ images[0])], scale, 1e-8, advice)
    return f"symmetric, {said}"


def converges(case: Case) -> str:
    """A refit from scratch reaches the tolerance."""
    if not case.fit.converged:
        raise Fault(
            f"the refit stopped at a gradient norm of {case.fit.residual:.1e} (asked for {case.tolerance:.1e}).",
            "Use smooth functions (tanh, not relu), a penalty that keeps the minimum finite, standardised features.",
        )
    return f"gradient norm {case.fit.residual:.1e} after {case.training.passes} passes."


def deterministic(case: Case) -> str:
    """A second refit from scratch gives the same bits."""
    again = case.make(case.model, case.features, case.targets, case.weights)
    second = again.fit(again.moved(None), again.start(), case.tolerance)
    if not np.array_equal(second.parameters, case.fit.parameters):
        raise Fault(
            f"two refits differ by up to {np.abs(second.parameters - case.fit.parameters).max():.1e}.",
            "Keep randomness and state out of the loss, the initial parameters and the closed form.",
        )
    return "two refits agree bit for bit."


def query_gradients(case: Case, query: Array | None = None) -> str:
    """The query's gradients match differences of its loss."""
    query = case.query if query is None else query
    at, said = case.fit.parameters, ""
    _, by_parameters, by_features = case.training.goal(at, query, case.goal)
    value: Callable[..., float] = lambda theta, x: case.training.goal(theta, x, case.goal)[0]  # noqa: E731
    advice = "Make query_loss smooth around the query: no hard decisions, safe norms."
    for direction in case.directions():
        up, down = (value(at + sign * STEP * direction, query) for sign in (1, -1))
        scale = 1e-3 * float(np.linalg.norm(by_parameters) * np.linalg.norm(direction))
        compared("its slope in θ", by_parameters @ direction, [(up - down) / (2 * STEP)], scale, AGREEMENT, advice)
    for unit in np.eye(query.size):
        up, down = (value(at, query + sign * STEP * unit) for sign in (1, -1))
        scale = 1e-3 * float(np.linalg.norm(by_features))
        said = compared("its slope in x", by_features @ unit, [(up - down) / (2 * STEP)], scale, AGREEMENT, advice)
    return said


def scores(case: Case, signal: Array | None = None, where: Array | float = 0.0) -> str:
    """∇_x s matches differences of Σ_i w̄_i s_i = vᵀ(∇R − ∇Ω) over moves."""
    signal, where = case.signal if signal is None else signal, where + np.zeros(case.features.shape)
    training, at, moves = case.training, case.fit.parameters, case.draw(case.features.shape)
    rates = training.score_gradients(at, training.moved(where), signal)
    if not rates.any() and signal.any():
        raise Fault(
            "they are exactly zero: nobody's features matter.", "Remove rounding, thresholds and stop_gradient on x."
        )
    terms = case.weights * (rates * moves).sum(axis=1)
    up, down = (signal @ training.risk_gradient(at, training.moved(where + sign * STEP * moves))[1] for sign in (1, -1))
    advice = "Make the loss smooth in the features: no rounding, thresholds or stop_gradient on x."
    scale = 1e-3 * float(np.abs(terms).sum())
    return compared("the change of scores", float(terms.sum()), [(up - down) / (2 * STEP)], scale, AGREEMENT, advice)


def far_away(case: Case) -> str:
    """Loss, query loss and their gradients hold also where people and query have moved far."""
    training, spreads = case.training, case.features.std(axis=0) + (np.ptp(case.features, axis=0) == 0)
    for sign in (1, -1):
        moves = sign * FAR * spreads * np.sign(case.draw(case.features.shape))
        value, slope = training.risk_gradient(case.fit.parameters, training.moved(moves))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise Fault(
                f"the risk is {value} where everybody has moved by {FAR:g} spreads, with "
                f"{int((~np.isfinite(slope)).sum())} of {slope.size} gradient entries that are not finite.",
                "Look for logarithms, roots, powers or quotients that hold only near the data.",
            )
        gradient(case, case.fit.parameters, moves)
        scores(case, case.directions()[0], moves)
        query_gradients(case, case.query + moves[0])
    return f"everything holds {FAR:g} spreads away."


def through_training(case: Case) -> str:
    """The predicted change of the query's loss for a tiny move is what true refits give."""
    training, moves = case.training, case.draw(case.features.shape)
    moves *= THROUGH_STEP / np.abs(moves).max()
    rates = training.score_gradients(case.fit.parameters, training.moved(None), case.signal)
    terms = -case.weights * (rates * moves).sum(axis=1)  # dL = −Σ_i w̄_i ∇_x s_iᵀ δ_i
    losses = []
    for sign in (1, -1):
        refit = training.fit(training.moved(sign * moves), case.fit.parameters, 1e-3 * case.tolerance)
        losses.append(training.goal(refit.parameters, case.query, case.goal)[0])
    damping = getattr(training, "damping", 0.0)
    advice = (
        "The refit is not a smooth function of the data: use smooth functions, and add a penalty or a gauge "
        "for directions that training leaves open"
        + (f" (the Hessian needed a damping of {damping:.1e})." if damping else ".")
    )
    change, scale = (losses[0] - losses[1]) / 2, 1e-3 * float(np.abs(terms).sum())
    return compared("the predicted change", float(terms.sum()), [change], scale, THROUGH_AGREEMENT, advice)


def one_minimum(case: Case) -> str:
    """A model that claims to be convex is trained to the same risk from anywhere."""
    if not case.model.convex:
        return "not claimed."
    if getattr(case.model, "closed_form", None) is not None:
        return "claimed; a closed form starts nowhere."
    training, features = case.training, case.training.moved(None)
    lowest = training.risk_gradient(case.fit.parameters, features)[0]
    start, worst = training.start(), 0.0
    for number, size in enumerate(START_SIZES):
        elsewhere = start + size * (1 + np.abs(start)) * case.draw((number + 1, start.size))[-1]
        end = training.fit(features, elsewhere, case.tolerance)
        reached = training.risk_gradient(end.parameters, features)[0]
        worst = max(worst, abs(reached - lowest) / (1 + abs(lowest)))
        if not worst <= AGREEMENT:
            raise Fault(
                f"a refit from other parameters ends at a risk of {reached:.6g}, not {lowest:.6g}.",
                "Do not claim convex=True: then refits start from scratch, as the operator's do.",
            )
    return f"refits from {len(START_SIZES)} other starts end at the same risk, to {worst:.0e}."


def unmoved_by_shifts(case: Case) -> str:
    """A model that claims to be equivariant does not notice when all people and the query are shifted together."""
    if not case.model.equivariant:
        return "not claimed."
    shift = SHIFT * case.features.std(axis=0) * case.draw(case.query.shape)
    moved = case.make(case.model, case.features + shift, case.targets, case.weights)
    refit = moved.fit(moved.moved(None), moved.start(), case.tolerance)
    before = case.training.goal(case.fit.parameters, case.query, case.goal)[0]
    after = moved.goal(refit.parameters, case.query + shift, case.goal)[0]
    error = abs(after - before) / (1 + abs(before))
    # A gradient r that a refit leaves changes the query's loss by about vᵀr.
    loose = float(np.linalg.norm(case.signal)) * (case.fit.residual + refit.residual) / (1 + abs(before))
    if not error <= max(SHIFT_AGREEMENT, min(10 * loose, AGREEMENT)):
        raise Fault(
            f"when everyone is shifted together the query's loss goes from {before:.6g} to {after:.6g}.",
            "Do not claim equivariant=True; or give the model a free intercept, and penalise only what no shift moves.",
        )
    return f"a shift of everyone changes the query's loss by {error:.0e}."


CHECKS: tuple[tuple[str, Callable[[Case], str], tuple[str, ...]], ...] = (
    ("initial parameters", initial, ()),
    ("loss", loss, ("initial parameters",)),
    ("pure", pure, ("loss",)),
    ("outputs", outputs, ("initial parameters", "loss")),
    ("gradient", gradient, ("loss",)),
    ("Hessian product", product, ("loss",)),
    ("refit converges", converges, ("loss",)),
    ("refit deterministic", deterministic, ("loss",)),
    ("query gradients", query_gradients, ("loss",)),
    ("outputs fit losses", outputs_fit_losses, ("outputs", "query gradients")),
    ("score gradients", scores, ("loss", "query gradients")),
    ("far away", far_away, ("gradient", "score gradients")),
    ("through training", through_training, ("refit converges", "score gradients")),
    ("convex", one_minimum, ("refit converges",)),
    ("equivariant", unmoved_by_shifts, ("refit converges", "score gradients")),
)
"""Name, function, and the checks without which it has no meaning."""
