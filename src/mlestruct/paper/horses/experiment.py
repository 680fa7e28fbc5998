"""The experiment: what decides it, its parts, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..contract import Experiment, Outcome, Part, Setting
from .data import GENERATED, REAL, why_not_real
from .methods import METHODS
from .published import ITERATIONS, MINUTES, PICTURE
from .work import method_part, picture_part

SHOWN = (1 / 16, 1 / 4, 1.0)  # of the budget, when marginals are drawn

HORSES = {
    "data": REAL,
    "train": 200,
    "test": 128,
    "max_side": 200,
    "hog": True,
    "alpha": 3420.0,
    "budget": 600.0,
    "picture": PICTURE,
    "halvings": 6,
    "between": 4,
}
LARGE = {
    "data": GENERATED,
    "train": 60,
    "test": 30,
    "shape": [[90, 110], [120, 150]],
    "seed": 0,
    "hog": False,
    "alpha": 400.0,
    "budget": 120.0,
    "picture": 60,
    "halvings": 6,
    "between": 4,
}
SMALL = {
    "data": GENERATED,
    "why": "quick",
    "train": 12,
    "test": 6,
    "shape": [[36, 44], [46, 54]],
    "seed": 0,
    "hog": False,
    "alpha": 20.0,
    "budget": 1.2,
    "picture": 12,
    "halvings": 4,
    "between": 1,
}


class Horses(Experiment):
    """Weizmann horses: telling the pixels of a horse from those around it.

    The first 200 pictures train, the other 128 test; 4-connected binary grids, alpha = 3420.
    """

    name = "horses"
    title = "Grid CRFs on the Weizmann horses: gap and test error by time, picture 207"
    place = "section on grid CRFs, both figures"

    def setting(self, quick: bool) -> Setting:
        """Budget and moments are CPU seconds."""
        if quick:
            return completed(SMALL)
        reason = why_not_real()
        return completed({**LARGE, "why": reason} if reason else HORSES)

    def parts(self, setting: Setting) -> Sequence[Part]:
        methods = [Part(method, partial(method_part, setting, method)) for method in METHODS]
        return [Part("picture", partial(picture_part, setting)), *methods]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        from .report import outcome

        return outcome(setting, found)


def completed(setting: Setting) -> Setting:
    """With the certificate that is wanted and the moments that follow from the budget.

    The budget is halved "halvings" times for the first moment; the picture that is shown is looked
    at more often, "between" times for each halving.
    """
    budget, halvings, between = setting["budget"], setting["halvings"], setting["between"]
    moments = {budget / 2.0**k for k in range(halvings + 1)}
    fine = {budget / 2.0 ** (k / between) for k in range(halvings * between + 1)}
    published = {60.0 * MINUTES} if setting["data"] == REAL else set()
    return {
        **setting,
        "tol": 1e-3,
        "moments": sorted(moments | published),
        "path": sorted(fine | published),
        "shown": [fraction * budget for fraction in SHOWN],
        "iterations": list(ITERATIONS),
    }
