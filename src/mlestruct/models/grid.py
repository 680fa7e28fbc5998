"""`GridCRF`: learn to label the pixels of images from labelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import check_unmasked
from .._running import in_time
from ..features.rows import Rows, check_finite
from ..structures.graphs.pairwise import Grid, grid
from .graph import GraphEstimator, GraphSample, read_rows

DIRECTIONS = ("right", "down", "down_right", "down_left")


class GridCRF(GraphEstimator):
    """Conditional random field over labellings of images.

    p(y | x) is proportional to exp(sum over pixels n of <F[y_n], u_n> + sum over neighbours (i, j)
    of <G[y_i, y_j], v_ij>). The weights maximise the approximate log-likelihood (tree-reweighted
    entropy on the local polytope) of the observed labellings minus alpha/2 |weights|^2, with a
    duality-gap certificate.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood (the paper's lambda).
    rho : "auto" or float
        Weights of the edges in the entropy. "auto": 1/2 as in the paper with 4 neighbours (1 for
        images of one row or column, which makes it exact), else the share of each edge in spanning
        trees that use the edges evenly.
    neighbours : 4 or 8
    edge_weights, fit_intercept, standardize, l1_ratio
    tol, max_iter, solver, n_jobs, random_state, verbose
        As in `GraphCRF`.

    Attributes
    ----------
    edge_coef_ : ndarray of shape (n_states, n_states, D), the left or upper pixel's state first
    node_coef_, coef_, classes_, objective_, objective_bound_, duality_gap_, certified_,
    converged_, history_, n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_ :
        as in `GraphCRF`

    Notes
    -----
    X is a sequence of images' features, each an array of shape (H, W, C), or a pair of it and edge
    features, one entry per direction (right, down; with 8 neighbours also down-right and
    down-left): arrays of shape (H, W-1, D), (H-1, W, D), (H-1, W-1, D), (H-1, W-1, D); or one dense
    or sparse matrix with a row for each edge, in this order. Without them the only edge feature is
    the constant 1. All directions have the same weights; an edge feature that is 1 in one direction
    gives this direction its own. Single precision halves the memory. An array of shape (H, W) has
    one feature, its grey values.

    Sizes may differ between images.

    Y holds for each image an array (H, W) of labels, integers (masks of 0 and 255, too) or strings.
    Pixels whose label is None or NaN are left out of the likelihood together with their edges
    (see `fit`). Predictions cover all pixels. Unlabelled pixels should form contiguous parts:
    scattered ones thin out the graph that is learned from, and its weights smooth too much on the
    whole one.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import GridCRF
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(3, 3)), np.ones((4, 4), int)) for _ in range(10)]
    >>> X = [np.stack([np.ones((12, 12)), y + rng.normal(size=(12, 12))], axis=-1) for y in Y]
    >>> model = GridCRF(alpha=1.0).fit(X, Y)
    >>> bool(model.converged_), model.score(X, Y) > 0.85
    (True, True)
    >>> model.predict_marginals(X)[0].shape
    (12, 12, 2)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = "auto",
        neighbours: int = 4,
        edge_weights: str = "full",
        fit_intercept: bool = True,
        standardize: bool = False,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.neighbours = neighbours
        self.edge_weights = edge_weights
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        if self.neighbours not in (4, 8):
            raise ValueError(f"`neighbours` must be 4 or 8; got {self.neighbours!r}.")
        listed = enumerate(in_time(X, "reading X"))
        return [self._read_image(x, f"X[{m}]") for m, x in listed]

    def _read_image(self, x: Any, where: str) -> GraphSample:
        pixels, edge_features = x, None
        if isinstance(x, tuple | list):
            if len(x) != 2:
                raise ValueError(
                    f"{where}: expected an array (H, W, C) or a pair (array, edge features), "
                    f"got {len(x)} parts"
                )
            pixels, edge_features = x
        if hasattr(pixels, "convert"):  # of a PIL image: a palette would be read as colours
            raise TypeError(f"{where}: a PIL image. Pass np.asarray(image.convert('RGB')) / 255.")
        check_unmasked(pixels, where)
        array = np.asarray(pixels)
        if array.ndim == 2:
            array = array[:, :, None]
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{where}: expected numbers, got dtype {array.dtype}")
        if array.ndim != 3 or array.size == 0:
            expected = "a non-empty array (height, width, features)"
            raise ValueError(f"{where}: expected {expected}, got shape {array.shape}")
        check_finite(array, where)
        height, width, n_features = array.shape
        graph = grid(height, width, self.neighbours)
        nodes = Rows(array.reshape(-1, n_features))
        edges, size = Rows.ones(graph.n_edges), None
        if edge_features is not None:
            edges = _read_edges(edge_features, graph, where)
            size = edges.n_features
        return GraphSample(graph, nodes, edges, (height, width), size)


def _read_edges(given: Any, graph: Grid, where: str) -> Rows:
    """Edge features of all directions below each other."""
    sizes = graph.direction_sizes
    if isinstance(given, tuple | list):
        if len(given) != len(sizes):
            raise ValueError(
                f"{where}: expected edge features of {len(sizes)} directions "
                f"({', '.join(DIRECTIONS[: len(sizes)])}), got {len(given)}"
            )
        tables = [_read_direction(part, graph, k, where) for k, part in enumerate(given)]
        widths = [table.shape[1] for table in tables]
        if len(set(widths)) > 1:
            raise ValueError(
                f"{where}: directions have {widths} edge features; they share their weights and "
                "need the same number"
            )
        given = np.concatenate(tables)
    rows = read_rows(given, f"{where}: edge features")
    if len(rows) != graph.n_edges:
        raise ValueError(
            f"{where}: edge features have {len(rows)} rows, but there are {graph.n_edges} edges"
        )
    return rows


def _read_direction(part: Any, graph: Grid, k: int, where: str) -> NDArray[Any]:
    """Edge features of one direction, as a table with a row for each edge."""
    name = f"{where}: edge features of direction {DIRECTIONS[k]}"
    check_unmasked(part, name)
    array = np.asarray(part)
    height, width = graph.height - (k > 0), graph.width - (k != 1)
    if array.ndim != 3 or array.shape[:2] != (height, width):
        raise ValueError(f"{name}: expected shape ({height}, {width}, D), got {array.shape}")
    return array.reshape(height * width, array.shape[2])
