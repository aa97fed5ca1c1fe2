"""Labels keep away from what is drawn, and stay in the box."""

import numpy as np

from oar_paper.figures.recourse_map_drawing import beside, emptiest_place, radius_end

LOW, HIGH = np.array([0.0, 0.0]), np.array([10.0, 8.0])


def test_a_label_goes_where_nothing_is():
    place = np.array([5.0, 4.0])
    crowd = np.array([[5.0 + x, 4.0 + y] for x in (-0.6, 0.0, 0.6) for y in (0.0, 0.5)])
    assert beside(place, 0.2, crowd, LOW, HIGH)[2, 1] < 4.0
    assert beside(place, 0.2, crowd * (1, -1) + (0, 8), LOW, HIGH)[2, 1] > 4.0


def test_a_label_at_the_edge_stays_inside():
    corner = np.array([9.9, 7.9])
    covered = beside(corner, 0.3, corner[None], LOW, HIGH)
    assert (covered >= LOW).all()
    assert (covered <= HIGH).all()


def test_a_radius_ends_on_the_circle_and_away_from_the_crowd():
    centre, crowd = np.array([4.0, 4.0]), np.array([[5.5, 4.9], [6.0, 4.9]])
    written = radius_end(centre, 1.5, 1.0, crowd, LOW, HIGH)
    assert np.isclose(np.linalg.norm(written[0] - centre), 1.5)
    assert written[0, 1] < 4.0


def test_a_regions_name_lies_in_its_region():
    centroids = np.array([[2.0, 4.0], [8.0, 4.0], [100.0, 4.0]])
    busy = np.array([[2.0, 1.0]])
    for code in (0, 1):
        place = emptiest_place(centroids, code, busy, LOW, HIGH)
        assert np.linalg.norm(centroids - place, axis=1).argmin() == code
    assert emptiest_place(centroids, 0, busy, LOW, HIGH)[1] > 4.0
    assert emptiest_place(centroids, 2, busy, LOW, HIGH) is None
