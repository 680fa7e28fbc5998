"""Any parameters give data, or an error that names what is wrong."""

import numpy as np
import pytest
from changed_arrays import answer, anything_like, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import datasets

RNG = np.random.default_rng(0)
COUNT = [1, 2, 6, 0, -1, 2.5, "x", None, True, np.int64(4)]
SHARE = [0.0, 0.5, 1.0, -1.0, 2.0, np.nan, np.inf, "x", None]
STATE = [0, None, -1, 1.5, "x", np.random.default_rng(0)]
GENERATORS = {
    "make_words": {"n_words": COUNT, "n_states": COUNT, "random_state": STATE},
    "make_people": {"n_people": COUNT, "overlap": SHARE, "household": SHARE, "errors": SHARE,
                    "missing": SHARE, "random_state": STATE},
    "make_segmentation": {"n_images": COUNT, "shape": [(6, 7), (0, 3), 5, "x", None, (6, 7, 8)],
                          "n_states": COUNT, "noise": SHARE, "random_state": STATE},
    "make_landmark_sequence": {"n_landmarks": COUNT, "n_frames": COUNT, "noise": SHARE,
                               "perspective": SHARE, "random_state": STATE,
                               "body": [None, np.zeros((4, 3)), np.zeros(3), "x"]},
    "generate_campus": {"n_students": [8, *COUNT], "n_years": COUNT, "strength": SHARE,
                        "missing": SHARE, "n_chains": COUNT, "random_state": STATE},
}  # fmt: skip
FIRST = {
    "make_words": {"n_words": 3},
    "make_people": {"n_people": 10},
    "make_segmentation": {"n_images": 2, "shape": (6, 7)},
    "make_landmark_sequence": {"n_landmarks": 6, "n_frames": 5},
    "generate_campus": {"n_students": 8, "n_years": 1, "max_sweeps": 200},
}


def arrays(found):
    """All arrays of numbers in an answer."""
    if isinstance(found, np.ndarray):
        return [found] if found.dtype.kind in "fiu" else []
    if isinstance(found, list | tuple):
        return [array for part in found for array in arrays(part)]
    return []


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", GENERATORS)
def test_generated(name, data):
    options = data.draw(options_from(GENERATORS[name]))
    found = answer(getattr(datasets, name), names=("words", "states"), **{**FIRST[name], **options})
    for array in arrays(found):
        assert not np.isinf(array).any()


@fuzzed
@given(points=anything_like(RNG.normal(size=(6, 2))))
def test_shape_context(points):
    found = answer(datasets.shape_context, points)
    assert found is None or np.isfinite(found).all()
