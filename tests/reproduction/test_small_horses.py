"""Gradient ascent and truncated TRW that are let run, judged against a certified optimum."""

from experiment_runs import claim

from reproduction import small_horses

SETTING = {"rates": [0.1, 0.01], "sweeps": [10, 20], "train": 2}
OPTIMUM = {"low": -100.001, "high": -100.0, "seconds": 1.0, "pixels": 5}


def judged(trw10, ended=(), rates=None):
    """Report for objectives of trw10; trw20 ends at the optimum."""
    loops = rates or {"rate 0.1": [[0.1, -500.0], [0.2, None]], "rate 0.01": [[0.1, -500.0]] * 2}
    runs = {
        name: {"rows": [[k, v] for k, v in enumerate(values)], "ended": name in ended,
               "likelihood": -101.0}
        for name, values in {"trw10": trw10, "trw20": [-500.0, -100.0]}.items()
    }  # fmt: skip
    return small_horses.report(SETTING, {"optimum": OPTIMUM, **loops, **runs})


def test_a_run_above_the_optimum_has_crossed_it_for_good():
    crossing = "domke10 intersects"
    assert claim(judged([-500.0, -90.0]), crossing).holds
    assert claim(judged([-500.0, -110.0]), crossing).holds is None
    assert claim(judged([-500.0, -110.0], ["trw10"]), crossing).holds is False
    assert claim(judged([-500.0, -100.0], ["trw10"]), crossing).holds is False


def test_one_run_that_ends_elsewhere_refutes_a_guarantee():
    elsewhere = "guaranteed to converge"
    assert claim(judged([-500.0, -110.0], ["trw10"]), elsewhere).holds
    assert claim(judged([-500.0, -110.0]), elsewhere).holds is None
    assert claim(judged([-500.0, -100.0], ["trw10", "trw20"]), elsewhere).holds is None


def test_gradient_ascent_is_too_slow_if_it_was_given_the_time():
    slow, text = [[0.1, -500.0], [9.0, -200.0]], "Subgradient ascent"
    assert claim(judged([-90.0], rates={"rate 0.1": slow, "rate 0.01": slow}), text).holds
    short = [[0.1, -500.0], [0.2, -400.0]]
    rates = {"rate 0.1": slow, "rate 0.01": short}
    assert claim(judged([-90.0], rates=rates), text).holds is None
    rates["rate 0.01"] = [[0.1, -500.0], [0.2, -100.5]]
    assert claim(judged([-90.0], rates=rates), text).holds is False
