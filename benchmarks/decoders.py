"""MAP decoders beside other libraries: QPBO on grids, fractional matchings and b-matchings.

    python -m benchmarks.decoders [--quick]

Same problems in one run, milliseconds of CPU time, the least of several repetitions.

QPBO: ours is the whole call; thinqpbo's is its solve() without building, PyMaxflow's its vectorised
building and solving (of the doubled graph where couplings have both signs). Both are GPL, so they
are used here and in the tests only.

Matchings over the local polytope: ours is the whole call, cold and with the dual variables of
similar scores. The others solve the assignment problem on the double cover (SciPy, dense and
sparse) or the linear program (HiGHS: building and solving, and then again with other scores from
the last basis).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import highspy
import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from mlestruct.algorithms.matching.b_matching import best_b_matching
from mlestruct.algorithms.matching.fractional import fractional_matching
from mlestruct.algorithms.pairwise.qpbo import QPBO
from mlestruct.structures import grid
from mlestruct.structures.graphs.simple import SimpleGraph

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


def pairing_graph(n: int, degree: int | None, rng: np.random.Generator) -> SimpleGraph:
    """A complete graph, or a random one of that mean degree with a perfect matching."""
    if degree is None:
        return SimpleGraph.complete(n)
    mask = np.triu(rng.random((n, n)) < degree / n, 1)
    mask[np.arange(0, n, 2), np.arange(1, n, 2)] = True
    return SimpleGraph.from_mask(mask | mask.T)


def scipy_dense(graph, scores):
    """Value of the assignment problem on the double cover as a dense table."""
    table = graph.dense(scores, -1e6)
    return table[linear_sum_assignment(table, maximize=True)].sum() / 2


def scipy_sparse(graph, scores):
    """Value of the assignment problem on the double cover as a sparse matrix."""
    cover, edge = graph.double_cover()
    cost = sparse.csr_array((-scores[edge], cover.col, cover.ptr), shape=(graph.n_nodes,) * 2)
    return -cost[min_weight_full_bipartite_matching(cost)].sum() / 2


class HighsMatching:
    """The linear program of a b-matching in HiGHS; `solve` starts from the last basis."""

    def __init__(self, graph, scores, capacity):
        n, m = graph.n_nodes, graph.n_edges
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = m, n
        program.sense_ = highspy.ObjSense.kMaximize
        program.col_cost_ = scores
        program.col_lower_, program.col_upper_ = np.zeros(m), np.ones(m)
        program.row_lower_ = program.row_upper_ = np.full(n, float(capacity))
        program.a_matrix_.start_ = 2 * np.arange(m + 1)
        program.a_matrix_.index_ = np.stack([graph.row, graph.col], axis=1).ravel()
        program.a_matrix_.value_ = np.ones(2 * m)
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.passModel(program)
        self.columns = np.arange(m)

    def solve(self, scores):
        self.highs.changeColsCost(self.columns.size, self.columns, scores)
        self.highs.run()
        return self.highs.getObjectiveValue()


def compare_matchings(quick: bool) -> bool:
    """Fractional matchings (capacity 1) and b-matchings, ours beside the others."""
    sizes = [(30, None), (400, None), (400, 20), (2456, 20), (2456, None)]
    rng = np.random.default_rng(0)
    heads = ("ours", "warm", "dense", "sparse", "HiGHS", "warm")
    print(f"\n{'nodes':>6} {'degree':>6} {'b':>2}" + "".join(f"{head:>10}" for head in heads))
    fine = True
    for n, degree in sizes[:1] if quick else sizes:
        graph = pairing_graph(n, degree, rng)
        scores = rng.normal(size=graph.n_edges)
        similar = scores + 0.01 * rng.normal(size=graph.n_edges)
        repetitions = 7 if n < 1000 else 2
        is_large = graph.n_edges > 200_000  # takes HiGHS minutes
        # SciPy's sparse solver does not return within minutes on some of the sparse graphs.
        others = (scipy_dense, degree is None), (scipy_sparse, degree is None and not is_large)
        for b in (1, 3):
            if b > graph.degree.min():
                continue
            solve = fractional_matching if b == 1 else best_b_matching
            more = () if b == 1 else (np.full(n, b), np.ones(n, dtype=bool))
            ours = partial(solve, n, graph.ptr, graph.col, scores, *more)
            again = partial(solve, n, graph.ptr, graph.col, similar, *more, warm=ours().prices)
            value = ours().score
            times = [least_milliseconds(ours, repetitions), least_milliseconds(again, repetitions)]
            found = []
            for other, used in others:
                times.append(np.nan)
                if b == 1 and used:
                    found.append(other(graph, scores))
                    times[-1] = least_milliseconds(partial(other, graph, scores), repetitions)
            if is_large:
                times += [np.nan, np.nan]
            else:
                start = time.process_time()
                program = HighsMatching(graph, scores, b)
                found.append(program.solve(scores))
                times.append(1e3 * (time.process_time() - start))
                times.append(least_milliseconds(partial(program.solve, similar), 1))
            same = np.allclose(found, value, rtol=1e-7, atol=1e-7)
            fine &= same
            line = f"{n:>6} {degree or 'all':>6} {b:>2}" + "".join(f"{t:>10.2f}" for t in times)
            print(line + ("" if same else "  DIFFERENT VALUE"), flush=True)
    return fine


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
    fine &= compare_matchings(options.quick)
    print(f"decoders: {'pass' if fine else 'NO'}")
    return fine


if __name__ == "__main__":
    main()
