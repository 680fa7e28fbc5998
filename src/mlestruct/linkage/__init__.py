"""Records of two tables: candidate pairs, comparisons of their columns, one-to-one links."""

from .blocking import candidate_pairs, count_candidates
from .comparisons import Comparison, guess_comparisons
from .linker import Links, RecordLinker
from .pair_files import pair_partitions, split_pairs

__all__ = [
    "Comparison",
    "Links",
    "RecordLinker",
    "candidate_pairs",
    "count_candidates",
    "guess_comparisons",
    "pair_partitions",
    "split_pairs",
]
