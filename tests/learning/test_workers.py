"""Samples in parts: the optimum of one machine, from files or Dask workers, some of which die."""

import os
import signal
import time

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF, ChainCRF, Checkpoint, Parts, StructuredCRF
from mlestruct.exceptions import MissingCapability, OutOfTimeError
from mlestruct.learning import LBFGS, BlockFrankWolfe
from mlestruct.learning.workers import PartTimeout

distributed = pytest.importorskip("distributed")


def some(seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(5, 5, 3)) for _ in range(3)]
    Y = [rng.permutation(5) for _ in range(3)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(5), y, 0] += 1.0
    return X, Y


def together(read, n):
    return [[item for seed in range(n) for item in read(seed)[k]] for k in range(2)]


def outputs(scores):
    return (scores > 0).astype(int)


def coordinates(seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(6, 2)) for _ in range(4)]
    return X, [(x[:, 0] + rng.normal(size=6) > 0).astype(int) for x in X]


def sequences(seed):
    rng = np.random.default_rng(seed)
    Y = [np.array(["a", "b"])[rng.integers(2, size=9)] for _ in range(4)]
    return [(y == "b")[:, None] + rng.normal(size=(9, 2)) for y in Y], Y


def same_optimum(model, other):
    gap = model.duality_gap_ + other.duality_gap_
    assert model.converged_
    assert abs(model.objective_bound_ - other.objective_bound_) <= gap + 1e-9
    assert np.linalg.norm(model.coef_ - other.coef_) <= 2.0 * np.sqrt(2.0 * gap / model.alpha)


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process: quick to start."""
    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


CASES = {
    "matchings": (BipartiteMatchingCRF(tol=1e-6, l1_ratio=0.2), some, None),
    "sequences": (ChainCRF(tol=1e-6), sequences, ["a", "b"]),
    "own decoder": (StructuredCRF(outputs, tol=1e-4), coordinates, None),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_have_the_optimum_of_lists(name, threads):
    model, read, classes = CASES[name]
    options = {} if classes is None else {"classes": classes}
    X, Y = together(read, 3)
    whole = type(model)(**model.get_params()).fit(X, Y, **options)
    found = []
    for given in ({}, {"held": 1}, {"client": threads}):
        own = type(model)(**model.get_params()).fit(Parts(read, [0, 1, 2], **given), **options)
        same_optimum(own, whole)
        assert own.named_coef().keys() == whole.named_coef().keys()
        found.append(own.coef_)
        for one, other in zip(own.predict(X[:2]), whole.predict(X[:2]), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], rtol=1e-9, atol=1e-12)


def test_a_path_and_a_checkpoint_of_parts(tmp_path):
    parts = Parts(some, [0, 1])
    path = BipartiteMatchingCRF(tol=1e-6).fit_path(parts, None, [1.0, 0.1])
    alone = BipartiteMatchingCRF(tol=1e-6, alpha=0.1).fit(*together(some, 2))
    same_optimum(path.estimators[1], alone)
    kept = Checkpoint(tmp_path, every=0)
    model = BipartiteMatchingCRF(tol=1e-6, solver=LBFGS(max_iter=2))
    with pytest.warns(match="stopped"):
        model.fit(parts, checkpoint=kept)
    resumed = BipartiteMatchingCRF(tol=1e-6).fit(parts, checkpoint=tmp_path)
    same_optimum(resumed, BipartiteMatchingCRF(tol=1e-6).fit(*together(some, 2)))


def fails(source):
    raise ValueError(f"no file {source}")


def slow(seconds):
    time.sleep(seconds)
    return some(0)


def too_late(source):
    raise OutOfTimeError("the time of the fit is up")


def other_width(seed):
    X, Y = some(seed)
    return [x[..., : 3 - seed] for x in X], Y


def test_errors_name_the_part_or_the_argument(threads):
    for client in (None, threads):
        with pytest.raises(ValueError, match="part 0: no file a"):
            BipartiteMatchingCRF().fit(Parts(fails, ["a"], client))
        with pytest.raises(OutOfTimeError, match="time of the fit is up"):
            BipartiteMatchingCRF().fit(Parts(too_late, ["a"], client))
    with pytest.raises(ValueError, match="part 1 has the features and labels"):
        BipartiteMatchingCRF().fit(Parts(other_width, [0, 1]))
    with pytest.raises(PartTimeout, match=r"part 0: no answer .* 0.2 s"):
        BipartiteMatchingCRF().fit(Parts(slow, [1.5], threads, time_limit=0.2, retries=0))
    for options, message in (
        ({"sources": []}, "`sources` must hold at least one"),
        ({"client": "tcp://127.0.0.1:1"}, "`client` must be a distributed.Client; got str"),
        ({"time_limit": 0}, "`time_limit` must be at least"),
        ({"retries": -1}, "`retries` must be at least"),
        ({"held": 0}, "`held` must be a positive number"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            BipartiteMatchingCRF().fit(Parts(**{"read": some, "sources": [0]} | options))
    with pytest.raises(ValueError, match="`standardize` must be False"):
        BipartiteMatchingCRF(standardize=True).fit(Parts(some, [0]))
    with pytest.raises(MissingCapability, match="visits single samples"):
        BipartiteMatchingCRF(solver=BlockFrankWolfe()).fit(Parts(some, [0]))


@pytest.fixture
def processes():
    """Two worker processes."""
    options = {"processes": True, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_worker_that_dies_does_not_change_the_optimum(processes):
    expected = BipartiteMatchingCRF(tol=1e-6).fit(*together(some, 4))
    processes.wait_for_workers(2)
    killed = []

    def kill(progress):
        if progress.iteration >= 2 and not killed:
            killed.append(processes.run(os.getpid))
            os.kill(min(killed[0].values()), signal.SIGKILL)

    model = BipartiteMatchingCRF(tol=1e-6, solver=LBFGS(callback=kill))
    same_optimum(model.fit(Parts(some, range(4), processes)), expected)
    assert killed
