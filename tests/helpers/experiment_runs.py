"""Small runs of the experiments on inference, and what they are checked against."""

import json

import numpy as np

from mlestruct.paper.store import file_name, plain


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
    return {claim.sentence: claim.holds for claim in outcome.claims}


def table(outcome, name):
    return next(one for one in outcome.tables if one.name == name)


def check_outcome(outcome):
    """What every outcome must be like."""
    for one in outcome.tables:
        assert {len(row) for row in one.rows} == {len(one.head)}
        stored(one.rows)
    names = [file_name(one.name) for one in (*outcome.tables, *outcome.pictures)]
    assert len(set(names)) == len(names)
    for picture in outcome.pictures:
        picture.figure.draw_without_rendering()
