"""Reading of labels: the forms in which users give outputs.

* Matchings: `partners_from_pairs` and `pairs_from_partners` translate between pairs of ids and the
  partner arrays that estimators take. `check_partners` and `check_pairs` validate observed
  matchings; `read_pairs` accepts both forms.
* Labellings: `States` numbers the labels of tokens, pixels or nodes from 0 and translates back.

Every error names the sample, what was found and what is expected.
"""

from .ids import pairs_from_partners, partners_from_pairs
from .partners import (
    check_counts,
    check_pairs,
    check_partners,
    is_partial,
    pairs_of,
    read_known,
    read_pairs,
)
from .states import UNKNOWN, States, check_states, is_named

__all__ = [
    "UNKNOWN",
    "States",
    "check_counts",
    "check_pairs",
    "check_partners",
    "check_states",
    "is_named",
    "is_partial",
    "pairs_from_partners",
    "pairs_of",
    "partners_from_pairs",
    "read_known",
    "read_pairs",
]
