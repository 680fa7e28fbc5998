"""Checks of an interior point and of an entropy: inside, concave, with the right gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...algorithms.frank_wolfe import ROUNDING
from ..contract import Structure
from ..decoder import DecoderSpace
from .decoding import Prober

Floats = NDArray[np.float64]


def check_interior(probe: Prober, structure: Structure) -> Floats | None:
    """The interior point, if it is one."""
    report = probe.report
    report.checks.append("interior")
    try:
        point = np.array(structure.interior(), dtype=np.float64)
    except Exception as error:  # whatever a user's method raises
        report.add("interior", f"interior() raised {type(error).__name__}: {error}")
        return None
    if point.shape != (probe.n,) or not np.isfinite(point).all():
        report.add("interior", f"expected finite numbers of shape ({probe.n},), got {point.shape}")
        return None
    table = probe.outputs_found()
    low, high = table.min(axis=0), table.max(axis=0)
    stuck = np.flatnonzero((high > low) & ((point <= low) | (point >= high)))
    if isinstance(structure, DecoderSpace) and not probe.exact and structure.unproven.size:
        # As in `fit`, which goes on without a certificate.
        report.add(
            "interior", f"no certificate (certified_=False): {structure.doubt}", is_error=False
        )
        if stuck.size:
            return None
    if stuck.size:
        k = int(stuck[0])
        report.add(
            "interior",
            f"coordinate {k} is {point[k]:.4g} at the interior point and {low[k]:g} to {high[k]:g} "
            "in outputs; every coordinate that varies must be strictly inside its range",
        )
        return None
    return point if _is_inside(probe, point) else None


def _is_inside(probe: Prober, point: Floats) -> bool:
    """No direction may score more at the point than at the best output.

    The best candidates are those in which the point leaves the affine hull of the known outputs.
    """
    table = probe.outputs_found()
    offset = point - table.mean(axis=0)
    _, sizes, rows = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    spanned = rows[sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)]
    outside = offset - spanned.T @ (spanned @ offset)
    tried = [outside, offset, point - 0.5]
    for direction in tried:
        norm = float(np.abs(direction).max(initial=0.0))
        if norm < 1e-9:
            continue
        scores = direction / norm
        answer = probe.ask("the direction of the interior point", scores)
        if answer is None:
            return False
        here, best = float(scores @ point), float(scores @ answer)
        if (
            probe.exact
            and not probe.misses
            and here > best + ROUNDING * float(np.abs(scores).sum()) + 1e-9
        ):
            probe.report.add(
                "interior",
                f"the interior point is not a mixture of outputs: in some direction it scores "
                f"{here:.6g}, the best output {best:.6g}",
            )
            return False
    return True


def check_entropy(
    probe: Prober, structure: Structure, point: Floats, rng: np.random.Generator
) -> None:
    """Gradient and concavity along chords between mixtures of outputs and the interior point."""
    report = probe.report
    report.checks += ["gradient", "concave"]
    table = probe.outputs_found()
    for trial in range(40):
        ends = [_mixture(table, point, trial, rng) for _ in range(2)]
        try:
            with np.errstate(all="ignore"):
                _check_gradient(probe, structure, ends[0], ends[1] - ends[0])
                _check_concavity(probe, structure, *ends)
        except Exception as error:  # whatever a user's functions raise
            report.add("gradient", f"the entropy raised {type(error).__name__}: {error}")
            return


def _mixture(table: Floats, point: Floats, trial: int, rng: np.random.Generator) -> Floats:
    """A point inside: near the interior point, in between, or near a vertex."""
    weights = rng.dirichlet(np.full(table.shape[0], 1.0 if trial % 2 else 0.2))
    inside, at_vertex = ((0.5, False), (0.1, False), (1e-4, True))[trial % 3]
    if at_vertex:
        weights = np.eye(table.shape[0])[rng.integers(table.shape[0])]
    return inside * point + (1.0 - inside) * (weights @ table)


def _check_gradient(probe: Prober, structure: Structure, tau: Floats, chord: Floats) -> None:
    slope = np.asarray(structure.entropy_gradient(tau), dtype=np.float64)
    if slope.shape != (probe.n,):
        probe.report.add("gradient", f"has shape {slope.shape}, expected ({probe.n},)")
        return
    varies = (tau > 0.0) & (tau < 1.0)
    if not np.isfinite(slope[varies]).all():
        k = int(np.flatnonzero(varies & ~np.isfinite(slope))[0])
        probe.report.add("gradient", f"is {slope[k]} for coordinate {k} at {tau[k]:.4g}")
        return
    step = 1e-5 * float(np.minimum(tau, 1.0 - tau)[varies].min(initial=1.0))
    high, low = structure.entropy(tau + step * chord), structure.entropy(tau - step * chord)
    found, given = (high - low) / (2.0 * step), float(slope[varies] @ chord[varies])
    noise = 1e-14 * (1.0 + abs(high)) / step
    # Differences are accurate to about 1e-8 inside.
    if not abs(found - given) <= 1e-4 * (1.0 + abs(found)) + noise:
        probe.report.add(
            "gradient",
            f"along a direction inside the polytope the entropy changes by {found:.6g} per unit, "
            f"its gradient says {given:.6g}",
        )


def _check_concavity(probe: Prober, structure: Structure, one: Floats, other: Floats) -> None:
    ends = structure.entropy(one), structure.entropy(other)
    middle = structure.entropy(0.5 * (one + other))
    least = 0.5 * (ends[0] + ends[1])
    if not middle >= least - 1e-7 * (1.0 + abs(least)):
        probe.report.add(
            "concave",
            f"the entropy is {middle:.6g} halfway between two points where its mean is "
            f"{least:.6g}; certificates need a concave one",
        )
