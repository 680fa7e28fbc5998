"""The experiments on inference, from end to end, and the parts their numbers rest on."""

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from mlestruct.algorithms.frank_wolfe import frank_wolfe_marginals
from mlestruct.algorithms.matching.belief_propagation import belief_propagation
from mlestruct.datasets.topics import make_topic_counts, topic_similarity
from mlestruct.inference import marginals
from mlestruct.paper import (
    belief_speeds,
    belief_timing,
    likelihood_points,
    map_call_errors,
    perturb_and_map,
    synthetic_likelihoods,
)
from mlestruct.paper.belief_propagation import BeliefPropagation
from mlestruct.paper.figures.inference import (
    plot_cross_bounds,
    plot_likelihoods,
    plot_map_calls,
    plot_speed,
)
from mlestruct.paper.perturb_and_map import PerturbAndMap
from mlestruct.paper.store import file_name, plain
from mlestruct.paper.synthetic_likelihoods import SyntheticLikelihoods
from mlestruct.structures import BipartiteMatching

EXPERIMENTS = (SyntheticLikelihoods, PerturbAndMap, BeliefPropagation)


def perm(a):
    """The permanent, by Ryser's formula."""
    n = len(a)
    chosen = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return float(((-1.0) ** (n - chosen.sum(axis=1))) @ (chosen @ a.T).prod(axis=1))


def stored(value):
    """As it comes back from a file."""
    return json.loads(json.dumps(plain(value), allow_nan=False))


def run(experiment, **changes):
    """(setting, found, outcome) of the quick setting with some entries changed."""
    setting = stored(experiment.setting(True) | changes)
    found = {part.name: stored(part.work()) for part in experiment.parts(setting)}
    return setting, found, experiment.outcome(setting, found)


def claims(outcome):
    return {verdict.claim: verdict.holds for verdict in outcome.verdicts}


def table(outcome, name):
    return next(one for one in outcome.tables if one.name == name)


def check_outcome(outcome):
    """What every outcome must be like."""
    for one in outcome.tables:
        assert {len(row) for row in one.rows} == {len(one.head)}
        stored(one.rows)
    stored(outcome.numbers)
    for one in outcome.comparisons:
        assert one.verdict != "worse" or one.remark
    names = [file_name(one.name) for one in (*outcome.tables, *outcome.pictures)]
    assert len(set(names)) == len(names)
    for picture in outcome.pictures:
        picture.figure.draw_without_rendering()


@pytest.mark.parametrize("kind", EXPERIMENTS)
@pytest.mark.parametrize("quick", [True, False])
def test_settings_are_plain_and_parts_have_names_of_their_own(kind, quick):
    setting = kind().setting(quick)
    assert stored(setting) == setting
    assert "generated" in setting["data"]
    names = [file_name(part.name) for part in kind().parts(setting)]
    assert len(set(names)) == len(names)


# ---------------------------------------------------------------------- likelihoods
@pytest.fixture(scope="module")
def synthetic():
    return run(SyntheticLikelihoods(), sizes=[10, 30], seeds=2)


def test_synthetic_likelihoods(synthetic):
    setting, found, outcome = synthetic
    check_outcome(outcome)
    assert outcome.numbers["inequalities"] == {"proven": 80, "open": 0, "failed": 0}
    assert outcome.numbers["fits that did not converge"] == 0
    assert all(claims(outcome).values())
    assert len(outcome.verdicts) == 5
    assert "80 inequalities" in outcome.summary[0]
    rows = table(outcome, "intervals")
    assert len(rows.rows) == 2 * 2 * 2
    for row in rows.rows:
        values = dict(zip(rows.head, row, strict=True))
        low, high = (values[f"{kind} at exact, lower"] for kind in ("RW", "Bethe"))
        assert low < values["exact at exact, lower"] < high
    # Means of the repetitions, from the stored intervals.
    shown = table(outcome, "optima, low SNR")
    ends = [found[f"low SNR, seed {seed}"][1]["values"]["RW optimum"] for seed in range(2)]
    assert shown.rows[1][0] == 30
    assert shown.rows[1][1] == pytest.approx(np.mean(ends))
    assert setting["regimes"] == {"high SNR": -2.0, "low SNR": -0.5}


def test_drawn_matchings_follow_their_weights():
    drawn = likelihood_points.draw(3, -1.0, 4000, 0)
    weights = np.exp(-1.0 * (1.0 - np.eye(3)))
    share = weights[0, 0] * perm(weights[1:, 1:]) / perm(weights)
    assert (drawn[:, 0] == 0).mean() == pytest.approx(share, abs=0.03)
    assert (np.sort(drawn, axis=1) == np.arange(3)).all()


def test_exact_likelihood_is_that_of_a_permanent():
    rng = np.random.default_rng(0)
    theta, n, alpha = rng.normal(size=100), 7, 0.6
    labels = np.array([rng.permutation(10) for _ in range(n)])
    matched = np.zeros((10, 10))
    for y in labels:
        matched[np.arange(10), y] += 1.0
    found = likelihood_points.likelihoods_at(theta, matched.ravel(), n, alpha)
    log_z = np.log(perm(np.exp(theta.reshape(10, 10))))
    expected = sum(theta.reshape(10, 10)[np.arange(10), y].sum() - log_z for y in labels)
    expected = (expected - alpha / 2 * theta @ theta) / n
    assert found["exact"].value == pytest.approx(expected, rel=1e-10)
    assert found["RW"].upper < expected < found["Bethe"].lower


def test_optimum_of_an_estimate_is_its_likelihood_there():
    drawn = np.array([np.random.default_rng(k).permutation(10) for k in range(15)])
    point = likelihood_points.one_point("high SNR", 0, drawn, 1.0, 1e-9)
    for kind in likelihood_points.KINDS:
        best, there = point.values[f"{kind} optimum"], point.values[f"{kind} at {kind}"]
        assert there.value == pytest.approx(best.value, abs=1e-6)
        for other in likelihood_points.KINDS:
            assert point.values[f"{kind} at {other}"].lower <= best.upper + 1e-9


@given(st.tuples(*[st.integers(-20, 20)] * 4))
def test_inequality_is_proven_open_or_failed(ends):
    a, b = sorted(ends[:2]), sorted(ends[2:])
    found = likelihood_points.Interval(*a).compare(likelihood_points.Interval(*b))
    pairs = [x <= y for x in a for y in b]
    assert found == ("proven" if all(pairs) else "open" if any(pairs) else "failed")


def test_broken_sandwich_is_told(synthetic):
    setting, found, _ = deepcopy(synthetic)
    values = found["high SNR, seed 0"][0]["values"]
    values["RW at RW"], values["Bethe at RW"] = values["Bethe at RW"], values["RW at RW"]
    verdict = synthetic_likelihoods.sandwich(synthetic_likelihoods.collected(setting, found))
    assert not verdict.holds
    assert "78 of 80 inequalities proven" in verdict.remark
    assert "failed: RW at RW <= exact at RW at high SNR, 10 samples, seed 0" in verdict.remark


def test_worse_estimates_are_told(synthetic):
    """A Bethe estimate far below the others breaks the claims about it."""
    setting, found, _ = deepcopy(synthetic)
    found["low SNR, seed 0"][0]["values"]["exact at Bethe"] = [-99.0, -98.0]
    found["low SNR, seed 0"][0]["not_converged"] = 2
    likelihoods = synthetic_likelihoods.collected(setting, found)
    verdicts = synthetic_likelihoods.verdicts(likelihoods)
    lost = [verdict.claim for verdict in verdicts if not verdict.holds]
    assert lost == [
        "RW <= exact <= Bethe, at the optima and at every estimate",
        "low SNR: the Bethe estimate is better than the RW estimate",
        "low SNR: all estimates have about the same likelihood",
    ]
    assert (
        "2 of 24 fits did not reach their tolerance"
        in synthetic_likelihoods.summary(likelihoods)[-1]
    )
    assert synthetic_likelihoods.percent(0.0028712) == "0.29 %"


# ---------------------------------------------------------------------- perturb-and-MAP
def test_perturb_and_map():
    changes = {"graphs": 2, "calls": [1, 5, 40], "betas": [0.25, 1.0, 30.0], "many": 300}
    setting, found, outcome = run(PerturbAndMap(), **changes)
    check_outcome(outcome)
    for beta in (10.0, 0.25):
        errors = found[perturb_and_map.trace_name(beta)]
        theirs = np.mean(errors["perturb-and-MAP"], axis=0)
        for name in ("FW", "FW, plain"):
            below = bool((np.mean(errors[name], axis=0) < theirs).all())
            claim = f"beta = {beta:g}: {name} is more accurate than perturb-and-MAP after every "
            assert claims(outcome)[claim + "number of calls"] == below
    assert claims(outcome)["beta = 0.25: Frank-Wolfe converges more quickly"]
    assert claims(outcome)["temperature affects the two differently"]
    long = table(outcome, "errors")
    assert len(long.rows) == 2 * 3 * 2 * 3 + 6 * 2 * 3
    # Frank-Wolfe comes close to the optimum that it is on its way to.
    shown = table(outcome, "many calls")
    plain_, optimum = (shown.head.index(name) for name in ("FW, plain", "optimum, rho = 1"))
    for row in shown.rows[:2]:
        assert row[plain_] == pytest.approx(row[optimum], abs=0.005)
    means = np.mean(found[perturb_and_map.limit_name(1.0)]["FW, plain"])
    assert shown.rows[1][plain_] == pytest.approx(means)
    assert setting["rhos"] == [1.0, 0.95, 0.5]


def test_parts_do_not_depend_on_what_ran_before():
    setting = PerturbAndMap().setting(True) | {"graphs": 1, "many": 20}
    again = [map_call_errors.limited(setting, 2.0) for _ in range(2)]
    assert again[0] == again[1]


def test_exact_marginals_are_ratios_of_permanents():
    setting = PerturbAndMap().setting(True)
    scores = map_call_errors.graph_scores(setting, 3.0)[0]
    weights = np.exp(scores).reshape(10, 10)
    tau = map_call_errors.exact_tau(scores).reshape(10, 10)
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

    scores = map_call_errors.graph_scores(PerturbAndMap().setting(True), 1.0)[1]
    marginals(BipartiteMatching((10, 10), 1.0), scores, method, callback=watch, **options)
    assert seen[-1] == 12


def test_errors_stay_where_a_method_ends():
    scores = np.zeros(100)  # the start is the optimum
    truth = map_call_errors.exact_tau(scores)
    errors, _ = map_call_errors.errors_by_calls("FW", scores, truth, 5, 0)
    assert errors.shape == (5,)
    np.testing.assert_allclose(errors, 0.0, atol=1e-12)


def test_places_that_are_lost_are_named():
    ours, theirs = [[1.0, 3.0], [1.0, 5.0]], [[2.0, 4.0], [2.0, 4.0]]
    assert perturb_and_map.not_below(ours, theirs, (5, 10)) == ["10: 4.0000 against 4.0000"]


def test_verdicts_on_temperature_follow_the_errors():
    setting = {"betas": [1.0, 10.0], "many": 7}
    alike = {"FW, plain": [[0.1, 0.2]], "perturb-and-MAP": [[0.2, 0.5]]}
    assert not perturb_and_map.temperature_matters(setting, alike).holds
    assert perturb_and_map.more_accurate_overall(setting, alike).holds
    apart = {"FW, plain": [[0.1, 0.9]], "perturb-and-MAP": [[0.1, 0.2]]}
    found = perturb_and_map.temperature_matters(setting, apart)
    assert found.holds
    assert "grows by a factor of 9, that of perturb-and-MAP by 2" in found.remark
    assert not perturb_and_map.more_accurate_overall(setting, apart).holds


def test_calls_to_the_error_of_perturb_and_map():
    setting = {"calls": [1, 10, 100]}
    errors = {"FW, plain": [[0.9, 0.2, 0.1]], "perturb-and-MAP": [[0.9, 0.5, 0.3]]}
    sooner = perturb_and_map.converges_sooner(setting, 1.0, errors)
    assert sooner.holds
    assert sooner.remark.endswith("after 100 calls, 0.3, takes it 10")
    never = errors | {"FW, plain": [[0.9, 0.8, 0.7]]}
    later = perturb_and_map.converges_sooner(setting, 1.0, never)
    assert not later.holds
    assert later.remark.endswith("takes it more than 100")


# ---------------------------------------------------------------------- belief propagation
def test_belief_propagation():
    changes = {"problems": ["rand-8", "rand-12", "lda-6"], "documents": 60, "steps": 64}
    _, found, outcome = run(BeliefPropagation(), repetitions=2, **changes)
    check_outcome(outcome)
    assert not outcome.comparisons  # other problems than the published ones
    assert len(table(outcome, "times").rows) == 3 * 2 * 4 * 4
    assert outcome.numbers["largest certified gap of log Z at the true marginals"] < 1e-9
    for graphs in found.values():
        for graph in graphs:
            assert all(c["reached"] for c in graph["cells"] if c["method"] != "FW")
            assert all(spent > 0.0 for spent in graph["pieces"].values())
            # A smaller error never takes less time, in any one graph.
            for method in belief_timing.METHODS:
                times = [c["microseconds"] for c in graph["cells"] if c["method"] == method]
                assert times == sorted(times)


TIMES = {
    "FW": [1.0, 8.0, 8.0, 8.0],
    "BP": [2.0, 2.0, 2.0, 2.0],
    "auto": [1.0, 1.0, 1.0, 3.0],
    "BP, compiled part": [2.0, 2.0, 2.0, 2.0],
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
        "pieces": {"sweep": 0.5, "step": 4.0, "exponential": 0.25},
        "truth_gap": 0.0,
    }  # fmt: skip
    return setting, {problem: [one] * graphs for problem in problems}


def test_speed_tables_tell_what_was_not_reached_and_where_auto_is_slower():
    setting, found = made_up(missed={("FW", 0.001)})
    outcome = BeliefPropagation().outcome(setting, found)
    check_outcome(outcome)
    assert table(outcome, "microseconds").rows[0] == ["rand-20", "FW", 1, 8, 8, ">8"]
    assert table(outcome, "ratios").rows == [
        ["rand-20", "FW, published", "3.37", "1.56", "1.12", "0.25"],
        ["rand-20", "FW", "2", "0.25", "0.25", "<0.25"],
        ["rand-20", "auto", "2", "2", "2", "0.667"],
    ]
    assert outcome.numbers["not reached"] == ["rand-20 at 0.001 by FW on 10 of 10 graphs"]
    auto = outcome.verdicts[2]
    assert not auto.holds
    assert "rand-20 at 0.001: 1.50 times BP's time" in auto.remark
    assert [verdict.holds for verdict in outcome.verdicts] == [True, True, False, False]
    assert "below the published one at 3 of 4 problems and errors" in outcome.summary[1]
    assert "upper bound" in outcome.comparisons[3].remark
    assert "upper bound" not in outcome.comparisons[2].remark


def test_all_published_ratios_are_compared_twice():
    problems = list(belief_speeds.PUBLISHED)
    setting, found = made_up(problems)
    compared = belief_speeds.comparisons(belief_speeds.Speeds(setting, found))
    assert len(compared) == 2 * 20
    frank_wolfe, auto = compared[:20], compared[20:]
    assert {one.better for one in frank_wolfe + auto} == {"none"}
    assert [one.published for one in frank_wolfe] == [one.published for one in auto]
    assert auto[0].ours == 2.0
    assert auto[0].verdict == "other"
    assert "np.exp of all scores alone takes 0.2 us" in auto[0].remark
    assert auto[1].ours > auto[1].published
    assert "np.exp" not in auto[1].remark
    assert "1 sweep of 0.5 us and 2.0 us in all" in frank_wolfe[0].remark
    assert "take 3.4 us, as long as 7 sweeps" in frank_wolfe[0].remark
    generated = ["generated text" in one.remark for one in compared]
    assert generated == ["lda" in one.what for one in compared]
    fewer = belief_speeds.Speeds(*made_up(problems, graphs=3))
    assert not belief_speeds.comparisons(fewer)


def test_digits_of_published_ratios():
    levels = belief_speeds.PUBLISHED_LEVELS
    assert belief_speeds.published("rand-50", levels)[:2] == [(18.0, 0.1), (11.76, 0.01)]
    assert belief_speeds.published("lda-20", levels)[-1] == (0.1, 0.01)
    assert belief_speeds.published("rand-50", levels[:2]) == []
    assert belief_speeds.published("rand-51", levels) == []


def test_ratio_of_means_lies_within_the_range_of_graphs():
    setting, found = made_up(graphs=2)
    slow = made_up(times=TIMES | {"auto": [4.0, 4.0, 4.0, 4.0]})[1]["rand-20"][0]
    speeds = belief_speeds.Speeds(setting, {"rand-20": [found["rand-20"][0], slow]})
    assert belief_speeds.spread(speeds, "rand-20", "auto", 0) == (0.5, 2.0)
    assert speeds.ratio("rand-20", "BP", "auto")[0] == pytest.approx(2.0 / 2.5)


def test_fewer_steps_take_the_same_way():
    scores = belief_timing.random_graphs(9, 1, 2009)[0].ravel()
    structure = BipartiteMatching((9, 9), 1.0)
    truth = structure.marginals(scores, None, 1e-12).tau
    errors = belief_timing.frank_wolfe_errors(structure, scores, truth, (0.05, 0.01), 90)
    assert list(errors) == belief_timing.step_counts(90)[: len(errors)]
    for k in (0, 1, 4, 8):
        tau = frank_wolfe_marginals(structure, scores, structure.interior(), 0.0, k)[0]
        assert errors[k] == pytest.approx(np.abs(tau - truth).max(), rel=1e-12)


def test_fewest_steps_of_each_level():
    errors = {0: 0.9, 1: 0.4, 2: 0.5, 4: 0.04}
    first = belief_timing.first_reaching
    assert first(errors, (0.5, 0.1)) == {1: 0.4, 4: 0.04}
    assert first(errors, (0.5, 0.01)) == {1: 0.4, 4: 0.04}  # out of reach: the most there are


def test_compiled_part_gives_the_same_beliefs():
    scores = belief_timing.random_graphs(11, 1, 2009)[0]
    for sweeps in (1, 5):
        whole = belief_propagation(scores, 1.0, max_sweeps=sweeps, tol=0.0)
        found = belief_timing.compiled_part(scores, sweeps)
        np.testing.assert_array_equal(found, whole.beliefs)


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
    with pytest.raises(ValueError, match=r"expected values of shape \(2,\)"):
        plot_speed((0.1, 0.01), {"a": {"FW": [1.0]}}, {"a": {"FW": [True]}}, {"a": {}}, {})


def test_legend_of_speed_names_every_curve_once():
    times = {"FW": [1.0, 2.0], "BP": [3.0, 3.0]}
    reached = {"FW": [True, False], "BP": [True, True]}
    problems = ("a", "b")
    figure = plot_speed(
        (0.1, 0.01),
        dict.fromkeys(problems, times),
        dict.fromkeys(problems, reached),
        {problem: {"FW": [3.0, 1.5]} for problem in problems},
        {"a": [2.0, 1.0]},
    )
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["FW", "BP", "FW, published", "FW, not yet reached"]
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["a", "b"]
