"""Small runs of the paper's experiments, and what they are checked against."""

import json

import numpy as np

from reproduction.runner import plain


def perm(a):
    """The permanent, by Ryser's formula."""
    n = len(a)
    chosen = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return float(((-1.0) ** (n - chosen.sum(axis=1))) @ (chosen @ a.T).prod(axis=1))


def stored(value):
    """As it comes back from a file."""
    return json.loads(json.dumps(plain(value), allow_nan=False))


def run(experiment, **changes):
    """(setting, found, report) of the quick setting with some entries changed."""
    setting = stored(experiment.setting(True) | changes)
    found = {name: stored(work()) for name, work in experiment.parts(setting).items()}
    report = experiment.report(setting, found)
    for one in report.tables:
        assert {len(row) for row in one.rows} == {len(one.head)}
        stored(one.rows)
    names = [one.name for one in (*report.tables, *report.pictures)]
    assert len(set(names)) == len(names)
    for picture in report.pictures:
        picture.figure.draw_without_rendering()
    return setting, found, report


def claim(report, text):
    """The one claim that contains a text."""
    (one,) = [one for one in report.claims if text in one.sentence]
    return one


def table(report, name):
    return next(one for one in report.tables if one.name == name)
