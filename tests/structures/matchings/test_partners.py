"""Labels of matchings as numbers: the checks of output spaces."""

import numpy as np
import pytest

from mlestruct.structures import BipartiteMatching, LocalMatching

PLAIN, SQUARE = BipartiteMatching((2, 3)), BipartiteMatching((3, 3))
GROUP, PAIRS = LocalMatching(4), LocalMatching(4, 1.0, False, 2)


@pytest.mark.parametrize(
    ("space", "label", "message"),
    [
        (PLAIN, [0, 1, 2], r"expected shape \(2,\), the partner of each row, got \(3,\)"),
        (PLAIN, [0, 3], "row 1 has partner 3; expected 0 to 2, or -1 for single"),
        (PLAIN, [0, -1], "row 1 has 0 partners, it must have exactly 1; perfect=False allows"),
        (PLAIN, [0.0, np.nan], "partners must be integers, found nan"),
        (SQUARE, [0, 2, 2], "column 1 has 0|column 2 has 2 partners, it must have exactly 1"),
        (GROUP, [1, 0, 2, 3], "node 2 is its own partner"),
        (GROUP, [1, 2, 3, 0], "partners must be mutual"),
        (PAIRS, [[0, 1], [0, 1]], "a pair occurs twice"),
        (PAIRS, [[0, 4]], "nodes are numbered 0 to 3"),
        (PAIRS, [[1, 1]], "the label pairs 1 with 1, not allowed here"),
        (PAIRS, [[0, 1], [0, 2], [0, 3]], "node 0 has 3 partners, it must have at most 2"),
    ],
)
def test_wrong_labels_are_named(space, label, message):
    with pytest.raises(ValueError, match=message):
        space.encode(np.array(label))


@pytest.mark.parametrize("space", [PLAIN, SQUARE, GROUP, PAIRS])
def test_labels_come_back(space):
    label = space.best_label(np.random.default_rng(0).normal(size=space.n_coordinates))
    np.testing.assert_array_equal(space.label(space.encode(label)), label)
