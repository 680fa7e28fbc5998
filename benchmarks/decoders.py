"""QPBO beside other max-flow libraries: binary pairwise problems on 4-connected grids.

    python -m benchmarks.decoders [--quick]

Same problems in one run, milliseconds of CPU time, the least of several repetitions. Ours is the
whole call; thinqpbo's is its solve() without building, PyMaxflow's its vectorised building and
solving (of the doubled graph where couplings have both signs). Both are GPL, so they are used here
and in the tests only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from mlestruct.algorithms.pairwise.qpbo import QPBO
from mlestruct.structures import grid

LIMIT = 1.5  # times the fastest other library


def problem(size: int, kind: str, strength: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of nodes and couplings of edges."""
    rng = np.random.default_rng(seed)
    graph = grid(size, size)
    unary, coupling = rng.normal(size=graph.n_nodes), strength * rng.normal(size=graph.n_edges)
    if kind == "submodular":
        coupling = np.abs(coupling)
    for ends in (graph.tail, graph.head):
        unary -= np.bincount(ends, 0.5 * coupling, graph.n_nodes)
    return unary, coupling


def least_milliseconds(function: Callable[[], object], repetitions: int) -> float:
    found = []
    for _ in range(repetitions):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return 1e3 * min(found)


def thinqpbo(graph, unary, coupling, repetitions):
    """(milliseconds, value) of thinqpbo's solve()."""
    import thinqpbo

    best, value = np.inf, np.nan
    for _ in range(repetitions):
        solver = thinqpbo.QPBODouble(graph.n_nodes, graph.n_edges)
        solver.add_node(graph.n_nodes)
        for i, score in enumerate(unary.tolist()):
            solver.add_unary_term(i, 0.0, -score)
        ends = zip(graph.tail.tolist(), graph.head.tolist(), coupling.tolist(), strict=True)
        for i, j, score in ends:
            solver.add_pairwise_term(i, j, 0.0, 0.0, 0.0, -score)
        best = min(best, least_milliseconds(solver.solve, 1))
        value = -solver.compute_twice_lower_bound() / 2
    return best, value


def pymaxflow(graph, unary, coupling, repetitions):
    """(milliseconds, value) of PyMaxflow, on the doubled graph where some couplings repel."""
    import maxflow

    n = graph.n_nodes
    cost = -unary
    attract = coupling > 0
    i, j = graph.tail[attract], graph.head[attract]
    cost -= np.bincount(j, coupling[attract], n)
    if attract.all():  # a plain minimum cut
        size, source, sink = n, np.maximum(cost, 0), np.maximum(-cost, 0)
        start, end, capacity = i, j, coupling
    else:
        k, m = graph.tail[~attract], graph.head[~attract]
        half, rest = 0.5 * coupling[attract], -0.5 * coupling[~attract]
        size = 2 * n
        source = np.concatenate([np.maximum(cost, 0), np.maximum(-cost, 0)]) / 2
        sink = np.concatenate([np.maximum(-cost, 0), np.maximum(cost, 0)]) / 2
        start = np.concatenate([i, n + j, n + k, n + m])
        end = np.concatenate([j, n + i, m, k])
        capacity = np.concatenate([half, half, rest, rest])
    flows = []

    def solve():
        flow = maxflow.GraphFloat(size, len(start))
        nodes = flow.add_nodes(size)
        flow.add_grid_tedges(nodes, source, sink)
        flow.add_edges(start, end, capacity, np.zeros(len(start)))
        flows.append(flow.maxflow())

    best = least_milliseconds(solve, repetitions)
    return best, -(flows[-1] + float(cost[cost < 0].sum()))


def main(arguments: list[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small grids, few repetitions")
    options = parser.parse_args(arguments)
    sizes, repetitions = ([20], 2) if options.quick else ([100, 200], 7)
    others = {
        name: function
        for name, module, function in (
            ("thinqpbo", "thinqpbo", thinqpbo),
            ("PyMaxflow", "maxflow", pymaxflow),
        )
        if find_spec(module)
    }
    kinds = [("mixed", s) for s in (0.1, 0.5, 2.0)] + [("submodular", s) for s in (0.5, 3.0, 10.0)]
    print(f"{'grid':>6} {'problem':<16}{'mlestruct':>10}" + "".join(f"{o:>12}" for o in others))
    fine = True
    for size in sizes:
        graph = grid(size, size)
        decoder = QPBO(graph.n_nodes, graph.tail, graph.head)
        for kind, strength in kinds:
            unary, coupling = problem(size, kind, strength)
            value = decoder.solve(unary, coupling)[2]
            call = partial(decoder.solve, unary, coupling)
            own = least_milliseconds(call, repetitions)
            line = f"{size:>5}² {kind + ' ' + str(strength):<16}{own:>10.2f}"
            times = []
            for function in others.values():
                took, other = function(graph, unary, coupling, repetitions)
                if abs(other - value) > 1e-8 * (1.0 + abs(value)):
                    fine = False
                    line += "  DIFFERENT VALUE"
                times.append(took)
                line += f"{took:>12.2f}"
            if times:
                ratio = own / min(times)
                fine &= options.quick or ratio <= LIMIT
                line += f"   {ratio:.2f} of the fastest"
            print(line, flush=True)
    if not others:
        print("neither thinqpbo nor PyMaxflow is installed: nothing to compare with")
    print(f"decoders: {'pass' if fine else 'NO'}")
    return fine


if __name__ == "__main__":
    main()
