"""Partitions on Dask workers: the same bits as in one process, and workers that come and go."""

import os
import signal
import time

import numpy as np
import pytest

dask = pytest.importorskip("dask")
bag = pytest.importorskip("dask.bag")
distributed = pytest.importorskip("distributed")

from mlestruct import BipartiteMatchingCRF, StructuredCRF  # noqa: E402
from mlestruct.partitions import DaskBackend, Lazy, LocalBackend  # noqa: E402
from mlestruct.partitions.dask import PartitionTimeout  # noqa: E402

DEATHS = int(os.environ.get("MLESTRUCT_WORKER_DEATHS", "1"))  # 20 take some minutes


def some(seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(5, 5, 3)) for _ in range(3)]
    Y = [rng.permutation(5) for _ in range(3)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(5), y, 0] += 1.0
    return X, Y


def delayed_partitions(n):
    both = [dask.delayed(some, nout=2)(seed) for seed in range(n)]
    return [pair[0] for pair in both], [pair[1] for pair in both]


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process: quick to start."""
    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_delayed_bags_futures_and_lists_give_the_same_bits(threads):
    X, Y = delayed_partitions(4)
    parts = [some(seed) for seed in range(4)]
    samples, labels = ([x for part in parts for x in part[k]] for k in range(2))
    with LocalBackend(n_partitions=4):
        expected = BipartiteMatchingCRF().fit(samples, labels)
    with DaskBackend(threads, n_partitions=4):
        split = BipartiteMatchingCRF().fit(samples, labels)
    bags = [bag.from_delayed(own) for own in (X, Y)]
    futures = [threads.compute(own) for own in (X, Y)]
    found = [split, *(BipartiteMatchingCRF().fit(*own) for own in ((X, Y), bags, futures))]
    for model in found:
        assert model.objective_ == expected.objective_
        np.testing.assert_array_equal(model.coef_, expected.coef_)
    answers = expected.predict(samples)
    for own in (X, bags[0], futures[0]):
        parts = found[1].predict(own)
        listed = parts.compute() if own is bags[0] else threads.gather(threads.compute(parts))
        flat = listed if own is bags[0] else [x for part in listed for x in part]
        np.testing.assert_array_equal(flat, answers)
    assert found[1].score(X, Y) == pytest.approx(expected.score(samples, labels))
    assert found[1].score(*futures) == found[1].score(X, Y)


def outputs(scores):
    return (scores > 0).astype(int)


def coordinates(seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(6, 2)) for _ in range(4)]
    return X, [(x[:, 0] + rng.normal(size=6) > 0).astype(int) for x in X]


def test_block_steps_give_the_same_bits_whatever_is_slower(threads):
    X, Y = ([Lazy(coordinates, (seed,), k) for seed in range(3)] for k in range(2))
    found = []
    for backend in (LocalBackend(), DaskBackend(threads)):
        with backend:
            model = StructuredCRF(decode=outputs, random_state=0).fit(X, Y)
        found.append((model.solver_, model.coef_.tolist(), model.history_.dual))
        assert model.converged_
    assert found[0] == found[1]
    assert found[0][0] == "bcfw"


def test_without_a_client_partitions_of_dask_are_computed_here():
    X, Y = delayed_partitions(2)
    samples, labels = (some(0)[k] + some(1)[k] for k in range(2))
    found = BipartiteMatchingCRF(tol=1e-6).fit(X, Y).objective_
    expected = BipartiteMatchingCRF(tol=1e-6).fit(samples, labels).objective_
    assert found == pytest.approx(expected)


def slow(seconds):
    time.sleep(seconds)
    return some(0)[0]


def test_a_partition_without_an_answer_ends_in_an_error_that_says_so(threads):
    labels = Lazy(some, (0,), 1)
    with (
        DaskBackend(threads, time_limit=0.2, retries=0),
        pytest.raises(PartitionTimeout, match=r"partition 0: no answer .* 0.2 s"),
    ):
        BipartiteMatchingCRF().fit([Lazy(slow, (1.5,))], [labels])


def fails():
    raise ValueError("no such file")


def test_errors_of_a_source_are_those_of_the_source(threads):
    with DaskBackend(threads), pytest.raises(ValueError, match="partition 0: no such file"):
        BipartiteMatchingCRF().fit([Lazy(fails, ())], [Lazy(some, (0,), 1)])


def test_arguments_are_checked(threads):
    with pytest.raises(TypeError, match=r"client: expected a .*Client, got str"):
        DaskBackend("tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="time_limit"):
        DaskBackend(threads, time_limit=0)
    with pytest.raises(ValueError, match="retries"):
        DaskBackend(threads, retries=-1)


@pytest.mark.slow
def test_workers_that_die_and_come_do_not_change_the_optimum():
    X, Y = delayed_partitions(4)
    samples, labels = ([x for seed in range(4) for x in some(seed)[k]] for k in range(2))
    expected = BipartiteMatchingCRF(solver="lbfgs", tol=1e-6).fit(samples, labels)
    options = {"processes": True, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        for death in range(DEATHS):
            client.wait_for_workers(2)
            killed = []

            def kill(progress, killed=killed, death=death):
                if progress.iteration == 1 + death % 5 and not killed:
                    killed.append(client.run(os.getpid))
                    os.kill(list(killed[0].values())[death % 2], signal.SIGKILL)

            model = BipartiteMatchingCRF(solver="lbfgs", tol=1e-6, callback=kill).fit(X, Y)
            assert killed
            assert model.converged_
            gap = model.duality_gap_ + expected.duality_gap_
            assert abs(model.objective_ - expected.objective_) <= gap
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-2)
