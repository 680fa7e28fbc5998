"""Partitions on Dask workers: the same bits as in one process, and workers that come and go."""

import os
import signal
import time

import joblib
import numpy as np
import pytest

dask = pytest.importorskip("dask")
bag = pytest.importorskip("dask.bag")
distributed = pytest.importorskip("distributed")

from sklearn.model_selection import GridSearchCV, PredefinedSplit  # noqa: E402

from mlestruct import BipartiteMatchingCRF, Checkpoint, StructuredCRF  # noqa: E402
from mlestruct.exceptions import OutOfTimeError  # noqa: E402
from mlestruct.partitions import DaskBackend, Lazy, LocalBackend  # noqa: E402
from mlestruct.partitions.dask import PartitionTimeout, _Placement  # noqa: E402


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


def all_samples(n):
    return tuple([x for seed in range(n) for x in some(seed)[k]] for k in range(2))


@pytest.fixture(scope="module")
def threads():
    """Two workers in this process: quick to start."""
    options = {"processes": False, "dashboard_address": ":0", "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_search_over_processes_says_what_it_cannot_read(threads):
    delayed = delayed_partitions(4)
    futures = [threads.compute(own) for own in delayed]
    options = {"cv": 2, "error_score": "raise"}
    alphas = {"alpha": [0.1, 1.0]}
    expected = GridSearchCV(BipartiteMatchingCRF(), alphas, **options).fit(*futures)
    search = GridSearchCV(BipartiteMatchingCRF(), alphas, n_jobs=2, **options)
    with pytest.raises(TypeError, match=r"X\[0\]: is a Future whose client.*n_jobs=None.*Delayed"):
        search.fit(*futures)
    with joblib.parallel_config(backend="threading"):
        assert search.fit(*futures).best_score_ == expected.best_score_
    assert search.fit(*delayed).best_score_ == expected.best_score_


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


# Kernels round otherwise in the process that has compiled them than in those that load them.
ALIKE = {"rtol": 1e-9, "atol": 1e-12}


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
    X, Y = delayed_partitions(4)
    samples, labels = all_samples(4)
    for solver, tol in (("lbfgs", 1e-6), ("bcfw", 1e-2)):
        settings = {"solver": solver, "tol": tol, "random_state": 0}
        expected = BipartiteMatchingCRF(**settings).fit(samples, labels)
        processes.wait_for_workers(2)
        killed = []

        def kill(progress, killed=killed):
            if progress.iteration >= 2 and not killed:
                killed.append(processes.run(os.getpid))
                os.kill(min(killed[0].values()), signal.SIGKILL)

        model = BipartiteMatchingCRF(callback=kill, **settings).fit(X, Y)
        assert killed
        assert model.converged_
        gap = model.duality_gap_ + expected.duality_gap_
        assert abs(model.objective_ - expected.objective_) <= gap


@pytest.mark.slow
def test_models_answer_on_worker_processes(processes, tmp_path):
    X, Y = delayed_partitions(4)
    samples, labels = all_samples(4)
    with LocalBackend(n_partitions=4):
        whole = BipartiteMatchingCRF(tol=1e-6).fit(samples, labels)
        path = BipartiteMatchingCRF(tol=1e-6).fit_path(samples, labels, [1.0, 0.1])
    model = BipartiteMatchingCRF(tol=1e-6).fit(X, Y, checkpoint=Checkpoint(tmp_path, every=0))
    np.testing.assert_allclose(model.coef_, whole.coef_, **ALIKE)
    for name in ("predict", "predict_marginals", "predict_proba"):
        parts = dask.compute(*getattr(model, name)(X))
        expected = getattr(whole, name)(samples)
        np.testing.assert_allclose([x for part in parts for x in part], expected, **ALIKE)
    assert model.score(X, Y) == whole.score(samples, labels)
    found = BipartiteMatchingCRF(tol=1e-6).fit_path(X, Y, [1.0, 0.1])
    np.testing.assert_allclose(found.coefs, path.coefs, **ALIKE)
    search = GridSearchCV(BipartiteMatchingCRF(), {"alpha": [0.1, 1e4]}, cv=2).fit(X, Y)
    folds = PredefinedSplit([0] * 6 + [1] * 6)
    other = GridSearchCV(BipartiteMatchingCRF(), {"alpha": [0.1, 1e4]}, cv=folds)
    other.fit(samples, labels)
    scores = [own.cv_results_["mean_test_score"] for own in (search, other)]
    np.testing.assert_allclose(*scores)


@pytest.mark.slow
def test_partitions_that_move_to_a_new_worker_take_their_states_along(monkeypatch):
    monkeypatch.setattr(_Placement, "balance", 0.0)
    X, Y = ([Lazy(some, (seed,), k) for seed in range(6)] for k in range(2))
    options = {"processes": True, "dashboard_address": ":0", "threads_per_worker": 1}
    for solver, tol in (("newton", 1e-9), ("bcfw", 0.05)):
        model = BipartiteMatchingCRF(solver=solver, tol=tol, random_state=0)
        with LocalBackend():
            coef = model.fit(X, Y).coef_.copy()
        with (
            distributed.LocalCluster(n_workers=1, **options) as cluster,
            distributed.Client(cluster) as client,
        ):
            held = []

            def add(progress, cluster=cluster, client=client, held=held):
                if progress.iteration == 1:
                    cluster.scale(2)
                    client.wait_for_workers(2)
                held.append({key for keys in client.has_what().values() for key in keys})

            with DaskBackend(client):
                model.set_params(callback=add).fit(X, Y)
            counts = [len(keys) for keys in client.has_what().values()]
        assert len(counts) == 2
        assert len(held[-1] - held[0]) >= 3  # actors that were made again
        np.testing.assert_allclose(model.coef_, coef, **ALIKE)


def too_late():
    raise OutOfTimeError("the time of the fit is up")


def test_the_end_of_the_time_is_no_loss_of_a_worker(threads):
    with DaskBackend(threads), pytest.raises(OutOfTimeError, match="time of the fit is up"):
        BipartiteMatchingCRF().fit([Lazy(too_late, ())], [Lazy(some, (0,), 1)])
