"""`GridCRF`: learn to label the pixels of images from labelled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import check_unmasked
from .._deadline import in_time
from ..features.rows import ConstantRows, DenseRows, FeatureRows, RowGroups
from ..learning.result import Progress
from ..structures.graphs.pairwise import Grid, grid
from .graph import read_rows
from .pairwise import GraphSample, PairwiseEstimator
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
    rho : "auto", "uniform", or float
        Weights of the edges in the entropy. "auto": 1/2 as in the paper with 4 neighbours (1 for
        images of one row or column, where that is exact), else "uniform": the probability of each
        edge to be in a random spanning tree.
    neighbours : 4 or 8
    per_direction : bool
        Whether edges of different directions have weights of their own.
    edge_weights : "full", "symmetric" or "potts"
        Whether each pair of states has weights of its own ("full"), those of (s, t) and (t, s) are
        the same, or there is one for all pairs of equal states and 0 for all others (Potts): fewer
        weights to learn where samples are few or states many. `edge_coef_` has all of them.
    solver : "auto", "lbfgs", "bcfw", "fw", or a solver object
        "fw" and "bcfw" need only MAP decoding; `learning.BlockFrankWolfe.paper()` is the
        algorithm as printed in the paper.
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Iterations (for "bcfw": passes over the samples).
    max_time : float, optional
        Seconds after which to stop, set-up included.
    n_states : int, optional
        The states are 0 .. n_states-1, whether they occur in Y or not; by default those that do.
    unknown : int, str or NaN, optional
        The label that means "not known", beside None. By default -1 where the other labels are
        0, 1, ... without a gap; a warning tells if that was assumed.
    missing : "drop" or "marginalise"
        What becomes of pixels without a label: left out of the likelihood, with their edges; or
        summed over, which learns from log Z(x, labels) - log Z(x) by rounds of certified fits that
        start from the first (`likelihood_path_` has its value after each).
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already.
    standardize : bool
        Penalise the weights of standardised features: divided by their standard deviation, those of
        nodes also centred if there are constants. `coef_` is in the original units.
    feature_names : sequence of str, optional
        Names of the C pixel features.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    warm_start : bool
        Start from the previous fit of this object.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
    n_jobs : int, optional
        Threads over images.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows a progress bar with the gap.

    Attributes
    ----------
    node_coef_ : ndarray of shape (n_states, C)
    edge_coef_ : ndarray of shape (n_states, n_states, D), the left or upper pixel's state first;
        with `per_direction`, D counts the features of all directions, one after the other
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
    down-left): arrays of shape (H, W-1, D), (H-1, W, D), (H-1, W-1, D), (H-1, W-1, D), or `Levels`.
    Without them the only edge feature is the constant 1. `mlestruct.features.node_features` and
    `edge_features` make both from images. Single precision halves the memory. PIL images and arrays
    of shape (H, W) are read as grey or colour values, those of bytes from 0 to 1.

    Sizes may differ between images.

    Y holds for each image an array (H, W) of labels, integers (masks of 0 and 255, too) or strings.
    Pixels whose label is `unknown` are left out of the likelihood together with their edges.
    Predictions cover all pixels. Unlabelled pixels should form contiguous parts: scattered ones
    thin out the graph that is learned from, and its weights smooth too much on the whole one.

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
        per_direction: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_states: int | None = None,
        unknown: Any = None,
        missing: str = "drop",
        fit_intercept: bool = True,
        standardize: bool = False,
        feature_names: Sequence[str] | None = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        edge_weights: str = "full",
    ):
        self.alpha = alpha
        self.rho = rho
        self.neighbours = neighbours
        self.per_direction = per_direction
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_states = n_states
        self.unknown = unknown
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.feature_names = feature_names
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.edge_weights = edge_weights

    def _read(self, X: Sequence[Any]) -> list[GraphSample]:
        if self.neighbours not in (4, 8):
            raise ValueError(f"neighbours: expected 4 or 8, got {self.neighbours!r}")
        if not isinstance(self.per_direction, bool | np.bool_):
            raise TypeError(f"per_direction must be True or False, got {self.per_direction!r}")
        listed = enumerate(in_time(X, "reading X"))
        samples = [self._read_image(x, f"X[{m}]") for m, x in listed]
        for m, sample in enumerate(samples):
            if _widths(sample) != _widths(samples[0]):
                raise ValueError(
                    f"X[{m}] has {_widths(sample)} edge features by direction, "
                    f"X[0] has {_widths(samples[0])}"
                )
        return samples

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
            raise ValueError(
                f"{where}: expected a non-empty array (height, width, features), "
                f"got shape {array.shape}"
            )
        check_finite(array, where)
        height, width, n_features = array.shape
        graph = grid(height, width, self.neighbours)
        nodes = DenseRows(array.reshape(-1, n_features))
        edges = self._read_edges(edge_features, graph, where)
        size = None if edge_features is None and not self.per_direction else edges.n_features
        return GraphSample(graph, nodes, edges, (height, width), size, n_listed=graph.n_edges)

    def _read_edges(self, given: Any, graph: Grid, where: str) -> FeatureRows:
        """Edge features of all directions below each other."""
        sizes = graph.direction_sizes
        if given is None:
            groups: list[FeatureRows] = [ConstantRows(size) for size in sizes]
        else:
            if not isinstance(given, tuple | list) or len(given) != len(sizes):
                found = len(given) if isinstance(given, tuple | list) else type(given).__name__
                raise ValueError(
                    f"{where}: expected edge features of {len(sizes)} directions "
                    f"({', '.join(DIRECTIONS[: len(sizes)])}), got {found}"
                )
            groups = [self._read_direction(part, graph, k, where) for k, part in enumerate(given)]
        widths = [group.n_features for group in groups]
        if len(set(widths)) > 1 and not self.per_direction:
            raise ValueError(
                f"{where}: directions have {widths} edge features; with per_direction=False they "
                "share their weights and need the same number"
            )
        if self.per_direction:
            starts = np.cumsum([0, *widths])
            return RowGroups(groups, starts[:-1].tolist(), int(starts[-1]))
        return RowGroups(groups, [0] * len(groups), widths[0])

    def _read_direction(self, part: Any, graph: Grid, k: int, where: str) -> FeatureRows:
        name = f"{where}: edge features of direction {DIRECTIONS[k]}"
        height = graph.height - (k > 0)
        width = graph.width - (k != 1)
        rows = part
        if not isinstance(part, FeatureRows):
            check_unmasked(part, name)
            array = np.asarray(part)
            if array.ndim != 3 or array.shape[:2] != (height, width):
                raise ValueError(
                    f"{name}: expected shape ({height}, {width}, D), got {array.shape}"
                )
            rows = array.reshape(height * width, array.shape[2])
        found = read_rows(rows, name)
        if len(found) != height * width:
            raise ValueError(f"{name}: expected {height * width} rows, got {len(found)}")
        return found

    def _edge_names(self) -> list[str]:
        size = self._n_edge_features
        if size is None or not self.per_direction:
            return super()._edge_names()
        directions = DIRECTIONS[: 2 if self.neighbours == 4 else 4]
        each, rest = divmod(size, len(directions))
        if rest:
            return super()._edge_names()
        if each == 1:
            return [f":{direction}" for direction in directions]
        return [f":{direction}:{k}" for direction in directions for k in range(each)]


def _widths(sample: GraphSample) -> list[int]:
    """Numbers of edge features of the directions."""
    return [group.n_features for group in sample.edges.groups]  # type: ignore[attr-defined]


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
