"""The vectorised logarithm against NumPy's."""

import numpy as np

from mlestruct._compile import summing_kernel
from mlestruct.algorithms._logarithm_kernels import fast_log


@summing_kernel
def logarithms(values, out):
    for k in range(values.shape[0]):
        out[k] = fast_log(values[k])


def test_fast_log_is_exact_to_rounding_over_the_whole_range():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            np.exp(rng.uniform(-708.0, 709.0, size=100_000)),
            1.0 + rng.normal(size=1000) * 10.0 ** rng.uniform(-16.0, -1.0, size=1000),
            [np.finfo(float).tiny, np.finfo(float).max, 0.5, 1.0, 2.0, np.sqrt(0.5), np.sqrt(2.0)],
        ]
    )
    found = np.empty_like(values)
    logarithms(values, found)
    np.testing.assert_allclose(found, np.log(values), rtol=1e-15, atol=4e-16)
    assert found[values == 1.0].tolist() == [0.0] * int((values == 1.0).sum())
