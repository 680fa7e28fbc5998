"""Errors of marginals by MAP calls: from end to end, and against permanents."""

import numpy as np
import pytest
from experiment_runs import claim, perm, run, table

from mlestruct.inference import marginals
from mlestruct.structures import BipartiteMatching
from reproduction import perturb_and_map


def test_perturb_and_map():
    changes = {"graphs": 2, "calls": [1, 5, 40], "betas": [0.25, 1.0, 30.0], "many": 300}
    _, found, report = run(perturb_and_map, **changes)
    assert claim(report, "Temperature affects the two differently").holds
    # Frank-Wolfe comes close to the optimum that it is on its way to.
    shown = table(report, "many calls")
    ours, optimum = (shown.head.index(name) for name in ("FW, line search", "optimum, rho = 1"))
    for row in shown.rows[:2]:
        assert row[ours] == pytest.approx(row[optimum], abs=0.005)
    ends = [row[-1] for row in found["beta 1.0"]["FW, line search"]]
    assert shown.rows[1][ours] == pytest.approx(np.mean(ends))


def test_exact_marginals_are_ratios_of_permanents():
    setting = perturb_and_map.setting(True)
    scores = next(perturb_and_map.graph_scores(setting, 3.0))
    weights = np.exp(scores).reshape(10, 10)
    tau = perturb_and_map.exact_tau(scores).reshape(10, 10)
    total = perm(weights)
    for i, j in ((0, 0), (3, 8), (9, 2)):
        minor = np.delete(np.delete(weights, i, axis=0), j, axis=1)
        assert tau[i, j] == pytest.approx(weights[i, j] * perm(minor) / total, rel=1e-9)


@pytest.mark.parametrize(
    ("method", "options"),
    [("fw", {}), ("fw", {"step": "fixed"}), ("perturb", {})],
)
def test_map_calls_are_counted_honestly(method, options, monkeypatch):
    decoded = []
    decode = BipartiteMatching.decode
    monkeypatch.setattr(
        BipartiteMatching, "decode", lambda *a, **k: decoded.append(1) or decode(*a, **k)
    )
    seen = []

    def watch(calls, tau):
        seen.append(calls)
        assert len(decoded) == calls  # what led to this point and nothing more
        return calls >= 12

    scores = next(perturb_and_map.graph_scores(perturb_and_map.setting(True), 1.0))
    marginals(BipartiteMatching((10, 10), 1.0), scores, method, callback=watch, **options)
    assert seen[-1] == 12


def test_errors_stay_where_a_method_ends():
    scores = np.zeros(100)  # the start is the optimum
    truth = perturb_and_map.exact_tau(scores)
    errors = perturb_and_map.errors_by_calls("FW, line search", scores, truth, 5, 0)
    assert errors.shape == (5,)
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)


def judged(traces, limits):
    """Claims for made-up errors, by a part of their sentences; every error has small noise."""
    setting = {"calls": [1, 10, 100], "betas": [1.0, 10.0], "many": 7}
    noise = 1e-3 * np.random.default_rng(0).normal(size=(10, 1))

    def repeated(errors):
        return {name: np.array(rows) + noise for name, rows in errors.items()}

    limits = {"optimum, rho = 0.95": [[0.0, 0.0]], **limits}
    found = perturb_and_map.claims(setting, {1.0: repeated(traces)}, repeated(limits))
    return lambda text: next(one for one in found if text in one.sentence)


FW = ("FW, fixed steps", "FW, line search")
TRACES = {FW[0]: [[0.8, 0.2, 0.1]], FW[1]: [[0.9, 0.2, 0.2]], "perturb-and-MAP": [[0.9, 0.5, 0.3]]}
LIMITS = {FW[0]: [[0.1, 0.4]], FW[1]: [[0.3, 0.2]], "perturb-and-MAP": [[0.2, 0.5]]}


def test_both_step_rules_have_to_agree():
    """A rule that is chosen afterwards decides nothing."""
    found = judged(TRACES, LIMITS)
    assert found("is more accurate than perturb-and-MAP at the").holds
    assert found("converges more quickly").holds
    assert found("Temperature affects").holds is None  # growths of 4 and .67 against 2.5
    worse = {FW[1]: [[0.9, 0.8, 0.7]]}
    apart = judged(TRACES | worse, LIMITS)
    assert apart("is more accurate than perturb-and-MAP at the").holds is None
    assert apart("converges more quickly").holds is None
    never = judged(TRACES | worse | {FW[0]: worse[FW[1]]}, LIMITS)
    assert never("is more accurate than perturb-and-MAP at the").holds is False
    assert never("converges more quickly").holds is False
    assert "inf (FW, fixed steps" in never("converges more quickly").figure


def test_temperatures_where_bethe_is_worse_are_named():
    assert not judged(TRACES, LIMITS)("nearly 0 and 1").holds
    worse = judged(TRACES, LIMITS | {key: [[0.1, 0.9]] for key in FW})("nearly 0 and 1")
    assert worse.holds
    assert worse.figure == "at inverse temperature 10; 2 were tested"
