"""Sampled outputs, against the distribution spelled out."""

import bipartite_matchings
import numpy as np
import pytest
from enumerated_spaces import (
    KINDS,
    bipartite,
    case_of,
)
from scipy.special import logsumexp
from scipy.stats import chisquare

from mlestruct.exceptions import MissingCapability, TooLargeToCount
from mlestruct.inference import marginals, sample
from mlestruct.structures import (
    BipartiteMatching,
    DecoderSpace,
    LocalMatching,
)

# ---------------------------------------------------------------------- samples
SAMPLED = [kind for kind in KINDS if kind != "loopy"]


def codes_of(case, labels):
    """The number of each label among the outputs; raises unless it is one."""
    rows = {tuple(vertex): k for k, vertex in enumerate(case.vertices.astype(int).tolist())}
    dense = (case.structure.encode(label).dense(case.size) for label in labels)
    return np.array([rows[tuple(point.astype(int).tolist())] for point in dense])


def check_frequencies(case, scores, labels):
    """Chi-square of the counts, rare outputs taken together."""
    n = len(labels)
    total = case.vertices @ scores
    expected = n * np.exp(total - logsumexp(total))
    counts = np.bincount(codes_of(case, labels), minlength=expected.size)
    rare = expected < 5.0
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    seen = expected > 1e-9
    assert counts[~seen].sum() == 0
    if seen.sum() > 1:
        assert chisquare(counts[seen], expected[seen]).pvalue > 1e-4


@pytest.mark.parametrize("kind", SAMPLED)
def test_exact_samples_have_their_frequencies(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(8))
    drawn = sample(case.structure, scores, 1500, random_state=0)
    assert (drawn.method, drawn.rhat, drawn.ess, drawn.converged) == ("exact", 1.0, 1500.0, True)
    check_frequencies(case, scores, drawn.labels)


@pytest.mark.parametrize("kind", [kind for kind in SAMPLED if not kind.startswith("b-")])
def test_markov_chains_have_their_frequencies(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(9), scale=0.7)
    drawn = sample(case.structure, scores, 800, "mcmc", random_state=0, sweeps=1000)
    assert drawn.method == "mcmc"
    assert drawn.converged
    check_frequencies(case, scores, drawn.labels)


def test_b_matchings_have_no_markov_chain():
    with pytest.raises(ValueError, match="only matchings with capacity 1 are sampled"):
        sample(LocalMatching(4, capacity=2), np.zeros(6), 2, "mcmc")


@pytest.mark.parametrize("method", ["exact", "mcmc"])
@pytest.mark.parametrize("kind", ["square", "singles", "group", "binary grid", "forest", "chain"])
def test_samples_respect_seeds(kind, method):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(10), scale=0.3)
    kept = scores.copy()
    one, same, other = (
        np.array(sample(case.structure, scores, 40, method, random_state=seed).labels)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    np.testing.assert_array_equal(scores, kept)


def test_a_decoder_alone_is_sampled_by_perturbing():
    space = DecoderSpace(lambda scores: scores >= np.sort(scores)[-2], 4)
    with pytest.raises(MissingCapability, match="no Markov chain over DecoderSpace; use"):
        sample(space, np.zeros(4), 3, "mcmc")
    found = [
        sample(space, np.zeros(4), 30, method, random_state=0) for method in ("auto", "perturb")
    ]
    assert [drawn.method for drawn in found] == ["perturb"] * 2
    for drawn in found:
        assert (drawn.labels.sum(axis=1) == 2).all()


def test_generators_go_on():
    rng = np.random.default_rng(0)
    structure = BipartiteMatching((4, 4))
    one, two = (sample(structure, np.zeros(16), 20, random_state=rng).labels for _ in range(2))
    assert (one != two).any()


def test_large_problems_are_sampled_by_markov_chains():
    structure = BipartiteMatching((30, 30))
    scores = np.random.default_rng(0).normal(size=(30, 30))
    drawn = sample(structure, scores, 5, random_state=0)
    assert drawn.method == "mcmc"
    assert (np.sort(drawn.labels, axis=1) == np.arange(30)).all()
    for call in (
        lambda: sample(structure, scores, 5, "exact"),
        lambda: marginals(structure, scores, "exact"),
    ):
        with pytest.raises(TooLargeToCount):
            call()


def test_forbidden_pairs_are_never_drawn():
    table = np.zeros((4, 4))
    table[0, :3] = -np.inf
    for method in ("exact", "mcmc"):
        labels = sample(BipartiteMatching((4, 4)), table, 100, method, random_state=0).labels
        assert (labels[:, 0] == 3).all()


@pytest.mark.parametrize("scores", [np.zeros(9), np.full(9, 1e6), np.full(9, -1e6)])
@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_ties_are_drawn_evenly(method, scores):
    case = bipartite(bipartite_matchings.complete(3))
    drawn = sample(case.structure, scores, 600, method, random_state=0)
    counts = np.bincount(codes_of(case, drawn.labels), minlength=6)
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "`method` must be one of", {"method": "best"}),
        (ValueError, "`n_samples` must be", {"n_samples": 0}),
        (ValueError, "`n_samples` must be", {"n_samples": 2.5}),
        (TypeError, "n_chains: method='exact'", {"method": "exact", "n_chains": 2}),
        (TypeError, "chains: method='auto'", {"chains": 2}),
        (TypeError, "chains: method='mcmc'", {"method": "mcmc", "chains": 2}),
        (ValueError, "n_chains", {"method": "mcmc", "n_chains": 0}),
        (ValueError, "tol_rhat", {"method": "mcmc", "tol_rhat": 0.5}),
    ],
)
def test_sampling_options_that_make_no_sense(error, message, options):
    with pytest.raises(error, match=message):
        sample(BipartiteMatching((3, 3)), np.zeros(9), **options)
