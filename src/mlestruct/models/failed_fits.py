"""What a fit that fails leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.base import BaseEstimator


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the estimator as it was, fitted or not.

    Otherwise weights of one fit could meet labels or columns of another.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
