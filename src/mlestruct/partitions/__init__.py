"""Samples in partitions: on Dask workers, or in files that are read when they are needed."""

from .backend import Backend, LocalBackend
from .dask import DaskBackend, PartitionTimeout
from .sources import Lazy, lazy_partitions

__all__ = [
    "Backend",
    "DaskBackend",
    "Lazy",
    "LocalBackend",
    "PartitionTimeout",
    "lazy_partitions",
]
