"""Pictures of recordings and couplings."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mlestruct.plotting import plot_couplings, plot_raster, plot_stimulus_roc

EDGES, COUPLINGS = np.array([[0, 1], [1, 2]]), np.array([1.5, -0.5])


def test_couplings(tmp_path):
    file = tmp_path / "couplings.png"
    figure = plot_couplings(EDGES, COUPLINGS, np.eye(3)[:, :2], [[0, 1]], path=file)
    assert file.read_bytes()[:4] == b"\x89PNG"
    (lines,) = (c for c in figure.axes[0].collections if hasattr(c, "get_segments"))
    widths, colours = lines.get_linewidths(), lines.get_colors()
    assert widths[0] < widths[1], "the strongest on top"
    assert (colours[0] != colours[1]).any()


def test_couplings_without_positions_or_edges():
    circle = plot_couplings(EDGES, COUPLINGS, n_nodes=5)
    assert len(circle.axes[0].collections[1].get_offsets()) == 5
    plot_couplings(np.zeros((0, 2)), [], n_nodes=2)
    with pytest.raises(ValueError, match="couplings"):
        plot_couplings(EDGES, [1.0])
    with pytest.raises(ValueError, match="edges: expected whole numbers from 0 to 1"):
        plot_couplings(EDGES, COUPLINGS, np.zeros((2, 2)))


def test_raster():
    rng = np.random.default_rng(0)
    spikes, stimuli = rng.integers(0, 2, (50, 4)), rng.integers(0, 2, (50, 2))
    figure = plot_raster(spikes, stimuli, rng.random((50, 2)), slice(10, 30))
    assert len(figure.axes) == 3
    assert len(figure.axes[0].collections[0].get_offsets()) == spikes[10:30].sum()
    with pytest.raises(ValueError, match="predictions"):
        plot_raster(spikes, stimuli, rng.random((50, 1)))
    with pytest.raises(ValueError, match="stimuli: expected shape"):
        plot_raster(spikes[:3], stimuli)


def test_roc_passes_through_the_shares():
    figure = plot_stimulus_roc([[0.9], [0.8], [0.8], [0.1]], [[1], [0], [1], [0]])
    assert isinstance(figure, Figure)
    curve = figure.axes[0].lines[1]
    np.testing.assert_allclose(curve.get_xdata(), [0, 0, 0.5, 1])
    np.testing.assert_allclose(curve.get_ydata(), [0, 0.5, 1, 1])
    assert "AUC 0.875" in curve.get_label()
    with pytest.raises(ValueError, match="stimuli: expected shape"):
        plot_stimulus_roc([[0.9]], [[1, 0]])
