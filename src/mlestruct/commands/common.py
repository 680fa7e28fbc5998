"""What the commands that learn have in common."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .files import UsageProblem

NOT_CERTIFIED = 3


def read_alpha(text: str) -> float | str:
    """A penalty, or "auto"."""
    try:
        alpha = text if text == "auto" else float(text)
    except ValueError:
        raise UsageProblem(f"--alpha: expected a number or auto, got {text!r}") from None
    if isinstance(alpha, float) and not 0.0 < alpha < float("inf"):
        raise UsageProblem(f"--alpha: expected a positive number, got {text}")
    return alpha


def shows_progress(options: argparse.Namespace) -> bool:
    """Progress bars are for people: on a terminal only."""
    return not options.quiet and sys.stderr.isatty()


def exit_status(model: Any, options: argparse.Namespace) -> int:
    """0, or 3 where --strict asks for a certificate that the fit does not have."""
    return NOT_CERTIFIED if options.strict and not model.converged_ else 0
