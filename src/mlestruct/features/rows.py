"""Feature maps: scores are linear in theta, moments are the adjoint.

A feature map stands for a matrix G with one row per scored coordinate of a structure (for
matchings: per allowed pair, row-major) and one column per feature. G need not exist as an array:
any object with the four members

    n_features, n_scored, scores(theta), moments(tau)

is one. The members of `FeatureMap` beyond these have defaults; `Rows` and the maps of labellings
define them, since they know more.

`Rows` is a matrix, with what can be said of its columns.
The matrix is dense or sparse (CSR), or a single row for all. A constant column may
follow its own ones, and columns may be standardised: both are done within the products, and the
matrix stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arguments import as_numbers
from .._running import in_time
from . import _row_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Segments = list[tuple[Floats, Floats]]

REQUIRED = ("n_features", "n_scored", "scores", "moments")
CHUNK = 1024  # rows worked on at a time: what they need stays in the processor's cache
LARGEST_GRAM = 2000  # features; of more, only the diagonal is computed: the rest is 32 MB and more
ENOUGH_ROWS = 20_000  # for second moments, which decide no result, only steps
LARGEST = 1e50  # features beyond this overflow when squared and summed
SMALL = 10_000  # numbers, of which BLAS takes the squares on the calling thread
TINY = np.finfo(np.float64).tiny  # in place of 0 if 0 is divided by it


class FeatureMap:
    """A linear map from theta to scores, and its adjoint.

    Attributes
    ----------
    n_features : int, the number of columns of G
    n_scored : int, the number of rows of G
    feature_names : a name for every column, or None
    """

    n_features: int
    n_scored: int
    feature_names: Sequence[str] | None = None

    def scores(self, theta: Floats) -> Floats:
        """G theta, shape (n_scored,), for theta of shape (n_features,)."""
        raise NotImplementedError

    def moments(self, tau: Floats) -> Floats:
        """G' tau, shape (n_features,), for tau of shape (n_scored,)."""
        raise NotImplementedError

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        """G' of the sparse vector with `values` at `indices`: the moments of vertices."""
        tau = np.zeros(self.n_scored)
        tau[indices] = values
        return self.moments(tau)

    def score_range(self, theta: Floats) -> float:
        """Largest minus smallest entry of G theta: the first length of a step."""
        found = self.scores(theta)
        return float(np.ptp(found)) if found.size else 0.0

    def second_moments(self) -> Segments | None:
        """An estimate of the Hessian of log Z, by segments of theta; None without one.

        Per segment a pair (gram, scales): the segment is an array of len(scales) rows of C
        weights, and row l has about the Hessian scales[l] * gram, with gram of shape (C, C) or,
        if only its diagonal is known, (C,). The preconditioner of L-BFGS uses it.
        Maps of labellings and of label sets have one, `Rows` has none.
        """
        return None


class AdaptedFeatures(FeatureMap):
    """An object with the four members that does not derive from `FeatureMap`."""

    def __init__(self, given: Any):
        self.given = given
        self.n_features, self.n_scored = int(given.n_features), int(given.n_scored)
        self.scores, self.moments = given.scores, given.moments  # type: ignore[method-assign]
        self.feature_names = getattr(given, "feature_names", None)


def is_feature_map(given: Any) -> bool:
    """Whether `given` has everything that a feature map must have."""
    return isinstance(given, FeatureMap) or all(hasattr(given, name) for name in REQUIRED)


def as_feature_map(given: Any) -> FeatureMap:
    """`given` itself if it derives from `FeatureMap`, else an adapter of it."""
    if isinstance(given, FeatureMap):
        return given
    missing = [name for name in REQUIRED if not hasattr(given, name)]
    if missing:
        raise TypeError(
            f"`features` must be a matrix or have the members {', '.join(REQUIRED)}; "
            f"{type(given).__name__} lacks {', '.join(missing)}."
        )
    return AdaptedFeatures(given)


class Rows(FeatureMap):
    """G as a matrix of shape (n_rows, n_features).

    Parameters
    ----------
    matrix : array or SciPy sparse matrix of shape (n_rows, C)
        Arrays of float32 stay so; sums are kept in double precision.
    names : sequence of str, optional
        A name for each of the C columns.
    n_rows : int, optional
        The number of rows if all are the same and `matrix` has only one.
    constant : bool
        Add the constant 1 as the last column.
    scaling : Scaling, optional
        Standardises the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.features import Rows
    >>> rows = Rows(np.array([[1.0, 2.0], [3.0, 4.0]]), constant=True)
    >>> rows.scores(np.array([1.0, 0.5, 10.0]))
    array([12., 15.])
    >>> rows.moments(np.array([1.0, 1.0]))
    array([4., 6., 2.])
    """

    def __init__(
        self,
        matrix: Any,
        names: Sequence[str] | None = None,
        *,
        n_rows: int | None = None,
        constant: bool = False,
        scaling: Scaling | None = None,
    ):
        self.is_sparse = sparse.issparse(matrix)
        if self.is_sparse:
            ready = isinstance(matrix, sparse.csr_array) and matrix.dtype == np.float64
            if matrix.dtype.kind == "c":
                raise ValueError(f"`matrix` must hold real numbers; got dtype {matrix.dtype}.")
            self.matrix: Any = matrix if ready else sparse.csr_array(matrix, dtype=np.float64)
        else:
            array = as_numbers(matrix, "matrix")
            kind = np.float32 if array.dtype == np.float32 else np.float64
            self.matrix = np.require(array, kind, ["C", "W"])  # kernels are compiled for one kind
        if self.matrix.ndim != 2:
            raise ValueError(f"`matrix` must have 2 dimensions; got shape {self.matrix.shape}.")
        size, width = self.matrix.shape
        self.all_equal = n_rows is not None
        self.n_scored = size if n_rows is None else int(n_rows)
        self.constant, self.scaling = bool(constant), scaling
        self.n_features = int(width) + self.constant
        self.feature_names = _checked_names(names, int(width))

    @classmethod
    def ones(cls, n_rows: int) -> Rows:
        """The single feature 1."""
        return cls(np.ones((1, 1)), n_rows=n_rows)

    def __len__(self) -> int:
        return self.n_scored

    def _like(self, matrix: Any, n_rows: int | None) -> Self:
        """Other rows of the same features."""
        options: Any = {"constant": self.constant, "scaling": self.scaling}
        return type(self)(matrix, self.feature_names, n_rows=n_rows, **options)

    def with_constant(self) -> Self:
        """The same with the constant 1 as the last column."""
        n_rows = len(self) if self.all_equal else None
        return type(self)(self.matrix, self.feature_names, n_rows=n_rows, constant=True)

    def scaled(self, scaling: Scaling) -> Self:
        """The same with standardised columns."""
        found = self._like(self.matrix, len(self) if self.all_equal else None)
        found.scaling = scaling
        return found

    def take(self, indices: Any) -> Self:
        """The rows at `indices`, or the rows in a mask."""
        if not self.all_equal:
            return self._like(self.matrix[indices], None)
        index = np.asarray(indices)
        count = np.count_nonzero(index) if index.dtype == bool else index.size
        return self._like(self.matrix, int(count))

    def part(self, rows: slice) -> RowsPart:
        """The rows of a slice, for a few products with them; sparse ones are not copied."""
        return RowsPart(self, *rows.indices(len(self))[:2])

    # ------------------------------------------------------------------ products
    def scores(self, weights: Floats) -> Floats:
        """G weights, (n,) or (n, k), for weights (n_features,) or (n_features, k)."""
        own, shift = self.inner(weights)
        found = self._product(own)
        if shift is not None:
            found += shift
        if self.all_equal:
            return np.repeat(found, len(self), axis=0)
        return found

    def moments(self, values: Floats) -> Floats:
        """G' values, (n_features,) or (n_features, k), for values (n,) or (n, k)."""
        total: Any = values.sum(axis=0) if self.constant or self.all_equal else None
        if self.all_equal:
            row = np.asarray(self.matrix.todense() if self.is_sparse else self.matrix)[0]
            found = np.multiply.outer(row.astype(np.float64), total)
        else:
            found = self._adjoint(values)
        return self._in_weight_units(found, total)

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        if self.all_equal or self.is_sparse:
            return self.picked_moments(indices, np.zeros_like(indices), values, 1)[:, 0]
        found = values @ self.matrix[indices].astype(np.float64, copy=False)
        return self._in_weight_units(found, values.sum())

    def picked_moments(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        """G' of the matrix (n, n_columns) with `values` at (rows, columns), zero elsewhere."""
        places = np.zeros_like(rows) if self.all_equal else rows
        shape = n_columns, self.matrix.shape[0]
        found: Any = sparse.csr_array((values, (columns, places)), shape=shape) @ self.matrix
        total = np.bincount(columns, values, n_columns) if self.constant else None
        return self._in_weight_units((found.toarray() if self.is_sparse else found).T, total)

    def inner(self, weights: Floats) -> tuple[Floats, Any]:
        """Weights of the matrix as it is, and the score that the constant adds, or None."""
        if self.scaling is not None:
            weights = self.scaling.original(weights)
        if not self.constant:
            return weights, None
        return weights[:-1], weights[-1]

    def _in_weight_units(self, moments: Floats, total: Any) -> Floats:
        """Moments of the matrix and `total`, of the constant, in the units of the weights."""
        if self.constant:
            moments = np.concatenate([moments, np.asarray(total)[None]])
        return self.finished(moments)

    def finished(self, moments: Floats) -> Floats:
        """Moments in the units of the weights, from what `RowsPart.add_moments` has added up."""
        return moments if self.scaling is None else self.scaling.adjoint(moments)

    def _product(self, weights: Floats) -> Floats:
        matrix = self.matrix
        if self.is_sparse or matrix.dtype == np.float64:
            return np.asarray(matrix @ weights)
        found = np.empty((matrix.shape[0], *weights.shape[1:]))
        for start in range(0, matrix.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            np.matmul(matrix[part].astype(np.float64), weights, out=found[part])
        return found

    def _adjoint(self, values: Floats) -> Floats:
        matrix = self.matrix
        if self.is_sparse:
            return np.asarray(matrix.T @ values)
        if values.ndim == 1 and matrix.dtype == np.float64:
            return np.asarray(values @ matrix)
        total = np.zeros((*values.shape[1:], matrix.shape[1]))
        for start in range(0, matrix.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            total += values[part].T @ matrix[part].astype(np.float64, copy=False)
        return total.T

    # ------------------------------------------------------------------ columns
    def gram(self, diagonal: bool = False) -> Floats:
        """G' G, shape (n_features, n_features), or its diagonal, shape (n_features,).

        It is estimated from every k-th row; of many features only the diagonal is computed.
        """
        rows, size = self.matrix, self.matrix.shape[1]
        diagonal = diagonal or size > LARGEST_GRAM
        step = 1 if self.is_sparse else max(1, rows.shape[0] // ENOUGH_ROWS)
        if self.is_sparse:
            squares = np.bincount(rows.indices, rows.data**2, size).astype(np.float64)
            gram = squares if diagonal else (rows.T @ rows).toarray()
            sums = np.asarray(rows.sum(axis=0)).ravel()
        else:
            rows = rows[::step]
            gram, sums = np.zeros(size if diagonal else (size, size)), np.zeros(size)
            for start in range(0, rows.shape[0], CHUNK):
                some = rows[start : start + CHUNK].astype(np.float64, copy=False)
                gram += np.einsum("ij,ij->j", some, some) if diagonal else some.T @ some
                sums += some.sum(axis=0)
        times = len(self) / max(rows.shape[0], 1)
        gram, sums = times * gram, times * sums
        if self.constant and diagonal:
            gram = np.append(gram, float(len(self)))
        elif self.constant:
            gram = np.block([[gram, sums[:, None]], [sums[None], np.full((1, 1), len(self))]])
        return gram if self.scaling is None else self.scaling.of_gram(gram, sums, len(self))

    def columns(self) -> Columns:
        """Statistics of the columns of the matrix, and of the constant."""
        own = Columns.of_sparse(self.matrix) if self.is_sparse else Columns.of(self.matrix)
        if self.all_equal:
            own = own.repeated(len(self))
        return own.with_constant(len(self)) if self.constant else own

    def occurring(self, groups: Ints, n_groups: int) -> Bools:
        """Which features some row of a group stores, shape (n_groups, n_features)."""
        if self.all_equal:
            found = (np.bincount(groups, minlength=n_groups) > 0)[:, None] & (self.matrix != 0)
        elif self.is_sparse:
            found = np.zeros((n_groups, self.matrix.shape[1]), dtype=bool)
            found[np.repeat(groups, np.diff(self.matrix.indptr)), self.matrix.indices] = True
        else:
            found = np.zeros((n_groups, self.matrix.shape[1]), dtype=bool)
            for group in np.unique(groups).tolist():
                found[group] = self.matrix[groups == group].any(axis=0)
        if not self.constant:
            return found
        return np.column_stack([found, np.bincount(groups, minlength=n_groups) > 0])


class RowsPart:
    """Rows first .. stop-1 of `Rows`, for scores and moments of several weight vectors at once."""

    def __init__(self, whole: Rows, first: int, stop: int):
        self._whole, self._first, self._stop = whole, first, stop
        own = whole.all_equal or whole.is_sparse
        self._dense: Any = None if own else whole.matrix[first:stop].astype(np.float64, copy=False)

    def __len__(self) -> int:
        return self._stop - self._first

    def scores(self, own: Floats, shift: Any = None) -> Floats:
        """Scores (n, k) for what `Rows.inner` returns for weights (n_features, k)."""
        whole = self._whole
        if whole.all_equal:
            found = np.repeat(whole._product(own), len(self), axis=0)
        elif whole.is_sparse:
            found = np.empty((len(self), own.shape[1]))
            matrix = whole.matrix
            entries = matrix.data, matrix.indices, matrix.indptr, self._first
            if own.flags.c_contiguous:
                kernels.sparse_scores(*entries, own, found)
            else:
                kernels.sparse_scores_by_state(*entries, np.ascontiguousarray(own.T), found)
        else:
            found = self._dense @ own
        if shift is not None:
            found += shift
        return found

    def add_moments(self, values: Floats, out: Floats) -> None:
        """out += G' values in units of the matrix: `Rows.finished` of the sum are the moments."""
        whole, matrix = self._whole, self._whole.matrix
        own = out[: matrix.shape[1]]
        if whole.all_equal:
            row = np.asarray(matrix.todense() if whole.is_sparse else matrix)[0]
            own += np.multiply.outer(row.astype(np.float64), values.sum(axis=0))
        elif whole.is_sparse:
            entries = matrix.data, matrix.indices, matrix.indptr, self._first
            kernels.add_sparse_moments(*entries, values, own)
        else:
            own += (values.T @ self._dense).T  # BLAS is faster with the short axis first
        if whole.constant:
            out[-1] += values.sum(axis=0)


@dataclass(frozen=True)
class Scaling:
    """Standardised columns: (x - mean) / scale, by their means and standard deviations.

    mean : ndarray of shape (n_features,), 0 unless there is a constant, the last column
    scale : ndarray of shape (n_features,), 1 for constant columns
    """

    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, columns: Columns, centred: bool) -> Scaling:
        """From statistics of the columns; centring needs a constant as the last one."""
        return cls(columns.mean if centred else np.zeros_like(columns.mean), columns.scale)

    def original(self, weights: Floats) -> Floats:
        """Weights of the original columns, from standardised ones, along axis 0."""
        found = (weights.T / self.scale).T
        if self.mean.any():
            found[-1] -= self.mean @ found
        return np.ascontiguousarray(found)

    def standardised(self, weights: Floats) -> Floats:
        """The inverse of `original`."""
        found = np.array(weights, dtype=np.float64)
        if self.mean.any():
            found[-1] += self.mean @ found
        return np.ascontiguousarray((found.T * self.scale).T)

    def adjoint(self, moments: Floats) -> Floats:
        """Moments of the standardised columns, from moments of the original columns."""
        if self.mean.any():
            moments = moments - np.multiply.outer(self.mean, moments[-1])
        return (moments.T / self.scale).T

    def of_gram(self, gram: Floats, sums: Floats, n_rows: int) -> Floats:
        """Second moments of standardised columns."""
        if gram.ndim == 1:
            padded = np.zeros_like(self.mean)
            padded[: sums.shape[0]] = sums
            centred = gram - 2.0 * self.mean * padded + n_rows * self.mean**2
            return np.maximum(centred, 0.0) / self.scale**2
        if self.mean.any():
            size = np.abs(np.diag(gram))
            gram = gram - np.outer(self.mean, gram[-1]) - np.outer(gram[:, -1], self.mean)
            gram = gram + n_rows * np.outer(self.mean, self.mean)
            # Centring takes most of it away if means are large: what rounding may have left of a
            # column counts as its curvature, so that steps are not too long.
            gram = gram + np.diag(1e-15 * size)
        return gram / np.outer(self.scale, self.scale)


def _checked_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """A name for every feature, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"`names` must be a sequence of str; got {names!r}.")
    listed = list(names)
    if len(listed) != n_features:
        raise ValueError(f"`names` must hold {n_features} names; got {len(listed)}.")
    return listed


@dataclass(frozen=True)
class Columns:
    """Statistics of every column.

    The number of rows, the smallest and the largest entry, the sum, and the sum of squared
    deviations from the mean.
    """

    count: Floats
    low: Floats
    high: Floats
    total: Floats
    deviations: Floats

    @classmethod
    def empty(cls, n_features: int) -> Columns:
        """Statistics of no rows."""
        zeros = np.zeros(n_features)
        return cls(zeros, np.full(n_features, np.inf), np.full(n_features, -np.inf), zeros, zeros)

    @classmethod
    def of(cls, matrix: NDArray, chunk: int = CHUNK) -> Columns:
        """Statistics of an array (n, n_features), some rows at a time in double precision."""
        parts = [cls.empty(matrix.shape[1])]
        for start in range(0, matrix.shape[0], chunk):
            # Along contiguous columns NumPy is several times faster than across short rows.
            columns = np.array(matrix[start : start + chunk].T, dtype=np.float64, order="C")
            size, total = columns.shape[1], columns.sum(axis=1)
            ends = columns.min(axis=1), columns.max(axis=1)
            columns -= total[:, None] / size
            deviations = np.einsum("ij,ij->i", columns, columns)
            parts.append(cls(np.full(total.shape, float(size)), *ends, total, deviations))
        return parts[1] if len(parts) == 2 else cls.weighted((part, 1.0) for part in parts)

    @classmethod
    def of_sparse(cls, matrix: sparse.csr_array) -> Columns:
        """Statistics of a SciPy sparse matrix."""
        n_rows, n_features = matrix.shape
        if n_rows == 0:
            return cls.empty(n_features)
        stored = matrix.tocsc()  # a copy
        stored.sum_duplicates()
        low, high = (np.asarray(f(axis=0).todense()).ravel() for f in (stored.min, stored.max))
        total, sizes = np.asarray(stored.sum(axis=0)).ravel(), np.diff(stored.indptr)
        mean = total / n_rows
        stored.data = (stored.data - np.repeat(mean, sizes)) ** 2
        deviations = np.asarray(stored.sum(axis=0)).ravel() + (n_rows - sizes) * mean**2
        return cls(np.full(n_features, float(n_rows)), low, high, total, deviations)

    @classmethod
    def weighted(cls, parts: Iterable[tuple[Columns, float]]) -> Columns:
        """Statistics of the rows of all parts; each row counts with the weight of its part."""
        listed = list(parts)
        weights = np.array([weight for _, weight in listed])
        found = [columns for columns, _ in listed]
        counts = np.array([columns.count for columns in found])
        totals = np.array([columns.total for columns in found])
        count, total = weights @ counts, weights @ totals
        apart = totals / np.maximum(counts, TINY) - total / np.maximum(count, TINY)
        inside = np.array([columns.deviations for columns in found])
        return cls(
            count,
            np.min([columns.low for columns in found], axis=0),
            np.max([columns.high for columns in found], axis=0),
            total,
            weights @ (inside + counts * apart**2),
        )

    def repeated(self, n_rows: int) -> Columns:
        """Statistics of a single row that is repeated `n_rows` times."""
        times = float(n_rows)
        return Columns(times * self.count, self.low, self.high, times * self.total, self.deviations)

    def with_constant(self, n_rows: int) -> Columns:
        """The same and a column of ones."""
        ends = (1.0, 1.0) if n_rows else (np.inf, -np.inf)
        own = (float(n_rows), *ends, float(n_rows), 0.0)
        known = (self.count, self.low, self.high, self.total, self.deviations)
        return Columns(*(np.append(a, b) for a, b in zip(known, own, strict=True)))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns have no two different entries."""
        return self.low >= self.high

    @property
    def has_constant(self) -> bool:
        """Whether some column is the same in all rows, and not 0."""
        return bool((self.constant & (self.low != 0.0) & (self.count > 0)).any())

    @property
    def largest(self) -> Floats:
        """The largest absolute entry."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def mean(self) -> Floats:
        """Means; 0 for columns that are constant, which stay as they are."""
        return np.where(self.constant, 0.0, self.total / np.maximum(self.count, TINY))

    @property
    def scale(self) -> Floats:
        """Standard deviations; 1 for columns that are constant."""
        variance = self.deviations / np.maximum(self.count, TINY)
        # Entries of a constant column that come from different computations differ by rounding.
        rounding = (1e-12 * self.largest) ** 2
        return np.where(self.constant, 1.0, np.sqrt(np.maximum(variance, rounding)))


def prepared_rows(
    rows: Sequence[Any], weights: Sequence[float], constant: bool, standardize: bool
) -> tuple[list[Rows], Columns, bool, Scaling | None]:
    """All rows with one constant and one scaling, which follow from statistics of all of them.

    Returns the rows, statistics of their columns, whether a constant was added, and the scaling.
    """
    listed = in_time(zip(rows, weights, strict=True), "statistics of the features")
    columns = Columns.weighted((own.columns(), weight) for own, weight in listed if weight > 0)
    adds = constant and not columns.has_constant
    if adds:
        rows, columns = [own.with_constant() for own in rows], columns.with_constant(1)
    if not standardize:
        return list(rows), columns, adds, None
    scaling = Scaling.of(columns, centred=adds)
    return [own.scaled(scaling) for own in rows], columns, adds, scaling


# ---------------------------------------------------------------------- values
def are_moderate(values: NDArray[Any]) -> bool:
    """Whether all values are finite and squares of them can be summed."""
    if values.dtype.kind in "biu" or not values.size:
        return True
    # A sum of squares takes one call, which counts for small arrays; the rest of the rule is exact.
    if values.size < SMALL and float(np.vdot(values, values)) <= LARGEST:
        return True
    # NaN and infinity survive minimum and maximum.
    return float(values.min()) >= -LARGEST and float(values.max()) <= LARGEST


def check_finite(
    values: NDArray[Any], where: str, pairs: tuple[NDArray[Any], ...] | None = None
) -> None:
    """Raise unless features are finite and moderate; row k has the features of `pairs[k]`."""
    if are_moderate(values):
        return
    moderate = np.abs(values.astype(np.float64)) <= LARGEST
    at = tuple(int(k) for k in np.argwhere(~moderate)[0])
    if np.isfinite(values[at]):
        raise ValueError(f"{where}: has features beyond {LARGEST:g}; rescale them")
    place = at if pairs is None else (*(int(ends[at[0]]) for ends in pairs), *at[1:])
    hint = "" if pairs is None else " (a pair whose features are all -inf is forbidden)"
    raise ValueError(f"{where}: found {values[at]} at {place}; features must be finite{hint}")
