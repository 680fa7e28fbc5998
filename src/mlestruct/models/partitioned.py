"""Fitting and predicting where samples come in partitions.

The first pass over the partitions exchanges small statistics: labels and names of features that
occur, then means and scales. The blocks stay with the partitions, and the solver sees each
partition as one block.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from inspect import signature
from itertools import chain
from typing import Any, TypeVar, cast

from ..features.contract import Columns
from ..learning.partition import Facts
from ..learning.problem import DualProblem
from ..learning.remote import RemoteBlock, remote_blocks
from ..partitions.backend import Backend, LocalBackend, Partitioned
from ..partitions.dask import DaskBackend
from ..partitions.host import Reading
from ..partitions.sources import (
    ACTIVE,
    Lazy,
    Source,
    is_bag,
    is_dask,
    is_delayed,
    is_future,
    is_partitioned,
    load,
    read_partitions,
    read_sources,
    split_sources,
)
from .validation import check_names, check_same_length, check_samples

F = TypeVar("F", bound=Callable[..., Any])


def partitions_of(X: Any, Y: Any, sample_weight: Any) -> tuple[Backend, list[Source]]:
    """The backend and the partitions of a fit to samples that are elsewhere."""
    backend = ACTIVE.get()
    if backend is None or is_partitioned(X):
        sources = read_sources(X, Y, sample_weight)
        return backend or _default_backend(sources), sources
    samples = check_samples(X)
    labels = check_same_length(samples, Y)
    return backend, split_sources(samples, labels, sample_weight, backend.n_partitions)


def _default_backend(sources: Sequence[Source]) -> Backend:
    """Dask's workers for partitions of Dask, if there are some; else this process."""
    if any(is_dask(source.X) for source in sources):
        try:
            return DaskBackend()
        except (ImportError, ValueError):
            return LocalBackend()
    return LocalBackend()


def read_problem(
    estimator: Any, backend: Backend, sources: Sequence[Source], alpha: float, l1_ratio: float
) -> tuple[DualProblem, list[Columns]]:
    """The problem of all partitions, and statistics of the features; `estimator` learns names."""
    parts = backend.open(sources, estimator.reader())
    agreement = estimator.agreement(_all(backend, parts, lambda part: part("survey")))
    readings: list[Reading] = _all(backend, parts, lambda part: part.step("read", agreement))
    filled = [p for p, reading in enumerate(readings) if reading.n_blocks]
    if not filled:
        raise ValueError("X: no partition has a sample of positive weight to learn from")
    _check_readings(readings, filled)
    vars(estimator).update(readings[filled[0]].learned)
    columns = _joined([readings[p].columns for p in filled])
    estimator.choose_intercept(columns)
    if estimator._intercept:
        found = _all(backend, parts, lambda part: part.step("add_constant"))
        columns = _joined([found[p] for p in filled])
    transform = estimator.learn_transform(columns, type(estimator).__name__)
    facts: list[Facts] = _all(backend, parts, lambda part: part.step("finish", transform))
    if any(own.has_partial for own in facts):
        raise ValueError(
            "Y: outputs that are known only in part are learned from samples in one place; leave "
            "them out (missing='drop') or pass lists"
        )
    blocks: list[RemoteBlock] = remote_blocks(parts, facts)
    return DualProblem(blocks, alpha, l1_ratio), columns


def _all(
    backend: Backend, parts: Sequence[Partitioned], call: Callable[[Partitioned], Any]
) -> list[Any]:
    """A call of every partition; errors say of which."""

    def one(p: int) -> Any:
        try:
            return call(parts[p])
        except (ValueError, TypeError) as error:
            raise type(error)(f"partition {p}: {error}") from error

    return backend.each(one, range(len(parts)))


def _check_readings(readings: Sequence[Reading], filled: Sequence[int]) -> None:
    """Raise unless all partitions have the same features."""
    first = filled[0]
    for p in filled[1:]:
        sizes = readings[p].n_features, readings[first].n_features
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"partition {p} has {sizes[0]} features, partition {first} has {sizes[1]}"
            )
        names, known = readings[p].feature_names, readings[first].feature_names
        if names and known:
            check_names(list(known), list(names), f"partition {p}", f"partition {first}")


def _joined(parts: Sequence[list[Columns]]) -> list[Columns]:
    """Statistics of all partitions, by kinds of weights; none where some have none."""
    if not all(parts):
        return []
    return [reduce(Columns.joined, kind) for kind in zip(*parts, strict=True)]


def over_partitions(method: F) -> F:
    """The method of an estimator also takes X in partitions, and then returns partitions.

    Those of the same kind as X: Delayed, Future or `Lazy` lists, or a bag; nothing is computed
    before they are. Arguments that come in partitions, such as `known`, go along with X.
    """
    parameters = signature(method)

    @wraps(method)
    def either(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_partitioned(X):
            return method(self, X, *args, **options)
        options.update(list(parameters.bind_partial(self, X, *args).arguments.items())[2:])
        apply = _Apply(self.to_local(), method.__name__)
        along = {name: value for name, value in options.items() if is_partitioned(value)}
        fixed = {name: value for name, value in options.items() if name not in along}
        parts = read_partitions(X, "X")
        extra = {name: read_partitions(value, name) for name, value in along.items()}
        for name, own in extra.items():
            if len(own) != len(parts):
                raise ValueError(f"X has {len(parts)} partitions but {name} has {len(own)}")
        found = []
        for p, part in enumerate(parts):
            found.append(_later(apply, part, {**fixed, **{k: v[p] for k, v in extra.items()}}))
        return _as_bag(found) if is_bag(X) else found

    return cast(F, either)


class _Apply:
    """A method of a model, applied to the samples of a partition."""

    def __init__(self, model: Any, method: str):
        self._model, self._method = model, method

    def __call__(self, samples: Any, options: dict[str, Any]) -> Any:
        options = {name: load(value) for name, value in options.items()}
        return getattr(self._model, self._method)(list(load(samples)), **options)


def _later(apply: _Apply, part: Any, options: dict[str, Any]) -> Any:
    """The result for one partition, of the same kind as the partition."""
    if isinstance(part, Lazy):
        return Lazy(apply, (part, options))
    if is_future(part):
        return part.client.submit(apply, part, options, pure=False)
    from dask import delayed

    return delayed(apply, pure=False)(part, options)


def _as_bag(parts: Sequence[Any]) -> Any:
    from dask.bag import from_delayed

    return from_delayed(parts)


def gathered(parts: Any) -> list[Any]:
    """The results of all partitions in one list."""
    listed = read_partitions(parts, "parts")
    if all(is_delayed(item) for item in listed):
        from dask import compute

        return list(chain.from_iterable(compute(*listed)))
    return list(chain.from_iterable(load(item) for item in listed))


def local_copy(estimator: Any) -> Any:
    """A copy that keeps what was learned and nothing of a fit."""
    other = copy.copy(estimator)
    vars(other).pop("_state", None)
    return other
