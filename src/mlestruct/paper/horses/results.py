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
        curves: dict[str, Any] = {}
        self.method_of: dict[str, str] = {}
        for method in METHODS:
            for name, curve in found[method]["curves"].items():
                curves[name], self.method_of[name] = curve, method
        self.curves = {name: curves[name] for name in CURVES if name in curves}

    # ------------------------------------------------------------------ the optimum
    @property
    def best_dual(self) -> float:
        """The least upper bound of the optimum that any method has proven."""
        duals = [row[2] for curve in self.curves.values() for row in curve["certificates"]]
        return float(min(duals, default=np.nan))

    @property
    def scale(self) -> float:
        """Gaps are relative to this."""
        return max(1.0, abs(self.best_dual))

    def own_gap(self, name: str, cpu: float) -> float | None:
        """The relative gap that the method itself had certified by then."""
        rows = self.curves[name]["certificates"]
        gaps = [dual - primal for at, _, dual, primal in rows if at <= cpu]
        return float(gaps[-1] / self.scale) if gaps else None

    def shortfall(self, snapshot: Snapshot) -> float | None:
        """How far the weights are from the optimum at most, relative; the same for all methods."""
        if snapshot["primal"] is None:
            return None
        return float((self.best_dual - snapshot["primal"]) / self.scale)

    @property
    def reached(self) -> tuple[float, float] | None:
        """CPU and wall seconds of "auto" to the wanted certificate."""
        return first_within(self.curves["auto"]["certificates"], self.setting["tol"])

    # ------------------------------------------------------------------ moments
    def at(self, name: str, cpu: float) -> Snapshot | None:
        """The last weights looked at by a moment."""
        return _last(self.curves[name]["snapshots"], cpu)

    def end(self, name: str) -> Snapshot:
        found: Snapshot = self.curves[name]["snapshots"][-1]
        return found

    def path_at(self, name: str, cpu: float) -> Snapshot | None:
        """The same for the picture that is shown, which was looked at more often."""
        return _last(self.curves[name]["path"], cpu)

    def path_end(self, name: str) -> Snapshot:
        found: Snapshot = self.curves[name]["path"][-1]
        return found

    def path_after(self, name: str, iterations: int) -> Snapshot | None:
        """The picture after so many iterations."""
        known = [s for s in self.curves[name]["path"] if s["iteration"] == iterations]
        return known[0] if known else None

    def first_below(self, name: str, error: float, kind: Kind = "marginal") -> Snapshot | None:
        """The first weights looked at whose test error is below `error`."""
        below = (s for s in self.curves[name]["snapshots"] if mean_error(s, kind) < error)
        return next(below, None)

    # ------------------------------------------------------------------ about methods
    def ended(self, name: str) -> bool:
        """Whether the method stopped by its own criterion, not because of the budget."""
        return bool(self.found[self.method_of[name]]["converged"])

    def memory(self, name: str) -> float | None:
        found: float | None = self.found[self.method_of[name]]["memory_gb"]
        return found

    @property
    def picture_name(self) -> str:
        return f"picture {self.setting['picture'] + 1}"

    @property
    def picture_in_test(self) -> int:
        return int(self.setting["picture"] - self.setting["train"])

    @property
    def share_of_figure(self) -> float:
        """The part of the shown picture that is figure: the error of calling all of it ground."""
        return float(self.found["picture"]["shares"][self.picture_in_test])


def mean_error(snapshot: Snapshot, kind: Kind = "marginal") -> float:
    """Mean over test pictures of the share of wrong pixels."""
    return float(np.mean(snapshot[f"{kind}_errors"]))


def picture_error(point: Snapshot, kind: Kind = "marginal") -> float:
    """Share of wrong pixels of the picture that is shown."""
    return float(point[f"{kind}_error"])


def rank(errors: Sequence[float], index: int) -> int:
    """The place of a picture among all, 1 for the one with the least error."""
    return 1 + sum(error < errors[index] for error in errors)


def first_within(certificates: Sequence[Sequence[float]], tol: float) -> tuple[float, float] | None:
    """CPU and wall seconds of the first certificate of the wanted gap."""
    for cpu, wall, dual, primal in certificates:
        if dual - primal <= tol * max(1.0, min(abs(dual), abs(primal))):
            return cpu, wall
    return None


def _last(snapshots: Sequence[Snapshot], cpu: float) -> Snapshot | None:
    known = [snapshot for snapshot in snapshots if snapshot["cpu"] <= cpu]
    return known[-1] if known else None
