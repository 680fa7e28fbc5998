"""Pictures of labels: what is drawn, and what is refused."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mlestruct.plotting import plot_graph_labels, plot_pixel_labels, plot_token_marginals


def axes():
    return Figure().add_subplot()


def test_nodes_have_the_colour_of_their_label():
    ax = axes()
    positions = np.arange(8.0).reshape(4, 2)
    marginals = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.25, 0.75]])
    plot_graph_labels(ax, positions, [[0, 1], [1, 2], [2, 3]], ["a", "a", "b", "b"], marginals)
    lines, first, second = ax.collections
    assert len(lines.get_segments()) == 3
    np.testing.assert_array_equal(first.get_offsets(), positions[:2])
    assert first.get_sizes().tolist() == [36.0, 20.0]
    np.testing.assert_array_equal(second.get_offsets(), positions[2:])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(ValueError, match=r"positions: expected shape \(4, 2\)"):
        plot_graph_labels(ax, positions[:3], [[0, 1]], [0, 1, 0, 1])
    with pytest.raises(ValueError, match="'c' is not among the classes"):
        plot_graph_labels(ax, positions, [[0, 1]], ["a", "b", "c", "a"], classes=["a", "b"])


def test_pixels():
    ax = axes()
    plot_pixel_labels(ax, np.array([["x", "y"], ["y", "z"]]), title="labels")
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=r"expected shape \(height, width\)"):
        plot_pixel_labels(ax, np.zeros(3))


def test_tokens():
    ax = axes()
    table = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    plot_token_marginals(
        ax, ["12", "Main", "St"], table, ["number", "street"], ["number"] + ["street"] * 2
    )
    np.testing.assert_array_equal(ax.images[0].get_array(), table.T)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["number", "street"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0, 1, 1])
    with pytest.raises(ValueError, match=r"marginals: expected shape \(2, 2\), got \(3, 2\)"):
        plot_token_marginals(ax, ["12", "Main"], table, ["number", "street"])
