"""Types of arguments: the values that users may pass, under one name each, for annotations.

Nothing here does anything at run time: what an argument must be is checked where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, Union

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas

    from oar.actions import Perturb, Relabel, Withhold
    from oar.actions.limits.limit import Limit, Limits
    from oar.actions.limits.plausible import Plausible
    from oar.actions.participation import Best
    from oar.actions.sets.norms import Norm
    from oar.defences.base import Defence
    from oar.estimators import BlackBox
    from oar.goals import AnyBut, Between, Members
    from oar.models import Model
    from oar.people import Population
    from oar.signals import Signal
    from oar.worlds import CollectiveView, Deed

__all__ = [
    "ActionLike",
    "BoundsLike",
    "Budget",
    "Client",
    "DefenceLike",
    "Estimator",
    "Features",
    "FilePath",
    "Frame",
    "Goal",
    "Groups",
    "Label",
    "Labels",
    "LimitsLike",
    "ModelLike",
    "NormLike",
    "Participants",
    "PeopleLike",
    "PlausibleLike",
    "Policy",
    "PolicyLike",
    "PublicData",
    "QueryFeatures",
    "Row",
    "Settings",
    "SignalLike",
    "SolverLike",
    "Weights",
]


class ForeignTable(Protocol):
    """A table of another library that pandas can read, such as polars' and pyarrow's."""

    def to_pandas(self) -> Any:
        """Return it as a pandas DataFrame."""
        ...


class Estimator(Protocol):
    """Somebody else's model, by scikit-learn's conventions."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Train on these rows."""
        ...

    def predict(self, X: Any, /) -> Any:
        """Return a prediction for each row."""
        ...


class Settings(Protocol):
    """Settings of a solver: a frozen dataclass such as `oar.solvers.ProjectedGradient`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Client(Protocol):
    """A `dask.distributed.Client`."""

    def submit(self, *arguments: Any, **settings: Any) -> Any:
        """Have a worker call a function."""
        ...


class Beginning(Protocol):
    """A policy that begins anew in every simulation, such as `oar.worlds.PlanOnce`."""

    def begin(self) -> Callable[[CollectiveView], Deed]:
        """Return the function of a view that it is in this one."""
        ...


FilePath: TypeAlias = str | os.PathLike[str]
Label: TypeAlias = Hashable
Frame: TypeAlias = Union["pandas.DataFrame", ForeignTable]
Features: TypeAlias = Union[ArrayLike, "pandas.DataFrame", ForeignTable]  # (n, d)
Row: TypeAlias = Union[ArrayLike, "pandas.Series[Any]", Mapping[str, object]]  # (d,)
Labels: TypeAlias = Union[ArrayLike, "pandas.Series[Any]", Sequence[Hashable]]  # (n,), or (n, k) soft labels or values
Weights: TypeAlias = Union[ArrayLike, "pandas.Series[Any]"]  # (n,)
Groups: TypeAlias = Union[str, Sequence[str], ArrayLike, "pandas.Series[Any]"]  # a column, several, or one for each
PeopleLike: TypeAlias = Union["Population", tuple[Features, Labels]]
QueryFeatures: TypeAlias = Union[Features, Row, Sequence[Row], "Members"]
Goal: TypeAlias = Union[Label, ArrayLike, Set[Label], Sequence[Label], "AnyBut", "Between"]
Budget: TypeAlias = Union[float, ArrayLike, "pandas.Series[Any]"]  # ε for all, or one for each
NormLike: TypeAlias = Union[float, str, "Norm"]  # 1, 2 or ∞
Participants: TypeAlias = Union[
    float, ArrayLike, "pandas.Series[Any]", Mapping[str, object], Callable[["Population"], ArrayLike], "Best", None
]
PlausibleLike: TypeAlias = Union[float, "Plausible", None]
LimitsLike: TypeAlias = Union["Limits", Mapping[str, Union["Limit", Mapping[str, object]]], FilePath, None]
ActionLike: TypeAlias = Union["Perturb", "Relabel", "Withhold", Sequence[Union["Perturb", "Relabel", "Withhold"]]]
ModelLike: TypeAlias = Union["Model[Any]", "BlackBox", Estimator]
BoundsLike: TypeAlias = Mapping[str, tuple[float, float]] | tuple[ArrayLike, ArrayLike] | None  # lower, upper
PublicData: TypeAlias = Union[float, "Population", tuple[str, "Population"]]  # a share of the people, or others
Policy: TypeAlias = Union[Callable[["CollectiveView"], "Deed"], "Beginning"]  # what a collective does in a round
PolicyLike: TypeAlias = Policy | Mapping[str, Policy] | None
SolverLike: TypeAlias = str | Settings
SignalLike: TypeAlias = Union[str, "Signal"]
DefenceLike: TypeAlias = Union["Defence", Sequence["Defence"]]
