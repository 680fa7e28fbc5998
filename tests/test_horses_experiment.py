"""The experiment on the Weizmann horses, from end to end, and the pictures it draws."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments import horses
from mlestruct import GridCRF
from mlestruct.features.rows import DenseRows
from mlestruct.learning import BlockFrankWolfe
from mlestruct.plotting import plot_pixel_marginals, plot_segmentation

real_data = pytest.mark.skipif(
    "MLESTRUCT_DATA" not in os.environ, reason="MLESTRUCT_DATA does not name the real data"
)


def blobs(n, size=10, seed=0):
    rng = np.random.default_rng(seed)
    Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((size // 2,) * 2, int)) for _ in range(n)]
    X = [np.stack([np.ones(y.shape), y + rng.normal(size=y.shape)], axis=-1) for y in Y]
    return X, Y


@pytest.fixture
def few_horses(tmp_path):
    """A folder like that of the horses, with generated pictures under the names that are used."""
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("skimage")
    rng = np.random.default_rng(0)
    folder = tmp_path / "weizmann_horses"
    for part in ("rgb", "figure_ground"):
        (folder / part).mkdir(parents=True)
    for k in [*range(4), *range(200, 203), horses.PICTURE]:
        mask = np.zeros((26, 32), dtype=bool)
        top, left = rng.integers(3, 12, size=2)
        mask[top : top + 10, left : left + 14] = True
        photo = np.where(mask[:, :, None], (150, 90, 60), (90, 140, 80))
        photo = np.clip(photo + rng.normal(0, 30, size=photo.shape), 0, 255).astype(np.uint8)
        name = f"horse{k + 1:03d}.jpg"
        pillow.fromarray(photo).save(folder / "rgb" / name)
        pillow.fromarray(255 * mask.astype(np.uint8)).save(folder / "figure_ground" / name)
    return tmp_path


SMALL = ["--train", "4", "--test", "3", "--max-side", "32", "--alpha", "5"]


@pytest.mark.slow
def test_methods_run_in_parts_and_merge(few_horses, tmp_path, capsys):
    out = tmp_path / "out"
    call = ["--data", str(few_horses), "--out", str(out), *SMALL]
    horses.main([*call, "--methods", "auto", "unary", "--budget", "120"])
    printed = capsys.readouterr().out
    assert "certified relative gap of 0.001 after" in printed
    assert "margin of auto over unary" in printed
    assert "bcfw" not in printed
    horses.main([*call, "--methods", "trw10", "bcfw", "--budget", "1"])
    printed = capsys.readouterr().out
    assert "bcfw after the same time:" in printed
    assert "trw10 after the same time:" in printed
    stored = json.loads((out / "results.json").read_text())
    assert list(stored["curves"]) == ["auto", "unary", "bcfw", "bcfw-wavg", "trw10"]
    results = horses.Results(out)
    for curve in stored["curves"].values():
        for snapshot in curve["snapshots"]:
            # No weights can be better than the optimum, whose upper bound is certified.
            assert results.shortfall(snapshot) >= 0.0
            assert 0.0 <= snapshot["map_error"] <= 1.0
    ends = {name: curve["snapshots"][-1] for name, curve in stored["curves"].items()}
    assert results.shortfall(ends["auto"]) < min(
        results.shortfall(ends[name]) for name in ("unary", "bcfw", "bcfw-wavg")
    )
    for name in ("progress.png", "picture207.png"):
        (out / name).unlink()
    horses.main(["--data", str(few_horses), "--out", str(out), "--report"])
    assert "trw10 after the same time:" in capsys.readouterr().out
    for name in ("progress.png", "picture207.png"):
        assert (out / name).stat().st_size > 1000
    with pytest.raises(SystemExit, match="holds results of"):
        horses.main([*call, "--methods", "auto", "--alpha", "6"])


@real_data
@pytest.mark.slow
def test_quick_run_on_the_real_pictures(tmp_path, capsys):
    pytest.importorskip("skimage")
    quick = ["--quick", "--out", str(tmp_path)]
    horses.main([*quick, "--methods", "auto", "--budget", "120"])  # stops when it is certain
    horses.main([*quick, "--methods", "unary", "bcfw", "trw10", "trw40"])
    printed = capsys.readouterr().out
    for name in horses.CURVES:
        assert name in printed
    results = horses.Results(tmp_path)
    assert results.reached is not None
    errors = {name: c["snapshots"][-1]["map_error"] for name, c in results.curves.items()}
    assert errors["auto"] < errors["unary"] < 0.3


def test_report_of_nothing_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        horses.main(["--out", str(tmp_path), "--report"])
    assert "holds no results" in capsys.readouterr().err


def test_logistic_regression_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 4)) for n in (80, 120)]
    labels = [
        (part @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=len(part)) > 0).astype(int) for part in x
    ]
    alpha = 3.0
    found = horses.logistic_regression([DenseRows(part) for part in x], labels, alpha, rtol=1e-12)
    reference = LogisticRegression(C=2.0 / alpha, fit_intercept=False, tol=1e-10, max_iter=1000)
    reference.fit(np.concatenate(x), np.concatenate(labels))
    np.testing.assert_allclose(found, reference.coef_[0], rtol=1e-5, atol=1e-6)


def test_unary_weights_are_the_optimum_of_a_crf_without_edges():
    X, Y = blobs(6)
    no_edges = [(x, (np.zeros((10, 9, 1)), np.zeros((9, 10, 1)))) for x in X]
    model = GridCRF(alpha=2.0, tol=1e-10).fit(no_edges, Y)
    rows = [DenseRows(x.reshape(-1, 2)) for x in X]
    w = horses.logistic_regression(rows, [y.ravel() for y in Y], 2.0, rtol=1e-12)
    np.testing.assert_allclose(model.node_coef_, [-0.5 * w, 0.5 * w], atol=1e-4)


def test_traced_averages_are_those_of_the_solver():
    X, Y = blobs(4)
    with pytest.warns(match="stopped"):
        model = GridCRF(
            alpha=1.0,
            solver=BlockFrankWolfe(step="fixed", averaging=True),
            max_iter=5,
            tol=1e-12,
            random_state=0,
        ).fit(X, Y)
    solver = horses.TracedBlockFrankWolfe(step="fixed")
    with pytest.warns(match="stopped"):
        GridCRF(alpha=1.0, solver=solver, max_iter=5, tol=1e-12, random_state=0).fit(X, Y)
    np.testing.assert_allclose(solver.average[0].value, model.coef_)
    assert solver.iterates.weights  # how many are kept depends on the clock
    assert solver.averages.weights


def test_weights_at_a_moment_are_the_last_ones_known_then():
    trace = horses.Trace()
    trace.weights = [(t, 2 * t, np.array([t])) for t in (1.0, 2.0, 4.0, 8.0)]
    assert [cpu for cpu, _, _ in trace.at([0.5, 2.0, 3.0])] == [2.0, 8.0]
    assert [cpu for cpu, _, _ in trace.at([4.5, 100.0])] == [4.0, 8.0]


def test_trace_keeps_copies_and_finite_certificates_only():
    trace, theta = horses.Trace(), np.ones(2)
    trace(SimpleNamespace(theta=theta, dual=1.0, primal=-np.inf))
    theta[:] = 7.0
    trace(SimpleNamespace(theta=theta, dual=1.0, primal=0.0))
    trace(SimpleNamespace(theta=np.zeros(2)))
    assert [list(entry[2]) for entry in trace.weights] == [[1.0, 1.0], [7.0, 7.0]]
    assert [row[2:] for row in trace.certificates] == [(1.0, 0.0)]
    assert trace.certificates[0][0] == trace.weights[1][0]


def test_first_certificate_of_the_wanted_gap():
    rows = [(1.0, 1.1, -90.0, -100.0), (2.0, 2.2, -95.0, -95.05), (3.0, 3.3, -95.0, -95.01)]
    assert horses.first_within(rows) == (2.0, 2.2)
    assert horses.first_within(rows[:1]) is None


# ---------------------------------------------------------------------- pictures
def test_segmentation_figure_has_a_column_for_each_method(tmp_path):
    rng = np.random.default_rng(0)
    image, mask = rng.random((12, 16, 3)), rng.integers(2, size=(12, 16))
    sure = np.stack([1 - mask, mask], axis=2).astype(float)
    figure = plot_segmentation(image, {"sure": sure, "wrong": 1.0 - mask}, mask)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:4] == ["photograph", "truth", "sure, error 0.000", "wrong, error 1.000"]
    rows = plot_segmentation(image, {"a": [sure, None], "b": [sure, sure]}, mask, ["1 s", "2 s"])
    titles = [axes.get_title(loc="left") for axes in rows.axes]
    assert titles[:6] == [
        "photograph", "a, error 0.000", "b, error 0.000",
        "truth", "a: nothing yet", "b, error 0.000",
    ]  # fmt: skip
    assert len(plot_segmentation(image, sure).axes) == 3  # photograph, marginals, colour bar
    rows.savefig(tmp_path / "rows.png")
    assert (tmp_path / "rows.png").stat().st_size > 1000


def test_pixel_marginals_show_the_probability_of_label_one():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    marginals = np.array([[[0.9, 0.1], [0.2, 0.8]]])
    shown = plot_pixel_marginals(axes, marginals, [[1, 1]])
    np.testing.assert_allclose(shown.get_array(), [[0.1, 0.8]])
    assert axes.get_title(loc="left") == "error 0.500"


def test_pictures_of_other_sizes_are_refused():
    image, marginals = np.zeros((4, 5, 3)), np.zeros((4, 5))
    with pytest.raises(ValueError, match=r"mask: expected shape \(4, 5\), got \(5, 4\)"):
        plot_segmentation(image, marginals, np.zeros((5, 4)))
    with pytest.raises(ValueError, match="marginals: expected shape"):
        plot_segmentation(image, np.zeros((4, 5, 3)))
    with pytest.raises(ValueError, match=r"marginals\['a'\]: expected 2 rows, got 1"):
        plot_segmentation(image, {"a": [marginals]}, rows=["1 s", "2 s"])
