"""What the paper says of picture 207: errors, and after which times."""

from __future__ import annotations

from dataclasses import dataclass

PICTURE = 206  # its index: horse207
RIVAL = "trw40"  # the method that it is compared with
MINUTES = 9.2  # in which the rival makes an iteration, and the paper's algorithm 60 passes
HOURS = 3.7  # after which the paper's algorithm ends
RIVAL_HOURS = 8.2  # after which the rival ends
ITERATIONS = (1, 24)  # of the rival, in 9.2 minutes and in 3.7 hours
PASSES = 60  # of the paper's algorithm over the training pictures, in 9.2 minutes


@dataclass(frozen=True)
class Published:
    """A share of wrong pixels, the value of its last digit, and when it was measured."""

    error: float
    digit: float
    hours: float


BCFW = (Published(0.068, 0.001, MINUTES / 60), Published(0.074, 0.001, HOURS))
DOMKE = (
    Published(0.249, 0.001, MINUTES / 60),
    Published(0.109, 0.001, HOURS),
    Published(0.0813, 0.0001, RIVAL_HOURS),
)
