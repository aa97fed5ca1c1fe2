"""Counterfactuals of dice-ml: python run_dice.py FOLDER METHOD, in an environment of its own."""

from __future__ import annotations

import contextlib
import io
import random
import sys
import warnings

import dice_ml
import numpy as np
from exchange import FrameClassifier, Task
from raiutils.exceptions import UserConfigValidationException


def main(folder, method):
    warnings.simplefilter("ignore")
    task = Task(folder)
    data = dice_ml.Data(
        dataframe=task.people.assign(label=task.labels), continuous_features=task.numbers, outcome_name="label"
    )
    model = dice_ml.Model(model=FrameClassifier(task), backend="sklearn")
    explainer = dice_ml.Dice(data, model, method=method)
    vary = [name for name in task.columns if name not in task.immutable]

    def explain(number):
        np.random.seed(number)  # noqa: NPY002  (dice-ml draws from the global generators)
        random.seed(number)
        silent = io.StringIO()
        try:
            with contextlib.redirect_stderr(silent), contextlib.redirect_stdout(silent):
                answer = explainer.generate_counterfactuals(
                    task.applicants.iloc[[number]], total_CFs=1, desired_class=1, features_to_vary=vary
                )
        except UserConfigValidationException:  # what dice-ml raises where it finds none
            return None
        example = answer.cf_examples_list[0]
        # The second is without what its own sparsity search could take back.
        found = example.final_cfs_df if example.final_cfs_df_sparse is None else example.final_cfs_df_sparse
        return None if found is None or not len(found) else found.iloc[0][list(task.columns)].to_dict()

    task.run(explain)


if __name__ == "__main__":
    main(*sys.argv[1:])
