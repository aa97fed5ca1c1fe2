"""Refits of linear models to awkward people, beside minimisers of SciPy on variables of size 1."""

import numpy as np
import pytest
from scipy.optimize import minimize

import oar
from oar.models import LinearSVM, Ridge, SoftmaxRegression
from oar.models.linear.identifiability import separates
from oar.models.linear.losses import least_along

SIZE = 36


def awkward(kind, seed):
    """Return features, labels and weights with something unpleasant about them."""
    rng = np.random.default_rng(seed)
    codes = np.arange(SIZE) % 2
    features = rng.normal(0, 1, (2, 3))[codes] + rng.normal(size=(SIZE, 3))
    weights = rng.choice([0.0, 1.0, 2.0], SIZE)
    weights[:2] = 1.0
    labels = codes
    if kind == "constant":
        features[:, 1] = 0.1
    elif kind == "duplicated":
        features[:, 2] = 3 * features[:, 0]
    elif kind == "huge":
        features *= [3_000, 1, 1e6]
    elif kind == "shifted":
        features += 300
    elif kind == "soft":
        labels = rng.dirichlet([0.4, 0.4], SIZE)
    elif kind == "one a class":
        features, labels, weights = features[:2], codes[:2], weights[:2]
    return features, labels, weights


def machine(features, shares, weights, l2, penalised):
    """Return the judge's decision function, by trust-region steps on features of size 1 and zero mean."""
    weights = weights / weights.sum()
    centre = 0.0 if penalised else weights @ features
    sizes = np.sqrt(weights @ (features - centre) ** 2)
    sizes = np.where(sizes > 1e-9, sizes, 1.0)
    rows, signs = np.column_stack([(features - centre) / sizes, np.ones(len(features))]), 2 * shares - 1
    pressed = np.append(l2 / sizes**2, l2 * penalised)

    def risk(at):
        short = np.maximum(0, 1 - signs * (rows @ at))
        return weights @ short**2 + 0.5 * (pressed * at**2).sum(), -2 * rows.T @ (
            weights * signs * short
        ) + pressed * at

    def hessian(at):
        counted = weights * signs**2 * (signs * (rows @ at) < 1)
        return 2 * (rows * counted[:, None]).T @ rows + np.diag(pressed + 1e-14)

    at = np.zeros(rows.shape[1])
    for method, extra in (("trust-exact", {"hess": hessian}), ("BFGS", {})) * 3:
        at = minimize(risk, at, jac=True, method=method, options={"gtol": 1e-13}, **extra).x
    assert np.linalg.norm(risk(at)[1]) < 1e-7
    return lambda query: float(np.append((query - centre) / sizes, 1.0) @ at)


@pytest.mark.parametrize("kind", ["plain", "constant", "duplicated", "huge", "shifted", "soft", "one a class"])
@pytest.mark.parametrize("penalised", [False, True], ids=["free", "penalised"])
@pytest.mark.parametrize("l2", [1e-4, 1e-1])
def test_machines_are_scipys(kind, penalised, l2):
    for seed in range(3):
        features, labels, weights = awkward(kind, seed)
        training = LinearSVM(l2, penalise_intercept=penalised).training(oar.Population(features, labels, weights))
        cold = training.fit(training.moved(None), training.start(), 1e-11)
        shares = labels if labels.ndim == 1 else labels[:, 1]
        judge = machine(features, shares, weights, l2, penalised)
        assert cold.residual <= 1e-9
        for query in features[:3]:
            assert training.outputs(cold.parameters, query)[0] == pytest.approx(judge(query), rel=1e-4, abs=1e-5)
        moves = np.random.default_rng(seed).normal(size=features.shape) * features.std(axis=0)
        warm = training.fit(training.moved(moves), cold.parameters, 1e-11)
        judge = machine(features + moves, shares, weights, l2, penalised)
        assert warm.residual <= 1e-9
        assert training.passes < 300
        for query in features[:3]:
            assert training.outputs(warm.parameters, query)[0] == pytest.approx(judge(query), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("distance", [1.0, 100.0, 1e5])
@pytest.mark.parametrize("penalised", [False, True], ids=["free", "penalised"])
@pytest.mark.parametrize("seed", range(12))
def test_machines_are_refitted_in_few_passes_however_far_people_move(seed, distance, penalised):
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(3, 5))
    labels = np.arange(classes if seed % 2 else 12 * classes) % classes
    features = rng.normal(size=(labels.size, 4))
    features[:, 0] = 1e4 / 3
    people = oar.Population(features, labels, rng.integers(1, 4, labels.size))
    training = LinearSVM(10.0 ** -rng.integers(1, 8), penalised).training(people)
    fit = training.fit(training.moved(None), training.start(), 1e-10)
    first = training.passes
    again = training.fit(training.moved(distance * rng.normal(size=features.shape)), fit.parameters, 1e-10)
    assert fit.converged
    assert again.residual <= 1e-9
    assert first < 200  # a step is three passes: H, the best length, and the risk there
    assert training.passes - first < 200


@pytest.mark.parametrize("seed", range(20))
def test_the_search_along_a_line_is_exact(seed):
    rng = np.random.default_rng(seed)
    short, gain, weights = rng.normal(0.5, 1, 30), rng.normal(size=30), rng.choice([0.0, 0.1, 1.0], 30)
    bend = rng.random()
    slope = 2 * (weights * gain) @ np.maximum(short, 0) - rng.random()  # so that it falls at 0

    def risk(length):
        return weights @ np.maximum(0, short - length * gain) ** 2 + slope * length + 0.5 * bend * length**2

    found = least_along(short, gain, slope, bend, weights)
    best = minimize(lambda at: risk(at[0]), [0.1], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    assert risk(found) <= best.fun + 1e-12


@pytest.mark.parametrize("model", [Ridge(0), LinearSVM(0.0), LinearSVM(0.0, True), SoftmaxRegression(0.0)])
@pytest.mark.parametrize("kind", ["constant", "duplicated", "sum", "few people"])
def test_dependent_features_without_a_regulariser_are_named_at_once(model, kind):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 4)) * [1, 1e4, 1, 1e-3], np.arange(40) % 3
    if kind == "constant":
        features[:, 1] = 0.1
    elif kind == "duplicated":
        features[:, 2] = 3.3 * features[:, 0]
    elif kind == "sum":
        features[:, 2] = features[:, 0] + 0.7 * features[:, 1]
    else:
        features, labels = features[:4], labels[:4]
    values = rng.normal(size=len(features)) if model.regresses else labels
    training = model.training(oar.Population(features, values))
    with pytest.raises(oar.errors.NumericsError, match=r"no unique fit .* linearly dependent .* use l2 > 0"):
        training.fit(training.moved(None), training.start(), 1e-7)
    assert training.passes == 1


def test_nearly_dependent_features_are_fitted():
    rng = np.random.default_rng(0)
    features, values = rng.normal(size=(40, 2)), rng.normal(size=40)
    features[:, 1] = features[:, 0] + 1e-5 * features[:, 1]
    training = Ridge(0.0).training(oar.Population(features + 1e3, values))
    fit = training.fit(training.moved(None), training.start(), 1e-9)
    assert fit.converged
    exact = np.linalg.lstsq(np.column_stack([features, np.ones(40)]), values, rcond=None)[0]
    expected = np.append(features[3], 1.0) @ exact
    assert training.outputs(fit.parameters, features[3] + 1e3)[0] == pytest.approx(expected, abs=1e-5)


def overlapping(size=60):
    """Three classes, of which the third stands apart."""
    rng = np.random.default_rng(3)
    codes = np.arange(size) % 3
    return rng.normal(size=(size, 2)) + np.where(codes == 2, 30, 0)[:, None], codes


@pytest.mark.parametrize("tolerance", [1e-7, 1e-10])
def test_some_classes_that_separate_put_the_optimum_at_infinity(tolerance):
    features, codes = overlapping()
    for labels in (codes, (codes == 2).astype(int)):
        training = SoftmaxRegression(0.0).training(oar.Population(features, labels))
        with pytest.raises(oar.errors.NumericsError, match="optimum is at infinity; use l2 > 0"):
            training.fit(training.moved(None), training.start(), tolerance)
    # Some on the boundary itself, of both classes: separable but for them.
    features[:20, 0] = 0.0
    labels = (features[:, 0] > 0).astype(int)
    labels[:20] = np.arange(20) % 2
    training = SoftmaxRegression(0.0).training(oar.Population(features, labels))
    with pytest.raises(oar.errors.NumericsError, match="optimum is at infinity; use l2 > 0"):
        training.fit(training.moved(None), training.start(), tolerance)


def test_classes_that_overlap_have_a_fit_without_a_regulariser():
    features, codes = overlapping()
    rng = np.random.default_rng(1)
    for labels in (rng.permutation(codes), rng.permutation(codes) % 2):
        training = SoftmaxRegression(0.0).training(oar.Population(features, labels))
        assert training.fit(training.moved(None), training.start(), 1e-9).converged


@pytest.mark.parametrize("seed", range(30))
def test_separation_is_what_one_linear_programme_says(seed, monkeypatch):
    """The judge asks HiGHS about all inequalities at once, with slacks; ours takes up a few at a time."""
    from scipy.optimize import linprog

    monkeypatch.setattr("oar.models.linear.identifiability.ROWS", 5)
    rng = np.random.default_rng(seed)
    codes, count = np.arange(24) % 3, 24
    rows = rng.normal(size=(count, 2)) + 1.3 * rng.normal(0, 1.2, (3, 2))[codes]
    extended = np.column_stack([rows, np.ones(count)])
    gains = []
    for row, code in zip(extended, codes, strict=True):
        for other in set(range(3)) - {code}:
            gain = np.zeros((3, 3))
            gain[code], gain[other] = row, -row
            gains.append(gain.ravel())
    gains = np.array(gains)
    judge = linprog(-gains.sum(axis=0), A_ub=-gains, b_ub=np.zeros(len(gains)), bounds=(-1, 1))
    assert separates(np.zeros((3, 3)), rows, np.eye(3)[codes]) == (judge.fun < -1e-6)


def test_machines_without_a_regulariser_need_people_who_are_short():
    features, codes = overlapping()
    apart = LinearSVM(0.0).training(oar.Population(features, (codes == 2).astype(int)))
    with pytest.raises(oar.errors.NumericsError, match="no unique fit .* too few to settle it; use l2 > 0"):
        apart.fit(apart.moved(None), apart.start(), 1e-7)
    mixed = LinearSVM(0.0).training(oar.Population(features, np.random.default_rng(0).integers(0, 2, 60)))
    assert mixed.fit(mixed.moved(None), mixed.start(), 1e-9).converged


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e5, 1e12])
def test_the_units_of_values_do_not_matter(scale):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 3))
    values = features @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=50) + 4

    def asked(unit):
        people = oar.Population(features, unit * values)
        query = oar.Query(features[0], unit * (values[0] + 2), within=0.1 * unit)
        return oar.collective(oar.Problem(people, Ridge(0.01), query, oar.Perturb(0.2)))

    plain, scaled = asked(1.0), asked(scale)
    assert scaled.status == plain.status
    assert scaled.audit.prediction / scale == pytest.approx(plain.audit.prediction, rel=1e-5)
    assert scaled.loss / scale**2 == pytest.approx(plain.loss, rel=1e-3, abs=1e-9)
    assert scaled.proposal.claimed_loss == pytest.approx(scaled.loss, rel=1e-4, abs=1e-9 * scale**2)


@pytest.mark.parametrize("make", [SoftmaxRegression, Ridge, LinearSVM])
@pytest.mark.parametrize("l2", ["a", True, None, -1.0, np.inf, np.nan])
def test_a_regulariser_is_a_number_of_at_least_0(make, l2):
    with pytest.raises(oar.errors.DataError, match="l2: must be a number of at least 0, got"):
        make(l2)


def test_penalise_intercept_is_a_flag():
    with pytest.raises(oar.errors.DataError, match="penalise_intercept: must be True or False, got 'no'"):
        LinearSVM(0.1, penalise_intercept="no")


def test_a_class_that_nobody_has_a_share_in_is_refused():
    soft = oar.Population(np.eye(3), np.array([[0.5, 0.5, 0.0]] * 3))
    with pytest.raises(oar.errors.DataError, match="every class needs some weight"):
        oar.Problem(soft, SoftmaxRegression(), oar.Query([0, 0, 0], 1), oar.Perturb(1.0))


@pytest.mark.parametrize("model", [LinearSVM(), LinearSVM(penalise_intercept=True), SoftmaxRegression(), Ridge()])
@pytest.mark.parametrize("budget", [1e3, 1e5])
def test_huge_budgets_stay_bounded(model, budget):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(21, 3)), np.arange(21) % 3
    people = oar.Population(features, rng.normal(size=21) if model.regresses else labels)
    query = oar.Query(features[0], 1, within=0.1 if model.regresses else None)
    result = oar.collective(oar.Problem(people, model, query, oar.Perturb(budget)))
    assert result.success
    assert result.proposal.passes < 50_000
