"""The page's examples run as they stand, from top to bottom, and each extension does what the page says."""

import numpy as np
import pytest
from support.pages import page, run

import oar


@pytest.fixture(scope="module")
def names():
    found = run(page("extending"))
    yield found
    if "common-shift" in oar.solvers.registry.names():
        oar.solvers.unregister("common-shift")


def test_the_solver_is_found_and_its_moves_are_audited(names):
    shifted, more = names["shifted"], names["more"]
    assert shifted.proposal.solver == "common-shift"
    assert np.ptp(shifted.plan.moves(), axis=0).max() == 0  # everybody moves alike
    assert shifted.audit.violations == ()
    assert more.loss <= shifted.loss < shifted.audit.loss_before
    assert (
        "'common-shift' does not apply here, because it is for collective recourse; use one of 'auto'"
        in names["reason"]
    )


def test_the_action_is_kept_to_and_named_in_the_audit(names):
    together = names["together"]
    assert together.audit.measured_by == "ellipsoid"
    assert "its author's code" in str(together.audit)
    assert together.audit.movers == 20  # half of forty
    moves = np.asarray(together.plan.moves())
    assert np.linalg.norm(moves / [0.8, 0.2], axis=1).max() <= 1 + 1e-9
    assert together.loss < together.audit.loss_before


def test_the_signal_and_the_defence_are_felt(names):
    assert names["rough"].loss < names["rough"].audit.loss_before
    assert not np.allclose(names["felt"].slopes, names["defended"].slopes)
