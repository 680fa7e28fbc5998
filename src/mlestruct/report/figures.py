"""Pictures inside pages, as SVG, readable on light and on dark paper."""

from __future__ import annotations

import io
from html import escape
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from .page import paragraph, section

INK = "#7a8490"
ACCENT = "#2a8fcb"


def figure(drawn: Figure, caption: str) -> str:
    """A picture of matplotlib as SVG inside the page."""
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "mlestruct", "svg.fonttype": "path"}):
        drawn.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :].replace(
        "<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1
    )
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def axes(width: float = 6.0, height: float = 2.8) -> tuple[Figure, Any]:
    """A figure with one plot whose ink is readable on light and dark paper."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    plot = drawn.subplots()
    plot.tick_params(colors=INK)
    plot.xaxis.label.set_color(INK)
    plot.yaxis.label.set_color(INK)
    for name, spine in plot.spines.items():
        spine.set_color(INK)
        spine.set_visible(name in ("left", "bottom"))
    return drawn, plot


def convergence(model: Any) -> str:
    """How the certified gap fell, and what it says."""
    history = model.history_
    drawn, plot = axes()
    gap = np.array(history.gap, dtype=float)
    shown = np.isfinite(gap) & (gap > 0)
    plot.semilogy(np.array(history.seconds)[shown], gap[shown], marker="o", ms=3, color=ACCENT)
    plot.set_xlabel("seconds")
    plot.set_ylabel("duality gap")
    words = (
        f"The penalised log-likelihood is proven to be within {model.duality_gap_:.2g} of the best "
        f"possible one, which is at most {model.objective_:.6g} ({model.n_iter_} iterations of "
        f"{model.solver_})."
    )
    if not model.converged_:
        words += " The fit stopped before it reached its tolerance."
    return section(
        "How far from the optimum", paragraph(words), figure(drawn, "Certified duality gap by time")
    )
