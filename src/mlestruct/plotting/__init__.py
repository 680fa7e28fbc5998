"""Pictures of what was learned; matplotlib is loaded only when one is drawn."""

from .matching import plot_assignment, plot_marginals, plot_mismatch

__all__ = ["plot_assignment", "plot_marginals", "plot_mismatch"]
