"""Random generators, and scores of several kinds to try on any output space."""

import numpy as np
from hypothesis import strategies as st

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)
kinds = st.sampled_from(["normal", "ties", "equal", "cliffs"])


def draw_scores(rng, size, kind, scale=1.0):
    """Scores of a kind: smooth, with many ties, all equal, or a few cliffs."""
    drawn = {
        "normal": rng.normal(size=size),
        "ties": rng.integers(-1, 2, size=size).astype(float),
        "equal": np.full(size, -1.5),
        "cliffs": np.where(rng.random(size) < 0.5, -1.0, 1e-10),
    }
    return scale * drawn[kind]
