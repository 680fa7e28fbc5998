"""`GridCRF`: learn to label the pixels of images from labelled ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arrays import check_unmasked
from .._deadline import in_time
from ..features.rows import Rows
from ..structures.graphs.pairwise import Grid, grid
from .pairwise import GraphSample, PairwiseEstimator, read_rows
from .validation import check_finite

DIRECTIONS = ("right", "down", "down_right", "down_left")


class GridCRF(PairwiseEstimator):
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
    edge_weights : "full", "symmetric" or "potts"
        Whether each pair of states has weights of its own ("full"), those of (s, t) and (t, s) are
        the same, or there is one for all pairs of equal states and 0 for all others (Potts): fewer
        weights to learn from few samples or for many states. `edge_coef_` has all of them.
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already.
    standardize : bool
        Penalise the weights of standardised features: divided by their standard deviation, those of
        nodes also centred if there are constants. `coef_` is in the original units.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
    solver : solver object, optional
        `LBFGS()` by default; `FrankWolfe()` and `BlockFrankWolfe()` need only MAP decoding. Budgets
        in seconds and callbacks are options of the solver.
    n_jobs : int, optional
        Threads over images.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows a progress bar with the gap.

    Attributes
    ----------
    node_coef_ : ndarray of shape (n_states, C)
    edge_coef_ : ndarray of shape (n_states, n_states, D), the left or upper pixel's state first
    coef_ : both in a row
    classes_ : ndarray of shape (n_states,), the label of each state
    objective_ : float, an upper bound of the best attainable value of the (regularised,
        approximate) log-likelihood
    duality_gap_ : float, absolute: coef_ is within it of that best value
    converged_ : bool
    history_ : History with seconds, oracle_calls, dual, primal, gap, fw_gap; `.to_frame()`
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of images' features, each an array of shape (H, W, C), or a pair of it and edge
    features, one entry per direction (right, down; with 8 neighbours also down-right and
    down-left): arrays of shape (H, W-1, D), (H-1, W, D), (H-1, W-1, D), (H-1, W-1, D); or one dense
    or sparse matrix with a row for each edge, in this order. Without them the only edge feature is
    the constant 1. All directions have the same weights; an edge feature that is 1 in one direction
    gives this direction its own. Single precision halves the memory. PIL images and arrays of shape
    (H, W) are read as grey or colour values, those of bytes from 0 to 1.

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
            raise ValueError(f"neighbours: expected 4 or 8, got {self.neighbours!r}")
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
        array = _pixel_values(pixels, where)
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
        return GraphSample(graph, nodes, edges, (height, width), size, graph.n_edges)


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
        is_sparse = any(sparse.issparse(table) for table in tables)
        given = sparse.vstack(tables, format="csr") if is_sparse else np.concatenate(tables)
    rows = read_rows(given, f"{where}: edge features")
    if len(rows) != graph.n_edges:
        raise ValueError(
            f"{where}: edge features have {len(rows)} rows, but there are {graph.n_edges} edges"
        )
    return rows


def _read_direction(part: Any, graph: Grid, k: int, where: str) -> Any:
    """Edge features of one direction, as a table with a row for each edge."""
    name = f"{where}: edge features of direction {DIRECTIONS[k]}"
    if sparse.issparse(part):
        size = graph.direction_sizes[k]
        if part.shape[0] != size:
            raise ValueError(f"{name}: expected {size} rows, got {part.shape[0]}")
        return part
    check_unmasked(part, name)
    array = np.asarray(part)
    height, width = graph.height - (k > 0), graph.width - (k != 1)
    if array.ndim != 3 or array.shape[:2] != (height, width):
        raise ValueError(f"{name}: expected shape ({height}, {width}, D), got {array.shape}")
    return array.reshape(height * width, array.shape[2])


def _pixel_values(image: Any, where: str) -> NDArray[Any]:
    """A PIL image or an array (H, W) as an array of features (H, W, C); other arrays as they are.

    Bytes of both are divided by 255. Arrays (H, W, C) hold features of any meaning.
    """
    mode = getattr(image, "mode", None)  # of PIL's images
    if mode is not None and mode not in ("1", "L", "LA", "RGB", "RGBA", "I;16", "I", "F"):
        raise ValueError(f"{where}: a PIL image of mode {mode!r}; convert it, .convert('RGB')")
    check_unmasked(image, where)
    array = np.asarray(image)
    if mode is None and array.ndim != 2:
        return array
    if array.dtype == np.uint8:
        array = array.astype(np.float32) / np.float32(255.0)
    return array[:, :, None] if array.ndim == 2 else array
