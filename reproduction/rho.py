"""Landmark matching: the test loss by rho, on the house at a gap of 50 frames (table of rho).

The same is done on a generated scene: the paper says that rho makes little difference on real and
on synthetic data.
"""

from functools import partial

import numpy as np

from .algorithm_one import algorithms_table, solved_by_each
from .landmarks import (
    ONE,
    SCENE,
    SCENE_NAME,
    TWO,
    common_setting,
    compared,
    crf,
    estimator,
    is_real,
    loss_of,
    main_sequence,
    tuned_losses,
    two_thirds,
)
from .runner import Claim, Report, Table, grid

TITLE = "Landmark matching: test loss by rho"
PLACE = "graph matchings, table of rho"
SOLVERS = (
    "all CRFs by auto (Newton over marginals); Algorithm 1 solves one of the problems beside it "
    "(the table of algorithms)."
)
PUBLISHED = {0.5: 0.013, 0.6: 0.013, 0.7: 0.017, 0.8: 0.017, 0.9: 0.020, 1.0: 0.017}


def setting(quick):
    gap = 8 if quick else 50
    setting = common_setting(quick, ["house"])
    if is_real(setting):
        setting |= {"sequences": ["house", SCENE_NAME], "scene": SCENE}
    return setting | {
        "gaps": [gap],
        "rhos": [0.5, 0.8, 1.0] if quick else list(PUBLISHED),
        "algorithms": {
            "gap": gap,
            "rho": 0.5,
            "penalty": 0.1,
            "seconds": 2.0 if quick else 20.0,
        },
    }


def parts(setting):
    methods = [crf(rho) for rho in setting["rhos"]]
    axes = {"sequence": setting["sequences"], "gap": setting["gaps"], "method": methods}
    return {
        **grid(tuned_losses, setting, **axes),
        "algorithms": partial(algorithms, setting),
    }


def report(setting, found):
    (gap,) = setting["gaps"]
    problem = f"{main_sequence(setting)}, gap {gap}, rho = {setting['algorithms']['rho']:g}"
    losses = {
        name: {rho: loss_of(found, name, gap, crf(rho)) for rho in setting["rhos"]}
        for name in setting["sequences"]
    }
    comparisons = []
    if is_real(setting):
        for rho, published in PUBLISHED.items():
            what = f"house, gap {gap}, rho = {rho:g}: loss"
            comparisons += compared(what, published, losses["house"][rho])
    return Report(
        tables=[
            *(rho_table(name, gap, by_rho) for name, by_rho in losses.items()),
            algorithms_table(problem, found["algorithms"]),
        ],
        claims=[
            *(little_difference(name, gap, by_rho) for name, by_rho in losses.items()),
        ],
        comparisons=comparisons,
    )


def algorithms(setting):
    """Algorithm 1 beside auto on two thirds of the pairs."""
    own = setting["algorithms"]
    X, Y = two_thirds(setting, own["gap"])
    model = estimator(setting, crf(own["rho"]), {"penalty": own["penalty"]}, len(X))
    return solved_by_each(model, X, Y, own["seconds"])


def little_difference(name, gap, losses):
    """Compared with the difference that the choice of the thirds makes."""

    def apart(protocol):
        means = [loss[protocol].mean() for loss in losses.values()]
        return np.ptp(means), np.mean([np.ptp(loss[protocol]) for loss in losses.values()])

    by_protocol = {protocol: apart(protocol) for protocol in (ONE, TWO)}
    less = {bool(by_rho <= by_split) for by_rho, by_split in by_protocol.values()}
    kind = "synthetic data (a generated scene)" if name == SCENE_NAME else f"real data (the {name})"
    return Claim(
        f"The test error differs little as rho varies, on {kind}, gap {gap} (our threshold: less "
        "than with the choice of the thirds, in both protocols)",
        less.pop() if len(less) == 1 else None,
        "; ".join(
            f"{protocol}: {by_rho:.4f} between the rhos, {by_split:.4f} between splits"
            for protocol, (by_rho, by_split) in by_protocol.items()
        ),
        "the protocols disagree",
    )


def rho_table(name, gap, losses):
    columns = {"rho": list(losses)}
    for protocol in (ONE, TWO):
        rows = [loss[protocol] for loss in losses.values()]
        columns[protocol] = [row.mean() for row in rows]
        columns[f"range, {protocol}"] = [f"{row.min():.4f} to {row.max():.4f}" for row in rows]
    if name == "house":
        columns["published"] = list(PUBLISHED.values())
    return Table.of(f"loss-by-rho, {name}", f"{name}, gap {gap}: test loss by rho", columns)
