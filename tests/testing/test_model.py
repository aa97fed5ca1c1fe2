import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid as Centroids

from oar.errors import DataError, OARError, OptionError
from oar.estimators.black_box import BlackBox
from oar.estimators.recognise import recognised
from oar.models.autodiff.custom import Custom
from oar.models.autodiff.mlp import MLP
from oar.models.centroid.nearest_centroid import NearestCentroid
from oar.models.differentiable import Differentiable
from oar.models.linear.losses import SoftmaxRegression
from oar.models.linear.training import LinearTraining
from oar.models.naive_bayes import GaussianNaiveBayes, GaussianTraining
from oar.testing import Check, ConformanceError, Report, check_model

NAMES = [
    "initial parameters",
    "loss",
    "pure",
    "outputs",
    "gradient",
    "Hessian product",
    "refit converges",
    "refit deterministic",
    "query gradients",
    "outputs fit losses",
    "score gradients",
    "far away",
    "through training",
    "convex",
    "equivariant",
]


def cross_entropy(w, x, y):
    return jax.nn.logsumexp(w @ x) - y @ (w @ x)


def softmax(**changes):
    settings = {
        "loss": cross_entropy,
        "init": lambda dimensions, outputs: np.zeros((outputs, dimensions)),
        "outputs": lambda w, x: w @ x,
        "penalty": lambda w: 0.01 * (w**2).sum(),
    }
    return Custom(**(settings | changes))


SOUND = softmax()  # one model for all tests that only read its report: what is compiled for it is compiled once


def failures(model, **settings):
    report = check_model(model, raises=False, **settings)
    return {check.name: f"{check.detail} {check.advice}" for check in report.failed}, report


def test_sound_models_pass_every_check():
    report = check_model(SOUND)
    assert [check.name for check in report.checks] == NAMES
    assert report.passed
    assert "all 15 checks passed" in str(report)
    assert check_model(MLP((3,), l2=0.02, loss="squared"), outputs=2, dimensions=2).passed


def test_another_training_can_be_checked_on_given_people():
    rng = np.random.default_rng(0)
    features, codes = rng.normal(size=(25, 2)), np.arange(25) % 3
    report = check_model(
        SoftmaxRegression(), features, np.eye(3)[codes], query=[0.1, 0.2], goal=[0, 1, 0], training=LinearTraining
    )
    assert report.passed


def test_unsound_gradients_are_found():
    frozen = softmax(loss=lambda w, x, y: cross_entropy(jax.lax.stop_gradient(w), x, y) + cross_entropy(w, x, y))
    failed, _ = failures(frozen)
    assert "stop_gradient" in failed["gradient"]
    blind = softmax(loss=lambda w, x, y: cross_entropy(w, jax.lax.stop_gradient(x), y))
    failed, report = failures(blind)
    assert list(failed) == ["query gradients"]
    assert [check.name for check in report.checks if check.passed is None] == [
        "outputs fit losses",
        "score gradients",
        "far away",
        "through training",
        "equivariant",
    ]


def test_a_rounded_feature_is_found():
    failed, _ = failures(softmax(loss=lambda w, x, y: cross_entropy(w, jnp.round(x, 1), y), query_loss=cross_entropy))
    assert "thresholds" in failed["score gradients"]


def test_refits_that_do_not_converge_or_repeat_are_found():
    failed, report = failures(softmax(loss=lambda w, x, y: jnp.abs(w @ x - y).sum()))
    assert "smooth functions" in failed["refit converges"]
    assert all(check.passed is None for check in report.checks[-3:])
    rng = np.random.default_rng(0)
    failed, _ = failures(softmax(init=lambda dimensions, outputs: rng.normal(size=(outputs, dimensions))))
    assert "fixed seed" in failed["initial parameters"]


def details(model, **settings):
    return {check.name: check.detail for check in check_model(model, **settings).checks}


def test_true_claims_pass_and_what_is_not_claimed_is_not_asked():
    said = details(SOUND)
    assert said["convex"] == said["equivariant"] == "not claimed."
    assert "4 other starts end at the same risk" in details(softmax(convex=True))["convex"]
    for model, training in ((SoftmaxRegression(), LinearTraining), (GaussianNaiveBayes(), GaussianTraining)):
        assert "shift of everyone changes" in details(model, training=training)["equivariant"]


def test_false_claims_are_found():
    failed, _ = failures(softmax(equivariant=True))  # without an intercept the origin matters
    assert list(failed) == ["equivariant"]
    assert "Do not claim equivariant=True" in failed["equivariant"]

    def two_valleys(w, x, y):
        return cross_entropy(w, x, y) + (w[0, 0] ** 2 - 1.0) ** 2 - 0.3 * w[0, 0]

    failed, _ = failures(softmax(loss=two_valleys, init=np.ones((3, 3)), convex=True))
    assert list(failed) == ["convex"]
    assert "Do not claim convex=True" in failed["convex"]


def test_a_wrong_closed_form_is_found():
    failed, _ = failures(softmax(closed_form=lambda features, targets, weights: np.ones((3, 3))))
    assert "refit converges" in failed


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"outputs": lambda w, x: (w @ x)[:2]}, "outputs", r"shape (2,) for targets of shape (3,)"),
        ({"outputs": lambda w, x: jnp.log(w @ x)}, "outputs", "finite logits"),
        ({"init": np.zeros((3, 3), int)}, "initial parameters", "must be a pytree of float arrays"),
        ({"loss": lambda w, x, y: w @ x}, "loss", "one float for one person"),
        ({"loss": lambda w, x, y: jnp.log(w.sum())}, "loss", "logarithms"),
        ({"loss": lambda w, x, y: (jnp.argmax(w @ x) != jnp.argmax(y)) * 1.0, "penalty": None}, "loss", "smooth loss"),
        ({"loss": lambda w, x, y: 1 / 0}, "loss", "ZeroDivisionError"),
    ],
)
def test_what_is_missing_is_named(changes, check, words):
    failed, _ = failures(softmax(**changes))
    assert words in failed[check]


def test_missing_methods_are_named():
    class Bare(Differentiable):
        name = "bare"

    failed, report = failures(Bare())
    assert "Give the model initial, outputs and example_loss" in failed["initial parameters"]
    assert sum(check.passed is None for check in report.checks) == len(NAMES) - 1


def test_the_error_lists_every_failed_check_with_advice():
    with pytest.raises(ConformanceError) as caught:
        check_model(softmax(outputs=lambda w, x: w, name="mine"))
    assert isinstance(caught.value, OARError)
    assert str(caught.value).startswith("mine: 2 of 15 checks did not pass.")
    assert "→ Return one logit a class" in str(caught.value)
    assert [check.name for check in caught.value.report.failed] == ["outputs"]


def test_reports_count_what_was_not_run():
    report = Report("m", (Check("a", True, "fine."), Check("b", None, "'a' must pass first.")))
    assert not report.passed
    assert report.failed == ()
    assert "1 of 2" in str(report)


def test_labels_and_single_values_are_taken_as_they_come():
    rng, codes = np.random.default_rng(0), np.arange(40) % 3
    features = rng.normal(size=(40, 3)) + codes[:, None]
    assert check_model(SOUND, features, codes).passed
    assert check_model(SOUND, features, np.array(["a", "b", "c"])[codes]).passed
    assert check_model(MLP((), l2=0.02, loss="squared"), features, features[:, 0] + rng.normal(size=40)).passed
    assert check_model(SoftmaxRegression(), features, codes > 0, training=LinearTraining).passed


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((softmax(), np.ones((4, 2))), DataError, "targets: must be given together with features"),
        ((softmax(), None, [0, 1]), DataError, "features: must be given together with targets"),
        ((softmax(), np.ones((4, 2)), [0, 1]), DataError, "targets: must be one for each of the 4 people, got 2"),
        ((softmax(), [["a"]], [0, 1]), DataError, "features: must be numbers"),
        ((softmax(), np.ones(4), [0, 1]), DataError, "features: must be rows of numbers"),
        ((softmax(), np.ones((4, 2)), np.zeros(4)), DataError, "targets: must be labels of at least two classes"),
        ((LogisticRegression(),), OptionError, "model: must be one of oar.models"),
        ((NearestCentroid(),), OptionError, "model: must be one of oar.models"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        check_model(*arguments)


def ridge(**changes):
    def squared(w, x, y):
        return 0.5 * ((w @ x - y) ** 2).sum()

    return softmax(**({"loss": squared, "regresses": True} | changes))


@pytest.mark.parametrize(
    "model",
    [
        softmax(outputs=lambda w, x: -(w @ x)),
        softmax(outputs=lambda w, x: 0 * (w @ x)),
        softmax(query_loss=lambda w, x, y: -cross_entropy(w, x, y)),
        softmax(query_loss=lambda w, x, y: jax.nn.logsumexp(w @ x)),
        ridge(outputs=lambda w, x: -(w @ x)),
        ridge(outputs=lambda w, x: 0 * (w @ x) + 1.0),
        ridge(query_loss=lambda w, x, y: -((w @ x - y) ** 2).sum()),
        ridge(query_loss=lambda w, x, y: ((w @ x) ** 2).sum()),
    ],
)
def test_outputs_that_do_not_fit_the_losses_are_found(model):
    failed, _ = failures(model)
    assert list(failed) == ["outputs fit losses"]


def test_functions_with_randomness_or_state_are_found():
    calls = []

    def counted(w, x, y):
        calls.append(1)
        return cross_entropy(w, x, y) * len(calls)

    def noisy(w, x, y):
        return cross_entropy(w, x, y) * (1 + np.random.rand())  # noqa: NPY002

    for changes in ({"query_loss": counted}, {"query_loss": noisy}, {"loss": noisy, "query_loss": cross_entropy}):
        failed, _ = failures(softmax(**changes))
        assert "depend on its arguments alone" in failed["pure"]


def test_what_holds_only_near_the_data_is_found():
    def short(w, x, y):  # not a number where anybody is farther than 8 from the origin
        return cross_entropy(w, x, y) + 1e-3 * jnp.sqrt(64.0 - (x**2).sum()) * (w**2).sum()

    failed, _ = failures(softmax(loss=short))
    assert list(failed) == ["far away"]
    assert "only near the data" in failed["far away"]


def test_a_claim_that_nearly_holds_is_found():
    def leaning(parameters):  # an intercept that is hardly penalised
        return 0.01 * (parameters["w"] ** 2).sum() + 1e-5 * (parameters["b"] ** 2).sum()

    def logits(parameters, x):
        return parameters["w"] @ x + parameters["b"]

    def model(penalty):
        return Custom(
            loss=lambda parameters, x, y: jax.nn.logsumexp(logits(parameters, x)) - y @ logits(parameters, x),
            init=lambda d, o: {"w": np.zeros((o, d)), "b": np.zeros(o)},
            outputs=logits,
            penalty=penalty,
            gauge=lambda parameters: 0.5 * parameters["b"].sum() ** 2,
            equivariant=True,
        )

    assert check_model(model(lambda parameters: 0.01 * (parameters["w"] ** 2).sum())).passed
    failed, _ = failures(model(leaning))
    assert list(failed) == ["equivariant"]


@pytest.mark.parametrize("wrapped", [recognised, BlackBox, lambda estimator: estimator])
@pytest.mark.parametrize("estimator", [LogisticRegression(), Centroids()])
def test_estimators_are_refused_kindly(wrapped, estimator):
    with pytest.raises(OptionError, match="one of your own.*nothing to check of estimators.*by their own fit"):
        check_model(wrapped(estimator))


def poisson(sign=1.0, **changes):
    """Counts: the mean is exp(w·x + b), the loss is minus the log-likelihood, which is no function of y − ŷ."""

    def line(own, x):
        return own["w"] @ x + own["b"]

    settings = {
        "loss": lambda own, x, y: sign * (jnp.exp(line(own, x)) - y @ line(own, x)).sum(),
        "init": lambda dimensions, outputs: {"w": np.zeros((outputs, dimensions)), "b": np.zeros(outputs)},
        "outputs": lambda own, x: jnp.exp(line(own, x)),
        "penalty": lambda own: 0.05 * (own["w"] ** 2).sum(),
        "regresses": True,
        "convex": True,
    }
    return Custom(**(settings | changes))


def test_a_poisson_regression_passes_and_one_whose_outputs_are_logarithms_does_not():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2))
    people = {"features": features, "targets": rng.poisson(np.exp(0.5 + features @ [0.4, -0.3])).astype(float)}
    assert check_model(poisson(), **people, goal=[3.0]).passed
    failed, _ = failures(poisson(outputs=lambda own, x: own["w"] @ x + own["b"]), **people, goal=[3.0])
    assert "look for a wrong sign" in failed["outputs fit losses"]


def test_a_loss_that_learns_its_own_spread_passes():
    """log s + (y − ŷ)²/2s² is least in y at the prediction, and not least in θ there."""

    def loss(own, x, y):
        return (own["log_s"] + 0.5 * (y - own["w"] @ x - own["b"]) ** 2 * jnp.exp(-2 * own["log_s"])).sum()

    model = Custom(
        loss=loss,
        init=lambda dimensions, outputs: {
            "w": np.zeros((outputs, dimensions)),
            "b": np.zeros(outputs),
            "log_s": np.zeros(1),
        },
        outputs=lambda own, x: own["w"] @ x + own["b"],
        penalty=lambda own: 0.05 * (own["w"] ** 2).sum(),
        regresses=True,
    )
    assert check_model(model).passed
