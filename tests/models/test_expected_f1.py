"""The set of the largest expected F1, against all sets and all outcomes."""

import numpy as np
import pytest
from enumerated_answers import all_answers
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.models.multi_label import expected_f1_sets


def expected_f1(chosen, p):
    total = 0.0
    for truth in all_answers(len(p)):
        size = chosen.sum() + truth.sum()
        f1 = 1.0 if size == 0 else 2.0 * (chosen * truth).sum() / size
        total += f1 * np.prod(np.where(truth == 1, p, 1 - p))
    return total


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_no_set_is_better(p):
    p = np.array(p)
    found = expected_f1(expected_f1_sets(p[None])[0], p)
    assert found == pytest.approx(max(expected_f1(other, p) for other in all_answers(len(p))))
