"""`check_structure`: all checks of an output space or a decoder, in one report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._random import generator
from ..contract import as_structure
from ..decoder import DecoderSpace
from .decoding import Prober, check_decoding, check_labels, check_round_trip
from .entropy import check_entropy, check_interior
from .report import StructureError, StructureReport


def check_structure(
    structure: Any,
    n_coordinates: int | None = None,
    *,
    labels: Sequence[Any] = (),
    entropy: Any = None,
    interior: Any = None,
    exact: bool = True,
    random_state: Any = 0,
    on_fail: str | None = "raise",
) -> StructureReport:
    """Test an output space, or just a decoder, against the contract of `StructuredCRF`.

    Asks the decoder at scores of many kinds and compares its answers with each other, with the
    labels, the interior point and the entropy. What it reports is certain; what it does not find
    may still be there, since outputs that no call has returned are not known.

    Parameters
    ----------
    structure : an output space, or a function of scores to a 0/1 vector
        For functions of scores and a sample: functools.partial(decode, x=x).
    n_coordinates : length of the scores, for a function
    labels : observed outputs, which must be in the space
    entropy, interior, exact : as in `StructuredCRF`, for a function
    random_state : int, Generator or None
    on_fail : "raise" an error that lists all findings, or None: only return them

    Returns
    -------
    StructureReport : findings, errors, passed, calls; print it for a summary

    Raises
    ------
    StructureError
        With on_fail="raise", if there is any error. Advice alone does not raise.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import check_structure
    >>> def largest(scores):
    ...     return np.abs(scores) == np.abs(scores).max()
    >>> print(check_structure(largest, 5, on_fail=None))  # doctest: +ELLIPSIS
    12 checks, ... calls of decode:
      error: maximises: decode(random scores) returns an output of score ...
    """
    if on_fail not in ("raise", None):
        raise ValueError(f"on_fail: expected 'raise' or None, got {on_fail!r}")
    report, rng = StructureReport(), generator(random_state)
    if hasattr(structure, "n_coordinates"):
        space = as_structure(structure)
        probe = Prober(space.decode, space.n_coordinates, False, exact, report)
    else:
        if not callable(structure):
            raise TypeError(f"structure: expected one, or a function of scores, got {structure!r}")
        if n_coordinates is None:
            raise ValueError("n_coordinates: needed with a function, the length of its scores")
        space = DecoderSpace(
            structure, n_coordinates, entropy=entropy, interior=interior, exact=False
        )
        probe = Prober(structure, space.n_coordinates, True, exact, report)
    vertices = check_labels(probe, space, list(labels))
    check_decoding(probe, vertices, rng)
    if probe.known:
        check_round_trip(probe, space)
        # A point found by a decoder that does not maximise says nothing about it.
        searched = isinstance(space, DecoderSpace) and interior is None
        point = None if searched and probe.misses else check_interior(probe, space)
        if point is not None:
            check_entropy(probe, space, point, rng)
    if isinstance(space, DecoderSpace):
        report.calls += space.calls  # for the interior point
    if on_fail == "raise" and not report.passed:
        raise StructureError(report)
    return report
