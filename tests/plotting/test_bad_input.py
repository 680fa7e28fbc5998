"""Pictures of wrong arguments are errors that name these; other forms of the same are the same."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from mlestruct.plotting import (
    plot_graph_labels,
    plot_mismatch,
    plot_reliability,
    plot_token_marginals,
)

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(4, 2))
PARTNERS = np.array([1, 0, -1, 2])
THIRDS = np.full((4, 4), 0.2)
CASES = {
    "mismatch": (
        plot_mismatch, False,
        {"left": POINTS, "right": POINTS, "predicted": PARTNERS, "truth": PARTNERS,
         "marginals": THIRDS},
    ),
    "graph": (
        plot_graph_labels, True,
        {"positions": POINTS, "edges": np.array([[0, 1], [1, 2]]), "labels": [0, 1, 0, 1],
         "marginals": np.full((4, 2), 0.5)},
    ),
    "tokens": (
        plot_token_marginals, True,
        {"tokens": ["a", "b"], "marginals": np.full((2, 2), 0.5), "classes": ["x", "y"]},
    ),
    "reliability": (plot_reliability, False, {"results": 3}),
}  # fmt: skip


def drawn(function, on_axes, arguments):
    axes = Figure().add_subplot()
    found = function(axes, **arguments) if on_axes else function(**arguments)
    return axes.figure if on_axes else found


def lines(figure):
    """Data of all lines, points and pictures of a figure."""
    out = []
    for axes in figure.axes:
        out += [line.get_xydata() for line in axes.lines]
        out += [np.asarray(part.get_offsets()) for part in axes.collections]
        out += [np.asarray(image.get_array()) for image in axes.images]
    return out


@pytest.mark.parametrize("name", [name for name in CASES if name != "reliability"])
def test_other_forms_draw_the_same(name):
    function, on_axes, arguments = CASES[name]
    wanted = lines(drawn(function, on_axes, arguments))

    def changed(value, frame):
        if not isinstance(value, np.ndarray) or value.ndim > 2:
            return value
        index = 3 * np.arange(len(value))[::-1]  # by which nothing may be looked up
        kind = pd.Series if value.ndim == 1 else pd.DataFrame
        return kind(value, index=index) if frame else value.tolist()

    for frame in (True, False):
        other = {key: changed(value, frame) for key, value in arguments.items()}
        found = lines(drawn(function, on_axes, other))
        assert len(found) == len(wanted)
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "wrong",
    [None, 3.5, object(), np.zeros((2, 3, 4, 5)), [[1.0], [1.0, 2.0]], np.full((4, 4), np.nan),
     np.full((4, 2), 1j)],
    ids=["none", "number", "object", "four axes", "ragged", "nan", "complex"],
)  # fmt: skip
def test_errors_name_the_argument(name, wrong):
    function, on_axes, arguments = CASES[name]
    optional = ("coords", "marginals", "classes", "results")
    for key in arguments:
        if key in ("tokens", "classes") or (wrong is None and key in optional):
            continue
        with pytest.raises((TypeError, ValueError), match=rf"{key}|labels"):
            drawn(function, on_axes, {**arguments, key: wrong})
