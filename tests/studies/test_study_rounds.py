"""Studies of problems over rounds: cells are problems over rounds, and another schedule is another study."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.online_problems import three_rounds

import oar
from oar.online import FullRefit, Stream, Window
from oar.studies.cells import Cell
from oar.studies.work import Work

SOFTMAX = oar.SoftmaxRegression(0.1)


def asked(problem, folder, **axes):
    return oar.study(problem, store=folder / "study.sqlite", workers=1, progress=False, **axes)


def test_shares_are_of_persons_after_the_history(tmp_path):
    problem = three_rounds(SOFTMAX, FullRefit())
    before = Stream.of_batches([(problem.people.features[:6], ["no"] * 3 + ["yes"] * 3)] * 2,
                               history=(problem.people.features[6:12], ["no"] * 3 + ["yes"] * 3), who=True)  # fmt: skip
    problem = replace(problem, stream=before)
    table = asked(problem, tmp_path, participation=[0.5, 1.0]).table()
    for row in table.itertuples():
        some = replace(problem, action=oar.Perturb(0.4, participants=row.participation, seed=0))
        assert len(np.unique(before.who[some.radii > 0])) == (3 if row.participation == 0.5 else 6)
        alone = oar.collective(some)
        assert (row.loss, row.movers) == (alone.loss, alone.audit.movers)


def test_who_is_named_by_a_mask_takes_part(tmp_path):
    problem = three_rounds(SOFTMAX, FullRefit())
    few = replace(problem, action=oar.Perturb(0.4, participants=np.arange(18) % 2 == 0))
    (row,) = asked(few, tmp_path).table().itertuples()
    assert row.loss == oar.collective(few).loss
    with pytest.raises(oar.errors.OptionError, match="the problem's action says who takes part"):
        asked(few, tmp_path, participation=[0.5])


@pytest.mark.parametrize(
    "changes", [{"rule": Window(2)}, {"goal_for": "every"}, {"shared": True}, {"start": np.zeros(3)}], ids=list
)
def test_another_schedule_is_another_study(tmp_path, changes):
    problem = three_rounds(SOFTMAX, FullRefit())
    asked(problem, tmp_path, budgets=[0.2])
    assert len(asked(problem, tmp_path, budgets=[0.2, 0.3]).table()) == 2
    with pytest.raises(oar.errors.StorageError, match="differs in people"):
        asked(replace(problem, **changes), tmp_path, budgets=[0.2])


def test_work_is_handed_to_other_processes():
    problem = three_rounds(oar.NearestCentroid(), FullRefit())
    work = Work(problem, {"it": problem.model}, {"0": problem.query}, "auto")
    cell = Cell("it", "0", 0.3, None, None)
    (unit,) = work.units([cell])
    assert not unit.quick
    assert pickle.loads(pickle.dumps(work)).answers(unit) == work.answers(unit)
