"""What users pass for X and Y where samples are in partitions.

A partition is a list of samples (or of labels, or an array of weights) that exists only where it is
needed: a `Lazy` call, a Dask `Delayed`, or a Dask `Future`. X is a list of such partitions, or a
Dask bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .backend import Backend

ACTIVE: ContextVar[Backend | None] = ContextVar("mlestruct_backend", default=None)
"""The backend whose context we are in."""


@dataclass(frozen=True)
class Lazy:
    """One partition: the result of `function(*arguments)`, or one part of it.

    It is called where and whenever the samples are needed, so it must return the same each time.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    part: int | None = None

    def load(self) -> Any:
        """Call the function."""
        found = self.function(*self.arguments)
        return found if self.part is None else found[self.part]


def lazy_partitions(
    read: Callable[[Any], tuple[Any, Any]], sources: Iterable[Any]
) -> tuple[list[Lazy], list[Lazy]]:
    """Partitions X, Y with (X[p], Y[p]) = read(sources[p]), read when they are needed.

    Parameters
    ----------
    read : function from a source, such as the name of a file, to its samples and their labels
    sources : one for each partition
    """
    listed = list(sources)
    return [Lazy(read, (s,), 0) for s in listed], [Lazy(read, (s,), 1) for s in listed]


def is_delayed(item: Any) -> bool:
    """Whether an object is a Delayed of Dask, told without importing it."""
    return type(item).__module__ == "dask.delayed"


def is_future(item: Any) -> bool:
    """Whether an object is a Future of Dask, told without importing it."""
    return type(item).__module__ == "distributed.client" and type(item).__name__ == "Future"


def is_dask(item: Any) -> bool:
    """Whether an object is a Delayed or a Future of Dask."""
    return is_delayed(item) or is_future(item)


def is_bag(X: Any) -> bool:
    """Whether an object is a bag of Dask."""
    return type(X).__module__.startswith("dask.bag")


def is_partitioned(X: Any) -> bool:
    """Whether samples come in partitions."""
    if is_bag(X):
        return True
    return isinstance(X, list | tuple) and bool(X) and (isinstance(X[0], Lazy) or is_dask(X[0]))


def are_elsewhere(X: Any) -> bool:
    """Whether samples come in partitions, or are to be cut into some for a backend."""
    return ACTIVE.get() is not None or is_partitioned(X)


def read_partitions(X: Any, name: str) -> list[Any]:
    """The partitions of X, each a `Lazy`, a Delayed or a Future."""
    listed = list(X.to_delayed()) if is_bag(X) else list(X)
    for p, item in enumerate(listed):
        if not (isinstance(item, Lazy) or is_dask(item)):
            raise TypeError(
                f"{name}[{p}]: expected a partition (Lazy, Delayed or Future) like {name}[0], got "
                f"{type(item).__name__}"
            )
        if is_future(item) and item.client is None:
            raise TypeError(
                f"{name}[{p}]: is a Future whose client is in another process, as with n_jobs of "
                "scikit-learn. Use n_jobs=None, since Dask's workers compute anyway, or threads "
                "(joblib.parallel_config(backend='threading')), or pass Delayed or Lazy partitions"
            )
    return listed


@dataclass(frozen=True)
class Source:
    """Samples, labels and weights of one partition, each as the user has given it."""

    X: Any
    Y: Any
    weights: Any


def read_sources(X: Any, Y: Any, sample_weight: Any) -> list[Source]:
    """The partitions of all arguments; raises unless they agree in number."""
    samples = read_partitions(X, "X")
    parts: dict[str, list[Any]] = {"Y": [None] * len(samples), "sample_weight": []}
    if not is_partitioned(Y):
        raise TypeError(f"Y: X comes in {len(samples)} partitions, so Y must, too")
    parts["Y"] = read_partitions(Y, "Y")
    parts["sample_weight"] = [None] * len(samples)
    if sample_weight is not None:
        if not is_partitioned(sample_weight):
            raise TypeError(
                f"sample_weight: X comes in {len(samples)} partitions, so sample_weight must, too"
            )
        parts["sample_weight"] = read_partitions(sample_weight, "sample_weight")
    for name, own in parts.items():
        if len(own) != len(samples):
            raise ValueError(f"X has {len(samples)} partitions but {name} has {len(own)}")
    return [Source(*own) for own in zip(samples, *parts.values(), strict=True)]


def split_sources(
    X: Sequence[Any], Y: Sequence[Any], weights: Any, n_partitions: int
) -> list[Source]:
    """Samples in memory, cut into partitions of about equal numbers."""
    ends = np.linspace(0, len(X), min(n_partitions, len(X)) + 1).astype(int).tolist()
    spans = [slice(a, b) for a, b in pairwise(ends)]
    return [Source(X[s], Y[s], None if weights is None else weights[s]) for s in spans]


def loaded(source: Source) -> tuple[Any, Any, Any]:
    """Samples, labels and weights; a file that holds both X and Y is read once."""
    x, y = source.X, source.Y
    same = isinstance(x, Lazy) and isinstance(y, Lazy) and x.part is not None
    if same and (x.function, x.arguments) == (y.function, y.arguments) and y.part is not None:
        found = x.function(*x.arguments)
        return found[x.part], found[y.part], load(source.weights)
    return load(x), load(y), load(source.weights)


def load(item: Any) -> Any:
    """A partition in this process: what is given, called, or computed by Dask."""
    if isinstance(item, Lazy):
        return item.load()
    if is_future(item):
        return item.result()
    return item.compute(scheduler="synchronous") if is_delayed(item) else item
