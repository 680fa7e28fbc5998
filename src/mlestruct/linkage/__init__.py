"""Records of two tables: candidate pairs, comparisons of their columns, one-to-one links.

The public names are loaded on first use, so that `mlestruct --help` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .blocking import candidate_pairs
    from .comparisons import Comparison, guess_comparisons
    from .deduplicator import Deduplicator
    from .linker import RecordLinker
    from .links import Links
    from .pair_files import pair_parts, split_pairs

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Comparison": ".comparisons",
        "Deduplicator": ".deduplicator",
        "Links": ".links",
        "RecordLinker": ".linker",
        "candidate_pairs": ".blocking",
        "guess_comparisons": ".comparisons",
        "pair_parts": ".pair_files",
        "split_pairs": ".pair_files",
    },
)
