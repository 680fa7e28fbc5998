"""Landmark confidence: pseudo-marginals of right and of wrong partners (figure of a match).

The model is learned as in the tables of losses. The pair in the picture is at the upper quartile
of losses in the last third at the largest gap; the numbers are over all test pairs of several gaps.
"""

from functools import partial

import numpy as np

from mlestruct.plotting import plot_mismatch

from .landmarks import (
    common_setting,
    crf,
    load_pairs,
    tuned_losses,
)
from .runner import Claim, Picture, Report, Table, grid, is_less, part_name

TITLE = "Landmark matching: confidence in right and wrong partners"
PLACE = "graph matchings, figure of a match"
SOLVERS = "all CRFs and marginals by auto (Newton over marginals)."
SECOND = 0.05  # the least marginal of a second partner that counts


def setting(quick):
    return common_setting(quick, ["house"]) | {
        "gaps": [14] if quick else [60, 70, 80, 90],
        "rho": 1.0,
    }


def parts(setting):
    return grid(confidence, setting, gap=setting["gaps"])


def report(setting, found):
    gaps = setting["gaps"]
    results = [found[part_name(gap=gap)] for gap in gaps]
    numbers, shown = summarised(results), results[-1]["shown"]
    a, b = shown["frames"]
    caption = (
        f"Frames {a} and {b} of the {setting['sequences'][0]} (gap {gaps[-1]}), rho = 1. Top: "
        "the predicted matching, wrong pairs in red. Below: marginals of the most confident "
        "right point and of an uncertain wrong one; true partners are ringed."
    )
    title = "Marginals of right and wrong predictions, rho = 1"
    rows = [list(item) for item in numbers.items()]
    return Report(
        tables=[Table("confidence", title, ["of test landmarks", ""], rows)],
        claims=claims(numbers, [summarised([one]) for one in results]),
        pictures=[Picture("mismatch", caption, match_figure(shown))],
        summary=[
            f"{numbers['wrong']} of {numbers['landmarks']} test landmarks are matched wrongly."
        ],
    )


# ---------------------------------------------------------------------- one gap
def confidence(setting, gap):
    """Marginals of all test landmarks at one gap ("points"), and the pair that is "shown"."""
    name = setting["sequences"][0]
    inspect = partial(held_out_pairs, setting, name, gap)
    found = tuned_losses(setting, name, gap, crf(setting["rho"]), inspect)
    return {
        "points": [point for one in found["inspected"] for point in one["points"]],
        "shown": found["inspected"][-1]["shown"],
        "unconverged": found["unconverged"],
    }


def held_out_pairs(setting, name, gap, fitted, X, truth, third):
    predicted, marginals = fitted.predict(X), fitted.predict_marginals(X)
    each = list(zip(predicted, truth, marginals, strict=True))
    losses = [np.mean(p != y) for p, y, _ in each]
    k = int(np.argsort(losses, kind="stable")[int(0.75 * len(losses))])  # the upper quartile
    pairs, index = load_pairs(setting, name, gap), 3 * k + third
    shown = {
        "frames": pairs.frames[index],
        "left": pairs.left[index],
        "right": pairs.right[index],
        "truth": truth[k],
        "predicted": predicted[k],
        "marginals": np.round(marginals[k], 9),
    }
    return {"points": [point for one in each for point in described(*one)], "shown": shown}


def described(predicted, truth, tau):
    """Of every landmark of one pair of frames: whether it was matched rightly, the marginals of
    the predicted and of the true partner, the rank of the true one (1 is the highest), and the
    largest marginal of a partner other than the predicted one."""
    rows = np.arange(len(truth))
    rank = 1 + (tau > tau[rows, truth][:, None]).sum(axis=1)
    rest = tau.copy()
    rest[rows, predicted] = 0.0
    columns = (predicted == truth, tau[rows, predicted], tau[rows, truth], rank, rest.max(axis=1))
    return np.round(np.column_stack(columns).astype(float), 9).tolist()


# ---------------------------------------------------------------------- all gaps
def summarised(results):
    points = np.array([point for result in results for point in result["points"]])
    right, second = points[:, 0] > 0.5, points[:, 4] >= SECOND

    def mean(values, where):
        return float(np.mean(values[where])) if where.any() else None

    return {
        "landmarks": int(right.size),
        "wrong": int((~right).sum()),
        "true partner among the two highest when wrong": mean(points[:, 3] <= 2, ~right),
        "another partner is not trivial when wrong": mean(second, ~right),
        "another partner is not trivial when right": mean(second, right),
        "marginal of the predicted partner when right": mean(points[:, 1], right),
        "marginal of the predicted partner when wrong": mean(points[:, 1], ~right),
        "marginal of the true partner when wrong": mean(points[:, 2], ~right),
        "fits short of their tolerance": sum(result["unconverged"] for result in results),
    }


def claims(n, by_gap):
    """Decided if all gaps agree. A gap without errors, or without anything else, says nothing."""
    right, wrong = (
        "marginal of the predicted partner when right",
        ("marginal of the predicted partner when wrong"),
    )
    second = "another partner is not trivial when wrong"
    high = "true partner among the two highest when wrong"
    gaps = [one for one in by_gap if one[right] is not None and one[wrong] is not None]

    def agreed(answers):
        return answers.pop() if len(answers) == 1 else None

    def over(key):
        return ", ".join(f"{one[key]:.0%}" for one in gaps)

    if not gaps:
        return []
    return [
        Claim(
            "Pseudomarginals indicate the confidence in a prediction: they are lower where it is "
            "wrong",
            is_less([one[wrong] for one in gaps], [one[right] for one in gaps], False),
            f"mean marginal {n[right]:.3f} when right, {n[wrong]:.3f} when wrong",
            "noise: gaps disagree",
        ),
        Claim(
            "In many cases two edges at a wrongly matched landmark have relatively high marginals "
            f"(our thresholds: half of the cases at every gap, {SECOND:g})",
            agreed({one[second] >= 0.5 for one in gaps}),
            f"{n[second]:.0%} of the wrong and {n['another partner is not trivial when right']:.0%}"
            f" of the right ones; by gap {over(second)}",
            "noise: gaps disagree",
        ),
        Claim(
            "Errors are not unfounded (our threshold: at every gap the true partner has the "
            "highest or second highest marginal in half of them)",
            agreed({one[high] >= 0.5 for one in gaps}),
            f"{n[high]:.0%} of {n['wrong']}; by gap {over(high)}",
            "noise: gaps disagree",
        ),
    ]


def match_figure(shown):
    upside = np.array([1.0, -1.0])  # pictures count rows downwards
    left, right = (np.array(shown[key]) * upside for key in ("left", "right"))
    predicted, truth = (np.array(shown[key]) for key in ("predicted", "truth"))
    return plot_mismatch(left, right, predicted, truth, np.array(shown["marginals"]))
