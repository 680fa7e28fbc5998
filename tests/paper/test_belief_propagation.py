"""Times to equal errors: from end to end, and on times that are known."""

import numpy as np
import pytest
from experiment_runs import check_outcome, run, table

from mlestruct.algorithms.frank_wolfe import frank_wolfe_marginals
from mlestruct.paper import belief_timing
from mlestruct.paper.belief_propagation import (
    LEVELS,
    PUBLISHED,
    BeliefPropagation,
    Speeds,
    comparisons,
    published,
)
from mlestruct.structures import BipartiteMatching


def test_belief_propagation():
    changes = {"problems": ["rand-8", "rand-12", "lda-6"], "documents": 60, "steps": 64}
    _, found, outcome = run(BeliefPropagation(), repetitions=2, **changes)
    check_outcome(outcome)
    assert not outcome.comparisons  # other problems than the published ones
    assert len(table(outcome, "microseconds").rows) == 3 * 4
    for graphs in found.values():
        for graph in graphs:
            assert graph["truth_gap"] < 1e-9
            assert all(c["reached"] for c in graph["cells"] if not c["method"].startswith("FW"))
            # A smaller error never takes less time, in any one graph.
            for method in belief_timing.METHODS:
                times = [c["microseconds"] for c in graph["cells"] if c["method"] == method]
                assert times == sorted(times)


TIMES = {
    "FW, fixed steps": [1.0, 9.0, 9.0, 8.0],
    "FW, line search": [3.0, 8.0, 8.0, 9.0],
    "BP": [2.0, 2.0, 2.0, 2.0],
    "auto": [1.0, 1.0, 1.0, 3.0],
}


def made_up(problems=("rand-20",), graphs=10, missed=(), times=TIMES):
    """A setting and results in which everything takes known times."""
    setting = BeliefPropagation().setting(False) | {"problems": list(problems), "graphs": graphs}
    one = {
        "cells": [
            {"method": method, "level": level, "reached": (method, level) not in missed,
             "limit": 1, "microseconds": spent}
            for method, row in times.items()
            for level, spent in zip(setting["levels"], row, strict=True)
        ],
        "truth_gap": 0.0,
    }  # fmt: skip
    return setting, {problem: [one] * graphs for problem in problems}


def test_speed_tables_tell_what_was_not_reached_and_where_auto_is_slower():
    missed = {("FW, fixed steps", 0.001), ("FW, line search", 0.001)}
    setting, found = made_up(missed=missed)
    outcome = BeliefPropagation().outcome(setting, found)
    check_outcome(outcome)
    rows = table(outcome, "microseconds").rows
    assert rows[0] == ["rand-20", "FW, fixed steps", 1, 9, 9, ">8"]
    auto = outcome.claims[2]
    assert not auto.holds
    assert auto.measured == "at most 1.50 times the time (rand-20 at 0.001, BP)"
    assert [claim.holds for claim in outcome.claims] == [False, True, False]
    assert "faster at 1 of 4 places" in outcome.claims[0].measured
    notes = [one.note for one in outcome.comparisons]
    assert notes == ["", "", "", "not reached on all graphs: an upper bound"]


def test_all_published_ratios_are_compared_with_the_faster_steps():
    problems = list(PUBLISHED)
    compared = comparisons(Speeds(*made_up(problems)))
    assert len(compared) == 20
    assert {one.better for one in compared} == {"none"}
    assert [one.ours for one in compared[:4]] == [2.0, 0.25, 0.25, 0.25]
    assert compared[0].verdict == "other"
    assert not comparisons(Speeds(*made_up(problems, graphs=3)))


def test_digits_of_published_ratios():
    assert published("rand-50", LEVELS)[:2] == [(18.0, 0.1), (11.76, 0.01)]
    assert published("lda-20", LEVELS)[-1] == (0.1, 0.01)
    assert published("rand-50", LEVELS[:2]) == []
    assert published("rand-51", LEVELS) == []


def test_ratio_of_means_lies_within_the_range_of_graphs():
    setting, found = made_up(graphs=2)
    slow = made_up(times=TIMES | {"FW, fixed steps": [4.0] * 4})[1]["rand-20"][0]
    speeds = Speeds(setting, {"rand-20": [found["rand-20"][0], slow]})
    compared = comparisons(Speeds(speeds.setting | {"graphs": 10}, speeds.found))
    assert compared[0].spread == (pytest.approx(2.0 / 3.0), 2.0)
    assert speeds.ratio("rand-20", "BP", "FW, fixed steps")[0] == pytest.approx(2.0 / 2.5)


def test_fewer_steps_take_the_same_way():
    scores = belief_timing.random_graphs(9, 1, 2009)[0].ravel()
    structure = BipartiteMatching((9, 9), 1.0)
    truth = structure.marginals(scores, None, 1e-12).tau
    errors = belief_timing.frank_wolfe_errors(structure, scores, truth, (0.05, 0.01), 90)
    assert list(errors) == belief_timing.step_counts(90)[: len(errors)]
    for k in (0, 1, 4, 8):
        start = structure.interior()
        tau = frank_wolfe_marginals(structure, scores, start, 0.0, k, None, False, "fixed")[0]
        assert errors[k] == pytest.approx(np.abs(tau - truth).max(), rel=1e-12)


def test_fewest_steps_of_each_level():
    errors = {0: 0.9, 1: 0.4, 2: 0.5, 4: 0.04}
    first = belief_timing.first_reaching
    assert first(errors, (0.5, 0.1)) == {1: 0.4, 4: 0.04}
    assert first(errors, (0.5, 0.01)) == {1: 0.4, 4: 0.04}  # out of reach: the most there are


def test_step_counts_grow_geometrically():
    assert belief_timing.step_counts(1) == [0, 1]
    assert belief_timing.step_counts(8) == [0, 1, 2, 3, 4, 6, 8]
    assert belief_timing.step_counts(100)[-2:] == [91, 100]


def test_longer_work_takes_more_time():
    small, large = np.ones(100), np.ones(1_000_000)
    found = belief_timing.cpu_seconds({"a": large.sum, "b": small.sum}, 3)
    assert 0.0 < found["b"] < found["a"]


def test_long_calls_are_measured_once_and_short_ones_often(monkeypatch):
    """With a clock that only the calls move."""
    clock = [0.0]
    monkeypatch.setattr(belief_timing.time, "process_time", lambda: clock[0])
    made = {"long": 0, "middle": 0, "short": 0}
    takes = {"long": 2.0, "middle": 0.1, "short": 0.01}

    def call(name):
        made[name] += 1
        clock[0] += takes[name]

    calls = {name: lambda name=name: call(name) for name in made}
    found = belief_timing.cpu_seconds(calls, 5)
    assert made == {"long": 1, "middle": 3, "short": 6}
    assert found == pytest.approx(takes)
