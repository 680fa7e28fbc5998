"""Times to equal errors: from end to end, and on times that are known."""

import numpy as np
import pytest
from experiment_runs import run, table

from mlestruct.algorithms.frank_wolfe import frank_wolfe_marginals
from mlestruct.structures import BipartiteMatching
from reproduction import belief_propagation as bp
from reproduction.belief_propagation import PUBLISHED, Speeds, comparisons


def test_belief_propagation():
    changes = {"problems": ["rand-8", "rand-12", "lda-6"], "documents": 60, "steps": 64}
    _, found, report = run(bp, repetitions=2, **changes)
    assert not report.comparisons  # fewer graphs than the published means
    assert len(table(report, "microseconds").rows) == 3 * 4
    for graphs in found.values():
        for cells in graphs:
            assert all(c["reached"] for c in cells if not c["method"].startswith("FW"))
            # A smaller error never takes less time, in any one graph.
            for method in bp.METHODS:
                times = [c["microseconds"] for c in cells if c["method"] == method]
                assert times == sorted(times)


TIMES = {
    "FW, fixed steps": [1.0, 9.0, 9.0, 8.0],
    "FW, line search": [3.0, 8.0, 8.0, 9.0],
    "BP": [2.0, 2.0, 2.0, 2.0],
    "auto": [1.0, 1.0, 1.0, 3.0],
}


def made_up(problems=("rand-20",), graphs=10, missed=(), times=TIMES):
    """A setting and results in which everything takes known times."""
    setting = bp.setting(False) | {"problems": list(problems), "graphs": graphs}
    one = [
        {"method": method, "level": level, "reached": (method, level) not in missed,
         "limit": 1, "microseconds": spent}
        for method, row in times.items()
        for level, spent in zip(setting["levels"], row, strict=True)
    ]  # fmt: skip
    noisy = [[{**c, "microseconds": c["microseconds"] * (1 + 1e-3 * k)} for c in one]
             for k in range(graphs)]  # fmt: skip
    return setting, dict.fromkeys(problems, noisy)


def test_speed_tables_tell_what_was_not_reached_and_where_auto_is_slower():
    missed = {("FW, fixed steps", 0.001), ("FW, line search", 0.001)}
    setting, found = made_up(PUBLISHED, missed=missed)
    report = bp.report(setting, found)
    rows = table(report, "microseconds").rows
    assert rows[0] == ["rand-20", "FW, fixed steps", 1, 9, 9, ">8"]
    auto = report.claims[2]
    assert not auto.holds
    assert auto.figure == "at most 1.50 times the time (rand-75 at 0.001, BP)"
    assert [claim.holds for claim in report.claims] == [False, True, False]
    assert "faster at 5 of 20 places" in report.claims[0].figure
    notes = [one.note for one in report.comparisons]
    assert notes[:4] == ["", "", "", "not reached on all graphs: an upper bound"]


def test_all_published_ratios_are_compared_with_the_faster_steps():
    compared = comparisons(Speeds(*made_up(PUBLISHED)))
    assert [one.published for one in compared] == [v for row in PUBLISHED.values() for v in row]
    assert [one.ours for one in compared[:4]] == [2.0, 0.25, 0.25, 0.25]


def test_ratios_are_of_mean_times():
    setting, found = made_up(graphs=2)
    slow = made_up(times=TIMES | {"FW, fixed steps": [4.0] * 4})[1]["rand-20"][0]
    speeds = Speeds(setting, {"rand-20": [found["rand-20"][0], slow]})
    assert speeds.ratio("rand-20", "BP", "FW, fixed steps")[0] == pytest.approx(2.0 / 2.5)


def test_generated_text_has_topics():
    counts = bp.topic_counts(50, 4, 0)
    assert (counts.sum(axis=1) == 60).all()
    # Documents share their frequent words with some others and not with most.
    alike = np.corrcoef(counts)[np.triu_indices(50, 1)]
    assert np.quantile(alike, 0.9) > 0.3
    assert np.median(alike) < 0.2


def test_fewer_steps_take_the_same_way():
    scores = next(bp.random_graphs({"graphs": 1, "seed": 2009}, 9)).ravel()
    structure = BipartiteMatching((9, 9), 1.0)
    truth = structure.marginals(scores, None, 1e-12).tau
    errors = bp.frank_wolfe_errors(structure, scores, truth, (0.05, 0.01), 90)
    assert list(errors) == bp.step_counts(90)[: len(errors)]
    for k in (0, 1, 4, 8):
        start = structure.interior()
        tau = frank_wolfe_marginals(structure, scores, start, 0.0, k, None, "fixed")[0]
        assert errors[k] == pytest.approx(np.abs(tau - truth).max(), rel=1e-12)


def test_fewest_steps_of_each_level():
    errors = {0: 0.9, 1: 0.4, 2: 0.5, 4: 0.04}
    first = bp.first_reaching
    assert first(errors, (0.5, 0.1)) == [1, 4]
    assert first(errors, (0.5, 0.01)) == [1, 4]  # out of reach: the most there are


def test_step_counts_grow_geometrically():
    assert bp.step_counts(1) == [0, 1]
    assert bp.step_counts(8) == [0, 1, 2, 3, 4, 6, 8]
    assert bp.step_counts(100)[-2:] == [91, 100]


def test_longer_work_takes_more_time():
    small, large = np.ones(100), np.ones(1_000_000)
    found = bp.cpu_seconds({"a": large.sum, "b": small.sum}, 3)
    assert 0.0 < found["b"] < found["a"]


def test_long_calls_are_measured_once_and_short_ones_often(monkeypatch):
    """With a clock that only the calls move."""
    clock = [0.0]
    monkeypatch.setattr(bp.time, "process_time", lambda: clock[0])
    made = {"long": 0, "middle": 0, "short": 0}
    takes = {"long": 2.0, "middle": 0.1, "short": 0.01}

    def call(name):
        made[name] += 1
        clock[0] += takes[name]

    calls = {name: lambda name=name: call(name) for name in made}
    found = bp.cpu_seconds(calls, 5)
    assert made == {"long": 1, "middle": 3, "short": 6}
    assert found == pytest.approx(takes)
