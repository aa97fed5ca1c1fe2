"""Networks on people who are odd but allowed: an audited answer, and no warning (pytest turns them into errors)."""

import numpy as np
import pytest
from support.differentiation import small_people

import oar
from oar.models import MLP, PrototypeNetwork
from oar.solvers import ProjectedGradient

FEATURES, _, _, CODES = small_people(people=12)
CONSTANT = np.where([False, True, False], 7.0, FEATURES)
MODELS = [
    MLP((3,), l2=1e-2),
    PrototypeNetwork((3, 4), train_embedding=True),  # more dimensions than classes: rotations are left free
]
IDS = ["mlp", "trained and wide"]


def asked(model, features, codes, budget=0.3):
    people = oar.Population(features, codes)
    problem = oar.Problem(people, model, oar.Query(np.asarray(features[1], float), goal=0), oar.Perturb(budget))
    return oar.collective(problem, solver=ProjectedGradient(max_steps=2, restarts=0))


@pytest.mark.parametrize("model", MODELS, ids=IDS)
@pytest.mark.parametrize(
    ("features", "codes"),
    [
        (CONSTANT, CODES),
        (FEATURES[:2], CODES[:2]),
        (FEATURES[CODES < 2], CODES[CODES < 2]),
        (FEATURES.astype(np.float32), CODES),
    ],
    ids=["constant feature", "one a class", "two classes", "float32"],
)
def test_odd_people_get_an_audited_answer(model, features, codes):
    result = asked(model, features, codes)
    assert np.isfinite([result.loss_before, result.loss, result.proposal.claimed_loss]).all()
    assert result.proposal.claimed_loss <= result.loss_before + 1e-6
    assert not result.audit.violations


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_a_budget_of_nothing_changes_nothing(model):
    result = asked(model, FEATURES, CODES, budget=0.0)
    assert result.loss == result.loss_before
    assert result.audit.movers == 0
