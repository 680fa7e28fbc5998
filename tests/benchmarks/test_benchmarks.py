"""Every benchmark runs on small problems, and its rivals are what they claim to be."""

import importlib
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from benchmarks import certificates, compare, few_calls, matching, measuring

RIVALS = {  # a column or row of the tables that needs its rival
    "certificates": (None, "| rho = 0.95 |"),
    "chains": ("pycrfsuite", "times as long: crfsuite"),
    "decoders": ("thinqpbo", "| thinqpbo"),
    "few_calls": (None, "| block-coordinate"),
    "first_use": (None, "| import |"),
    "grids": (None, "with means"),
    "latency": ("pycrfsuite", "| python-crfsuite"),
    "link_rivals": ("rapidfuzz", "| logistic regression, then one to one"),
    "matching": (None, "| Sinkhorn"),
    "multi_label": (None, "| pseudo-likelihood"),
    "scale": ("distributed", "| parts, two Dask workers"),
    "torch": ("torch", "| Sinkhorn"),
}


@pytest.mark.parametrize("name", RIVALS)
def test_quick_run_has_the_rival(name, capsys):
    module, words = RIVALS[name]
    if module:
        pytest.importorskip(module)
    importlib.import_module(f"benchmarks.{name}").main(["--quick"])
    assert words in capsys.readouterr().out


def test_a_rival_that_is_not_installed_is_named(capsys):
    assert not measuring.has("no_such_module", "its-package")
    assert "pip install its-package" in capsys.readouterr().out


def test_the_checkout_beside_itself(capsys):
    compare.main([str(compare.ROOT), "--repeat", "1", "--only", "label sets"])
    rows = [
        line.split("|") for line in capsys.readouterr().out.splitlines() if "label sets" in line
    ]
    assert [row[2].strip() for row in rows] == ["fit", "predict", "marginals"]
    assert all(float(row[5]) > 0.0 for row in rows)


def test_a_case_that_fails_is_shown_with_its_error(capsys, monkeypatch):
    found = iter(
        [{"a": {"fit": 2.0}, "b": "TypeError: no"}, {"a": {"fit": 1.0}, "b": {"fit": 1.0}}]
    )
    monkeypatch.setattr(compare, "run", lambda *_: next(found))
    compare.main([str(compare.ROOT), "--repeat", "1"])
    printed = capsys.readouterr().out
    assert "b, " in printed
    assert "TypeError: no" in printed
    assert "0.500" in printed


def test_links_have_the_largest_sum_of_odds():
    rng = np.random.default_rng(0)
    for _ in range(10):
        odds = rng.normal(size=(3, 4))
        row, col = np.divmod(np.arange(12), 4)
        found = measuring.best_links(row, col, odds.ravel(), (3, 4))
        value = sum(odds[i, j] for i, j in enumerate(found) if j >= 0)
        gains = np.hstack([odds, np.zeros((3, 3))])
        best = max(sum(gains[i, j] for i, j in enumerate(own)) for own in permutations(range(7), 3))
        assert value == pytest.approx(best)


def test_gradients_of_the_rivals_are_of_their_objectives():
    """Converged Sinkhorn and softmax: the derivative of log Z is the table of probabilities."""
    scores = np.random.default_rng(0).normal(size=(1, 4, 4))
    for answer, tolerance in ((matching.softmax, 1e-6), (matching.sinkhorn, 1e-4)):
        table = np.exp(answer(scores)[0])[0]
        for i, j in ((0, 0), (2, 3)):
            step = np.zeros_like(scores)
            step[0, i, j] = 1e-4
            change = answer(scores + step)[1] - answer(scores - step)[1]
            assert change[0] / 2e-4 == pytest.approx(table[i, j], abs=tolerance)


@pytest.mark.parametrize("kind", certificates.KINDS)
def test_false_certificates_are_wrong(kind):
    problem = certificates.draw(kind, 0, 12)
    found = problem.space.marginals(problem.scores, None, certificates.TOL)
    assert not certificates.is_wrong(problem, found)
    assert certificates.is_wrong(problem, replace(found, value=found.value + 0.1))
    assert certificates.is_wrong(problem, replace(found, upper_bound=found.value - 0.1))
    assert certificates.is_wrong(problem, replace(found, tau=0.9 * found.tau))


def test_decoders_of_few_calls_are_best():
    rng = np.random.default_rng(0)
    for space in few_calls.SPACES:
        scores = rng.normal(size=space.size)
        decode = few_calls.Counted(space.decode)
        value = decode(scores) @ scores
        others = [space.decode(rng.normal(size=space.size)) for _ in range(20)]
        assert value >= max(other @ scores for other in others)
        assert decode.calls == 1
    outputs, scores = few_calls.every_assignment(5), rng.normal(size=25)
    assert few_calls.assignment(scores) @ scores == pytest.approx((outputs @ scores).max())
