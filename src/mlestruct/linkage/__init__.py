"""Records of two tables: candidate pairs, comparisons of their columns, one-to-one links."""

from .blocking import candidate_pairs, count_candidates
from .comparisons import Comparison, guess_comparisons
from .linker import Links, RecordLinker

__all__ = [
    "Comparison",
    "Links",
    "RecordLinker",
    "candidate_pairs",
    "count_candidates",
    "guess_comparisons",
]
