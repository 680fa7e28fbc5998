"""Pictures of segmentations and roommates: what they show, and what they refuse."""

import numpy as np
import pytest

from mlestruct.metrics.ranking import pair_roc
from mlestruct.plotting import plot_pixel_marginals, plot_segmentation
from mlestruct.plotting.roommates import plot_roc_curves, plot_roommates
from mlestruct.plotting.style import checked


# ---------------------------------------------------------------------- segmentation
def test_segmentation_figure_has_a_column_for_each_method(tmp_path):
    rng = np.random.default_rng(0)
    image, mask = rng.random((12, 16, 3)), rng.integers(2, size=(12, 16))
    sure = np.stack([1 - mask, mask], axis=2).astype(float)
    figure = plot_segmentation(image, {"sure": sure, "wrong": 1.0 - mask}, mask)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:4] == ["photograph", "truth", "sure, error 0.000", "wrong, error 1.000"]
    rows = plot_segmentation(image, {"a": [sure, None], "b": [sure, sure]}, mask, ["1 s", "2 s"])
    titles = [axes.get_title(loc="left") for axes in rows.axes]
    assert titles[:6] == [
        "photograph", "a, error 0.000", "b, error 0.000",
        "truth", "a: nothing yet", "b, error 0.000",
    ]  # fmt: skip
    assert len(plot_segmentation(image, sure).axes) == 3  # photograph, marginals, colour bar
    rows.savefig(tmp_path / "rows.png")
    assert (tmp_path / "rows.png").stat().st_size > 1000


def test_pixel_marginals_show_the_probability_of_label_one():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    marginals = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    shown = plot_pixel_marginals(axes, marginals, [[1, 1]])
    np.testing.assert_allclose(shown.get_array(), [[0.1, 0.8]])
    assert axes.get_title(loc="left") == "error 0.500"


def test_pictures_of_other_sizes_are_refused():
    image, marginals = np.zeros((4, 5, 3)), np.zeros((4, 5))
    with pytest.raises(ValueError, match=r"mask: expected shape \(4, 5\), got \(5, 4\)"):
        plot_segmentation(image, marginals, np.zeros((5, 4)))
    with pytest.raises(ValueError, match="marginals: expected shape"):
        plot_segmentation(image, np.zeros((4, 5, 3)))
    with pytest.raises(ValueError, match=r"marginals\['a'\]: expected 2 rows, got 1"):
        plot_segmentation(image, {"a": [marginals]}, rows=["1 s", "2 s"])


# ---------------------------------------------------------------------- roommates
def test_picture_has_a_curve_for_each_method_and_a_row_for_each_question(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(10, 10))
    roc = pair_roc(table + table.T, np.arange(10) ^ 1)
    learned = rng.normal(size=(2, 3))
    figure = plot_roommates({"a": roc, "b": roc}, ["x", "y", "z"], learned, [-1, 0, -2])
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == [f"a, AUC {roc.auc:.3f}", f"b, AUC {roc.auc:.3f}", "chance, AUC 0.500"]
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["y", "x", "z"]  # upwards
    figure.savefig(tmp_path / "picture.png")
    assert len(plot_roommates({"a": roc}, ["x"], [1.0]).axes) == 2


def test_weights_of_another_number_are_refused():
    with pytest.raises(ValueError, match=r"learned: expected 2 weights, got \(3,\)"):
        plot_roommates({}, ["x", "y"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"truth: expected 2 weights, got \(1,\)"):
        plot_roommates({}, ["x", "y"], [1.0, 2.0], [1.0])


def test_curves_on_two_scales(tmp_path):
    rates = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])
    curves = {name: rates**power for name, power in (("a", 0.3), ("b", 0.5), ("c", 0.8))}
    figure = plot_roc_curves(rates, curves)
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == ["a", "b", "c", "chance, AUC 0.500"]
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    assert right.get_ylim()[1] == pytest.approx(1.05 * 0.1**0.3, rel=0.05)
    colours = {line.get_color() for line in left.get_lines()}
    assert len(colours) == 4
    figure.savefig(tmp_path / "curves.png")
    with pytest.raises(ValueError, match=r"a: expected 201 rates, got \(3,\)"):
        plot_roc_curves(rates, {"a": [0.0, 0.5, 1.0]})


# ---------------------------------------------------------------------- curves
def test_curves_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"expected values of shape \(n_repetitions, 2\)"):
        checked([1.0], (1, 2))
    assert checked([1.0, 2.0], (1, 2)).shape == (1, 2)
