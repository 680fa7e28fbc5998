"""The experiments on landmarks: protocol, bookkeeping, and small runs from end to end."""

import json
import os
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from mlestruct.paper import mismatch
from mlestruct.paper.landmark_losses import (
    ONE,
    PUBLISHED_BY_GAP,
    PUBLISHED_BY_RHO,
    TWO,
    HouseHotel,
    Loss,
    RhoTable,
    last_digit,
    little_difference,
    losses_by_role,
    mean_of,
)
from mlestruct.paper.landmarks import (
    GAPS,
    REAL,
    Thirds,
    common_setting,
    configurations,
    cross_validated,
    estimator,
    load_pairs,
    others,
    tuned_losses,
)
from mlestruct.paper.parts import part_name
from mlestruct.paper.store import plain

real_data = pytest.mark.skipif(
    not os.environ.get("MLESTRUCT_DATA"), reason="MLESTRUCT_DATA names no folder"
)
EXPERIMENTS = (HouseHotel, RhoTable, mismatch.Mismatch)
SMALL = {
    "scene": {
        "n_landmarks": 6, "n_frames": 20, "degrees_per_frame": 3.0, "noise": 0.03, "seed": 1,
    },
    "gaps": [5, 8],
    "penalties": [1.0, 0.01],
    "hinge penalties": [1.0, 0.01],
    "passes": [1, 5],
    "decays": [0.0],
    "algorithms": {"gap": 5, "rho": 1.0, "penalty": 0.1, "seconds": 0.2},
    "double loop": {"gap": 5, "penalties": [1.0, 0.1], "sweeps": 50},
}  # fmt: skip


def small(experiment):
    setting = experiment.setting(quick=True) | SMALL
    return plain(setting | {"gaps": [5]} if experiment.name == "rho" else setting)


@cache
def run(make):
    """The outcome, and the results it is made from, as they come back from the disk."""
    experiment = make()
    setting = small(experiment)
    work = {part.name: part.work() for part in experiment.parts(setting)}
    found = json.loads(json.dumps(plain(work)))
    return experiment.outcome(setting, found), found


# ---------------------------------------------------------------------- settings
@pytest.mark.parametrize("make", EXPERIMENTS)
def test_without_data_the_setting_says_that_it_generates_and_why(make, monkeypatch, tmp_path):
    monkeypatch.setenv("MLESTRUCT_DATA", str(tmp_path))
    setting = make().setting(quick=False)
    assert setting["data"] == "generated"
    assert "cmu_landmarks/house.csv" in setting["why"]
    assert str(tmp_path) not in json.dumps(plain(setting))
    assert make().setting(quick=True)["data"] == "generated"


@pytest.mark.parametrize("quick", [False, True])
def test_rivals_may_try_at_least_as_many_configurations(quick):
    setting = HouseHotel().setting(quick)
    numbers = {m: len(configurations(setting, m)) for m in setting["methods"]}
    every_rho = sum(n for method, n in numbers.items() if method.startswith("rho"))
    if not quick:
        assert min(numbers["hinge"], numbers["perceptron"]) >= every_rho
    assert min(numbers["hinge"], numbers["perceptron"]) >= numbers["rho=1"]


@pytest.mark.parametrize("method", ["hinge", "rho=0.5"])
def test_configurations_go_from_strong_to_weak(method):
    penalties = [c["penalty"] for c in configurations(common_setting(False, ["house"]), method)]
    assert penalties == sorted(penalties, reverse=True)


# ---------------------------------------------------------------------- the protocol
def test_thirds_share_no_pair_and_lack_none():
    setting = small(RhoTable())
    pairs = load_pairs(setting, "scene", 5)
    thirds = Thirds(pairs)
    frames = [frame for part in thirds.parts for frame in part.frames]
    assert sorted(frames) == sorted(pairs.frames)
    assert sum(thirds.sizes) == len(pairs) == 15
    assert [part.frames[0][0] % 3 for part in thirds.parts] == [0, 1, 2]
    X, Y = thirds.samples([0, 2], thirds.scale([0, 2]))
    assert len(X) == len(Y) == thirds.sizes[0] + thirds.sizes[2]
    rows = np.concatenate([x.reshape(-1, x.shape[2]) for x in X])
    assert rows.std(axis=0).mean() == pytest.approx(1.0)


def random_losses(seed, n=5):
    rng = np.random.default_rng(seed)
    return [
        [None if a == b else rng.integers(0, 4, size=n).astype(float).tolist() for b in range(3)]
        for a in range(3)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_choices_agree_with_enumeration(seed):
    losses, sizes = random_losses(seed), [7, 7, 6]
    for test in range(3):
        a, b = (third for third in range(3) if third != test)
        total = [
            (losses[a][b][c] * sizes[b] + losses[b][a][c] * sizes[a]) / (sizes[a] + sizes[b])
            for c in range(5)
        ]
        best, loss = cross_validated(losses, sizes, test)
        assert (best, loss) == (total.index(min(total)), pytest.approx(min(total)))
    expected = []
    for train, validate, test in permutations(range(3)):
        row = losses[train][validate]
        expected.append(losses[train][test][row.index(min(row))])
    assert losses_by_role(losses) == expected


@pytest.mark.parametrize("method", ["rho=0.5", "hinge", "perceptron"])
def test_losses_are_counted_on_pairs_that_were_not_learned_from(method):
    setting = small(HouseHotel())
    found = tuned_losses(setting, "scene", 8, method)
    thirds = Thirds(load_pairs(setting, "scene", 8))
    for test in range(3):
        scale = thirds.scale(others(test))
        train = thirds.samples(others(test), scale)
        fitted = estimator(setting, method, found["chosen"][test], len(train[0])).fit(*train)
        wrong = []
        for x, y in zip(*thirds.samples([test], scale), strict=True):
            (partner,), scores = fitted.predict([x]), x @ fitted.coef_
            best = scores[linear_sum_assignment(scores, maximize=True)].sum()  # there may be ties
            assert scores[np.arange(len(y)), partner].sum() == pytest.approx(best)
            wrong.append(np.mean(partner != y))
        assert found["test"][test] == pytest.approx(np.mean(wrong))
    assert found["fits"] == 3 * len(configurations(setting, method)) + 3
    assert [found["losses"][a][a] for a in range(3)] == [None] * 3


# ---------------------------------------------------------------------- published numbers
def test_published_columns_have_the_means_they_are_known_by():
    means = {
        name: {key: float(np.mean([float(x) for x in texts])) for key, texts in columns.items()}
        for name, columns in PUBLISHED_BY_GAP.items()
    }
    assert means["house"] == pytest.approx({"FW": 0.032, "lin.+l.": 0.039}, abs=5e-4)
    assert means["hotel"] == pytest.approx({"FW": 0.098, "lin.+l.": 0.085}, abs=5e-4)


@pytest.mark.parametrize(("printed", "digit"), [("0.0049", 1e-4), ("0.12", 1e-2), ("0.0", 1e-4)])
def test_digits(printed, digit):
    assert last_digit(printed) == pytest.approx(digit)


def test_published_losses_fit_test_sets_of_a_third():
    """Those that are a whole number of 30 landmarks per pair, by the number of test pairs."""
    fitting = {0: 0, -1: 0, 1: 0}
    for name, frames in (("hotel", 101), ("house", 111)):
        for printed in PUBLISHED_BY_GAP[name].values():
            for gap, text in zip(GAPS, printed, strict=True):
                decimals = {"0": 4, "0.0": 4}.get(text, len(text) - 2)
                for more in fitting:
                    count = 30 * ((frames - gap) // 3 + more)
                    losses = {round(wrong / count, decimals) for wrong in range(count + 1)}
                    fitting[more] += float(text) in losses
    assert fitting[0] == 38  # all but two, of the hotel at a gap of 50
    assert fitting[0] > max(fitting[-1], fitting[1])


def test_means_over_gaps_are_taken_third_by_third():
    found = mean_of([Loss((0.1,), (0.0, 0.2)), Loss((0.3,), (0.4, 0.2))])
    assert found.thirds == pytest.approx((0.2, 0.2))
    assert found.roles == pytest.approx((0.2,))
    assert Loss((), (0.01, 0.03)).range(TWO) == (0.01, 0.03)


def real_setting(experiment):
    """The setting of a full run with data, whether there is any or not."""
    setting = experiment.setting(quick=False) | {"data": REAL}
    names = ["house", "scene"] if experiment.name == "rho" else ["hotel", "house"]
    return setting | {"sequences": names}


SOLVED = {"solver": "s", "objective": -5.0, "gap": 0.1, "seconds": 1.0, "calls": 3}
EXTRA = {
    "algorithms": dict.fromkeys(("auto", "Algorithm 1", "Algorithm 1, line search"), SOLVED),
    "double loop": [
        {"penalty": penalty, "runs": 9, "unconverged": bad, "converged": not bad, "value": -1.0,
         "optimum": -1.0, "seconds": 1.0, "auto": 0.5}
        for penalty, bad in ((1.0, 0), (0.1, 2), (0.01, 4))
    ],
}  # fmt: skip


def invented(rng, setting, method="rho=1"):
    n = len(configurations(setting, method))
    losses = [
        [None if a == b else rng.uniform(0.0, 0.3, n).tolist() for b in range(3)] for a in range(3)
    ]
    chosen = [cross_validated(losses, [9, 9, 8], third) for third in range(3)]
    choices = configurations(setting, method)
    return {
        "losses": losses, "sizes": [9, 9, 8], "test": rng.uniform(0.0, 0.3, 3).tolist(),
        "chosen": [choices[k] for k, _ in chosen], "validation": [loss for _, loss in chosen],
        "seconds": 1.0, "fits": 3, "unconverged": 1, "inspected": [],
    }  # fmt: skip


def test_every_published_loss_is_compared():
    experiment, rng = HouseHotel(), np.random.default_rng(0)
    setting = real_setting(experiment)
    found = EXTRA | {
        part.name: invented(rng, setting, part.name.split("method ")[1])
        for part in experiment.parts(setting)
        if "method" in part.name
    }
    outcome = experiment.outcome(setting, found)
    assert len(outcome.comparisons) == 2 * 44
    assert {row.whose for row in outcome.comparisons} == {"ours", "rival"}
    what = "house, gap 70: loss, CRF at rho = 1"
    one, two = (c for c in outcome.comparisons if c.what == what)
    assert (one.published, one.protocol, two.protocol) == (0.051, ONE, TWO)
    part = found[part_name(sequence="house", gap=70, method="rho=1")]
    assert two.ours == pytest.approx(np.mean(part["test"]))
    assert one.ours == pytest.approx(np.mean(losses_by_role(part["losses"])))
    assert [claim.whose for claim in outcome.claims] == ["paper"] * 3 + ["ours", "paper", "ours"]
    loop = outcome.claims[4]
    assert loop.holds  # fails at two of three penalties
    assert "fails at 2 of 3 penalties" in loop.measured
    table = next(t for t in outcome.tables if t.name == f"loss-hotel, {TWO}")
    assert table.rows[-1][1] == pytest.approx(
        np.mean(
            [
                found[part_name(sequence="hotel", gap=gap, method="rho=1")]["test"]
                for gap in setting["gaps"]
            ]
        )
    )


def test_every_published_rho_is_compared():
    experiment, rng = RhoTable(), np.random.default_rng(1)
    setting = real_setting(experiment)
    found = {part.name: invented(rng, setting) for part in experiment.parts(setting)} | EXTRA
    outcome = experiment.outcome(setting, found)
    for protocol in (ONE, TWO):
        rows = [row for row in outcome.comparisons if row.protocol == protocol]
        assert [row.published for row in rows] == list(PUBLISHED_BY_RHO.values())
    assert ["synthetic" in claim.sentence for claim in outcome.claims[:2]] == [False, True]


def test_rho_makes_little_difference_if_thirds_make_more():
    near = {0.5: Loss((0.0, 0.2), (0.1,)), 1.0: Loss((0.05, 0.25), (0.1,))}
    far = {0.5: Loss((0.0, 0.01), (0.1,)), 1.0: Loss((0.2, 0.21), (0.1,))}
    assert little_difference("house", 50, near).holds
    assert not little_difference("scene", 50, far).holds


# ---------------------------------------------------------------------- confidence
def test_descriptions_of_points_agree_with_a_loop():
    rng = np.random.default_rng(3)
    tau = rng.dirichlet(np.ones(5), size=5)
    predicted, truth = rng.permutation(5), rng.permutation(5)
    for i, found in enumerate(mismatch.described(predicted, truth, tau)):
        others_of = [tau[i, j] for j in range(5) if j != predicted[i]]
        place = sorted(tau[i], reverse=True).index(tau[i, truth[i]]) + 1
        expected = [predicted[i] == truth[i], tau[i, predicted[i]], tau[i, truth[i]], place]
        np.testing.assert_allclose(found, [*expected, max(others_of)], atol=1e-8)


def test_numbers_of_confidence():
    points = [[1, 0.9, 0.9, 1, 0.1], [0, 0.6, 0.4, 2, 0.4], [0, 0.9, 0.0, 5, 0.01]]

    def numbers(points, unconverged):
        return mismatch.summarised([{"points": points, "unconverged": unconverged}])

    found = numbers(points, 2)
    assert (found["wrong"], found["fits short of their tolerance"]) == (2, 2)
    assert found["true partner among the two highest when wrong"] == 0.5
    assert found["another partner is not trivial when wrong"] == 0.5
    assert found["marginal of the predicted partner when wrong"] == pytest.approx(0.75)
    assert found["marginal of the true partner when wrong"] == pytest.approx(0.2)
    assert [claim.holds for claim in mismatch.claims(found)] == [True, True, True]
    assert mismatch.claims(numbers(points[:1], 0)) == []  # nothing is wrong


# ---------------------------------------------------------------------- from end to end
@pytest.mark.parametrize("make", EXPERIMENTS)
def test_a_small_run(make, tmp_path):
    outcome, found = run(make)
    assert outcome.tables
    assert not outcome.comparisons
    for table in outcome.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.head)}
        assert len(set(table.head)) == len(table.head)
    for picture in outcome.pictures:
        file = tmp_path / f"{picture.name}.png"
        picture.figure.savefig(file, dpi=40)
        assert file.stat().st_size > 1000
        assert not picture.shows_data
    part = next(iter(found))
    again = {p.name: p for p in make().parts(small(make()))}[part].work()
    assert plain(again) | {"seconds": 0} == found[part] | {"seconds": 0}


def test_the_table_shows_the_losses_of_the_parts():
    outcome, found = run(HouseHotel)
    table = next(table for table in outcome.tables if table.name == f"loss-scene, {TWO}")
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    parts = {gap: part_name(sequence="scene", gap=gap, method="hinge") for gap in (5, 8)}
    hinge = {gap: np.mean(found[part]["test"]) for gap, part in parts.items()}
    assert rows[5]["hinge"] == pytest.approx(hinge[5])
    assert rows["mean"]["hinge"] == pytest.approx((hinge[5] + hinge[8]) / 2)


# ---------------------------------------------------------------------- real data
@real_data
def test_real_house_at_a_small_gap_is_learned():
    found = tuned_losses(common_setting(False, ["house"]), "house", 20, "rho=0.5")
    assert np.mean(found["test"]) <= 0.01
    assert found["unconverged"] == 0
