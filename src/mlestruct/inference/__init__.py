"""Public questions about a structure and scores: marginals, log Z, its bounds, samples, links."""

from ..structures.contract import Bounds
from .bounds import log_partition_bounds
from .link_sets import LinkSet, links_at_precision, links_of_largest_f1
from .marginals import Inference, log_partition, marginals
from .sampling import Samples, sample

__all__ = [
    "Bounds",
    "Inference",
    "LinkSet",
    "Samples",
    "links_at_precision",
    "links_of_largest_f1",
    "log_partition",
    "log_partition_bounds",
    "marginals",
    "sample",
]
