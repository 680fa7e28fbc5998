"""The comparison of entropies runs, and its reference is what it claims to be."""

from math import comb

import numpy as np

from benchmarks import entropies


def test_the_default_is_near_exact_likelihood_on_subsets(monkeypatch):
    monkeypatch.setattr(entropies, "TRAIN", 20)
    monkeypatch.setattr(entropies, "TEST", 10)
    name = "3 of 10 items"
    kinds = {"coordinates": entropies.spaces()[name]["coordinates"]}
    found = entropies.run(name, kinds, seed=0, tol=0.05)
    assert found["exact likelihood"][2] == 0.0
    assert abs(found["coordinates"][0] - found["exact likelihood"][0]) < 0.3
    assert np.isfinite(found["coordinates"]).all()


def test_assignments_have_the_outputs_of_bipartite_matchings():
    space = entropies.Assignments(3)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=9)
    drawn = space.exact(scores).sample(50, rng).reshape(-1, 3, 3)
    assert (drawn.sum(axis=1) == 1).all()
    assert (drawn.sum(axis=2) == 1).all()
    assert space.decode(scores).score >= (drawn.reshape(-1, 9) @ scores).max() - 1e-9


def test_monotone_paths_are_counted_by_a_binomial_coefficient():
    space = entropies.spaces()["monotone paths, 5 x 5 grid"]["coordinates"]
    counted = space.exact(np.zeros(space.n_coordinates)).log_partition
    np.testing.assert_allclose(counted, np.log(comb(8, 4)))
