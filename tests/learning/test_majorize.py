"""Rounds of surrogates, for a likelihood with kinks, against a search without derivatives."""

import numpy as np
import pytest
from bipartite_matchings import complete
from dual_problems import likelihood
from scipy.optimize import minimize

from mlestruct.features import DenseFeatures
from mlestruct.learning import LBFGS, Block, DualProblem, Stopping, ascent


def kinked_problem():
    """The Bethe entropy of 2 x 2 assignments is 0, so that their log Z is piecewise linear."""
    rng = np.random.default_rng(1)
    blocks = []
    for size in (2, 2, 2, 2, 2, 4, 4):
        structure = complete(size, rho=1.0).structure
        x, partner = rng.normal(size=(size, size, 3)), rng.permutation(size)
        x[np.arange(size), partner] += 0.7
        features = DenseFeatures(x.reshape(-1, 3))
        blocks.append(Block(structure, features, structure.encode(partner)))
    return DualProblem(blocks, 1.0)


def test_the_optimum_at_a_kink_and_the_number_of_oracle_calls(monkeypatch):
    problem = kinked_problem()
    calls, rounds = [], []
    expect, surrogate = ascent.expect, DualProblem.with_blocks

    def counted(blocks, *rest):
        calls.append(len(blocks))
        return expect(blocks, *rest)

    def counted_round(self, blocks):
        rounds.append(1)
        return surrogate(self, blocks)

    monkeypatch.setattr(ascent, "expect", counted)
    monkeypatch.setattr(DualProblem, "with_blocks", counted_round)
    found = LBFGS().solve(problem, Stopping(tol=1e-6))
    assert found.converged
    assert len(rounds) > 1
    assert found.oracle_calls == sum(calls)
    # Nelder-Mead needs no derivatives.
    options = {"xatol": 1e-7, "fatol": 1e-9}
    other = minimize(
        lambda theta: -likelihood(problem, theta, 1e-9)[0],
        np.zeros(3),
        method="Nelder-Mead",
        options=options,
    )
    assert found.objective == pytest.approx(-other.fun, abs=1e-5)
