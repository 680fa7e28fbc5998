"""Sums of exponentials and draws from unnormalised log probabilities, one state at a time."""

from math import exp, log

from ..._compile import kernel


@kernel
def log_sum_exp(values):
    """log of the sum of exp(values)."""
    top = values[0]
    for k in range(1, values.shape[0]):
        top = max(top, values[k])
    total = 0.0
    for k in range(values.shape[0]):
        total += exp(values[k] - top)
    return top + log(total)


@kernel
def accumulate(logs, upto):
    """upto[k] = sum of exp(logs[i] - the largest) over i <= k; `upto` may be `logs`."""
    top = logs[0]
    for k in range(1, logs.shape[0]):
        top = max(top, logs[k])
    total = 0.0
    for k in range(logs.shape[0]):
        total += exp(logs[k] - top)
        upto[k] = total


@kernel
def draw_state(upto, rng):
    """A state with probabilities in proportion to the steps of `upto`, never one of step 0."""
    u = rng.random() * upto[-1]
    k = 0
    while upto[k] <= u:
        k += 1
    return k
