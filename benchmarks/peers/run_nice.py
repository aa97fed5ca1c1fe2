"""Counterfactuals of NICEx: python run_nice.py FOLDER OPTIMISATION, in an environment of its own.

NICEx has no option that keeps features as they are: what it changes is counted by the judge.
"""

from __future__ import annotations

import sys

from exchange import CodeClassifier, Task
from nice import NICE


def main(folder, optimisation):
    task = Task(folder)
    classifier = CodeClassifier(task)
    people, applicants = classifier.codes(task.people), classifier.codes(task.applicants)
    words = [place for place, name in enumerate(task.columns) if name in task.words]
    explainer = NICE(
        predict_fn=classifier.predict_proba,
        X_train=people,
        y_train=task.labels,
        cat_feat=words,
        num_feat=[place for place in range(people.shape[1]) if place not in words],
        optimization=optimisation,
        justified_cf=True,
        num_normalization="std",  # the unit of the cost by which all are judged
    )
    task.run(lambda number: classifier.row(explainer.explain(applicants[[number]].copy())[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
