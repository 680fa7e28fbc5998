"""MAP decoders beside other libraries.

    python -m benchmarks.decoders [--quick]

Decoders: CPU time of one call, the least of several, the value of the result compared. thinqpbo's
time is its `solve` without building, PyMaxflow's is building and solving. rustworkx takes
integers: scores are rounded to multiples of 1e-9. Both sides solve the same problem: QPBO is the
relaxation over the local polytope, a minimum cut if all couplings attract.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.measuring import command, has, least, show
from mlestruct.structures import BipartiteMatching, MatchingPolytope, Pairwise, grid

UNIT = 1e-9  # of scores, for libraries that take integers


# ---------------------------------------------------------------------- rivals of the decoders
def thinqpbo(graph: Any, unary: Any, coupling: Any, repeat: int) -> tuple[float, float]:
    """Seconds of `solve`, and its value."""
    import thinqpbo

    solvers = []
    for _ in range(repeat + 1):
        solver = thinqpbo.QPBODouble(graph.n_nodes, graph.n_edges)
        solver.add_node(graph.n_nodes)
        for i, score in enumerate(unary.tolist()):
            solver.add_unary_term(i, 0.0, -score)
        ends = graph.tail.tolist(), graph.head.tolist(), coupling.tolist()
        for i, j, score in zip(*ends, strict=True):
            solver.add_pairwise_term(i, j, 0.0, 0.0, 0.0, -score)
        solvers.append(solver)
    left = iter(solvers)
    seconds = least(lambda: next(left).solve(), repeat)
    return seconds, -solvers[0].compute_twice_lower_bound() / 2


def pymaxflow(graph: Any, unary: Any, coupling: Any, repeat: int) -> tuple[float, float]:
    """Seconds of building and solving, and the value; couplings must attract."""
    import maxflow

    cost = -unary - np.bincount(graph.head, coupling, graph.n_nodes)
    flows = []

    def solve() -> None:
        flow = maxflow.GraphFloat(graph.n_nodes, graph.n_edges)
        nodes = flow.add_nodes(graph.n_nodes)
        flow.add_grid_tedges(nodes, np.maximum(cost, 0), np.maximum(-cost, 0))
        flow.add_edges(graph.tail, graph.head, coupling, np.zeros(graph.n_edges))
        flows.append(flow.maxflow())

    seconds = least(solve, repeat)
    return seconds, -(flows[-1] + float(cost[cost < 0].sum()))


def scipy_assignment(table: Any, repeat: int) -> tuple[float, float]:
    solve = partial(linear_sum_assignment, table, maximize=True)
    return least(solve, repeat), table[solve()].sum()


def networkx_matching(table: Any, repeat: int) -> tuple[float, float]:
    import networkx

    graph = networkx.from_numpy_array(table)
    solve = partial(networkx.max_weight_matching, graph, maxcardinality=True)
    return least(solve, 1), sum(table[i, j] for i, j in solve())


def rustworkx_matching(table: Any, repeat: int) -> tuple[float, float]:
    import rustworkx

    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(table)))
    ends = zip(*np.triu_indices(len(table), 1), strict=True)
    graph.add_edges_from([(i, j, round(table[i, j] / UNIT)) for i, j in ends])
    solve = partial(rustworkx.max_weight_matching, graph, max_cardinality=True, weight_fn=int)
    return least(solve, repeat), sum(table[i, j] for i, j in solve())


# ---------------------------------------------------------------------- decoders
def compare(
    name: str, ours: Callable[[], Any], rivals: dict[str, Callable[[], tuple[float, float]]]
) -> list[list[Any]]:
    """A row for every rival; the values must be equal."""
    seconds, value = least(ours, 7), ours().score
    rows = []
    for rival, solve in rivals.items():
        other, found = solve()
        if not np.isclose(found, value, rtol=1e-8, atol=1e-6):
            raise SystemExit(f"{name}: the value of {rival} is {found}, not {value}")
        rows.append([name, 1e3 * seconds, rival, other / seconds])
    return rows


def image(side: int, strength: float, attract: bool) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    graph = grid(side, side)
    unary, coupling = rng.normal(size=graph.n_nodes), strength * rng.normal(size=graph.n_edges)
    coupling = np.abs(coupling) if attract else coupling
    for ends in (graph.tail, graph.head):
        unary -= np.bincount(ends, 0.5 * coupling, graph.n_nodes)
    rivals = {}
    if has("thinqpbo"):
        rivals["thinqpbo"] = partial(thinqpbo, graph, unary, coupling, 5)
    if attract and has("maxflow", "PyMaxflow"):
        rivals["PyMaxflow"] = partial(pymaxflow, graph, unary, coupling, 5)
    kind = "attractive" if attract else "mixed"
    name = f"image {side} x {side}, {kind} couplings of {strength:g}"
    space = Pairwise(graph, 2)
    tables = unary[:, None] * [0.0, 1.0], coupling[:, None, None] * [[0.0, 0.0], [0.0, 1.0]]
    return compare(name, partial(space.decode, space.from_tables(*tables)), rivals)


def assignment(n: int) -> list[list[Any]]:
    table = np.random.default_rng(0).normal(size=(n, n))
    ours = partial(BipartiteMatching((n, n)).decode, table.ravel())
    return compare(f"assignment {n} x {n}", ours, {"SciPy": partial(scipy_assignment, table, 7)})


def group(n: int) -> list[list[Any]]:
    table = np.zeros((n, n))
    ends = np.triu_indices(n, 1)
    table[ends] = np.random.default_rng(0).normal(size=ends[0].size)
    table += table.T
    rivals = {}
    if n <= 100 and has("networkx"):
        rivals["networkx"] = partial(networkx_matching, table, 1)
    if has("rustworkx"):
        rivals["rustworkx"] = partial(rustworkx_matching, table, 3)
    return compare(f"pairs of {n}", partial(MatchingPolytope(n).decode, table[ends]), rivals)


def run(quick: bool) -> None:
    rows = []
    for side in (20,) if quick else (100, 200):
        for strength, attract in ((0.5, False), (2.0, False), (0.5, True), (3.0, True)):
            rows += image(side, strength, attract)
    for n in (30,) if quick else (30, 200, 1_000):
        rows += assignment(n)
    for n in (30,) if quick else (30, 100, 400):
        rows += group(n)
    show(
        "MAP decoding: CPU milliseconds, and how many times as long the rival takes",
        ["problem", "CPU ms", "rival", "times as long"],
        rows,
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
