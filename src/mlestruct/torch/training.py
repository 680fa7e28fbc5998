"""Parts of training loops: a tolerance that falls, a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .losses import NLLLoss


class FallingTolerance:
    """Makes the oracle of a loss more exact as training goes on.

    Early gradients need not be exact, and a loose oracle is faster. `step()` after every epoch, or
    every few batches, multiplies the tolerance by `factor` until it is what it was before.

    Parameters
    ----------
    loss : a loss of this package; its `tol` is the final one
    first : the tolerance until the first step
    factor : between 0 and 1
    """

    def __init__(self, loss: NLLLoss, first: float = 1e-2, factor: float = 0.5):
        if not 0.0 < factor < 1.0:
            raise ValueError(f"factor: expected a number between 0 and 1, got {factor!r}")
        self.loss, self.last, self.factor = loss, loss.tol, factor
        loss.tol = max(first, self.last)

    def step(self) -> None:
        """Lower the tolerance."""
        self.loss.tol = max(self.factor * self.loss.tol, self.last)

    def finish(self) -> None:
        """Set the final tolerance."""
        self.loss.tol = self.last

    @contextmanager
    def final(self) -> Iterator[None]:
        """The final tolerance for a while."""
        now, self.loss.tol = self.loss.tol, self.last
        try:
            yield
        finally:
            self.loss.tol = now


class ProgressBar:
    """One line on stderr: epochs, loss, held-out loss, certificate, seconds."""

    WIDTH = 24

    def __init__(self, n_epochs: int):
        self.n_epochs = n_epochs

    def show(self, row: dict[str, float]) -> None:
        """The state after an epoch."""
        filled = int(self.WIDTH * row["epoch"] / self.n_epochs)
        held = f"  held out {row['validation_loss']:.4g}" if "validation_loss" in row else ""
        sys.stderr.write(
            f"\rNeuralCRF [{'#' * filled}{'-' * (self.WIDTH - filled)}] epoch {row['epoch']:.0f} / "
            f"{self.n_epochs}  loss {row['loss']:.4g}{held}  gap {row['gap']:.1e}  "
            f"{row['seconds']:.1f} s "
        )
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()
