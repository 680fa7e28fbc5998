"""Pictures of labels as `predict` returns them: on graphs, on pixels, along sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..features.graphs import edge_pairs
from .style import COLOURS, GREY, no_axes


def plot_graph_labels(
    axes: Any,
    positions: ArrayLike,
    edges: Any,
    labels: Sequence[Any],
    marginals: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    title: str = "",
) -> None:
    """Nodes coloured by their labels; with marginals the larger, the more probable the label.

    Parameters
    ----------
    axes : matplotlib axes
    positions : array of shape (n_nodes, 2)
    edges : as `GraphCRF` takes them: (n_edges, 2), SciPy adjacency or networkx graph
    labels : (n_nodes,), as `predict` returns them
    marginals : array of shape (n_nodes, n_states), as `predict_marginals` returns them
    classes : the label of each state (`classes_`); by default those that occur, sorted
    """
    from matplotlib.collections import LineCollection

    at = np.asarray(positions, dtype=np.float64)
    if at.ndim != 2 or at.shape[1] != 2 or at.shape[0] != len(labels):
        raise ValueError(f"positions: expected shape ({len(labels)}, 2), got {at.shape}")
    pairs = np.asarray(edge_pairs(edges, at.shape[0]), dtype=np.int64).reshape(-1, 2)
    axes.add_collection(LineCollection(list(at[pairs]), colors=GREY, linewidths=0.5, zorder=1))
    states, names = _states(labels, classes)
    sizes = np.full(at.shape[0], 24.0)
    if marginals is not None:
        table = np.asarray(marginals)
        sizes = 4.0 + 32.0 * table[np.arange(len(states)), states]
    for k, name in enumerate(names):
        here = states == k
        colour = COLOURS[k % len(COLOURS)]
        axes.scatter(*at[here].T, s=sizes[here], color=colour, label=str(name), zorder=2)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    no_axes(axes, title)


def plot_pixel_labels(
    axes: Any, labels: ArrayLike, classes: Sequence[Any] | None = None, title: str = ""
) -> None:
    """The label of every pixel as a colour; `labels` of shape (H, W), as `predict` returns them."""
    from matplotlib.colors import ListedColormap

    found = np.asarray(labels)
    if found.ndim != 2:
        raise ValueError(f"labels: expected shape (height, width), got {found.shape}")
    states, names = _states(found.ravel(), classes)
    colours = ListedColormap([COLOURS[k % len(COLOURS)] for k in range(len(names))])
    axes.imshow(
        states.reshape(found.shape), cmap=colours, vmin=-0.5, vmax=len(names) - 0.5,
        interpolation="nearest",
    )  # fmt: skip
    no_axes(axes, title)


def plot_token_marginals(
    axes: Any,
    tokens: Sequence[Any],
    marginals: ArrayLike,
    classes: Sequence[Any],
    truth: Sequence[Any] | None = None,
    title: str = "",
) -> Any:
    """The probability of every label (row) of every token (column); dots on true labels.

    Parameters
    ----------
    marginals : array of shape (T, n_states), as `predict_marginals` returns them
    classes : the label of each state, `classes_`

    Returns
    -------
    matplotlib image, for a colour bar
    """
    table = np.asarray(marginals, dtype=np.float64)
    if table.shape != (len(tokens), len(classes)):
        raise ValueError(
            f"marginals: expected shape ({len(tokens)}, {len(classes)}), got {table.shape}"
        )
    shown = axes.imshow(table.T, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(tokens)), [str(token) for token in tokens], rotation=40, ha="right")
    axes.set_yticks(range(len(classes)), [str(label) for label in classes])
    if truth is not None:
        states, _ = _states(truth, classes)
        axes.plot(range(len(tokens)), states, "o", color=COLOURS[1], markersize=4)
    axes.set_title(title, loc="left", fontsize=10)
    return shown


def _states(labels: Any, classes: Sequence[Any] | None) -> tuple[Any, list[Any]]:
    """The number of each label among the classes, and these."""
    values = list(np.asarray(labels).tolist())
    names = sorted(set(values)) if classes is None else np.asarray(classes).tolist()
    place = {name: k for k, name in enumerate(names)}
    unknown = [value for value in values if value not in place]
    if unknown:
        raise ValueError(f"labels: {unknown[0]!r} is not among the classes {names}")
    return np.array([place[value] for value in values], dtype=np.int64), names
