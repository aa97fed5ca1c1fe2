"""The iris flowers."""

import numpy as np

from oar.datasets import iris


def test_sizes_types_and_names():
    flowers = iris()
    assert flowers.features.shape == (150, 4)
    assert flowers.features.dtype == np.float64
    assert flowers.features.flags.c_contiguous
    assert flowers.labels.dtype == np.int64
    assert np.bincount(flowers.labels).tolist() == [50, 50, 50]
    assert flowers.class_names == ("setosa", "versicolor", "virginica")
    assert flowers.feature_names[0] == "sepal length (cm)"
    assert "Fisher" in flowers.source
    assert "CC BY 4.0" in flowers.source


def test_the_two_flowers_that_the_uci_file_has_wrong():
    features = iris().features
    # As in Fisher's table; the UCI file has 0.1 as the last number of the first, and 3.1, 1.5 in the second.
    assert features[34].tolist() == [4.9, 3.1, 1.5, 0.2]
    assert features[37].tolist() == [4.9, 3.6, 1.4, 0.1]


def test_every_call_gives_fresh_arrays():
    iris().features[:] = 0
    assert iris().features.min() > 0
