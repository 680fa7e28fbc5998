"""The experiment on the Weizmann horses, from end to end, and the pictures it draws."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from mlestruct import GridCRF
from mlestruct.learning import BlockFrankWolfe
from reproduction import horses
from reproduction.horses import (
    CURVES,
    GENERATED,
    REAL,
    Results,
    Trace,
    Weights,
    decoded,
    encoded,
    held_out,
    mean_error,
    pixel_errors,
    pixel_marginals,
    trace_algorithm_one,
    training,
    unary_weights,
    with_moments,
)
from reproduction.runner import plain

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
)

TINY = with_moments(
    {
        "data": GENERATED,
        "train": 4,
        "test": 3,
        "shape": [[24, 26], [30, 32]],
        "seed": 3,
        "hog": False,
        "alpha": 5.0,
        "budget": 0.4,
        "picture": 4,
        "halvings": 2,
        "between": 1,
    }
)


def blobs(n, size=10, seed=0):
    rng = np.random.default_rng(seed)
    Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((size // 2,) * 2, int)) for _ in range(n)]
    X = [np.stack([np.ones(y.shape), y + rng.normal(size=y.shape)], axis=-1) for y in Y]
    return X, Y


def done(setting):
    """The results of all parts, as they come back from the disk."""
    found = {name: work() for name, work in horses.parts(setting).items()}
    return json.loads(json.dumps(plain(found), allow_nan=False))


@pytest.fixture(scope="module")
def found():
    return done(TINY)


# ---------------------------------------------------------------------- from end to end
def test_no_weights_are_better_than_the_certified_optimum(found):
    results = Results(TINY, found)
    assert tuple(results.curves) == CURVES
    assert results.low <= results.optimum <= results.high
    for name, curve in results.curves.items():
        assert results.suboptimality(name) >= 0.0
        for snapshot in curve["snapshots"]:
            assert 0.0 <= mean_error(snapshot) <= 1.0
            assert len(snapshot["errors"]) == 3
        times = [snapshot["cpu"] for snapshot in curve["snapshots"]]
        assert times == sorted(times)
    assert results.suboptimality("auto") < results.suboptimality("unary")


def test_values_of_frank_wolfe_are_upper_bounds_and_jump(found):
    """L(tau) of every iterate, not the best so far; truncated likelihoods start at theta = 0."""
    results = Results(TINY, found)
    for name in ("bcfw", "bcfw-search"):
        seconds, distances = results.values(name)
        assert len(seconds) > 5
        assert min(distances) >= 0.0
        assert seconds == sorted(seconds)
        assert distances[-1] < 1e-2 * distances[0]  # from the uniform start
    assert not results.curves["bcfw-wavg"]["values"]
    starts = {name: results.curves[name]["values"][0] for name in ("trw10", "trw20", "trw40")}
    assert len({round(value, 6) for _, _, value in starts.values()}) == 1


def test_paths_and_snapshots_agree_on_the_picture_that_is_shown(found):
    results = Results(TINY, found)
    for curve in results.curves.values():
        shot, point = curve["snapshots"][-1], curve["path"][-1]
        assert point["cpu"] == shot["cpu"]
        assert point["errors"][0] == pytest.approx(shot["errors"][0], abs=1e-6)
    mask = decoded(found["picture"]["mask"])
    marginals = results.curves["auto"]["shown"][-1]
    wrong = np.mean((decoded(marginals) > 0.5) != (mask > 0.5))
    last = results.at("auto", TINY["shown"][-1], "path")
    assert wrong == pytest.approx(last["errors"][0], abs=2e-3)


def test_report_on_generated_pictures(found):
    report = horses.report(TINY, found)
    assert not report.comparisons
    for table in report.tables:
        assert all(len(row) == len(table.head) for row in table.rows)
    assert [picture.name for picture in report.pictures] == ["progress", "picture"]


def test_claims_follow_the_curves(found):
    stored = json.loads(json.dumps(found))

    def change(name, **fields):
        method = Results(TINY, stored).method_of[name]
        stored[method]["curves"][name] |= fields

    def holds(text):
        report = horses.report(TINY, stored)
        (one,) = [claim for claim in report.claims if text in claim.sentence]
        return one.holds

    optimum = Results(TINY, found).optimum
    size = abs(optimum)

    def values(*distances):
        return [[0.01 + 0.1 * k, k, optimum + d * size] for k, d in enumerate(distances)]

    def ended(*methods):
        for method in horses.METHODS:
            stored[method]["converged"] = method in methods

    race = "in less time than domke40"
    change("bcfw", values=values(9.0, 3.0))
    ended()
    assert holds("fastest without line search") is None  # neither ended
    assert holds(race) is None
    change("trw10", values=values(-2.0, 0.5))
    assert holds("domke10") is None
    ended("bcfw", "bcfw-search", "trw10", "trw40")
    assert holds("domke10")
    change("trw10", values=values(-2.0, -0.1))
    assert not holds("domke10")
    seconds = {name: Results(TINY, stored).end(name)["cpu"] for name in ("bcfw", "trw40")}
    assert holds(race) is (seconds["bcfw"] < seconds["trw40"])


def test_an_order_of_jumping_errors_is_not_decided(found):
    stored = json.loads(json.dumps(found))
    rival = stored["trw40"]["curves"]["trw40"]
    rival["path"] = [{"cpu": 10.0, "iteration": k, "errors": [0.04]} for k in (1, 24)]

    def judged(*errors):
        stored["bcfw"]["curves"]["bcfw"]["path"] = [
            {"cpu": cpu, "iteration": 9, "errors": [e]}
            for cpu, e in zip((1.0, 8.0, 15.0, 90.0), errors, strict=True)
        ]
        return [claim.holds for claim in horses.picture_claims(Results(TINY, stored))]

    assert judged(0.9, 0.03, 0.03, 0.9) == [True, True]
    assert judged(0.9, 0.03, 0.09, 0.9) == [None, None]
    assert judged(0.0, 0.05, 0.09, 0.0) == [False, False]


def test_published_numbers_are_compared_at_iterations_of_the_rival(found):
    setting, stored = {**TINY, "data": REAL}, json.loads(json.dumps(found))

    def point(cpu, iteration, error):
        return {"cpu": cpu, "iteration": iteration, "errors": [error]}

    stored["bcfw"]["curves"]["bcfw"]["path"] = [point(5, 90, 0.05), point(150, 900, 0.074)]
    path = [point(9, 1, 0.249), point(200, 24, 0.10), point(590, 50, 0.09)]
    stored["trw40"]["curves"]["trw40"]["path"] = path
    report = horses.report(setting, stored)
    compared = report.comparisons[:5]
    assert [c.ours for c in compared] == [0.05, 0.074, 0.249, 0.10, 0.09]
    assert [c.published for c in compared] == [0.068, 0.074, 0.249, 0.109, 0.0813]
    assert "after 5 CPU s" in compared[0].note
    stored["trw40"]["curves"]["trw40"]["path"] = path[:1]
    later = horses.report(setting, stored).comparisons
    missing = [c.what for c in later if c.ours is None]
    assert ["24 iterations" in what for what in missing] == [True, True]


# ---------------------------------------------------------------------- settings and data
def test_full_setting_says_why_pictures_are_generated(monkeypatch, tmp_path):
    pytest.importorskip("skimage")
    pytest.importorskip("PIL")
    monkeypatch.delenv("MLESTRUCT_DATA", raising=False)
    setting = horses.setting(False)
    assert setting["data"] == GENERATED
    assert "MLESTRUCT_DATA does not name" in setting["why"]
    monkeypatch.setenv("MLESTRUCT_DATA", str(tmp_path))
    assert "has no weizmann_horses" in horses.setting(False)["why"]
    assert str(tmp_path) not in json.dumps(horses.setting(False))


def test_real_pictures_are_used_where_they_are(monkeypatch, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("skimage")
    for folder in ("rgb", "figure_ground"):
        (tmp_path / REAL / folder).mkdir(parents=True)
        photo = np.full((20, 30, 3), 200 if folder == "rgb" else 255, dtype=np.uint8)
        pillow.fromarray(photo).save(tmp_path / REAL / folder / "horse207.jpg")
    monkeypatch.setenv("MLESTRUCT_DATA", str(tmp_path))
    setting = horses.setting(False)
    assert (setting["data"], setting["train"], setting["test"]) == (REAL, 200, 128)
    assert str(tmp_path) not in json.dumps(setting)
    images, masks = horses.load(setting, [setting["picture"]])
    assert images[0].shape == (20, 30, 3)
    assert masks[0].all()


# ---------------------------------------------------------------------- evaluation and methods
def test_without_edges_errors_and_likelihood_are_those_of_logistic_regression():
    X, Y = training(TINY)
    theta = unary_weights(X, Y, TINY["alpha"])
    n = X[0][0].shape[2]
    w = theta[n : 2 * n] - theta[:n]
    log_likelihood = sum(
        float(np.where(y == 1, -np.logaddexp(0, -x @ w), -np.logaddexp(0, x @ w)).sum())
        for (x, _), y in zip(X, Y, strict=True)
    )
    expected = log_likelihood - 0.5 * TINY["alpha"] * float(theta @ theta)
    problem = horses.model(TINY["alpha"])._problem(X, Y)
    assert horses.likelihood(problem, theta) == pytest.approx(expected, rel=1e-5)
    images, masks = horses.load(TINY, held_out(TINY))
    scores = [horses.features(TINY, image)[0] @ w for image in images]
    wrong = [np.mean((s > 0) != m) for s, m in zip(scores, masks, strict=True)]
    for by_map in (False, True):
        errors = pixel_errors(TINY, held_out(TINY), [theta], by_map)
        np.testing.assert_allclose(errors[:, 0], wrong, atol=1e-12)
    found = pixel_marginals(TINY, held_out(TINY)[0], theta)
    np.testing.assert_allclose(found, expit(scores[0]), atol=1e-5)


def test_without_edges_the_weights_are_those_of_logistic_regression():
    """Two weight vectors -w/2 and w/2 are penalised by alpha/4 |w|^2."""
    X, Y = training(TINY)
    theta = unary_weights(X, Y, alpha=3.0)
    n = X[0][0].shape[2]
    pixels = np.concatenate([x.reshape(-1, n) for x, _ in X])
    labels = np.concatenate([y.ravel() for y in Y])
    reference = LogisticRegression(C=2.0 / 3.0, fit_intercept=False, tol=1e-8, max_iter=5000)
    w = reference.fit(pixels.astype(float), labels).coef_[0]
    np.testing.assert_allclose(theta[:n], -0.5 * w, atol=2e-3)
    np.testing.assert_allclose(theta[n : 2 * n], 0.5 * w, atol=2e-3)
    assert not theta[2 * n :].any()


@pytest.mark.parametrize("line_search", [False, True])
def test_traced_iterates_are_those_of_algorithm_1(line_search):
    X, Y = blobs(4)
    problem = GridCRF(alpha=1.0)._problem(X, Y)
    step = "line_search" if line_search else "fixed"
    last, mean = (
        BlockFrankWolfe(
            step=step, averaging=averaging, max_iter=5, verbose=0, random_state=0
        ).solve(problem, 1e-12)
        for averaging in (False, True)
    )
    iterates = StopAfter(5 * 4)
    averages = trace_algorithm_one(problem, iterates, 1e-12, line_search)
    assert iterates.weights[-1].iteration == averages.weights[-1].iteration == 5 * 4
    np.testing.assert_allclose(iterates.weights[-1].theta, last.theta)
    np.testing.assert_allclose(averages.weights[-1].theta, mean.theta)
    value = last.state.dual(problem)
    assert iterates.values[-1][1:] == (5 * 4, pytest.approx(value))


class StopAfter(Trace):
    """A trace whose budget is a number of steps."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    @property
    def used_up(self):
        self.left -= 1
        return self.left == 0


# ---------------------------------------------------------------------- traces
def traced(*moments):
    trace = Trace()
    trace.weights = [Weights(t, int(t), np.array([t])) for t in moments]
    return trace


def test_weights_at_a_moment_are_the_last_ones_known_then():
    trace = traced(1.0, 2.0, 4.0, 8.0)
    assert [weights.cpu for weights in trace.at([0.5, 2.0, 3.0])] == [2.0, 8.0]
    assert [weights.cpu for weights in trace.at([4.5, 100.0])] == [4.0, 8.0]
    assert [weights.cpu for weights in trace.at([4.5], iterations=[1, 3])] == [1.0, 4.0, 8.0]
    assert trace.known_at(0.5) is None
    assert trace.known_at(7.9).cpu == 4.0


def test_trace_keeps_copies_and_finite_certificates_only():
    trace, theta = Trace(), np.ones(2)
    values = {"objective_bound": 1.0, "objective": -np.inf}
    trace.callback(SimpleNamespace(theta=theta, iteration=0, **values))
    theta[:] = 7.0
    trace.callback(SimpleNamespace(theta=theta, objective_bound=1.0, objective=0.0, iteration=1))
    values["objective_bound"] = -3.0
    trace.callback(SimpleNamespace(theta=np.zeros(2), iteration=2, **values))
    assert [list(weights.theta) for weights in trace.weights] == [[1.0, 1.0], [7.0, 7.0]]
    assert [row[1:] for row in trace.certificates] == [(1.0, 0.0)]
    assert [row[1:] for row in trace.values] == [(0, 1.0), (1, 1.0), (2, -3.0)]


def test_trace_stops_a_method_when_the_budget_is_used_up():
    X, Y = blobs(4)
    trace = Trace(budget=0.0)
    solver = BlockFrankWolfe(callback=trace.callback)
    with pytest.warns(match="stopped"):
        model = GridCRF(alpha=1.0, tol=1e-12, solver=solver).fit(X, Y)
    assert model.n_iter_ == 0


def test_a_trace_ends_with_the_answer():
    trace = traced(1.0)
    assert len(trace.ending_with(np.array([1.0])).weights) == 1
    ended = trace.ending_with(np.array([5.0]))
    assert list(ended.weights[-1].theta) == [5.0]
    assert ended.weights[-1].iteration == 1


# ---------------------------------------------------------------------- pictures
def test_packed_pictures_keep_their_side_of_one_half():
    values = np.random.default_rng(0).random((40, 50))
    values[0, :4] = [0.4999, 0.5001, 0.0, 1.0]
    stored = json.loads(json.dumps(encoded(values)))
    np.testing.assert_allclose(decoded(stored), values, atol=1 / 509)
    np.testing.assert_array_equal(decoded(stored) > 0.5, values > 0.5)
    assert decoded(encoded(np.ones((2, 3, 3)))).shape == (2, 3, 3)


def test_curves_over_time_have_a_level(found):
    results = Results(TINY, found)
    left, right = horses.progress_picture(results).figure.axes
    assert left.get_yscale() == left.get_xscale() == "log"
    assert [line.get_label() for line in right.lines] == list(CURVES)
    level = mean_error(results.end("unary"))
    np.testing.assert_allclose(right.lines[1].get_ydata(), level)
    assert len(left.lines) == 2 * len(CURVES)  # the objectives, and what they prove
    drawn = left.lines[2 * CURVES.index("bcfw")].get_ydata()
    np.testing.assert_allclose(drawn, np.abs(results.values("bcfw")[1]))
