"""Fisher's iris flowers, from the copy that scikit-learn carries."""

from __future__ import annotations

import numpy as np

from oar.datasets.dataset import Dataset

SOURCE = (
    "R. A. Fisher (1936), The use of multiple measurements in taxonomic problems, Annals of Eugenics 7(2), 179–188; "
    "UCI Machine Learning Repository, doi:10.24432/C56C76, licence CC BY 4.0; scikit-learn's copy"
)


def iris() -> Dataset:
    """Return the 150 flowers: four lengths in cm, and the species as label 0, 1 or 2.

    scikit-learn's copy follows Fisher's article. The file of the UCI repository differs from the article in two
    flowers, the 35th and the 38th, so results on the two copies differ slightly.

    >>> iris()
    Dataset('iris', 150 × 4, 3 classes)
    >>> iris().class_names
    ('setosa', 'versicolor', 'virginica')
    """
    from sklearn.datasets import load_iris

    flowers = load_iris()
    return Dataset(
        name="iris",
        features=np.array(flowers.data, dtype=np.float64, order="C"),
        labels=np.array(flowers.target, dtype=np.int64),
        feature_names=tuple(str(name) for name in flowers.feature_names),
        class_names=tuple(str(name) for name in flowers.target_names),
        source=SOURCE,
    )
