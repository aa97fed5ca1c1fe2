"""The page on estimators: its Python runs as it stands, and its table knows every estimator and setting."""

import re

import sklearn.linear_model
import sklearn.naive_bayes
import sklearn.neighbors
import sklearn.svm
from support.pages import run, section

from oar.estimators.recognise import KNOWN

SECTION = section("estimators", "Known estimators")
ROOMS = sklearn.linear_model, sklearn.naive_bayes, sklearn.neighbors, sklearn.svm


def test_the_examples_run_and_print_what_they_say(capsys):
    names = run(SECTION)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "LogisticRegression(C=2.0, class_weight='balanced', max_iter=10000, tol=1e-09).fit"
    assert printed[2:] == ["True", "True"]
    assert not names["result"].disagreement


def test_the_table_knows_every_estimator_and_only_settings_that_there_are():
    lines = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", SECTION, flags=re.MULTILINE)
    known = {name for name in KNOWN if any(hasattr(room, name) for room in ROOMS)} - {"SGDClassifier"}
    assert {name for name, _, _ in lines} == known | {"NearestCentroid"}
    for name, followed, refused in lines:
        kind = next(getattr(room, name) for room in ROOMS if hasattr(room, name))
        for setting in re.findall(r"`(\w+)[`=]", followed + refused):
            assert setting in kind().get_params(), (name, setting)
