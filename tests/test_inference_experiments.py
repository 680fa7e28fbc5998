"""The experiments on inference, from end to end, and the parts their numbers rest on."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from experiments import belief_propagation, perturb_and_map, synthetic_likelihoods
from mlestruct.datasets.topics import make_topic_counts, topic_similarity
from mlestruct.inference import marginals
from mlestruct.inference.frank_wolfe_marginals import frank_wolfe_marginals
from mlestruct.plotting.inference import plot_cross_bounds, plot_likelihoods, plot_map_calls
from mlestruct.structures import BipartiteMatching


def perm(a):
    """The permanent, by Ryser's formula."""
    n = len(a)
    chosen = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return float(((-1.0) ** (n - chosen.sum(axis=1))) @ (chosen @ a.T).prod(axis=1))


SCRIPTS = (synthetic_likelihoods, perturb_and_map, belief_propagation)


def stored(folder, name):
    """The JSON and CSV of an experiment; its pictures are there too."""
    for picture in folder.glob("*.png"):
        assert picture.stat().st_size > 5000
    with (folder / f"{name}.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    return json.loads((folder / f"{name}.json").read_text()), rows


@pytest.mark.parametrize("script", SCRIPTS)
def test_folder_that_cannot_be_written_is_refused(script, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    for bad in (file, file / "below"):
        with pytest.raises(SystemExit) as stopped:
            script.main(["--quick", "--out", str(bad)])
        assert stopped.value.code == 2
        printed = capsys.readouterr()
        assert "--out: cannot write to" in printed.err
        assert printed.out == ""  # before any work


@pytest.mark.parametrize(
    ("script", "option"),
    [(synthetic_likelihoods, "--seeds"), (perturb_and_map, "--many"),
     (belief_propagation, "--graphs")],
)  # fmt: skip
def test_counts_of_nothing_are_refused(script, option, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script.main([option, "0", "--out", str(tmp_path / "new")])
    assert option in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


# ---------------------------------------------------------------------- likelihoods
def test_synthetic_likelihoods(tmp_path, capsys):
    out = tmp_path / "some" / "folder"
    held = synthetic_likelihoods.main(["--quick", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "80 inequalities checked, 0 failed: yes" in printed
    assert held["sandwich"]
    assert held["Bethe above RW, high SNR"]
    numbers, rows = stored(out, "synthetic_likelihoods")
    assert {file.name for file in out.glob("*.png")} == {
        "synthetic_likelihoods.png", "cross_bounds.png"
    }  # fmt: skip
    assert len(rows) == len(numbers["points"]) == 8
    for row in rows:
        low, high = (float(row[f"{kind} at exact, lower"]) for kind in ("RW", "Bethe"))
        assert low < float(row["exact at exact, lower"]) < high


def test_exact_likelihood_is_that_of_a_permanent():
    rng = np.random.default_rng(0)
    theta, n, alpha = rng.normal(size=100), 7, 0.6
    labels = np.array([rng.permutation(10) for _ in range(n)])
    matched = np.zeros((10, 10))
    for y in labels:
        matched[np.arange(10), y] += 1.0
    found = synthetic_likelihoods.likelihoods_at(theta, matched.ravel(), n, alpha)
    log_z = np.log(perm(np.exp(theta.reshape(10, 10))))
    expected = sum(theta.reshape(10, 10)[np.arange(10), y].sum() - log_z for y in labels)
    expected = (expected - alpha / 2 * theta @ theta) / n
    assert found["exact"].value == pytest.approx(expected, rel=1e-10)
    assert found["RW"].upper < expected < found["Bethe"].lower


def test_optimum_of_an_estimate_is_its_likelihood_there():
    drawn = np.array([np.random.default_rng(k).permutation(10) for k in range(15)])
    point = synthetic_likelihoods.one_point("high SNR", 0, drawn, 1.0, 1e-9)
    for kind in synthetic_likelihoods.KINDS:
        best, there = point.values[f"{kind} optimum"], point.values[f"{kind} at {kind}"]
        assert there.value == pytest.approx(best.value, abs=1e-6)
        for other in synthetic_likelihoods.KINDS:
            assert point.values[f"{kind} at {other}"].lower <= best.upper + 1e-9


@given(st.tuples(*[st.integers(-20, 20)] * 4))
def test_inequality_is_proven_open_or_failed(ends):
    a, b = sorted(ends[:2]), sorted(ends[2:])
    found = synthetic_likelihoods.Interval(*a).compare(synthetic_likelihoods.Interval(*b))
    pairs = [x <= y for x in a for y in b]
    assert found == ("proven" if all(pairs) else "open" if any(pairs) else "failed")


def test_broken_sandwich_is_told(capsys):
    found = synthetic_likelihoods.run((10,), 1)
    good = found.points[0]
    low, high = good.values["RW at RW"], good.values["Bethe at RW"]
    swapped = good.values | {"RW at RW": high, "Bethe at RW": low}
    point = synthetic_likelihoods.Point(good.regime, 10, 0, swapped)
    broken = synthetic_likelihoods.Likelihoods([10], 1, 1.0, [point, *found.points[1:]])
    assert not synthetic_likelihoods.verdicts(broken)["sandwich"]
    printed = capsys.readouterr().out
    assert "failed: RW at RW <= exact at RW at high SNR, 10 samples, seed 0" in printed
    assert "20 inequalities checked, 2 failed: NO" in printed


# ---------------------------------------------------------------------- perturb-and-MAP
def test_perturb_and_map(tmp_path, capsys):
    held = perturb_and_map.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert held["FW, beta 0.25"]
    assert "mean error of FW below perturb-and-MAP's" in printed
    numbers, rows = stored(tmp_path, "perturb_and_map")
    assert (tmp_path / "perturb_and_map.png").exists()
    traces = numbers["traces"]
    assert len(rows) == 2 * 3 * 2 * 7 + 5 * 2 * 3
    for beta in ("10", "0.25"):
        ours = np.mean(traces[beta]["FW"], axis=0)
        theirs = np.mean(traces[beta]["perturb-and-MAP"], axis=0)
        assert held[f"FW, beta {beta}"] == bool((ours < theirs).all())
    # Frank-Wolfe comes close to the optimum that it is on its way to.
    limits = numbers["limits"]
    np.testing.assert_allclose(
        np.array(limits["FW, plain"])[:, :2],
        np.array(limits["optimum, rho = 1"])[:, :2],
        atol=0.005,
    )


def test_exact_marginals_are_ratios_of_permanents():
    scores = 3.0 * perturb_and_map.graph_weights(0)
    weights = np.exp(scores).reshape(10, 10)
    tau = perturb_and_map.exact_tau(scores).reshape(10, 10)
    total = perm(weights)
    for i, j in ((0, 0), (3, 8), (9, 2)):
        minor = np.delete(np.delete(weights, i, axis=0), j, axis=1)
        assert tau[i, j] == pytest.approx(weights[i, j] * perm(minor) / total, rel=1e-9)


@pytest.mark.parametrize(
    ("method", "options"), [("fw", {}), ("fw", {"variant": "plain"}), ("perturb", {})]
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

    scores = perturb_and_map.graph_weights(1)
    marginals(BipartiteMatching((10, 10), 1.0), scores, method, callback=watch, **options)
    assert seen[-1] == 12


def test_errors_stay_where_a_method_ends():
    scores = np.zeros(100)  # the start is the optimum
    truth = perturb_and_map.exact_tau(scores)
    errors, _ = perturb_and_map.errors_by_calls("FW", scores, truth, 5, 0)
    assert errors.shape == (5,)
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)


def test_places_that_are_lost_are_named():
    ours, theirs = [[1.0, 3.0], [1.0, 5.0]], [[2.0, 4.0], [2.0, 4.0]]
    assert perturb_and_map.not_below(ours, theirs, (5, 10)) == ["10: 4.0000 against 4.0000"]


# ---------------------------------------------------------------------- belief propagation
def test_belief_propagation(tmp_path, capsys):
    held = belief_propagation.main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert set(held) == {"auto and BP and FW", "auto and BP's compiled part alone"}
    assert "time of BP / time of FW" in printed
    numbers, rows = stored(tmp_path, "belief_propagation")
    assert (tmp_path / "belief_propagation.png").exists()
    assert numbers["problems"] == ["rand-8", "rand-12", "lda-6"]
    assert len(rows) == len(numbers["cells"]) == 3 * 2 * 4 * 4
    assert numbers["truth_gap"] < 1e-9
    assert all(c["reached"] for c in numbers["cells"] if c["method"] != "FW")
    # A smaller error never takes less time, in any one graph.
    for method in belief_propagation.METHODS:
        times = [c["microseconds"] for c in numbers["cells"]
                 if (c["problem"], c["graph"], c["method"]) == ("rand-12", 0, method)]  # fmt: skip
        assert times == sorted(times)


def cells_of(problem, times, reached=True):
    return [
        belief_propagation.Reached(problem, graph, method, level, reached or method != "FW", 1, t)
        for method, spent in times.items()
        for graph in range(2)
        for level, t in zip(belief_propagation.LEVELS, spent, strict=True)
    ]


def test_speed_tables_tell_what_was_not_reached_and_where_auto_is_slower(capsys):
    times = {"FW": [1, 8, 8, 8], "BP": [2, 2, 2, 2], "auto": [1, 1, 1, 3],
             "BP, compiled part": [2, 2, 2, 2]}  # fmt: skip
    levels = list(belief_propagation.LEVELS)
    cells = cells_of("rand-20", times, reached=False)
    found = belief_propagation.Speeds(["rand-20"], 2, levels, 9, 0.0, cells)
    belief_propagation.print_times(found)
    belief_propagation.print_ratios(found)
    held = belief_propagation.verdicts(found)
    printed = capsys.readouterr().out
    assert ">8 [1]" in printed
    assert "rand-20 at 0.001: 2 graphs (FW)" in printed
    assert "<0.25 (1.56)" in printed  # beside the published ratio
    assert held == {"auto and BP and FW": False, "auto and BP's compiled part alone": False}
    assert "NO (not at rand-20 at 0.001: 1.50 times BP's time)" in printed


def test_fewer_steps_take_the_same_way():
    table = belief_propagation.random_graphs(9, 1)[0]
    structure = BipartiteMatching((9, 9), 1.0)
    truth = structure.marginals(table.ravel(), None, 1e-12).tau
    levels = (0.05, 0.01)
    errors = belief_propagation.frank_wolfe_errors(structure, table.ravel(), truth, levels, 90)
    assert list(errors) == belief_propagation.step_counts(90)[: len(errors)]
    for k in (0, 1, 4, 8):
        tau = frank_wolfe_marginals(structure, table.ravel(), structure.interior(), 0.0, k)[0]
        assert errors[k] == pytest.approx(np.abs(tau - truth).max(), rel=1e-12)


def test_fewest_steps_of_each_level():
    errors = {0: 0.9, 1: 0.4, 2: 0.5, 4: 0.04}
    first = belief_propagation.first_reaching
    assert first(errors, (0.5, 0.1)) == {1: 0.4, 4: 0.04}
    assert first(errors, (0.5, 0.01)) == {1: 0.4, 4: 0.04}  # out of reach: the most there are


def test_compiled_part_gives_the_same_beliefs():
    table = belief_propagation.random_graphs(11, 1)[0]
    for sweeps in (1, 5):
        whole = belief_propagation.belief_propagation(table, 1.0, max_sweeps=sweeps, tol=0.0)
        found = belief_propagation.compiled_part(table, sweeps)
        np.testing.assert_array_equal(found, whole.beliefs)


def test_step_counts_grow_geometrically():
    assert belief_propagation.step_counts(1) == [0, 1]
    assert belief_propagation.step_counts(8) == [0, 1, 2, 3, 4, 6, 8]
    assert belief_propagation.step_counts(100)[-2:] == [91, 100]


def test_longer_work_takes_more_time():
    small, large = np.ones(100), np.ones(1_000_000)
    found = belief_propagation.cpu_seconds({"a": large.sum, "b": small.sum}, 3)
    assert 0.0 < found["b"] < found["a"]


# ---------------------------------------------------------------------- topics
def test_topic_counts_follow_their_distributions():
    counts, topics = make_topic_counts(3000, 30, 4, 50, random_state=1)
    assert counts.shape == (3000, 30)
    assert (counts.sum(axis=1) == 50).all()
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    # Shares of topics are 1/4 each on average, so words follow the mean of the topics.
    np.testing.assert_allclose(counts.mean(axis=0) / 50, topics.mean(axis=0), atol=0.012)
    again, _ = make_topic_counts(3000, 30, 4, 50, random_state=1)
    np.testing.assert_array_equal(counts, again)
    assert (counts != make_topic_counts(3000, 30, 4, 50, random_state=2)[0]).any()


def test_topic_similarity_is_a_cosine():
    rng = np.random.default_rng(0)
    first, second = rng.random((3, 8)), 5.0 * rng.random((4, 8))
    np.testing.assert_allclose(topic_similarity(first, second), cosine_similarity(first, second))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0, 2.0], [[1.0, 2.0]], "first: expected weights"),
        ([[1.0, -2.0]], [[1.0, 2.0]], "first: expected weights"),
        ([[1.0, 2.0]], [[np.nan, 2.0]], "second: expected weights"),
        ([[1.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]], "second: topic 1 has no words"),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], "second: expected 2 words like first, got 3"),
    ],
)
def test_bad_topics_are_named(first, second, message):
    with pytest.raises(ValueError, match=message):
        topic_similarity(first, second)


@pytest.mark.parametrize("name", ["n_documents", "n_words", "n_topics", "n_tokens"])
def test_sizes_of_text_are_checked(name):
    with pytest.raises(ValueError, match=f"{name}: expected at least 1, got 0"):
        make_topic_counts(**{name: 0})


# ---------------------------------------------------------------------- pictures
def test_pictures_refuse_curves_of_another_length():
    short = {"exact": [1.0], "Bethe": [1.0], "RW": [1.0]}
    with pytest.raises(ValueError, match=r"expected values of shape \(n_repetitions, 2\)"):
        plot_likelihoods((1, 2), {"a": short}, {"a": short})
    with pytest.raises(ValueError, match=r"expected values of shape \(n_repetitions, 2\)"):
        plot_cross_bounds((1, 2), {"a": {"RW": short}})
    with pytest.raises(ValueError, match=r"expected values of shape \(n_repetitions, 1\)"):
        plot_map_calls((1,), {"a": {"FW": [[1.0, 2.0]]}}, (1.0,), {})
