"""Checks of a decoder: shape, values, determinism, and whether it maximises."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.frank_wolfe import ROUNDING
from ..contract import Structure, Vertex
from ..decoder import read_output
from .report import StructureReport

Floats = NDArray[np.float64]


class Prober:
    """Calls a decoder, and keeps its answers and what is wrong with them.

    Parameters
    ----------
    decode : scores to an output, as the user's function has it, or `Structure.decode`
    outputs : whether answers are 0/1 vectors, rather than vertices of a structure
    """

    def __init__(
        self, decode: Callable[[Floats], Any], n: int, outputs: bool, exact: bool,
        report: StructureReport,
    ):  # fmt: skip
        self.decode, self.n, self.outputs, self.exact = decode, n, outputs, exact
        self.report = report
        self.known: dict[bytes, Floats] = {}
        self.asked: list[tuple[str, Floats, Floats, float | None]] = []
        self.seconds: list[float] = []
        self.misses = False  # whether some answer was not the best one

    def ask(self, what: str, scores: Floats, keep: bool = True) -> Floats | None:
        """The answer at some scores, described by `what`; None if there is no valid one."""
        given = scores.copy()
        self.report.calls += 1
        start = time.perf_counter()
        try:
            returned = self.decode(given)
        except Exception as error:  # whatever a user's function raises
            self.report.add("exception", f"decode({what}) raised {type(error).__name__}: {error}")
            return None
        self.seconds.append(time.perf_counter() - start)
        if not np.array_equal(given, scores, equal_nan=True):
            k = int(np.argmax(given != scores))
            self.report.add(
                "input",
                f"decode({what}) changes its input, e.g. scores[{k}] from {scores[k]:.4g} to "
                f"{given[k]:.4g}; work on a copy",
            )
        read = self._read(what, returned)
        if read is None:
            return None
        answer, bound = read
        if keep and np.isfinite(scores).all():
            self.known[answer.tobytes()] = answer
            self.asked.append((what, scores, answer, bound))
        return answer

    def _read(self, what: str, returned: Any) -> tuple[Floats, float | None] | None:
        if not self.outputs:
            return self._read_decoding(what, returned)
        try:
            output, bound = read_output(returned, self.n)
        except (ValueError, TypeError) as error:
            kind = "binary" if "at coordinate" in str(error) else "shape"
            self.report.add(kind, f"decode({what}): {str(error).removeprefix('decode: ')}")
            return None
        return output.astype(np.float64), bound

    def _read_decoding(self, what: str, returned: Any) -> tuple[Floats, float | None] | None:
        vertex = getattr(returned, "vertex", None)
        if not isinstance(vertex, Vertex) or not hasattr(returned, "score"):
            kind = type(returned).__name__
            self.report.add("shape", f"decode({what}) must return a Decoding, got {kind}")
            return None
        indices, values = np.asarray(vertex.indices), np.asarray(vertex.values)
        if indices.shape != values.shape or indices.ndim != 1:
            self.report.add(
                "shape", f"decode({what}): indices {indices.shape}, values {values.shape}"
            )
            return None
        if indices.size and (indices.min() < 0 or indices.max() >= self.n):
            self.report.add(
                "shape", f"decode({what}): index {indices.max()} of {self.n} coordinates"
            )
            return None
        if not ((values >= 0.0) & np.isfinite(values)).all():
            self.report.add("binary", f"decode({what}): values {values.min():.4g} below 0")
            return None
        return vertex.dense(self.n), returned.upper_bound

    def outputs_found(self) -> Floats:
        """All different answers, shape (n_answers, n)."""
        return np.array(list(self.known.values()))


def check_decoding(probe: Prober, labels: list[Floats], rng: np.random.Generator) -> None:
    """Ask for many directions; judge every answer by all others and by the labels."""
    report, n = probe.report, probe.n
    report.checks += ["shape", "binary", "exception", "input", "maximises", "deterministic"]
    report.checks += ["upper bound", "threads", "infinite scores", "first call"]
    for what, scores in directions(n, rng):
        probe.ask(what, scores)
    _determinism(probe)
    if probe.asked:
        _maximising(probe, labels)
        _threads(probe)
        _infinities(probe)
        _first_call(probe)


def directions(n: int, rng: np.random.Generator) -> list[tuple[str, Floats]]:
    """Scores of many kinds, each with its description."""
    found = [("random scores", rng.normal(size=n)) for _ in range(15)]
    found += [("integer scores", rng.integers(-2, 3, size=n).astype(float)) for _ in range(3)]
    found += [
        ("zeros", np.zeros(n)),
        ("ones", np.ones(n)),
        ("negative scores", -rng.uniform(0.5, 1.5, size=n)),
        ("positive scores", rng.uniform(0.5, 1.5, size=n)),
        ("scores of 1e9", 1e9 * rng.normal(size=n)),
        ("scores of 1e-9", 1e-9 * rng.normal(size=n)),
    ]
    for k in rng.permutation(n)[:100].tolist():
        unit = np.zeros(n)
        unit[k] = 1.0
        found += [(f"1 at coordinate {k}, else 0", unit), (f"-1 at coordinate {k}, else 0", -unit)]
    return found


def _maximising(probe: Prober, labels: list[Floats]) -> None:
    """No answer, and no label, may score more than the answer at any scores."""
    table = np.array([*probe.known.values(), *labels])
    for what, scores, answer, bound in probe.asked:
        totals = table @ scores
        best, here = float(totals.max()), float(answer @ scores)
        slack = ROUNDING * float(np.abs(scores).sum())
        if bound is not None and bound < max(best, here) - slack:
            probe.report.add(
                "upper bound",
                f"decode({what}) returns the upper bound {bound:.6g}, but an output scores "
                f"{max(best, here):.6g}",
            )
        if best > here + slack and probe.exact and bound is None:
            differs = np.flatnonzero(table[int(totals.argmax())] != answer)[:5].tolist()
            probe.misses = True
            probe.report.add(
                "maximises",
                f"decode({what}) returns an output of score {here:.6g}, but another one scores "
                f"{best:.6g}; they differ at coordinates {differs}. If it is a heuristic, let it "
                "return an upper bound, or say exact=False",
            )


def _some(probe: Prober) -> list[tuple[str, Floats, Floats, float | None]]:
    """About sixteen of the calls so far, to be repeated."""
    return probe.asked[:: max(1, len(probe.asked) // 16)]


def _determinism(probe: Prober) -> None:
    ties = [entry for entry in probe.asked if entry[0] in ("zeros", "ones")]
    for what, scores, answer, _ in [*_some(probe), *ties]:
        again = probe.ask(what, scores, keep=False)
        if again is not None and not np.array_equal(again, answer):
            k = int(np.argmax(again != answer))
            worse = abs(float((again - answer) @ scores)) > ROUNDING * float(np.abs(scores).sum())
            probe.report.add(
                "deterministic",
                f"decode({what}) returns different outputs for the same scores, e.g. at coordinate "
                f"{k}" + ("" if worse else "; they are equally good, but results will not repeat"),
                is_error=worse,
            )


def _threads(probe: Prober) -> None:
    asked = _some(probe)

    def again(entry: tuple[str, Floats, Floats, float | None]) -> bool:
        found = probe._read(entry[0], probe.decode(entry[1].copy()))
        return found is not None and np.array_equal(found[0], entry[2])

    probe.report.calls += 2 * len(asked)
    if any(finding.check == "deterministic" for finding in probe.report.findings):
        return
    with ThreadPoolExecutor(4) as pool:
        try:
            same = list(pool.map(again, asked * 2))
        except Exception as error:  # whatever a user's function raises
            same, why = [False], f": {type(error).__name__}: {error}"
        else:
            why = ""
    if not all(same):
        probe.report.add(
            "threads", f"decode gives other answers in several threads{why}; use n_jobs=1", False
        )


def _infinities(probe: Prober) -> None:
    """-inf forbids a coordinate, +inf forces it, where there are outputs that comply."""
    table = probe.outputs_found()
    scores = probe.asked[0][1]
    for value, wanted in ((-np.inf, 0.0), (np.inf, 1.0)):
        both = np.flatnonzero((table.max(axis=0) == 1.0) & (table.min(axis=0) == 0.0))
        if both.size == 0:
            return
        k = int(both[0])
        given = scores.copy()
        given[k] = value
        before = len(probe.report.findings)
        with np.errstate(all="ignore"):
            answer = probe.ask(f"{value} at coordinate {k}", given, keep=False)
        del probe.report.findings[before:]
        if answer is None or answer[k] != wanted:
            got = "no valid output" if answer is None else f"{answer[k]:g} there"
            probe.report.add(
                "infinite scores",
                f"decode({value} at coordinate {k}) returns {got}, though there are outputs with "
                f"{wanted:g}; do not use infinite scores with it",
                False,
            )


def _first_call(probe: Prober) -> None:
    first, later = probe.seconds[0], float(np.median(probe.seconds[1:] or [0.0]))
    # What is left after a tenth is not the problem itself.
    if first > 1.0 and first > 10.0 * later:
        probe.report.add(
            "first call",
            f"the first call took {first:.1f} s, later ones {later:.2g} s; load or compile what it "
            "needs in advance",
            False,
        )


def check_labels(probe: Prober, structure: Structure, labels: list[Any]) -> list[Floats]:
    """Vertices of the labels, each of which must be the best output at the scores 2 y - 1."""
    report, vertices = probe.report, []
    report.checks.append("labels")
    for m, label in enumerate(labels):
        try:
            y = structure.encode(label).dense(probe.n)
        except Exception as error:  # whatever a user's encode raises
            report.add("labels", f"labels[{m}]: {str(error).removeprefix('label: ')}")
            continue
        if not ((y == 0.0) | (y == 1.0)).all() or structure.n_scored != probe.n:
            continue  # the scores 2 y - 1 single out 0/1 vectors only
        answer = probe.ask(f"2 y - 1 at labels[{m}]", 2.0 * y - 1.0)
        if answer is None or np.array_equal(answer, y):
            vertices.append(y)
        elif probe.exact:
            differs = np.flatnonzero(answer != y)[:5].tolist()
            report.add(
                "labels",
                f"labels[{m}] is not an output: at the scores 2 y - 1, where it would be the best "
                f"one, decode returns one that differs at coordinates {differs}",
            )
    return vertices


def check_round_trip(probe: Prober, structure: Structure) -> None:
    """`encode` is the inverse of `label`."""
    probe.report.checks.append("encode")
    for answer in list(probe.known.values())[:10]:
        if not ((answer == 0.0) | (answer == 1.0)).all():
            continue
        at = np.flatnonzero(answer)
        try:
            again = structure.encode(structure.label(Vertex(at, answer[at]))).dense(probe.n)
        except Exception as error:  # whatever a user's methods raise
            probe.report.add("encode", f"encode(label(vertex)) raised {error!r}")
            return
        if not np.array_equal(again, answer):
            k = int(np.argmax(again != answer))
            probe.report.add("encode", f"encode(label(vertex)) differs at coordinate {k}")
            return
