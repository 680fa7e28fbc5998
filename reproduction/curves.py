"""Curves over repetitions, as several figures draw them."""

import numpy as np

from mlestruct.plotting.style import COLOURS, DASHES, MARKERS


def plot_band(axes, x, values, label, k, quartiles=False):
    """The k-th curve of several: mean and range of repetitions, or median and quartiles.

    values : array of shape (n_repetitions, len(x))
    """
    table = np.asarray(values)
    low, middle, high = table.min(axis=0), table.mean(axis=0), table.max(axis=0)
    if quartiles:
        low, middle, high = np.percentile(table, [25, 50, 75], axis=0)
    axes.fill_between(x, low, high, color=COLOURS[k], alpha=0.16, linewidth=0.0)
    # The first curve is broad and below the others, which may hide it.
    axes.plot(
        x, middle, color=COLOURS[k], linestyle=DASHES[k], label=label, marker=MARKERS[k],
        linewidth=1.7 if k else 3.2, markersize=5.0 if k else 7.5, markeredgecolor="white",
        zorder=5 + k,
    )  # fmt: skip
