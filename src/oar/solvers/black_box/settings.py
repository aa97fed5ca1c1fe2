"""Settings of the solvers for models that can only be trained and asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oar.checks import is_number
from oar.errors import DataError, OptionError, choose, with_near_names
from oar.models import Differentiable
from oar.models.settings import check_flag, check_seed
from oar.people import Population
from oar.signals.base import check_count
from oar.solvers.settings import Usual
from oar.typing import ModelLike, PeopleLike

POLICIES = ("auto", "classes", "signal")


@with_near_names
@dataclass(frozen=True)
class Surrogate:
    """Plan for auxiliary models that are trained on public data, and hope that the plan transfers.

    Several surrogates are planned for at once: the plan lowers the mean of their goal losses. Where the public data are
    not the people themselves, the plan is made among the public people, with the same limits and budget, and members
    then answer the signals found there, each within its own limits.

    Args:
        models: the families, models of `oar.models`; None for softmax regression and a linear SVM behind a scaler
            (values: ridge regression behind a scaler).
        public: what the surrogates are trained on: 1.0 for the people themselves, a share of them, drawn by the seed,
            or an oar.Population of others, with the same features and classes. None is 1.0 for up to some 3,000
            people, and as many of more.
        number: how many surrogates; None for one of each family. Families take turns, and from the second turn on each
            is trained on a bootstrap draw of the public data (networks from other initial weights as well).
        seed: of all draws.
        distil: whether public people get the labels that the black box predicts for them, as it was trained on the
            people as they are, rather than their own. That takes one training and one question.
    """

    models: Any = None
    public: Any = None
    number: int | None = None
    seed: int = 0
    distil: bool = False

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            models: str | ModelLike | Sequence[str | ModelLike] | None = None,
            public: float | PeopleLike | None = None,
            number: int | None = None,
            seed: int = 0,
            distil: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        if self.models is not None:
            several = isinstance(self.models, list | tuple)
            models = tuple(self.models) if several else (self.models,)
            if not models or not all(isinstance(model, Differentiable) and not model.plain_means for model in models):
                raise DataError(
                    f"models: must be models of oar.models that are trained, got {self.models!r}; for centroids use "
                    "oar.models.PrototypeNetwork()."
                )
            object.__setattr__(self, "models", models)
        share = 1.0 if self.public is None or isinstance(self.public, Population) else self.public
        if not is_number(share) or not 0 < share <= 1:
            raise DataError(
                f"public: must be a share of the people above 0 and at most 1, or an oar.Population, got {share!r}."
            )
        if self.number is not None:
            check_count("number", self.number)
        check_seed(self.seed)
        check_flag("distil", self.distil)


@with_near_names
@dataclass(frozen=True)
class DirectSearch:
    """Search by true trainings over a policy of few numbers, with `cma`, from the surrogates' plan.

    Staying put and the surrogates' plan are tried first, so that what comes out is never worse than either by the
    trainings that were seen. Where training is random, candidates of one generation share a seed, generations have
    seeds of their own, and finalists are compared over several fresh ones.

    Args:
        refits: how often the black box may be trained to plan, everything included; audits come on top. 20 with
            effort="quick", 240 with "thorough".
        policy: what is searched over: "classes", a shift for each class that is added to the start's moves and brought
            back into everyone's own limits (for values: one for all, and one that grows with the value); "signal",
            the weights with which the surrogates' signals are added up, which members answer within their limits, and
            of a small linear surrogate the signal's own entries. "auto" is "signal", and "classes" if half of the
            trainings have found nothing better, or where there are no surrogates.
        start: "surrogate", a `Surrogate(…)`, or "nothing".
        time_limit: seconds; no training is begun that would end later if it took as long as the longest so far.
        seed: of the search.
    """

    refits: int = Usual(60)
    policy: str = "auto"
    start: Any = "surrogate"
    time_limit: float = np.inf
    seed: int = 0

    if TYPE_CHECKING:  # what it takes; the fields are what becomes of it

        def __init__(
            self,
            refits: int = 60,
            policy: str = "auto",
            start: str | Surrogate = "surrogate",
            time_limit: float = np.inf,
            seed: int = 0,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_count("refits", self.refits)
        choose("policy", self.policy, POLICIES)
        if not isinstance(self.start, Surrogate):
            if not isinstance(self.start, str):
                raise OptionError(
                    f"start: must be 'surrogate', 'nothing' or an oar.solvers.Surrogate(…), got {self.start!r}."
                )
            choose("start", self.start, ("surrogate", "nothing"))
        if self.policy == "signal" and self.start == "nothing":
            raise OptionError("start: signals are those of surrogates, so policy='signal' cannot start from 'nothing'.")
        limit = self.time_limit
        if not is_number(limit) or not limit >= 0:
            raise DataError(f"time_limit: must be a number of seconds ≥ 0, got {limit!r}.")
        check_seed(self.seed)

    @property
    def surrogate(self) -> Surrogate | None:
        """What it starts from; None where that is nothing."""
        if isinstance(self.start, Surrogate):
            return self.start
        return Surrogate(seed=self.seed) if self.start == "surrogate" else None
