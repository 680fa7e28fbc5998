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
    """Whether claims hold for made-up errors, by a part of their sentences."""
    setting = {"calls": [1, 10, 100], "betas": [1.0, 10.0], "many": 7}
    limits = {"optimum, rho = 0.95": [[0.0, 0.0]], **limits}
    found = perturb_and_map.claims(setting, {1.0: traces}, limits)
    return lambda text: next(one for one in found if text in one.sentence)


TRACES = {
    "FW, fixed steps": [[0.8, 0.6, 0.1]], "FW, line search": [[0.9, 0.2, 0.2]],
    "perturb-and-MAP": [[0.9, 0.5, 0.3]],
}  # fmt: skip
LIMITS = {
    "FW, fixed steps": [[0.1, 0.4]], "FW, line search": [[0.3, 0.2]],
    "perturb-and-MAP": [[0.2, 0.5]],
}  # fmt: skip


def test_claims_on_temperature_follow_the_better_steps():
    alike = judged(TRACES, LIMITS)
    assert not alike("Temperature affects").holds
    assert alike("substantially more accurate").holds  # half the error at both
    assert "0.5 at 1, 0.4 at 10" in alike("substantially more accurate").measured
    worse = {"FW, fixed steps": [[0.1, 0.9]], "FW, line search": [[0.1, 0.9]]}
    apart = judged(TRACES, LIMITS | worse | {"perturb-and-MAP": [[0.2, 0.4]]})
    assert apart("Temperature affects").holds
    assert "factor of 9, that of perturb-and-MAP by 2" in apart("Temperature affects").measured
    assert not apart("substantially more accurate").holds


def test_a_little_more_accurate_is_not_substantially():
    close = judged(TRACES, LIMITS | {"perturb-and-MAP": [[0.15, 0.5]]})
    assert not close("substantially more accurate").holds


def test_calls_to_the_error_of_perturb_and_map():
    found = judged(TRACES, LIMITS)
    assert found("converges more quickly").holds
    assert found("converges more quickly").measured.endswith("after 100 calls, 0.3, takes it 10")
    slow = {"FW, fixed steps": [[0.9, 0.8, 0.7]], "FW, line search": [[0.9, 0.8, 0.7]]}
    never = judged(TRACES | slow, LIMITS)
    assert not never("converges more quickly").holds
    assert never("converges more quickly").measured.endswith("takes it inf")
