"""Streams: batches become people with rounds; what does not fit is refused by name."""

import numpy as np
import pandas
import pytest
from support.online_problems import batch

import oar
from oar.online import Stream

TWO = ([[0.0], [1.0]], ["no", "yes"])


def test_batches_become_one_population_with_rounds_weights_and_all_classes():
    stream = Stream.of_batches(
        [TWO, oar.Population([[2.0]], ["perhaps"], [3.0])], history=([[5.0], [6.0]], ["no", "never"])
    )
    assert stream.when.tolist() == [0, 0, 1, -1, -1]
    assert stream.people.classes == ("never", "no", "perhaps", "yes")
    assert stream.people.weights.tolist() == [1, 1, 3, 1, 1]
    assert (stream.rounds, stream.batches) == (2, 3)
    assert stream.rows(1).tolist() == [2]
    assert repr(stream) == "Stream(2 rounds, 3 people × 1, 2 before)"


def test_a_rule_reads_the_newest_batches_and_history_is_the_batch_before_the_first():
    stream = Stream.of_batches([TWO, TWO, TWO], history=TWO)
    assert stream.read_by(1, 2).tolist() == [4, 5]
    assert stream.read_by(2, 1).tolist() == [0, 1, 2, 3]
    assert stream.read_by(2, 0).tolist() == [0, 1, 6, 7]
    assert stream.read_by(None, 1).tolist() == [0, 1, 2, 3, 6, 7]


def test_persons_are_the_same_in_every_batch_or_as_they_are_numbered():
    assert Stream.of_batches([TWO, TWO], who=True).who.tolist() == [0, 1, 0, 1]
    assert Stream.of_batches([TWO, TWO], who=[[4, 9], [9, 5]], history=TWO).who.tolist() == [4, 9, 9, 5, 10, 11]
    assert Stream.of_batches([TWO]).who is None


def test_labels_keep_their_kind_and_columns_their_names():
    frame = pandas.DataFrame({"age": [1.0, 2.0]})
    stream = Stream.of_batches([(frame, [1, 2]), (frame, ["1", "2"])])
    assert stream.people.names == ("age",)
    assert set(stream.people.classes) == {1, 2, "1", "2"}
    soft = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert Stream.of_batches([(TWO[0], soft), (TWO[0], soft)]).people.class_rows().shape == (4, 2)


@pytest.mark.parametrize(
    ("batches", "options", "words"),
    [
        ([], {}, "batches: must be at least one, got none"),
        ([TWO, ([[0.0, 1.0]], ["no"])], {}, r"batches\[1\]: must have as many features as the others, 1"),
        ([TWO, "people"], {}, r"batches\[1\]: must be an oar.Population or a pair"),
        ([TWO, ([[np.nan]], ["no"])], {}, r"batches\[1\]: features: must be finite"),
        ([TWO, (TWO[0], np.eye(2))], {}, r"batches\[1\]: must have labels as batches\[0\] has them"),
        ([(TWO[0], pandas.DataFrame({"no": [1.0, 0.0], "yes": [0.0, 1.0]}))], {}, "label columns without names"),
        ([TWO], {"history": 3}, "history: must be an oar.Population or a pair"),
        ([TWO, ([[0.0]], ["no"])], {"who": True}, r"who: True means .* got batches of \[1, 2\] people"),
        ([TWO, TWO], {"who": [[0, 1]]}, "who: must be True, or the persons of each of 2 batches"),
        ([TWO, TWO], {"who": [[0, 1], [2, 2]]}, r"who\[1\]: must name everybody once"),
        ([TWO, TWO], {"who": [[0, 1], [0.5, 2]]}, r"who\[1\]: must be one whole number"),
        ([TWO, (pandas.DataFrame({"a": [1.0]}), ["no"])], {}, r"batches\[1\]: must have the same columns"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(batches, options, words):
    with pytest.raises(oar.errors.DataError, match=words):
        Stream.of_batches(batches, **options)


@pytest.mark.parametrize("when", [[0, 2] * 4 + [0], [-1] * 9, [-2] + [0] * 8, [0.5] * 9, [0] * 8])
def test_rounds_must_be_whole_and_without_gaps(when):
    with pytest.raises(oar.errors.DataError, match="^when: "):
        Stream(batch(0), np.array(when))


def test_tables_of_one_schema_come_in_rounds():
    """Names of rows are kept where they are somebody's alone, and what was filled in stays known."""
    first = pandas.DataFrame({"job": ["a", "b", None], "pay": [1, 2, 3], "y": ["no", "yes", "no"]}, index=list("uvw"))
    later = pandas.DataFrame({"job": ["b", "a"], "pay": [4, 5], "y": ["yes", "no"]}, index=list("xy"))
    people = oar.Population.from_frame(first, target="y", missing="impute")
    others = oar.Population.from_frame(later, target="y", schema=people.schema)
    both = Stream.of_batches([people, others]).people
    assert both.schema == people.schema
    assert (list(both.index), both.target) == (list("uvwxy"), "y")
    assert both.imputed.tolist() == [[False] * 2] * 2 + [[True, False]] + [[False] * 2] * 2
    np.testing.assert_array_equal(both.features, np.vstack([people.features, others.features]))
    assert both.encoding.decode(both.features, both.index)["pay"].tolist() == [1, 2, 3, 4, 5]
    twice = Stream.of_batches([others, others], who=True).people
    assert list(twice.index) == [0, 1, 2, 3]
    few = oar.Population.from_frame(later.assign(job="b"), target="y")
    with pytest.raises(oar.errors.OptionError, match=r"batches\[1\]: must have the schema of batches\[0\]"):
        Stream.of_batches([people, few])
    with pytest.raises(oar.errors.OptionError, match=r"batches\[1\]: must have the schema of batches\[0\]"):
        Stream.of_batches([people, TWO])
