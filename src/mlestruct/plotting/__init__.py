"""Pictures of what was learned; matplotlib is loaded only when one is drawn."""

from .calibration import plot_reliability
from .inference import plot_cross_bounds, plot_likelihoods, plot_map_calls, plot_speed
from .matching import plot_assignment, plot_marginals, plot_mismatch
from .roommates import plot_roommates
from .segmentation import plot_pixel_marginals, plot_segmentation

__all__ = [
    "plot_assignment",
    "plot_cross_bounds",
    "plot_likelihoods",
    "plot_map_calls",
    "plot_marginals",
    "plot_mismatch",
    "plot_pixel_marginals",
    "plot_reliability",
    "plot_roommates",
    "plot_segmentation",
    "plot_speed",
]
