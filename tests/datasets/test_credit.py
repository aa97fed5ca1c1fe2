"""German credit: what ships is UCI's file in words, and its limits fit its columns."""

import numpy as np
import pandas as pd
import pytest

import oar
import oar.datasets.credit
from oar.datasets import german_credit
from oar.datasets.credit import CODES


def test_the_shipped_words_are_the_raw_file(german_data):
    raw = [line.split() for line in (german_data / "german.data").read_text().splitlines()]
    frame = german_credit().frame
    assert len(frame) == len(raw) == 1000
    for place, (name, words) in enumerate(CODES.items()):
        expected = [words[row[place]] if words else row[place] for row in raw]
        assert frame[name].astype(str).tolist() == expected, name


def test_sizes_counts_and_kinds():
    loans = german_credit()
    assert loans.frame.shape == (1000, 21)
    assert loans.frame[loans.target].value_counts().to_dict() == {"good": 700, "bad": 300}  # as published
    assert not loans.frame.isna().any().any()
    assert [column.name for column in loans.schema if column.kind == "ordinal"] == ["employment", "job"]
    employment = loans.frame["employment"]
    assert employment.cat.ordered
    assert employment.min() == "unemployed"
    assert loans.frame["age"].agg(["min", "max"]).tolist() == [19, 75]
    for said in ("Hofmann (1994)", "10.24432/C5NC77", "CC BY 4.0"):
        assert said in loans.source


def test_a_linear_model_learns_what_others_learn_from_it():
    sklearn = pytest.importorskip("sklearn.linear_model")
    people = german_credit().population
    features = (people.features - people.features.mean(axis=0)) / people.features.std(axis=0)
    train = np.arange(1000) % 4 > 0
    model = sklearn.LogisticRegression(C=0.1, max_iter=1000).fit(features[train], people.labels[train])
    # Published accuracies of linear models are 0.73 to 0.78; shuffled words would give the base rate, 0.7.
    assert model.score(features[~train], people.labels[~train]) > 0.72


def test_people_decode_to_the_frame():
    loans = german_credit()
    people = loans.population
    assert people.classes == ("bad", "good")
    features = loans.frame.drop(columns=loans.target)
    pd.testing.assert_frame_equal(people.encoding.decode(people.features, loans.frame.index), features)
    np.testing.assert_array_equal(people.vector(features.iloc[7], "query"), people.features[7])


def test_limits_fit_the_columns_and_spare_who_people_are():
    loans = german_credit()
    checked = loans.limits.check(loans.schema)
    for name in ("age", "personal_status", "foreign_worker", "dependents", "credit_history"):
        assert checked.columns[name].immutable
    assert set(checked.columns) == set(loans.schema.names)
    assert checked.columns["employment"].direction == "up"
    for name in ("duration", "amount", "installment_rate"):
        limit = checked.columns[name]
        assert loans.frame[name].between(limit.lower, limit.upper).all()


def test_every_call_gives_a_fresh_frame():
    spoilt = german_credit().frame
    spoilt["amount"] = 0
    assert german_credit().frame["amount"].min() == 250


@pytest.mark.parametrize("content", [None, b"", b"a,b\n1,2\n"])
def test_a_damaged_installation_is_named(tmp_path, monkeypatch, content):
    path = tmp_path / "german_credit.csv"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(oar.datasets.credit, "FILE", path)
    with pytest.raises(oar.errors.StorageError, match="german_credit.csv .*reinstall the package"):
        german_credit()
