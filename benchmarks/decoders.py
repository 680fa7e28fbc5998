"""MAP decoders beside other libraries: QPBO on grids, assignments, matchings and b-matchings.

    python -m benchmarks.decoders [--quick]
    python -m benchmarks.record decoders      # the tables of docs/benchmarks.md

Same problems in one run, milliseconds of CPU time, the least of several repetitions.

QPBO: ours is the whole call; thinqpbo's is its solve() without building, PyMaxflow's its vectorised
building and solving (of the doubled graph where couplings have both signs). Both are GPL, so they
are used here and in the tests only.

Assignments (SciPy, lapx) and matchings of a group (rustworkx, networkx): ours is the whole call,
cold and with the prices of similar scores; the graphs of the others are built before. rustworkx
takes integers: scores are rounded to multiples of 1e-9.

Matchings over the local polytope: ours is the whole call, cold and with the dual variables of
similar scores. The others solve the assignment problem on the double cover (SciPy, dense and
sparse), the linear program (HiGHS: building and solving, and then again with other scores from
the last basis) or the flow on the double cover (OR-tools: building and solving, scores rounded to
multiples of 1e-9, in a process of its own because it cannot be imported beside highspy).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import highspy
import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from benchmarks.record import show
from mlestruct.algorithms.matching.assignment import assign
from mlestruct.algorithms.matching.b_matching import best_b_matching
from mlestruct.algorithms.matching.blossom import best_matching
from mlestruct.algorithms.matching.fractional import fractional_matching
from mlestruct.algorithms.pairwise.qpbo import QPBO
from mlestruct.structures import grid
from mlestruct.structures.graphs.simple import SimpleGraph

LIMIT = 1.5  # times the fastest other library
UNIT = 1e-9  # of scores, for libraries that take integers
WARM = "; warm: with the prices of similar scores; times: the fastest of the others beside ours"
PIP = {"lap": "lapx", "maxflow": "PyMaxflow"}  # packages that are not named like their module

ORTOOLS = """
import sys, time
import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

given = np.load(sys.argv[1])
tail, head, cost, b, n = (given[name] for name in ("tail", "head", "cost", "b", "n"))
best = np.inf
for _ in range(int(given["repetitions"])):
    start = time.process_time()
    flow = SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(
        np.concatenate([tail, head]), n + np.concatenate([head, tail]),
        np.ones(2 * tail.size, np.int64), np.concatenate([cost, cost]),
    )
    flow.set_nodes_supplies(np.arange(2 * n), np.repeat([b, -b], n))
    assert flow.solve() == flow.OPTIMAL
    best = min(best, time.process_time() - start)
print(1e3 * best, flow.optimal_cost())
"""


def problem(size: int, kind: str, strength: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of nodes and couplings of edges."""
    rng = np.random.default_rng(seed)
    graph = grid(size, size)
    unary, coupling = rng.normal(size=graph.n_nodes), strength * rng.normal(size=graph.n_edges)
    if kind == "attractive":
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


def has(module: str) -> bool:
    """Whether a library is installed; says how to install it where it is not."""
    found = find_spec(module) is not None
    if not found:
        print(f"{module} is not installed (pip install {PIP.get(module, module)})")
    return found


def ortools(graph, scores, b, repetitions):
    """(milliseconds, value) of OR-tools' flow on the double cover."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        cost = np.rint(-scores / UNIT).astype(np.int64)
        np.savez(
            path, tail=graph.row, head=graph.col, cost=cost, b=b, n=graph.n_nodes,
            repetitions=repetitions,
        )  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", ORTOOLS, path], capture_output=True, text=True, check=True
        )
    milliseconds, cost = map(float, done.stdout.split())
    return milliseconds, -UNIT * cost / 2


def rustworkx_matching(graph, scores):
    import rustworkx

    built = rustworkx.PyGraph(multigraph=False)
    built.add_nodes_from(range(graph.n_nodes))
    weights = np.rint(scores / UNIT).astype(np.int64).tolist()
    built.add_edges_from(list(zip(graph.row.tolist(), graph.col.tolist(), weights, strict=True)))
    return partial(rustworkx.max_weight_matching, built, max_cardinality=True, weight_fn=int)


def networkx_matching(graph, scores):
    import networkx

    built = networkx.Graph()
    edges = zip(graph.row.tolist(), graph.col.tolist(), scores.tolist(), strict=True)
    built.add_weighted_edges_from(edges)
    return partial(networkx.max_weight_matching, built, maxcardinality=True)


def checked(what: str, same: bool) -> bool:
    """Says so where another library has found another value."""
    if not same:
        print(f"{what}: DIFFERENT VALUE", flush=True)
    return same


def ratio(times: list[float], n_ours: int) -> float:
    """The fastest of the others, behind the times of ours, relative to our first."""
    others = [t for t in times[n_ours:] if np.isfinite(t)]
    return min(others) / times[0] if others else np.nan


def compare_qpbo(quick: bool) -> bool:
    """Grids with couplings of both signs, and attractive ones: thinqpbo and PyMaxflow."""
    sizes, repetitions = ([20], 2) if quick else ([100, 200], 7)
    makers = {"thinqpbo": ("thinqpbo", thinqpbo), "PyMaxflow": ("maxflow", pymaxflow)}
    others = {name: call for name, (module, call) in makers.items() if has(module)}
    kinds = [("mixed", s) for s in (0.1, 0.5, 2.0)] + [("attractive", s) for s in (0.5, 3.0, 10.0)]
    fine, rows = True, []
    for size in sizes:
        graph = grid(size, size)
        decoder = QPBO(graph.n_nodes, graph.tail, graph.head)
        for kind, strength in kinds:
            unary, coupling = problem(size, kind, strength)
            value = decoder.solve(unary, coupling)[2]
            times = [least_milliseconds(partial(decoder.solve, unary, coupling), repetitions)]
            for name, function in others.items():
                took, other = function(graph, unary, coupling, repetitions)
                same = abs(other - value) <= 1e-8 * (1.0 + abs(value))
                fine &= checked(f"{size} x {size}, {kind} {strength:g}, {name}", same)
                times.append(took)
            fine &= quick or not ratio(times, 1) * LIMIT < 1.0
            rows.append([f"{size} x {size}", kind, f"{strength:g}", *times, ratio(times, 1)])
    show(
        "QPBO on grids, CPU milliseconds; times: the faster of the others beside ours",
        ["grid", "couplings", "strength", "mlestruct", *others, "times"],
        rows,
    )
    return fine


def compare_assignments(quick: bool) -> bool:
    """Dense assignment problems: SciPy and lapx."""
    lapx = has("lap")
    rng = np.random.default_rng(0)
    fine, table = True, []
    for n in (30,) if quick else (30, 200, 1000):
        scores = rng.normal(size=(n, n))
        similar = scores + 0.01 * rng.normal(size=(n, n))
        first = assign(scores)
        calls = [
            partial(assign, scores),
            partial(assign, similar, warm=first.prices),
            partial(linear_sum_assignment, scores, maximize=True),
        ]
        chosen = [linear_sum_assignment(scores, maximize=True)[1]]
        if lapx:
            import lap

            calls.append(partial(lap.lapjv, -scores))
            chosen.append(lap.lapjv(-scores)[1])
        rows = np.arange(n)
        values = [scores[rows, columns].sum() for columns in chosen]
        same = np.allclose(values, scores[rows, first.row_to_col].sum(), rtol=1e-9)
        fine &= checked(f"{n} x {n}", same)
        times = [least_milliseconds(call, 7) for call in calls]
        table.append([f"{n} x {n}", *times, ratio(times, 2)])
    show(
        f"Assignments, CPU milliseconds{WARM}",
        ["", "mlestruct", "warm", "SciPy", *(["lapx"] if lapx else []), "times"],
        table,
    )
    return fine


def compare_general_matchings(quick: bool) -> bool:
    """Perfect matchings of a group: rustworkx and networkx."""
    makers = {"rustworkx": rustworkx_matching, "networkx": networkx_matching}
    makers = {name: maker for name, maker in makers.items() if has(name)}
    rng = np.random.default_rng(0)
    fine, rows = True, []
    for n, degree in [(30, None)] if quick else [(30, None), (100, None), (400, None), (400, 20)]:
        graph = pairing_graph(n, degree, rng)
        scores = rng.normal(size=graph.n_edges)
        similar = scores + 0.01 * rng.normal(size=graph.n_edges)
        ours = partial(best_matching, n, graph.ptr, graph.col, scores)
        first = ours()
        warm = partial(best_matching, n, graph.ptr, graph.col, similar, warm=first.prices)
        times = [least_milliseconds(ours, 7), least_milliseconds(warm, 7)]
        table, values = graph.dense(scores, 0.0), []
        for name, maker in makers.items():
            if name == "networkx" and graph.n_edges > 10_000:  # takes it minutes
                times.append(np.nan)
                continue
            call = maker(graph, scores)
            values.append(sum(table[i, j] for i, j in call()))
            times.append(least_milliseconds(call, 3 if name == "rustworkx" else 1))
        same = np.allclose(values, first.score, rtol=0.0, atol=n * UNIT)
        fine &= checked(f"matching of {n}", same)
        rows.append([n, degree or "all", *times, ratio(times, 2)])
    show(
        f"Perfect matchings of a group, CPU milliseconds{WARM}",
        ["nodes", "partners of a node", "mlestruct", "warm", *makers, "times"],
        rows,
    )
    return fine


def compare_matchings(quick: bool) -> bool:
    """Fractional matchings (capacity 1) and b-matchings, ours beside the others."""
    sizes = [(30, None), (400, None), (400, 20), (2456, 20), (2456, None)]
    rng = np.random.default_rng(0)
    with_ortools = has("ortools")
    fine, rows = True, []
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
            times.append(np.nan)
            if with_ortools and not is_large:
                times[-1], other = ortools(graph, scores, b, repetitions)
                found.append(other)
            same = np.allclose(found, value, rtol=1e-7, atol=1e-7 + n * UNIT)
            fine &= checked(f"fractional matching of {n}, b = {b}", same)
            rows.append([n, degree or "all", b, *times])
    show(
        "Fractional matchings of a group with b partners each, CPU milliseconds; warm: with the "
        "solution of similar scores. SciPy, dense and sparse, solves b = 1 on the double cover",
        ["nodes", "partners of a node", "b", "mlestruct", "warm", "dense", "sparse", "HiGHS",
         "warm", "OR-tools"],
        rows,
    )  # fmt: skip
    return fine


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small grids, few repetitions")
    options = parser.parse_args(arguments)
    parts = (compare_qpbo, compare_assignments, compare_general_matchings, compare_matchings)
    passed = [compare(options.quick) for compare in parts]  # all, whatever the first ones found
    print(f"decoders: {'pass' if all(passed) else 'NO'}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
