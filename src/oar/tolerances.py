"""Tolerances that mean the same in several rooms, each once and with its reason.

A tolerance that one file alone needs stands in that file. The audit imports none of these: it keeps its own copies, so
that a number that is wrong here is not wrong there. `docs/maths.md` lists them all, with the audit's.
"""

TIGHT = 1e-10
"""The training gradient of refits that are compared: losses differ by its square, so they are exact to rounding."""

CONVERGED = 1e-6
"""The training gradient above which a refit has not ended in a minimum."""

SOLVED = 1e-6
"""The relative residual of a Hessian solve whose solution only ranks people."""

COARSE = 1e-3
"""The training gradient of a fit to a sample, which is no better an estimate of everyone's fit."""

SUFFICIENT = 1e-4
"""The share of the predicted decrease that a line search must gain (Armijo)."""

FALLS = 1e-9
"""The share of itself by which a loss must fall in a discrete search, whose refits are as tight as that."""

ROUNDING = 1e-12
"""The share by which sums and lengths of many numbers may differ in float64."""

AGREEMENT = 1e-4
"""The relative difference between a derivative and finite differences that a check accepts."""

FEW_PEOPLE = 5
"""The number of people below which a statement about them could be attributed to one of them."""
