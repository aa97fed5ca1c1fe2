"""Where people who are not in memory have moved to: a function of their own data and a few signals.

A projected step of length α from moves δ, with the signal (θ, v), leads everyone to

    aim_i = P_i(δ_i + α ∇_x s(x_i + δ_i)),        and by a share λ of the way there        δ_i ← δ_i + λ (aim_i − δ_i)

in which P_i is the projection into the person's own ball. A *walk* is the list of these (θ, v, α, λ): a few kilobytes
from which everyone's move follows, without anybody else's data. So moves need not be kept by anybody; whoever keeps
them only saves the time of walking again, and a worker that is lost takes nothing with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oar.actions.sets.norms import Norm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stride:
    """One step: the signal θ and v (o, d + 1), in the training's units; how long; and what share of the way."""

    parameters: Array
    signal: Array
    length: float
    share: float = 1.0

    @property
    def signature(self) -> bytes:
        """What it is told apart by."""
        numbers = np.concatenate([self.parameters.ravel(), self.signal.ravel(), [self.length, self.share]])
        return numbers.tobytes()


@dataclass(frozen=True, eq=False)
class SignalPath:
    """Steps, one after the other, from where people stand or from a common shift (d,) of all who may move."""

    strides: tuple[Stride, ...] = ()
    shift: Array | None = None
    names: tuple[str, ...] = ()
    """What it was called before its first step, and after each, by everything that it consisted of then."""

    def __post_init__(self) -> None:
        """Name its beginning, and what came after."""
        if not self.names:
            names = [_named(b"" if self.shift is None else self.shift.tobytes())]
            for stride in self.strides:
                names.append(_named(names[-1].encode() + stride.signature))
            object.__setattr__(self, "names", tuple(names))

    @property
    def key(self) -> str:
        """What it is called."""
        return self.names[-1]

    def then(self, stride: Stride) -> SignalPath:
        """Return this walk with one more step."""
        name = _named(self.key.encode() + stride.signature)
        return SignalPath((*self.strides, stride), self.shift, (*self.names, name))

    @property
    def before(self) -> SignalPath:
        """The same without its last step."""
        return SignalPath(self.strides[:-1], self.shift, self.names[:-1])

    def begin(self, norm: Norm, radii: Array, dimensions: int) -> Array:
        """Return everyone's moves (n, d) before the first step."""
        if self.shift is None:
            return np.zeros((radii.size, dimensions))
        return norm.project(np.tile(self.shift, (radii.size, 1)), radii)


def stepped(stride: Stride, norm: Norm, radii: Array, moves: Array, ahead: Array) -> tuple[Array, Array]:
    """Return everyone's moves after a step, and the aims; `ahead` are ∇_x s (n, d)."""
    aims = norm.project(moves + stride.length * ahead, radii)
    if stride.share == 1:
        return aims, aims
    # Between two points of a ball one can leave it by rounding only, but must not.
    return norm.project(moves + stride.share * (aims - moves), radii), aims


def _named(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=10).hexdigest()
