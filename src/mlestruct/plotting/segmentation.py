"""Pictures of labelled images: the probability of a label at every pixel, beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats, as_table
from .style import new_figure, no_axes

Floats = NDArray[np.float64]

SHADES = "cividis"  # the same to readers with and without colour-blindness


def plot_pixel_marginals(
    axes: Any, marginals: ArrayLike, mask: ArrayLike | None = None, title: str | None = None
) -> Any:
    """The probability of label 1 at every pixel, from 0 (dark) to 1 (light).

    Parameters
    ----------
    axes : matplotlib axes
    marginals : array of shape (height, width), P(label = 1), or (height, width, 2), P(label)
    mask : array of shape (height, width), optional
        The true labels; their border is drawn as a line.
    title : by default the share of pixels on the wrong side of 1/2, if there is a mask

    Returns
    -------
    matplotlib image, for a colour bar
    """
    probability = _of_label_one(marginals)
    shown = axes.imshow(probability, cmap=SHADES, vmin=0.0, vmax=1.0, interpolation="nearest")
    if mask is not None:
        truth = _same_size(mask, probability)
        if truth.any() and not truth.all():
            axes.contour(truth, levels=[0.5], colors="white", linewidths=0.8)
        if title is None:
            title = f"error {pixel_error(probability, truth):.3f}"
    no_axes(axes, title or "")
    return shown


def plot_segmentation(
    image: ArrayLike,
    marginals: Any,
    mask: ArrayLike | None = None,
    rows: Sequence[str] | None = None,
) -> Any:
    """A figure of one image: the photograph, the true labels, and marginals, a column each.

    With several rows the true labels are below the photograph.

    Parameters
    ----------
    image : array of shape (height, width, 3), or (height, width) for grey
    marginals : array as in `plot_pixel_marginals`, or a mapping from the title of a column to one;
        for several rows, to a sequence of one array a row, None where there is nothing to show
    mask : array of shape (height, width), optional
        The true labels. With it the error is written below each picture of marginals.
    rows : titles of the rows, if there are several

    Returns
    -------
    matplotlib figure
    """
    columns = marginals if isinstance(marginals, Mapping) else {"marginals": marginals}
    cells = {name: [found] if rows is None else list(found) for name, found in columns.items()}
    n_rows = 1 if rows is None else len(rows)
    for name, found in cells.items():
        if len(found) != n_rows:
            raise ValueError(f"marginals[{name!r}]: expected {n_rows} rows, got {len(found)}")
    photo = as_floats(image, "image")
    if photo.ndim not in (2, 3) or 0 in photo.shape or photo.shape[2:] not in ((), (3,), (4,)):
        raise ValueError(
            f"image: expected shape (height, width, 3) or (height, width), got {photo.shape}"
        )
    if not np.isfinite(photo).all():
        raise ValueError("image: contains NaN or infinity")
    if photo.max() > 1.0:  # bytes
        photo = photo / 255.0
    first = 1 if mask is None or n_rows > 1 else 2
    n_columns = first + len(cells)
    cell = 2.6  # inches
    height = n_rows * (cell * photo.shape[0] / photo.shape[1] + 0.35)
    figure = new_figure(cell * n_columns, height)
    table = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes in table.flat:
        axes.set_axis_off()
    table[0, 0].imshow(photo, cmap="gray", interpolation="nearest")
    no_axes(table[0, 0], "photograph")
    if mask is not None:
        truth = as_table(mask, "mask", *photo.shape[:2])
        below = table[1, 0] if n_rows > 1 else table[0, 1]
        below.imshow(truth, cmap=SHADES, vmin=0.0, vmax=1.0, interpolation="nearest")
        no_axes(below, "truth")
    shown = None
    for j, (name, found) in enumerate(cells.items()):
        for i, values in enumerate(found):
            axes = table[i, first + j]
            if values is None:
                axes.set(xlim=(0, photo.shape[1]), ylim=(photo.shape[0], 0))
                no_axes(axes, f"{name}: nothing yet")
                continue
            title = name
            if mask is not None:
                title += f", error {pixel_error(values, mask):.3f}"
            shown = plot_pixel_marginals(axes, values, mask, title)
    if rows is not None:
        for i, text in enumerate(rows):
            place = table[i, first].transAxes
            table[i, first].text(
                -0.03, 0.5, text, transform=place, rotation=90, ha="right", va="center", fontsize=9
            )
    if shown is not None:
        figure.colorbar(shown, ax=table[:, -1], label="probability", fraction=0.08, pad=0.03)
    return figure


def pixel_error(marginals: ArrayLike, mask: ArrayLike) -> float:
    """The share of pixels whose probability is on the wrong side of 1/2."""
    probability = _of_label_one(marginals)
    return float(np.mean((probability > 0.5) != (_same_size(mask, probability) > 0.5)))


def _of_label_one(marginals: ArrayLike) -> Floats:
    found = as_floats(marginals, "marginals")
    if found.ndim == 3 and found.shape[2] == 2:
        found = found[:, :, 1]
    if found.ndim != 2:
        raise ValueError(
            "marginals: expected shape (height, width), or (height, width, 2) for two labels, "
            f"got {found.shape}"
        )
    return as_table(found, "marginals", "height", "width")


def _same_size(mask: ArrayLike, probability: Floats) -> Floats:
    return as_table(mask, "mask", *probability.shape)
