"""Where two ways stay in the code: what each costs.

    python -m benchmarks.alternatives

Decoders beside HiGHS and SciPy are in `benchmarks.decoders`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mlestruct.algorithms.elimination import frontier_order, minimum_fill_order
from mlestruct.algorithms.matching import edge_dual, newton
from mlestruct.algorithms.matching._square_bethe_kernels import bethe_marginals
from mlestruct.algorithms.matching.belief_propagation import certified_marginals
from mlestruct.algorithms.matching.swap_chain import sample_by_swaps
from mlestruct.algorithms.matching.worm_chain import sample_by_worms
from mlestruct.algorithms.pairwise.separators import links_of, plan_of, widest_table
from mlestruct.algorithms.pairwise.spanning_trees import even_trees, tree_probabilities
from mlestruct.structures import (
    BinaryPairwise,
    BipartiteGraph,
    BipartiteMatching,
    LocalMatching,
    Pairwise,
    PairwiseGraph,
    SimpleGraph,
    grid,
)
from mlestruct.structures.rho import Reweighting

from .graphs import geometric_edges, random_edges


def cpu(work: Callable[[], Any], repeat: int = 3) -> float:
    """CPU seconds, the least of several runs after one that compiles."""
    work()
    best = np.inf
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def markov_chains() -> None:
    """Effective samples a CPU second of swaps and of worm updates, on complete graphs."""
    rng = np.random.default_rng(0)
    print("Markov chains: effective samples a CPU second, swaps / worm updates")
    for name, n, sides in (("group of 400", 400, False), ("assignment 100 x 100", 100, True)):
        if sides:
            table = 0.7 * rng.normal(size=(n, n))
            tail, head = np.divmod(np.arange(n * n), n)
            edges, head, n_nodes = table.ravel(), head + n, 2 * n
        else:
            tail, head = np.triu_indices(n, 1)
            table = edges = 0.7 * rng.normal(size=tail.size)
            n_nodes = n
        rates = []
        for draw in (
            lambda k, t=table, s=sides: sample_by_swaps(
                t, 1, bipartite=s, sweeps=2000, rng=np.random.default_rng(k)
            ),
            lambda k, t=tail, h=head, e=edges, m=n_nodes: sample_by_worms(
                m, t, h, e, 1, sweeps=500, rng=np.random.default_rng(k)
            ),
        ):
            draw(0)
            start = time.process_time()
            found = [draw(k) for k in range(1, 4)]
            rates.append(sum(one.ess for one in found) / (time.process_time() - start))
        print(f"  {name:24s} {rates[0]:9.0f} {rates[1]:9.0f}   ratio {rates[0] / rates[1]:.1f}")


def double_cover() -> None:
    """Marginals of one bipartite problem, as two sides and as one group."""
    rng = np.random.default_rng(0)
    print("marginals, ms: two sides / the same graph as one group")
    for n, rho in ((30, 0.95), (100, 0.95), (100, 1.0), (100, 0.5)):
        group = SimpleGraph.from_bipartite(BipartiteGraph.complete(n, n))
        tables = [2.0 * rng.normal(size=n * n) for _ in range(4)]
        one, two = (
            cpu(lambda s=space, t=tables: [s.marginals(w, None, 1e-6) for w in t]) / len(tables)
            for space in (BipartiteMatching((n, n), rho), LocalMatching(group, rho))
        )
        print(f"  n = {n}, rho = {rho}: {1e3 * one:.2f} {1e3 * two:.2f}   ratio {two / one:.1f}")


def square_certificates() -> None:
    """Marginals of n x n assignments at rho = 1, with the certificate of squares and of all."""
    rng = np.random.default_rng(0)
    print("assignments at rho = 1, ms: certificate of squares / by the semi-dual")
    for n in (10, 30, 100):
        rows = BipartiteMatching((n, n))._presolved.rows
        tables = [2.0 * rng.normal(size=n * n) for _ in range(10)]

        def square(rows: Any = rows, tables: Any = tables, n: int = n) -> None:
            for w in tables:
                bethe_marginals(rows, w, 1e-6, 3000, np.empty(n * n), np.zeros(n + 1))

        def any_problem(rows: Any = rows, tables: Any = tables, n: int = n) -> None:
            for w in tables:
                t, z, prices = np.empty(n * n), np.ones(n), np.zeros(n + 1)
                certified_marginals(rows, True, w, np.zeros(n), False, 1e-6, 3000, t, z, prices)

        one, two = cpu(square, 10) / len(tables), cpu(any_problem, 10) / len(tables)
        print(f"  n = {n}: {1e3 * one:.3f} {1e3 * two:.3f}   ratio {two / one:.1f}")


def elimination_orders() -> None:
    """Entries of all tables of a junction tree with two states, log2."""
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(1000, size=(1300, 2)), axis=1), axis=0)
    sparse = PairwiseGraph(1000, pairs[pairs[:, 0] != pairs[:, 1]])
    print("log2 of table entries: frontier order / minimum fill")
    for name, graph in (
        ("grid 10 x 100", grid(10, 100)),
        ("grid 17 x 17", grid(17, 17)),
        ("random, 1000 nodes", sparse),
    ):
        tail, head = graph.tail.astype(np.int64), graph.head.astype(np.int64)
        bits = []
        for order in (
            frontier_order(graph.n_nodes, tail, head, 2, widest_table(2)),
            minimum_fill_order(graph.n_nodes, tail, head, graph.n_nodes),
        ):
            if order is None:
                bits.append("none within the limits")
                continue
            plan = plan_of(links_of(order, tail, head), graph.n_nodes, 2)
            bits.append(f"{np.log2(float(plan.n_entries)):.1f}")
        print(f"  {name:24s} {bits[0]} / {bits[1]}")


def spanning_trees(n: int = 2000) -> None:
    """rho from resistances and from packings of trees: log Z_rho, marginals and time."""
    print(f"rho of {n} nodes: log Z_rho a node above that of resistances, difference of marginals")
    for name, draw in (("random", random_edges), ("geometric", geometric_edges)):
        rng = np.random.default_rng(0)
        edges = draw(n, rng)
        graph, (tail, head) = PairwiseGraph(n, edges), edges.T
        couplings = rng.normal(size=len(edges))
        scores = np.concatenate([rng.normal(size=n), couplings])
        resistances = None
        for count in (0, 8, 16, 32, 64, 1024):

            def weights(count: int = count, ends: Any = (n, tail, head)) -> Any:
                return even_trees(*ends, count) if count else tree_probabilities(*ends)

            found = weights()
            rho = Reweighting(graph, found.rho, found.into_tail, found.into_head)
            now = BinaryPairwise(graph, rho).marginals(scores, None, 1e-5 * n)
            if resistances is None:
                resistances = now
            above = (now.upper_bound - resistances.upper_bound) / n
            apart = np.sqrt(np.mean((now.tau[:n] - resistances.tau[:n]) ** 2))
            label = f"{count} trees" if count else "resistances"
            print(f"  {name:9s} {label:11s} {above:9.5f} {apart:7.4f} {1e3 * cpu(weights):8.1f} ms")


def messages(sweeps: int = 10) -> None:
    """Marginals of two states by the kernels of grids, of two states, of any number of states."""
    print(f"messages: CPU ms of {sweeps} sweeps with their certificates")
    rng = np.random.default_rng(0)
    graphs = {
        "grid 200 x 200": grid(200, 200),
        "random, 10,000 nodes": PairwiseGraph(10_000, random_edges(10_000, rng)),
    }
    for name, graph in graphs.items():
        two = BinaryPairwise(graph)
        scores = np.concatenate([rng.normal(size=graph.n_nodes), np.full(graph.n_edges, 1.0)])
        any_number = Pairwise(graph, 2, Reweighting(graph, *_split_of(two)))
        tables = any_number.from_tables(*two.score_tables(scores))
        general = BinaryPairwise(graph, any_number.reweighting)
        ways: dict[str, Callable[[], Any]] = {
            "grids": lambda two=two, scores=scores: two.marginals(scores, None, 0.0, sweeps),
            "two states": lambda two=general, scores=scores: two.marginals(
                scores, None, 0.0, sweeps
            ),
            "any number": lambda space=any_number, scores=tables: space.marginals(
                scores, None, 0.0, sweeps
            ),
        }
        if graph.grid_shape is None:
            del ways["grids"]
        print(f"  {name:22s}" + ", ".join(f"{way} {1e3 * cpu(ways[way]):.0f}" for way in ways))


def _split_of(space: BinaryPairwise) -> tuple[Any, Any, Any]:
    weights = space.reweighting
    return weights.rho, weights.into_tail, weights.into_head


def edge_dual_and_cover() -> None:
    """Milliseconds of the marginals of groups, by the edge dual and on the double cover."""
    rng = np.random.default_rng(0)
    print("marginals of a group at rho = 1/2, ms: edge dual / double cover")
    for n in (10, 20, 40, 160):
        space = LocalMatching(n, 0.5)
        cover, presolved = BipartiteMatching(space.graph.double_cover()[0], 0.5), space._presolved
        assert presolved is not None
        scores = 3.0 * rng.normal(size=space.n_coordinates)
        entries, zeros = presolved.entries(scores), np.zeros(n)
        ways: list[Callable[[], Any]] = [
            lambda space=space, w=scores: edge_dual.solve(
                space._problem, w[: space.n_scored], np.zeros(space.n_nodes), None, 1e-6
            ),
            lambda cover=cover, w=entries, zeros=zeros: newton.solve(
                cover._presolved.rows, w, zeros, cover._start, None, 2e-6
            ),
        ]
        print(f"  {n} nodes: " + " / ".join(f"{1e3 * cpu(way):.2f}" for way in ways))


def main() -> None:
    markov_chains()
    double_cover()
    square_certificates()
    edge_dual_and_cover()
    elimination_orders()
    spanning_trees()
    messages()


if __name__ == "__main__":
    main()
