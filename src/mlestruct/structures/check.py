"""`check_structure`: whether an output space or a decoder keeps to the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import generator
from ..algorithms.frank_wolfe import ROUNDING
from .contract import Structure, Vertex, as_structure
from .decoder import DecoderSpace
from .known_outputs import read_output

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """One violation of the contract; advice where results would not be wrong."""

    check: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'advice'}: {self.check}: {self.message}"


@dataclass
class StructureReport:
    """The first finding of each check, and the number of calls of the decoder."""

    findings: list[Finding] = field(default_factory=list)
    calls: int = 0

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_error]

    @property
    def passed(self) -> bool:
        return not self.errors

    def add(self, check: str, message: str, is_error: bool = True) -> None:
        if not any(finding.check == check for finding in self.findings):
            self.findings.append(Finding(check, message, is_error))

    def __str__(self) -> str:
        found = "".join(f"\n  {finding}" for finding in self.findings)
        return f"decode was asked {self.calls} times: {found or 'all checks passed'}"


class StructureError(ValueError):
    """A structure or decoder violates the contract; `report` has all findings."""

    def __init__(self, report: StructureReport):
        super().__init__(str(report))
        self.report = report


def check_structure(
    structure: Any, n_coordinates: int | None = None, *, labels: Sequence[Any] = (),
    entropy: Any = None, interior: Any = None, exact: bool = True, random_state: Any = 0,
    on_fail: str | None = "raise",
) -> StructureReport:  # fmt: skip
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
    entropy, interior, exact : as in `DecoderSpace`, for a function
    random_state : int, Generator or None
    on_fail : "raise" a StructureError if there is any error, or None: only return the report

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import check_structure
    >>> def largest(scores):
    ...     return np.abs(scores) == np.abs(scores).max()
    >>> print(check_structure(largest, 5, on_fail=None))  # doctest: +ELLIPSIS
    decode was asked ... times:...
      error: maximises: decode(random scores) returns an output of score ...
    """
    if on_fail not in ("raise", None):
        raise ValueError(f"on_fail: expected 'raise' or None, got {on_fail!r}")
    function = None if hasattr(structure, "n_coordinates") else structure
    if function is None:
        space = as_structure(structure)
    elif not callable(function):
        raise TypeError(f"structure: expected one, or a function of scores, got {function!r}")
    elif n_coordinates is None:
        raise ValueError("n_coordinates: needed with a function, the length of its scores")
    else:
        options = {"entropy": entropy, "interior": interior}
        space = DecoderSpace(function, n_coordinates, **options, exact=False)
    checks = _Checks(space, function, exact, random_state)
    checks.decoding([y for m, label in enumerate(labels) for y in checks.output_of(label, m)])
    # A point found by a decoder that does not maximise says nothing about it.
    searched = isinstance(space, DecoderSpace) and interior is None
    if checks.asked and not (searched and checks.misses):
        checks.interior_and_entropy()
    report = checks.report
    report.calls += space.calls if isinstance(space, DecoderSpace) else 0
    if on_fail == "raise" and not report.passed:
        raise StructureError(report)
    return report


class _Checks:
    """Calls a decoder, and keeps its answers and what is wrong with them.

    `function` is the user's own, which returns 0/1 vectors; None where `space.decode` is asked.
    """

    def __init__(self, space: Structure, function: Any, exact: bool, random_state: Any):
        self.space, self.function, self.exact = space, function, exact
        self.n, self.rng = space.n_coordinates, generator(random_state)
        self.report = StructureReport()
        self.asked: list[tuple[str, Floats, Floats, float | None]] = []
        self.misses = False  # whether some answer was not the best one

    def ask(self, what: str, scores: Floats) -> Floats | None:
        """The answer at some scores, described by `what`; None if there is no valid one."""
        given, call = scores.copy(), f"decode({what})"
        self.report.calls += 1
        try:
            returned = (self.function or self.space.decode)(given)
        except Exception as error:  # whatever a user's function raises
            self.report.add("exception", f"{call} raised {type(error).__name__}: {error}")
            return None
        if not np.array_equal(given, scores):
            self.report.add("input", f"{call} changes its input; work on a copy")
        try:
            answer, bound = self._read(returned)
        except (ValueError, TypeError) as error:
            kind = "binary" if "at coordinate" in str(error) else "shape"
            self.report.add(kind, f"{call}: {str(error).removeprefix('decode: ')}")
            return None
        self.asked.append((what, scores, answer, bound))
        return answer

    def _read(self, returned: Any) -> tuple[Floats, float | None]:
        if self.function is not None:
            output, bound = read_output(returned, self.n)
            return output.astype(np.float64), bound
        vertex = getattr(returned, "vertex", None)
        if not isinstance(vertex, Vertex) or not hasattr(returned, "score"):
            raise TypeError(f"must return a Decoding, got {type(returned).__name__}")
        indices, values = np.asarray(vertex.indices), np.asarray(vertex.values)
        if indices.shape != values.shape or indices.ndim != 1:
            raise ValueError(f"indices {indices.shape}, values {values.shape}")
        if not np.isin(indices, np.arange(self.n)).all():
            raise ValueError(f"index {indices.max()} of {self.n} coordinates")
        for k in np.flatnonzero(~((values >= 0.0) & np.isfinite(values))):
            raise ValueError(f"has the value {values[k]:.4g} at coordinate {indices[k]}")
        return vertex.dense(self.n), returned.upper_bound

    # ------------------------------------------------------------------ decoder and labels
    def output_of(self, label: Any, m: int) -> list[Floats]:
        """A label's vertex, which must be best at the scores 2 y - 1; nothing if it is not."""
        try:
            y = self.space.encode(label).dense(self.n)
        except Exception as error:  # whatever a user's encode raises
            self.report.add("labels", f"labels[{m}]: {str(error).removeprefix('label: ')}")
            return []
        if not np.isin(y, (0.0, 1.0)).all() or self.space.n_scored != self.n:
            return [y]  # the scores 2 y - 1 single out 0/1 vectors only
        answer = self.ask(f"2 y - 1 at labels[{m}]", 2.0 * y - 1.0)
        if not self.exact or answer is None or np.array_equal(answer, y):
            return [y]
        differs = np.flatnonzero(answer != y)[:5].tolist()
        self.report.add(
            "labels",
            f"labels[{m}] is not an output: at the scores 2 y - 1, where it would be the best one, "
            f"decode returns one that differs at coordinates {differs}",
        )
        return []

    def decoding(self, labels: list[Floats]) -> None:
        """Ask for many directions: no answer, and no label, may score more than the best one."""
        n, rng = self.n, self.rng
        for _ in range(15):
            self.ask("random scores", rng.normal(size=n))
        for _ in range(3):
            self.ask("integer scores", rng.integers(-2, 3, size=n).astype(float))
        self.ask("negative scores", -rng.uniform(0.5, 1.5, size=n))
        self.ask("positive scores", rng.uniform(0.5, 1.5, size=n))
        for size in (1e9, 1e-9, 0.0):
            self.ask(f"scores of {size:g}", size * rng.normal(size=n))
        for k in rng.permutation(n)[:100].tolist():
            for sign in (1.0, -1.0):
                self.ask(f"{sign:g} at coordinate {k}, else 0", sign * (np.arange(n) == k))
        seen = [answer for _, _, answer, _ in self.asked] + labels
        table = np.unique(np.array(seen).reshape(-1, n), axis=0)
        for what, scores, answer, bound in self.asked:
            totals = table @ scores
            best, here = float(totals.max()), float(answer @ scores)
            slack = ROUNDING * float(np.abs(scores).sum())
            if bound is not None and bound < best - slack:
                found = f"the upper bound {bound:.6g}, but an output scores {best:.6g}"
                self.report.add("upper bound", f"decode({what}) returns {found}")
            if best > here + slack and self.exact and bound is None:
                self.misses = True
                differs = np.flatnonzero(table[int(totals.argmax())] != answer)[:5].tolist()
                self.report.add(
                    "maximises",
                    f"decode({what}) returns an output of score {here:.6g}, but another one scores "
                    f"{best:.6g}; they differ at coordinates {differs}. If it is a heuristic, let "
                    "it return an upper bound, or say exact=False",
                )
        for _, _, answer, _ in self.asked[:10]:
            if np.isin(answer, (0.0, 1.0)).all():
                self._round_trip(answer)

    def _round_trip(self, answer: Floats) -> None:
        """`encode` is the inverse of `label`."""
        try:
            again = self.space.encode(self.space.label(Vertex.of(answer))).dense(self.n)
        except Exception as error:  # whatever a user's methods raise
            self.report.add("encode", f"encode(label(vertex)) raised {error!r}")
            return
        for k in np.flatnonzero(again != answer):
            self.report.add("encode", f"encode(label(vertex)) differs at coordinate {k}")

    # ------------------------------------------------------------------ interior and entropy
    def interior_and_entropy(self) -> None:
        """The point is inside; the entropy is concave, with the right gradient."""
        table = np.unique([answer for _, _, answer, _ in self.asked], axis=0)
        try:
            point = np.array(self.space.interior(), dtype=np.float64)
        except Exception as error:  # whatever a user's method raises
            self.report.add("interior", f"interior() raised {type(error).__name__}: {error}")
            return
        if not self._is_inside(point, table):
            return
        try:
            with np.errstate(all="ignore"):
                for trial in range(40):
                    one, other = (self._mixture(point, table, trial) for _ in range(2))
                    self._check_entropy(one, other)
        except Exception as error:  # whatever a user's functions raise
            self.report.add("gradient", f"the entropy raised {type(error).__name__}: {error}")

    def _is_inside(self, point: Floats, table: Floats) -> bool:
        space, add = self.space, self.report.add
        if point.shape != (self.n,) or not np.isfinite(point).all():
            add("interior", f"expected finite numbers of shape ({self.n},), got {point.shape}")
            return False
        if isinstance(space, DecoderSpace) and not self.exact and space.unproven.size:
            # As in `fit`, which goes on without a certificate.
            add("interior", f"no certificate (certified_=False): {space.doubt}", False)
        low, high = table.min(axis=0), table.max(axis=0)
        for k in np.flatnonzero((high > low) & ((point <= low) | (point >= high))):
            add(
                "interior",
                f"coordinate {k} is {point[k]:.4g} at the interior point and {low[k]:g} to "
                f"{high[k]:g} in outputs; all that vary must be strictly inside their range",
            )
            return False
        # No direction may score more at the point than at the best output. The first one leaves
        # the affine hull of the known outputs.
        offset = point - table.mean(axis=0)
        _, sizes, rows = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
        spanned = rows[sizes > 1e-9 * float(sizes.max(initial=0.0))]
        for direction in (offset - spanned.T @ (spanned @ offset), offset, point - 0.5):
            norm = float(np.abs(direction).max())
            answer = self.ask("the direction of the interior point", direction / max(norm, 1e-9))
            if answer is None:
                return False
            here, best = float(direction @ point), float(direction @ answer)
            slack = ROUNDING * (float(np.abs(direction).sum()) + 1.0)
            if self.exact and not self.misses and here > best + slack:
                add("interior", "the interior point is not a mixture of outputs")
                return False
        return True

    def _mixture(self, point: Floats, table: Floats, trial: int) -> Floats:
        """A point inside: near the interior point, in between, or near a vertex."""
        weights = self.rng.dirichlet(np.full(table.shape[0], 1.0 if trial % 2 else 0.2))
        if trial % 3 == 2:
            weights = np.eye(table.shape[0])[self.rng.integers(table.shape[0])]
        inside = (0.5, 0.1, 1e-4)[trial % 3]
        return inside * point + (1.0 - inside) * (weights @ table)

    def _check_entropy(self, one: Floats, other: Floats) -> None:
        """Gradient and concavity along a chord."""
        entropy, add, chord = self.space.entropy, self.report.add, other - one
        slope = np.asarray(self.space.entropy_gradient(one), dtype=np.float64)
        if slope.shape != (self.n,):
            add("gradient", f"has shape {slope.shape}, expected ({self.n},)")
            return
        varies = (one > 0.0) & (one < 1.0)
        for k in np.flatnonzero(varies & ~np.isfinite(slope)):
            add("gradient", f"is {slope[k]} for coordinate {k} at {one[k]:.4g}")
        step = 1e-5 * float(np.minimum(one, 1.0 - one)[varies].min(initial=1.0))
        high, low = entropy(one + step * chord), entropy(one - step * chord)
        found, given = (high - low) / (2.0 * step), float(slope[varies] @ chord[varies])
        noise = 1e-14 * (1.0 + abs(high)) / step
        # Differences are accurate to about 1e-8 inside.
        if not abs(found - given) <= 1e-4 * (1.0 + abs(found)) + noise:
            add(
                "gradient",
                f"along a direction inside the polytope the entropy changes by {found:.6g} per "
                f"unit, its gradient says {given:.6g}",
            )
        ends, middle = 0.5 * (entropy(one) + entropy(other)), entropy(0.5 * (one + other))
        if not middle >= ends - 1e-7 * (1.0 + abs(ends)):
            add(
                "concave",
                f"the entropy is {middle:.6g} halfway between two points where its mean is "
                f"{ends:.6g}; certificates need a concave one",
            )
