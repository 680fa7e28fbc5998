"""The benchmark of grid CRFs runs from end to end on a tiny problem."""

import numpy as np
import pytest

from benchmarks import grids

pytest.importorskip("skimage")


def test_quick_run_prints_every_method_and_verdict(capsys):
    assert grids.main(["--quick", "--time-limit", "0.3"]) in (0, 1)
    printed = capsys.readouterr().out
    for words in (
        "auto (lbfgs)",
        "bcfw, fixed steps",
        "bcfw, fixed steps, averaged",
        "bcfw, line search",
        "truncated TRW, 10 sweeps",
        "truncated TRW, 40 sweeps",
        "True suboptimality at CPU second",
        "auto >= 5x faster than truncated TRW, 40 sweeps to 1e-2 (gap)",
        "never reach 1e-4 (true)",
    ):
        assert words in printed


def test_first_time_bisects_between_ticks():
    cpu = [0.3 * k for k in range(40)]
    trace = grids.Trace("any", cpu=cpu, wall=cpu, theta=[np.zeros(1)] * 40)
    for place in (0, 1, 7, 39):
        asked = []

        def reached(k, place=place, asked=asked):
            asked.append(k)
            return k >= place

        assert grids.first_time(trace, reached) == cpu[place]
        assert len(set(asked)) < 20
    assert grids.first_time(trace, lambda k: False) == np.inf


def test_recorded_averages_are_those_the_solver_returns():
    X, Y = grids.segmentation_data(3, (8, 8), 0)
    problem = grids.GridCRF(alpha=1.0).build_problem(X, Y)
    plain, averaged = grids.run_bcfw(problem, "fixed", 0.2, seed=0)
    n_passes = len(averaged.theta)
    assert n_passes == len(plain.theta)
    found = grids.BlockFrankWolfe(step="fixed", averaging=True).solve(
        problem,
        grids.Stopping(tol=1e-12, max_iter=n_passes),
        random_state=np.random.default_rng(0),
    )
    np.testing.assert_allclose(averaged.theta[-1], found.theta, atol=1e-10)


def test_unfinished_competitors_count_only_as_long_as_they_ran():
    trace = grids.Trace("any", cpu=[10.0])
    assert grids.faster(2.0, trace, np.inf)[0] == 5.0
    assert grids.faster(2.0, trace, 8.0)[0] == 4.0
    assert grids.faster(np.inf, trace, 8.0)[0] == 0.0
    trace.finished = True
    assert grids.faster(2.0, trace, np.inf)[0] == np.inf
