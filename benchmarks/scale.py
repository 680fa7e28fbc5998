"""How the cost of a fit grows, on threads, on Dask workers, and beyond memory.

    python -m benchmarks.scale table               # one process, two threads, two Dask workers
    python -m benchmarks.scale pairs               # 10^6 and 10^7 candidate pairs on Dask workers
    python -m benchmarks.scale memory              # in this process, within a bound on memory
    python -m benchmarks.scale growth              # in samples, nodes, features, pairs
    python -m benchmarks.scale deaths --deaths 20  # workers that are killed, stopped and added
    python -m benchmarks.record scale table | pairs | memory | growth    # tables of docs/scale.md

Partitions are tables of records with about eight candidate partners each, six features of a pair
(`benchmarks.linkage`), generated where they are needed; four records in five have a true partner.
A matching is learned to a certified relative gap of 1e-3. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from threading import Timer
from typing import Any

import numpy as np

from benchmarks.linkage import candidates, sample
from benchmarks.record import show
from mlestruct import BipartiteMatchingCRF
from mlestruct.partitions import DaskBackend, Lazy, LocalBackend
from mlestruct.partitions.backend import Partitioned
from mlestruct.partitions.host import Reader


def table_of_records(
    seed: int, n_records: int, n_features: int = 6, degree: int = 7
) -> tuple[list[Any], list[Any]]:
    """The candidate pairs of two tables of records, and the true partners."""
    row, col, features, partner = candidates(n_records, n_records, degree, n_features, seed)
    return [sample(row, col, features, (n_records, n_records))], [partner]


def partitions(
    n_partitions: int, n_records: int, n_features: int = 6, degree: int = 7
) -> tuple[list[Lazy], list[Lazy]]:
    """Partitions of one pair of tables each."""
    arguments = [(seed, n_records, n_features, degree) for seed in range(n_partitions)]
    both = [[Lazy(table_of_records, own, part) for own in arguments] for part in range(2)]
    return both[0], both[1]


class Counted(Partitioned):
    """A partition that counts the calls of rounds and the bytes they exchange."""

    def __init__(self, part: Partitioned, totals: dict[str, int]):
        super().__init__(part.source, part.reader)
        self._part, self._totals, self.waits = part, totals, part.waits

    def __call__(self, method: str, *arguments: Any) -> Any:
        found = self._part(method, *arguments)
        if method == "answer":
            self._totals["calls"] += 1
            self._totals["bytes"] += len(pickle.dumps(arguments)) + len(pickle.dumps(found))
        return found

    def step(self, method: str, *arguments: Any) -> Any:
        return self._part.step(method, *arguments)


class CountingBackend(DaskBackend):
    """Dask workers, with the bytes of every call counted."""

    def __init__(self, client: Any, **options: Any):
        super().__init__(client, **options)
        self.totals = {"calls": 0, "bytes": 0}

    def open(self, sources: Any, reader: Reader) -> list[Partitioned]:
        opened = super().open(sources, reader)
        return [Counted(part, self.totals) for part in opened]


def peak_memory() -> float:
    """Of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def fitted(model: BipartiteMatchingCRF, X: Any, Y: Any) -> tuple[BipartiteMatchingCRF, float]:
    """The fit and its wall seconds."""
    start = time.perf_counter()
    model.fit(X, Y)
    return model, time.perf_counter() - start


def new_cluster(n_workers: int) -> Any:
    """A client of workers with one thread each, whose kernels are compiled."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    client = Client(cluster)
    client.run(warm_up)
    return client


def warm_up() -> None:
    """Compile, or read from the cache, what the fits use."""
    for solver in ("newton", "lbfgs"):
        BipartiteMatchingCRF(perfect=False, solver=solver).fit(*table_of_records(0, 50))


def tell(name: str, model: BipartiteMatchingCRF, seconds: float, rest: str = "") -> None:
    print(
        f"{name:<28}{seconds:>9.2f} s{model.n_iter_:>5} iterations  objective "
        f"{model.objective_:.10f}  gap {model.duality_gap_:.2e}{rest}",
        flush=True,
    )


FIT = ["", "s", "iterations", "objective", "certified gap"]


def row(name: str, model: BipartiteMatchingCRF, seconds: float) -> list[Any]:
    """Under the head `FIT`; all digits of the objective, because these are compared."""
    return [name, seconds, model.n_iter_, f"{model.objective_:.10f}", model.duality_gap_]


def table(n_partitions: int = 8, n_records: int = 2_500) -> None:
    """The same fit in one process, on two threads and on two Dask workers."""
    warm_up()
    X, Y = partitions(n_partitions, n_records)
    loaded = [[item for part in own for item in part.load()] for own in (X, Y)]
    n_pairs = sum(x.features.n_scored for x in loaded[0])
    nothing = ["", "", ""]
    rows = []
    for name, n_jobs in (("lists, one thread", 1), ("lists, two threads", 2)):
        model = BipartiteMatchingCRF(perfect=False, n_jobs=n_jobs)
        rows.append([*row(name, *fitted(model, *loaded)), *nothing])
    with LocalBackend():
        alone = fitted(BipartiteMatchingCRF(perfect=False), X, Y)
    rows.append([*row("partitions, one process", *alone), *nothing])
    client = new_cluster(2)
    for solver in ("newton", "lbfgs"):
        with LocalBackend():
            here, _ = fitted(BipartiteMatchingCRF(perfect=False, solver=solver), X, Y)
        with CountingBackend(client) as backend:
            model = BipartiteMatchingCRF(perfect=False, solver=solver)
            model, seconds = fitted(model, X, Y)
        same = model.objective_ == here.objective_ and bool((model.coef_ == here.coef_).all())
        name = f"partitions, two Dask workers, {solver}"
        rows.append([*row(name, model, seconds), *exchanged(backend, n_partitions), same])
    client.shutdown()
    show(
        f"{n_pairs:,} candidate pairs in {n_partitions} partitions, six features, to a relative "
        "gap of 1e-3",
        [*FIT, "rounds", "bytes a round", "the bits of one process"],
        rows,
    )


def exchanged(backend: CountingBackend, n_partitions: int) -> tuple[int, int]:
    """Rounds, and the bytes of each."""
    rounds = backend.totals["calls"] / n_partitions
    return round(rounds), round(backend.totals["bytes"] / rounds)


def pairs(sizes: list[float], n_partitions: int = 80) -> None:
    """Many candidate pairs on two Dask workers."""
    rows = [pairs_row(n_pairs, n_partitions) for n_pairs in sorted(sizes)]
    show(
        f"{n_partitions} partitions on two Dask workers of one core, to a relative gap of 1e-3",
        ["candidate pairs", "s", "iterations", "rounds", "bytes a round", "MB of a worker",
         "MB of the driver"],
        rows,
    )  # fmt: skip


def pairs_row(n_pairs: float, n_partitions: int) -> list[Any]:
    client = new_cluster(2)
    n_records = int(n_pairs / n_partitions / 7.3)
    X, Y = partitions(n_partitions, n_records)
    counts = client.gather(
        [client.submit(n_candidates, p, n_records, pure=False) for p in range(n_partitions)]
    )
    with CountingBackend(client, time_limit=3600.0) as backend:
        model, seconds = fitted(BipartiteMatchingCRF(perfect=False), X, Y)
    most = max(client.run(peak_memory).values())
    client.shutdown()
    return [sum(counts), seconds, model.n_iter_, *exchanged(backend, n_partitions), most,
            peak_memory()]  # fmt: skip


def n_candidates(seed: int, n_records: int) -> int:
    return int(candidates(n_records, n_records, 7, 6, seed)[0].size)


def memory(n_partitions: int = 16, n_records: int = 4_000) -> None:
    """The same fit within bounds on memory, each in a process of its own."""
    rows = []
    for bound in (None, 100, 25):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(_within, bound, n_partitions, n_records).result())
    show(
        f"{n_partitions} partitions of {n_records:,} records; peak memory above that of the idle "
        "process",
        [*FIT, "idle: MB", "above: MB"],
        rows,
    )


def _within(bound: int | None, n_partitions: int, n_records: int) -> list[Any]:
    warm_up()
    before = peak_memory()
    X, Y = partitions(n_partitions, n_records)
    with tempfile.TemporaryDirectory() as folder:
        states = None if bound is None else folder
        with LocalBackend(None if bound is None else bound * 10**6, states):
            model, seconds = fitted(BipartiteMatchingCRF(perfect=False), X, Y)
    name = "all in memory" if bound is None else f"`memory` of {bound} MB, states on disk"
    return [*row(name, model, seconds), before, peak_memory() - before]


def small(solver: str) -> tuple[Any, Any, Any]:
    """A fit of some seconds that is far from its end when a worker is killed."""
    if solver == "bcfw":
        model, n_records = BipartiteMatchingCRF(solver=solver, tol=0.05, random_state=0), 60
    else:
        model, n_records = BipartiteMatchingCRF(solver=solver, tol=1e-7), 1_500
    return model.set_params(perfect=False, max_iter=10_000), *partitions(6, n_records)


def deaths(n_deaths: int) -> None:
    """Fits whose workers are killed at random moments, beside undisturbed ones."""
    client, rng = new_cluster(2), np.random.default_rng(0)
    undisturbed = {}
    for solver in ("lbfgs", "newton", "bcfw"):
        with DaskBackend(client):
            undisturbed[solver] = fitted(*small(solver))
    finished, largest, k = 0, 0.0, 0
    while k < n_deaths:
        solver = list(undisturbed)[k % 3]
        expected, seconds = undisturbed[solver]
        client = two_workers(client)
        ids = sorted(client.run(os.getpid).values())
        victim = int(rng.choice(ids))
        moment = float(rng.uniform(0.0, 0.9 * seconds))
        killed: list[int] = []
        killer = Timer(moment, kill, (victim, killed))
        killer.start()
        with DaskBackend(client):
            model, spent = fitted(*small(solver))
        killer.cancel()
        if not killed:  # it was faster than the undisturbed one
            continue
        k += 1
        both = model.duality_gap_ + expected.duality_gap_
        difference = abs(model.objective_ - expected.objective_)
        finished += bool(model.converged_) and difference <= both
        largest = max(largest, difference / abs(expected.objective_) * (solver != "bcfw"))
        print(
            f"{solver:<8}killed at {moment:5.2f} s of {seconds:5.2f} s: {spent:6.2f} s, objective "
            f"{model.objective_:.6f} (gap {model.duality_gap_:.0e}) beside "
            f"{expected.objective_:.6f} (gap {expected.duality_gap_:.0e})",
            flush=True,
        )
    print(
        f"{n_deaths} deaths: {finished} finished within the certified gap of the undisturbed fit; "
        f"objectives of lbfgs and newton differ by at most {largest:.0e} relative"
    )
    client.shutdown()
    stopped_and_added()


def kill(process: int, killed: list[int]) -> None:
    """Kill a process, and tell that it was there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        killed.append(process)


def two_workers(client: Any) -> Any:
    """The client, or another one where Dask does not start the dead worker again."""
    try:
        client.wait_for_workers(2, timeout=30)
    except TimeoutError:
        client.shutdown()
        return new_cluster(2)
    return client


def stopped_and_added() -> None:
    """A worker that does not answer, then a worker more."""
    client = new_cluster(2)
    with DaskBackend(client):
        expected, _ = fitted(*small("lbfgs"))
    victim = min(client.run(os.getpid).values())
    model, X, Y = small("lbfgs")

    def stop(progress: Any) -> None:
        if progress.iteration == 3:
            os.kill(victim, signal.SIGSTOP)

    with DaskBackend(client, time_limit=5.0):
        model, seconds = fitted(model.set_params(callback=stop), X, Y)
    os.kill(victim, signal.SIGCONT)
    tell("a worker stopped", model, seconds, f"\n{'':<28}undisturbed {expected.objective_:.10f}")
    client.shutdown()
    client = new_cluster(1)
    model, X, Y = small("lbfgs")

    def add(progress: Any) -> None:
        if progress.iteration == 3:
            client.cluster.scale(2)
            client.wait_for_workers(2)
            time.sleep(6.0)  # partitions move after 5 s

    with DaskBackend(client):
        model, seconds = fitted(model.set_params(callback=add), X, Y)
    same = model.objective_ == expected.objective_ and bool((model.coef_ == expected.coef_).all())
    tell("a worker added", model, seconds, f"  the bits of two workers: {same}")
    client.shutdown()


def growth() -> None:
    """CPU seconds where one of the sizes doubles."""
    warm_up()
    rows: list[list[Any]] = []

    def measure(name: str, sizes: tuple[int, ...], make: Callable[[int], Any]) -> None:
        for size in sizes:
            X, Y = make(size)
            n_pairs = sum(x.features.n_scored for x in X)
            start = time.process_time()
            model = BipartiteMatchingCRF(perfect=False).fit(X, Y)
            spent = time.process_time() - start
            rows.append([name, size, n_pairs, spent, 1e6 * spent / n_pairs, model.n_iter_])
            print(f"{name}, {size}: {spent:.2f} CPU s", flush=True)

    def many(count: int) -> tuple[list[Any], list[Any]]:
        found = [table_of_records(seed, 500) for seed in range(count)]
        return [x for X, _ in found for x in X], [y for _, Y in found for y in Y]

    measure("samples of 500 records", (8, 16, 32, 64), many)
    measure(
        "records of one sample", (4_000, 8_000, 16_000, 32_000), lambda n: table_of_records(0, n)
    )
    measure("features, 8,000 records", (6, 12, 24, 48), lambda k: table_of_records(0, 8_000, k))
    candidates_of = "candidates of a record, 8,000 records"
    measure(candidates_of, (4, 8, 16, 32), lambda d: table_of_records(0, 8_000, 6, d))
    show(
        "One size at a time is doubled; to a relative gap of 1e-3",
        ["", "size", "pairs", "CPU s", "CPU us a pair", "iterations"],
        rows,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("table", "pairs", "memory", "growth", "deaths"))
    parser.add_argument(
        "--pairs", type=float, nargs="+", default=[1e6, 1e7], help="numbers of candidate pairs"
    )
    parser.add_argument("--partitions", type=int, help="number of partitions")
    parser.add_argument("--records", type=int, default=2_500, help="records of a partition")
    parser.add_argument("--deaths", type=int, default=20, help="number of workers to kill")
    given = parser.parse_args(arguments)
    if given.what == "table":
        table(given.partitions or 8, given.records)
    elif given.what == "pairs":
        pairs(given.pairs, given.partitions or 80)
    elif given.what == "memory":
        memory(given.partitions or 16, given.records)
    elif given.what == "deaths":
        deaths(given.deaths)
    else:
        growth()


if __name__ == "__main__":
    main()
