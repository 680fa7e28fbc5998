"""What can be read from the results of all methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..contract import Setting
from .methods import CURVES, METHODS

Snapshot = Mapping[str, Any]
Kind = Literal["marginal", "map"]

KINDS: dict[Kind, str] = {"marginal": "marginals above 1/2", "map": "MAP labelling"}


class Results:
    """The curves of all methods, and the optimum as far as they have proven it."""

    def __init__(self, setting: Setting, found: Mapping[str, Any]):
        self.setting = setting
        self.found = found
        self.method_of = {name: m for m in METHODS for name in found[m]["curves"]}
        self.curves = {
            name: found[self.method_of[name]]["curves"][name]
            for name in CURVES
            if name in self.method_of
        }
        duals = [row[2] for curve in self.curves.values() for row in curve["certificates"]]
        self.best_dual = float(min(duals, default=np.nan))
        """The least upper bound of the optimum that any method has proven."""
        self.scale = max(1.0, abs(self.best_dual))
        """Gaps are relative to this."""
        self.picture_name = f"picture {setting['picture'] + 1}"
        self.picture_in_test: int = setting["picture"] - setting["train"]
        self.share_of_figure = float(found["picture"]["shares"][self.picture_in_test])
        """Of the shown picture: the error of calling all of it ground."""

    def own_gap(self, name: str, cpu: float) -> float | None:
        """The relative gap that the method itself had certified by then."""
        rows = self.curves[name]["certificates"]
        gaps = [dual - primal for at, _, dual, primal in rows if at <= cpu]
        return float(gaps[-1] / self.scale) if gaps else None

    def shortfall(self, snapshot: Snapshot | None) -> float:
        """How far the weights are from the optimum at most, relative; the same for all methods.

        Not a number if there are none, or if the optimum or the likelihood is not known.
        """
        if snapshot is None or snapshot["primal"] is None:
            return np.nan
        return float((self.best_dual - snapshot["primal"]) / self.scale)

    @property
    def reached(self) -> tuple[float, float] | None:
        """CPU and wall seconds of "auto" to the wanted certificate."""
        return first_within(self.curves["auto"]["certificates"], self.setting["tol"])

    def at(self, name: str, cpu: float, where: str = "snapshots") -> Snapshot | None:
        """The last weights evaluated by a moment, on all test pictures or on the "path" of one."""
        known = [snapshot for snapshot in self.curves[name][where] if snapshot["cpu"] <= cpu]
        return known[-1] if known else None

    def end(self, name: str, where: str = "snapshots") -> Snapshot:
        found: Snapshot = self.curves[name][where][-1]
        return found

    def first_below(self, name: str, error: float) -> Snapshot | None:
        """The first weights evaluated whose test error is below `error`."""
        return next((s for s in self.curves[name]["snapshots"] if mean_error(s) < error), None)

    def ended(self, name: str) -> bool:
        """Whether the method stopped by its own criterion, not because of the budget."""
        return bool(self.found[self.method_of[name]]["converged"])

    def memory(self, name: str) -> float | None:
        found: float | None = self.found[self.method_of[name]]["memory_gb"]
        return found


def mean_error(snapshot: Snapshot, kind: Kind = "marginal") -> float:
    """Mean over test pictures of the share of wrong pixels."""
    return float(np.mean(snapshot[f"{kind}_errors"]))


def picture_error(point: Snapshot | None, kind: Kind = "marginal") -> float | None:
    """Share of wrong pixels of the picture that is shown."""
    return None if point is None else float(point[f"{kind}_error"])


def rank(errors: Sequence[float], index: int) -> int:
    """The place of a picture among all, 1 for the one with the least error."""
    return 1 + sum(error < errors[index] for error in errors)


def first_within(certificates: Sequence[Sequence[float]], tol: float) -> tuple[float, float] | None:
    """CPU and wall seconds of the first certificate of the wanted gap."""
    for cpu, wall, dual, primal in certificates:
        if dual - primal <= tol * max(1.0, min(abs(dual), abs(primal))):
            return cpu, wall
    return None
