"""Pictures of labels as `predict` returns them: on graphs, on pixels, along sequences."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arguments import as_floats, as_places, as_table
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
    edges : array of shape (n_edges, 2)
    labels : (n_nodes,), as `predict` returns them
    marginals : array of shape (n_nodes, n_states), as `predict_marginals` returns them
    classes : the label of each state (`classes_`); by default the labels that occur, sorted
    """
    from matplotlib.collections import LineCollection

    states, names = _states(labels, classes)
    at = as_table(positions, "positions", len(states), 2)
    found = as_floats(edges, "edges")
    pairs = as_places(found if found.size else np.zeros((0, 2)), "edges", 0, len(at) - 1, "n", 2)
    axes.add_collection(LineCollection(list(at[pairs]), colors=GREY, linewidths=0.5, zorder=1))
    sizes = np.full(at.shape[0], 24.0)
    if marginals is not None:
        table = np.clip(as_table(marginals, "marginals", len(at), len(names)), 0.0, 1.0)
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

    found = _labels(labels)
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
    for name, given in (("tokens", tokens), ("classes", classes)):
        if not isinstance(given, Sized):
            raise TypeError(f"`{name}` must be a sequence; got {given!r}.")
    table = as_table(marginals, "marginals", len(tokens), len(classes))
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
    values = _labels(labels).tolist()
    if not isinstance(values, list):
        raise ValueError(f"`labels` must be a sequence; got {labels!r}.")
    try:
        names = sorted(set(values)) if classes is None else _labels(classes, "classes").tolist()
        place = {name: k for k, name in enumerate(names)}
    except TypeError as error:  # some cannot be sorted, or are lists
        raise ValueError(f"labels: expected labels of one type: {error}") from None
    unknown = [value for value in values if value not in place]
    if unknown:
        raise ValueError(f"labels: {unknown[0]!r} is not among the classes {names}")
    return np.array([place[value] for value in values], dtype=np.int64), names


def _labels(given: Any, name: str = "labels") -> NDArray[Any]:
    """Labels of any type as an array."""
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name}: expected an array: {error}") from None
