"""What makes two reliability curves equal."""

import numpy as np
import pytest

ARRAYS = ("edges", "predicted", "observed", "lower", "upper", "count")


def assert_same(found, expected, tol=1e-12):
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=tol)
    for name, value in expected.summary().items():
        assert found.summary()[name] == pytest.approx(value, abs=tol, rel=1e-9), name
