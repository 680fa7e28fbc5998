"""Exact maximum likelihood, against SciPy on the likelihood summed over all outputs."""

from dataclasses import dataclass

import bipartite_matchings
import graph_matchings
import labellings
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, MatchingCRF
from mlestruct.baselines import ExactLikelihood
from mlestruct.exceptions import TooLargeToCount
from mlestruct.models.pairs import PairInput

ALPHA = 0.3
EXACT = ExactLikelihood()
PRECISE = {"alpha": ALPHA, "tol": 1e-9, "fit_intercept": False, "solver": EXACT}


# ---------------------------------------------------------------------- the likelihood, enumerated
@dataclass(frozen=True, eq=False)
class Sample:
    """All outputs (n_outputs, size), features of coordinates (size, K), the observed output."""

    outputs: np.ndarray
    features: np.ndarray
    observed: np.ndarray
    offset: np.ndarray | float = 0.0
    weight: float = 1.0

    def log_likelihood(self, theta):
        scores = self.features @ theta + self.offset
        return float(self.observed @ scores - logsumexp(self.outputs @ scores))

    def marginals(self, theta):
        total = self.outputs @ (self.features @ theta + self.offset)
        return np.exp(total - logsumexp(total)) @ self.outputs


def objective(samples, theta):
    """Penalised log-likelihood."""
    fit = sum(sample.weight * sample.log_likelihood(theta) for sample in samples)
    return fit - 0.5 * ALPHA * float(theta @ theta)


def gradient(samples, theta):
    fit = sum(
        sample.weight * sample.features.T @ (sample.observed - sample.marginals(theta))
        for sample in samples
    )
    return fit - ALPHA * theta


def best(samples):
    """The maximiser and the maximum, by SciPy."""
    found = minimize(
        lambda theta: -objective(samples, theta),
        np.zeros(samples[0].features.shape[1]),
        jac=lambda theta: -gradient(samples, theta),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    return found.x, -found.fun


# ---------------------------------------------------------------------- problems
def pad(features, size):
    """No features for staying single."""
    return np.vstack([features, np.zeros((size - len(features), features.shape[1]))])


def bipartite(shapes, perfect=True, masked=False, offsets=False, weights=None, seed=0):
    """(X, Y, samples) of random matchings of two sides."""
    rng = np.random.default_rng(seed)
    X, Y, samples = [], [], []
    for m, shape in enumerate(shapes):
        mask = np.ones(shape, bool)
        if masked:
            mask[rng.permutation(shape[0])[: shape[0] - 1], 0] = False
        space = bipartite_matchings.Space(mask, perfect)
        table = rng.normal(size=(*shape, 2))
        label = space.labels[rng.integers(len(space.labels))]
        offset = rng.normal(size=shape) if offsets else None
        plain = not (masked or offsets)
        X.append(table if plain else PairInput(table, mask if masked else None, offset))
        Y.append(label)
        own = np.zeros(space.size)
        if offsets:
            own[: mask.sum()] = offset[mask]
        samples.append(
            Sample(
                space.vertices,
                pad(table[mask], space.size),
                space.structure.encode(label).dense(space.size),
                own,
                1.0 if weights is None else weights[m],
            )
        )
    return X, Y, samples


def group(n, perfect=True, capacity=1, offsets=False, n_samples=4, seed=0):
    """(X, Y, samples) of random matchings of one group."""
    rng = np.random.default_rng(seed)
    space = graph_matchings.complete(n, perfect, 0.5, capacity)
    X, Y, samples = [], [], []
    for _ in range(n_samples):
        table, offset = rng.normal(size=(n, n, 2)), rng.normal(size=(n, n))
        table, offset = table + table.transpose(1, 0, 2), offset + offset.T
        vertex = space.vertices[rng.integers(len(space.vertices))]
        pairs = space.edges[vertex[: space.n_edges] > 0]
        partner = np.full(n, -1)
        partner[pairs[:, 0]], partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
        X.append(PairInput(table, offset=offset if offsets else None, capacity=capacity))
        Y.append(partner if capacity == 1 else pairs)
        i, j = space.edges.T
        own = np.zeros(space.size)
        own[: space.n_edges] = offset[i, j] if offsets else 0.0
        samples.append(Sample(space.vertices, pad(table[i, j], space.size), vertex, own))
    return X, Y, samples


def labelled(space, nodes, pairs, label):
    """A `Sample` of a labelling: weights per state of node and edge features."""
    states = space.n_states
    of_nodes = np.einsum("nc,st->nstc", nodes, np.eye(states)).reshape(space.split, -1)
    both = np.eye(states**2)
    of_edges = np.einsum("ed,pq->epqd", pairs, both).reshape(space.size - space.split, -1)
    features = np.zeros((space.size, of_nodes.shape[1] + of_edges.shape[1]))
    features[: space.split, : of_nodes.shape[1]] = of_nodes
    features[space.split :, of_nodes.shape[1] :] = of_edges
    return Sample(space.vertices, features, space.point(np.asarray(label)[None])[0])


def graphs(n_states, seed=0):
    rng = np.random.default_rng(seed)
    X, Y, samples = [], [], []
    for edges in ([(0, 1), (1, 2), (0, 2)], [(0, 1), (2, 1), (2, 3)], [(3, 0), (1, 2)]):
        pairs = np.array(edges)
        nodes, of_edges = rng.normal(size=(4, 2)), rng.normal(size=(len(edges), 1))
        label = rng.integers(0, n_states, 4)
        space = labellings.Labellings(4, pairs, n_states)
        X.append((nodes, pairs, of_edges))
        Y.append(label)
        samples.append(labelled(space, nodes, of_edges, label))
    Y[0][:2] = [0, n_states - 1]
    samples[0] = labelled(labellings.Labellings(4, X[0][1], n_states), X[0][0], X[0][2], Y[0])
    return X, Y, samples


def grids(seed=0):
    rng = np.random.default_rng(seed)
    X, Y, samples = [], [], []
    for height, width in ((2, 3), (3, 2), (1, 4), (2, 2)):
        image, label = rng.normal(size=(height, width, 2)), rng.integers(0, 2, (height, width))
        edges = labellings.grid_edges(height, width)
        space = labellings.Labellings(height * width, edges)
        X.append(image)
        Y.append(label)
        samples.append(
            labelled(space, image.reshape(-1, 2), np.ones((len(edges), 1)), label.ravel())
        )
    return X, Y, samples


def sequences(seed=0):
    rng = np.random.default_rng(seed)
    X, Y, samples = [], [], []
    for length in (3, 4, 2):
        tokens, label = rng.normal(size=(length, 2)), rng.integers(0, 3, length)
        edges = np.stack([np.arange(length - 1), np.arange(1, length)], axis=1)
        X.append(tokens)
        Y.append(label)
        space = labellings.Labellings(length, edges, 3)
        samples.append(labelled(space, tokens, np.ones((length - 1, 1)), label))
    return X, Y, samples


WEIGHTS = [0.5, 2.0, 1.0]
SQUARES = [(3, 3), (4, 4), (2, 2)]

PROBLEMS = {
    "bipartite": (BipartiteMatchingCRF(**PRECISE), lambda: bipartite(SQUARES), None),
    "rectangular": (
        BipartiteMatchingCRF(**PRECISE),
        lambda: bipartite([(2, 4), (4, 3), (1, 3)]),
        None,
    ),
    "singles": (
        BipartiteMatchingCRF(**PRECISE, perfect=False),
        lambda: bipartite(SQUARES, perfect=False),
        None,
    ),
    "weights": (
        BipartiteMatchingCRF(**PRECISE),
        lambda: bipartite(SQUARES, weights=WEIGHTS),
        WEIGHTS,
    ),
    "offsets": (
        BipartiteMatchingCRF(**PRECISE),
        lambda: bipartite(SQUARES, offsets=True),
        None,
    ),
    "masks": (
        BipartiteMatchingCRF(**PRECISE),
        lambda: bipartite([(3, 3), (4, 4)], masked=True, offsets=True),
        None,
    ),
    "group": (MatchingCRF(**PRECISE), lambda: group(6), None),
    "group singles": (
        MatchingCRF(**PRECISE, perfect=False),
        lambda: group(5, perfect=False),
        None,
    ),
    "group offsets": (MatchingCRF(**PRECISE), lambda: group(4, offsets=True), None),
    "b-matching": (
        MatchingCRF(**PRECISE),
        lambda: group(5, capacity=2),
        None,
    ),
    "binary graphs": (GraphCRF(**PRECISE), lambda: graphs(2), None),
    "graphs": (GraphCRF(**PRECISE), lambda: graphs(3), None),
    "grids": (GridCRF(**PRECISE), grids, None),
    "sequences": (ChainCRF(**PRECISE), sequences, None),
}
fits = {}


def fitted(name):
    """(model, X, Y, samples), fitted once."""
    if name not in fits:
        model, make, weights = PROBLEMS[name]
        X, Y, samples = make()
        fits[name] = clone(model).fit(X, Y, sample_weight=weights), X, Y, samples
    return fits[name]


# ---------------------------------------------------------------------- the optimum
@pytest.mark.parametrize("name", PROBLEMS)
def test_coefficients_maximise_the_enumerated_likelihood(name):
    model, _, _, samples = fitted(name)
    theta, _ = best(samples)
    assert model.converged_
    np.testing.assert_allclose(model.coef_, theta, atol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("tol", [1e-9, 1e-2])
def test_the_certificate_encloses_the_optimum(name, tol):
    model, X, Y, samples = fitted(name)
    if tol > 1e-3:
        model = clone(model).set_params(tol=tol).fit(X, Y, sample_weight=PROBLEMS[name][2])
    _, optimum = best(samples)
    reached = objective(samples, model.coef_)
    assert reached <= optimum + 1e-8 <= model.objective_bound_ + 2e-8
    assert optimum - reached <= model.duality_gap_ + 1e-8
    assert model.duality_gap_ <= tol * max(1.0, abs(optimum)) + 1e-9


@pytest.mark.parametrize("name", PROBLEMS)
def test_moments_match_at_the_optimum(name):
    model, _, _, samples = fitted(name)
    assert np.abs(gradient(samples, model.coef_)).max() <= 1e-3


@pytest.mark.parametrize("name", PROBLEMS)
def test_log_likelihoods_are_exact(name):
    model, X, Y, samples = fitted(name)
    exact = [sample.log_likelihood(model.coef_) for sample in samples]
    np.testing.assert_allclose(model.log_likelihood(X, Y), exact, atol=1e-9)
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert (lower <= np.array(exact) + 1e-6).all()
    assert (upper >= np.array(exact) - 1e-6).all()


@pytest.mark.parametrize("name", ["bipartite", "rectangular", "singles", "offsets"])
def test_marginals_of_pairs_are_exact(name):
    model, X, _, samples = fitted(name)
    for table, sample in zip(model.predict_marginals(X, method="exact"), samples, strict=True):
        np.testing.assert_allclose(
            table.ravel(), sample.marginals(model.coef_)[: table.size], atol=1e-9
        )


@pytest.mark.parametrize("name", ["binary graphs", "graphs", "grids", "sequences"])
def test_marginals_of_states_are_exact(name):
    model, X, _, samples = fitted(name)
    for table, sample in zip(model.predict_marginals(X, method="exact"), samples, strict=True):
        np.testing.assert_allclose(
            table.ravel(), sample.marginals(model.coef_)[: table.size], atol=1e-9
        )


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_approximate_likelihoods_enclose_the_exact_one(perfect, seed):
    # log Z_B <= log Z <= log Z_RW at every theta, so the same holds for what is maximised.
    X, Y, samples = bipartite([(4, 4), (3, 3), (3, 4)], perfect=perfect, seed=seed)
    _, optimum = best(samples)
    settings = {"alpha": ALPHA, "tol": 1e-6, "perfect": perfect}
    reweighted = BipartiteMatchingCRF(fit_intercept=False, rho=0.5, **settings).fit(X, Y)
    bethe = BipartiteMatchingCRF(fit_intercept=False, rho=1.0, **settings).fit(X, Y)
    exact = BipartiteMatchingCRF(fit_intercept=False, solver=EXACT, **settings).fit(X, Y)
    assert reweighted.objective_ <= optimum + 1e-8
    assert optimum <= bethe.objective_bound_ + 1e-8
    assert exact.objective_ - 1e-8 <= optimum <= exact.objective_bound_ + 1e-8


# ---------------------------------------------------------------------- an estimator like others
def test_rho_and_polytope_have_no_effect():
    X, Y, _ = bipartite(SQUARES)
    one, other = (BipartiteMatchingCRF(**PRECISE, rho=rho).fit(X, Y).coef_ for rho in (0.5, 1.0))
    np.testing.assert_array_equal(one, other)
    X, Y, _ = group(6)
    one, other = (MatchingCRF(**PRECISE, polytope=p).fit(X, Y).coef_ for p in ("local", "exact"))
    np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "x", "y"),
    [
        (BipartiteMatchingCRF(solver=EXACT), np.zeros((40, 40, 1)), np.arange(40)),
        (MatchingCRF(solver=EXACT), np.zeros((60, 60, 1)), np.arange(60) ^ 1),
        (GridCRF(solver=EXACT), np.zeros((40, 40, 1)), np.indices((40, 40)).sum(axis=0) % 2),
    ],
)
def test_large_problems_are_refused(model, x, y):
    with pytest.raises(TooLargeToCount, match="too large"):
        model.fit([x], [y])


@pytest.mark.parametrize("name", ["bipartite", "group", "grids"])
def test_paths_end_where_single_fits_do(name):
    model, X, Y, _ = fitted(name)
    path = clone(model).fit_path(X, Y, [3.0, ALPHA])
    np.testing.assert_allclose(path.estimators[-1].coef_, model.coef_, atol=1e-4)
