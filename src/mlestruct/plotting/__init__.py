"""Pictures of what was learned; matplotlib is loaded only when one is drawn."""

from .calibration import plot_reliability
from .labellings import plot_graph_labels, plot_pixel_labels, plot_token_marginals
from .matching import plot_assignment, plot_marginals, plot_mismatch
from .roommates import plot_roommates
from .segmentation import plot_pixel_marginals, plot_segmentation

__all__ = [
    "plot_assignment",
    "plot_graph_labels",
    "plot_marginals",
    "plot_mismatch",
    "plot_pixel_labels",
    "plot_pixel_marginals",
    "plot_reliability",
    "plot_roommates",
    "plot_segmentation",
    "plot_token_marginals",
]
