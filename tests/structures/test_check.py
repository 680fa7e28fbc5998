"""Each broken decoder is reported with its cause; sound ones pass."""

import itertools
from functools import partial

import numpy as np
import own_decoders as own
import pytest

from mlestruct import check_structure
from mlestruct.structures import (
    BipartiteMatching,
    DecoderSpace,
    Decoding,
    MatchingPolytope,
    Pairwise,
    PairwiseGraph,
    Sequences,
    SimpleGraph,
    StructureError,
    Vertex,
    factor_entropy,
    grid,
)

N = 8
calls = itertools.count()


def greedy_knapsack(scores):
    """Takes items by score until the weight is used up: not the best set."""
    left, out = 10.0, np.zeros(scores.size)
    for k in np.argsort(-scores, kind="stable"):
        weight = 2.0 + k % 4
        if scores[k] > 0 and weight <= left:
            out[k], left = 1.0, left - weight
    return out


def threshold(scores):
    """Gives up where few scores are positive."""
    return own.top_three(scores) if (scores > 0).sum() >= 3 else np.zeros(scores.size)


def minimises(scores):
    return own.top_three(-scores)


def absolute(scores):
    return own.top_three(np.abs(scores))


def rounds_scores(scores):
    return own.top_three(np.round(scores))


def shuffles(scores):
    return np.random.default_rng(next(calls)).permutation(own.top_three(scores))


def sorts_in_place(scores):
    out = own.top_three(scores)
    scores.sort()
    return out


def fails_at_zero(scores):
    if not scores.any():
        raise ZeroDivisionError("no positive score")
    return own.top_three(scores)


def low_bound(scores):
    return own.top_three(scores), float(np.sort(scores)[-3:].sum()) - 0.5


BROKEN = [
    ("maximises", minimises, {}),
    ("maximises", absolute, {}),
    ("maximises", threshold, {}),
    ("maximises", rounds_scores, {}),
    ("maximises", greedy_knapsack, {}),
    ("shape", lambda s: own.top_three(s)[:-1], {}),
    ("shape", lambda s: np.flatnonzero(own.top_three(s)), {}),
    ("shape", lambda s: None, {}),
    ("shape", lambda s: "best", {}),
    ("binary", lambda s: own.top_three(s) * 0.5, {}),
    ("binary", lambda s: np.where(own.top_three(s), 1, -1), {}),
    ("binary", lambda s: np.where(own.top_three(s), s, 0.0), {}),
    ("binary", lambda s: np.where(own.top_three(s), 1.0, np.nan), {}),
    ("maximises", shuffles, {}),
    ("input", sorts_in_place, {}),
    ("exception", fails_at_zero, {}),
    ("upper bound", low_bound, {}),
    ("labels", own.top_three, {"labels": [np.ones(N)]}),
    ("labels", own.top_three, {"labels": [own.top_three(np.arange(8.0)), np.ones(3)]}),
    ("interior", own.top_three, {"interior": np.full(N, 0.5)}),  # sums to 4
    ("interior", own.top_three, {"interior": own.top_three(np.arange(8.0))}),  # a vertex
    ("interior", own.top_three, {"interior": np.r_[0.0, np.full(7, 3 / 7)]}),  # a face
    ("concave", own.top_three, {"entropy": (lambda t: float(t @ t), lambda t: 2 * t)}),
    ("gradient", own.top_three, {"entropy": (lambda t: -float(t @ t), lambda t: -t)}),
    ("gradient", own.top_three, {"entropy": (lambda t: 0.0, lambda t: np.zeros(3))}),
]


@pytest.mark.parametrize(
    ("check", "decode", "options"), BROKEN, ids=[f"{k}-{b[0]}" for k, b in enumerate(BROKEN)]
)
def test_a_broken_decoder_is_reported_with_its_cause(check, decode, options):
    report = check_structure(decode, N, on_fail=None, **options)
    found = {finding.check: finding for finding in report.findings}
    assert check in found, str(report)
    assert check in str(report)
    assert found[check].is_error
    with pytest.raises(StructureError, match=check):
        check_structure(decode, N, **options)


@pytest.mark.parametrize("check", ["maximises", "input", "labels", "concave"])
def test_nothing_else_is_wrong_with_them(check):
    """The cause is reported, not a list of consequences."""
    for cause, decode, options in BROKEN:
        if cause == check and decode is not shuffles:
            report = check_structure(decode, N, on_fail=None, **options)
            assert {finding.check for finding in report.errors} == {check}, str(report)


def test_a_heuristic_passes_if_it_says_so():
    report = check_structure(greedy_knapsack, N, exact=False)
    assert report.passed


@pytest.mark.parametrize(
    ("decode", "n", "options"),
    [
        (own.top_three, 8, {"labels": [own.top_three(np.arange(8.0))]}),
        (own.assignment, 9, {}),
        (partial(own.as_many_as_given, x=(None, 2)), 5, {}),
        (own.best_of, 4, {"entropy": factor_entropy(4, [range(4)])}),
        (lambda s: np.ones(3), 3, {}),  # a single output
    ],
)
def test_sound_decoders_pass(decode, n, options):
    report = check_structure(decode, n, **options)
    assert report.passed
    assert report.calls > 10
    assert str(report).endswith("all checks passed")


@pytest.mark.parametrize(
    "structure",
    [
        BipartiteMatching((3, 3)),
        BipartiteMatching((2, 3), rho=0.5),
        MatchingPolytope(SimpleGraph.complete(4)),
        Sequences([3], 2),
        Pairwise(grid(2, 3), 2),
        Pairwise(PairwiseGraph(3, np.array([[0, 1], [1, 2]])), 3),
        DecoderSpace(own.top_three, 8),
    ],
    ids=lambda s: type(s).__name__,
)
def test_the_structures_of_this_library_pass(structure):
    report = check_structure(structure, on_fail=None)
    assert report.passed, str(report)


class Subsets:
    """A structure as users write them, with a fault that can be chosen."""

    n_coordinates = 6

    def __init__(self, fault=""):
        self.fault = fault

    def decode(self, scores):
        at = np.argsort(-scores, kind="stable")[:2]
        at = at + 5 if self.fault == "index" else at
        vertex = Vertex(at, np.ones(1 if self.fault == "values" else 2))
        return vertex if self.fault == "vertex" else Decoding(vertex, float(scores[at % 6].sum()))

    def entropy(self, tau):
        return float(-(tau * np.log(tau) + (1 - tau) * np.log(1 - tau)).sum())

    def entropy_gradient(self, tau):
        return np.log(1 - tau) - np.log(tau)

    def interior(self):
        if self.fault == "raises":
            raise RuntimeError("no interior")
        return np.full(6, 0.5 if self.fault == "outside" else 1 / 3)

    def label(self, vertex):
        return vertex.dense(6)

    def encode(self, label):
        at = np.flatnonzero(label)
        return Vertex(at[::-1] * (0 if self.fault == "encode" else 1), np.ones(at.size))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("index", "shape"),
        ("values", "shape"),
        ("vertex", "shape"),
        ("outside", "interior"),
        ("raises", "interior"),
        ("encode", "encode"),
    ],
)
def test_faults_of_structures(fault, check):
    assert check_structure(Subsets()).passed
    report = check_structure(Subsets(fault), on_fail=None)
    assert check in [finding.check for finding in report.errors], str(report)


def test_arguments():
    with pytest.raises(ValueError, match="n_coordinates: needed"):
        check_structure(own.top_three)
    with pytest.raises(TypeError, match="structure: expected one"):
        check_structure(3)
    with pytest.raises(ValueError, match="on_fail"):
        check_structure(own.top_three, 8, on_fail="warn")


class WithoutTheLast(Subsets):
    """`encode` forgets the last coordinate."""

    def encode(self, label):
        at = np.flatnonzero(label[:5])
        return Vertex(at, np.ones(at.size))


def test_the_coordinate_that_encode_forgets_is_named():
    (found,) = check_structure(WithoutTheLast(), on_fail=None).errors
    assert found.check == "encode"
    assert "differs at coordinate 5" in str(found)


class WithConstant(Subsets):
    """A large constant in the entropy: its differences have errors of rounding."""

    def entropy(self, tau):
        return 1000.0 + super().entropy(tau)


def test_errors_of_rounding_are_no_wrong_gradient():
    report = check_structure(WithConstant(), on_fail=None)
    assert report.passed, str(report)
