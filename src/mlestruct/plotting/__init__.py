"""Pictures of what was learned; matplotlib is loaded only when one is drawn."""

from .calibration import plot_reliability
from .labellings import plot_graph_labels, plot_pixel_labels, plot_token_marginals
from .matching import plot_mismatch

__all__ = [
    "plot_graph_labels",
    "plot_mismatch",
    "plot_pixel_labels",
    "plot_reliability",
    "plot_token_marginals",
]
