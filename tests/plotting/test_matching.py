"""Pictures of matchings."""

import numpy as np
import pytest

from mlestruct.datasets import make_landmark_sequence, toy_house
from mlestruct.plotting import plot_mismatch
from mlestruct.plotting.matching import plot_drawings


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_a_drawing_has_all_faces_and_fills_those_in_view(axes):
    """From the front and one side: two walls, a roof, three of the chimney, door, windows."""
    house = toy_house()
    front = make_landmark_sequence(
        n_frames=1, noise=0.0, elevation=15.0, first_degrees=10.0, body=house.points
    ).points[0]
    truth = np.random.default_rng(0).permutation(30)
    right = np.empty_like(front)
    right[truth] = front
    left, moved = plot_drawings(axes, front, right, truth, house)
    np.testing.assert_allclose(np.ptp(moved[truth] - left, axis=0), 0.0, atol=1e-12)
    assert len(axes.patches) == 2 * len(house.faces)
    filled = [patch for patch in axes.patches if patch.get_fill() and patch.get_facecolor()[3] > 0]
    assert len(filled) == 2 * 9


def test_wrong_pairs_are_counted_and_points_chosen():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    marginals = np.full((4, 4), 0.05)
    marginals[0, 0] = 0.99
    marginals[[1, 2], [2, 1]], marginals[[1, 2], [1, 2]] = 0.5, 0.4
    figure = plot_mismatch(left, right, np.array([0, 2, 1, 3]), np.arange(4), marginals)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0] == "Predicted assignment: 2 of 4 wrong (red)"
    assert titles[1].startswith("Sure: probability 0.99")
    assert titles[2].startswith("Unsure, wrongly matched: 0.40 for the true partner,\n0.50")


def test_points_without_a_partner():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    marginals = np.array([[0.8, 0.1, 0.0], [0.1, 0.7, 0.1], [0.0, 0.1, 0.3]])
    truth = np.array([0, 1, -1])
    figure = plot_mismatch(left, right, np.array([0, 1, 2]), truth, marginals)
    single, partner = 1 - 0.4, 0.3  # of the last one, wrongly matched
    title = figure.axes[2].get_title(loc="left")
    assert title.startswith(f"Unsure, wrongly matched: {single:.2f} for the true partner")
    assert title.endswith(f"{partner:.2f} for the predicted one")
    rings = [len(axes.collections) for axes in figure.axes[1:]]
    assert rings[0] == rings[1] + 1  # nobody is ringed where there is no true partner
