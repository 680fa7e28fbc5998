"""The picture of a reliability diagram."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mlestruct.metrics import reliability
from mlestruct.plotting.calibration import plot_reliability


def test_picture(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(500) ** 3
    y = rng.random(500) < p
    results = {"model": reliability(y, p), "sharper": reliability(y, p**2, n_bins=5)}
    figure = plot_reliability(results, path=tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").stat().st_size > 10_000
    diagram, counts = figure.axes
    texts = [text.get_text() for text in diagram.get_legend().get_texts()]
    assert texts[0] == f"model, ECE {results['model'].ece:.4f}"
    assert len(texts) == 3
    drawn = [line for line in diagram.lines if line.get_label() == texts[0]]
    full = results["model"].count > 0
    np.testing.assert_allclose(drawn[0].get_ydata(), results["model"].observed[full])
    assert counts.get_yscale() == "log"

    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert plot_reliability(results["model"], ax=left) is mine
    plot_reliability(reliability([1], [0.5], weight=[0.1]), ax=right)
    free = mine.add_axes([0.1, 0.1, 0.3, 0.3])
    plot_reliability(results, ax=free, path=tmp_path / "mine.pdf")
    assert len(mine.axes) == 6
    with pytest.raises(ValueError, match=r"results: .*empty mapping"):
        plot_reliability({})
