"""Any scores and options give certified numbers or an error that names the argument."""

import numpy as np
import pytest
from changed_arrays import answer, anything_like, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import MissingCapability, inference
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    MatchingPolytope,
    Pairwise,
    Sequences,
)  # fmt: skip
from mlestruct.structures.graphs.pairwise import PairwiseGraph

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(4, 4))
CYCLE = PairwiseGraph(4, np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
SPACES = {
    "bipartite": (BipartiteMatching((4, 4)), SQUARE),
    "singles": (BipartiteMatching((3, 4), perfect=False), SQUARE[:3]),
    "group": (LocalMatching(4), SQUARE + SQUARE.T),
    "matchings": (MatchingPolytope(4), SQUARE + SQUARE.T),
    "binary": (Pairwise(CYCLE, 2), RNG.normal(size=4 * 2 + 4 * 4)),
    "states": (Pairwise(CYCLE, 3), RNG.normal(size=4 * 3 + 4 * 9)),
    "sequence": (Sequences([5], 3), None),
}
OPTIONS = {
    "method": ["auto", "fw", "perturb", "exact", "mcmc", "x", None, 3, ["fw"]],
    "tol": [1e-6, 0.0, -1.0, np.nan, np.inf, "x", None, True, np.float32(1e-3)],
    "max_iter": [1, 50, 0, 2.5, "x", None, True],
    "max_time": [0.5, 0.0, np.nan, "x", True],
    "n_samples": [1, 3, 0, -1, 2.5, "x", None, True, np.int64(2)],
    "random_state": [None, 0, -1, 1.5, "x", np.random.default_rng(0)],
    "step": ["corrective", "capped", "line_search", "fixed", "x", None],
    "damping": [0.0, 0.5, 1.0, -1.0, np.nan, "x"],
    "max_sweeps": [1, 50, 0, "x", None, True],
    "callback": [None, 3, "x"],
    "n_chains": [1, 2, 0, "x", True],
    "sweeps": [1, 10, 0, "x", None],
    "tol_rhat": [1.05, 0.0, np.nan, "x", None],
}
PRECISIONS = [0.9, 0, 1, 2, np.nan, "x", None, True]
CALLS = {
    "marginals": (
        "method", "tol", "max_iter", "max_time", "step", "damping", "max_sweeps",
        "n_samples", "random_state", "callback",
    ),
    "log_partition": ("method", "tol"),
    "log_partition_bounds": ("tol",),
    "sample": (
        "method", "n_samples", "random_state", "n_chains", "sweeps", "max_sweeps", "tol_rhat",
    ),
}  # fmt: skip


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", CALLS)
def test_scores_and_options(name, data):
    space, scores = SPACES[data.draw(st.sampled_from(list(SPACES)), "space")]
    if scores is None:
        scores = np.zeros(space.n_coordinates)
    scores = data.draw(anything_like(scores), "scores")
    options = data.draw(options_from({option: OPTIONS[option] for option in CALLS[name]}))
    found = answer(getattr(inference, name), space, scores, names=[*OPTIONS], **options)
    if isinstance(found, inference.Inference):
        assert np.isfinite(found.log_partition)
        assert (found.tau >= -1e-9).all()
        assert (found.tau <= 1.0 + 1e-9).all()
        assert np.isnan(found.gap) or found.gap >= 0.0
    elif isinstance(found, inference.Bounds):
        assert found.lower <= found.upper
    elif isinstance(found, inference.Samples):
        assert len(found.labels) >= 1
    elif isinstance(found, float):
        assert np.isfinite(found)


@fuzzed
@given(
    p=anything_like(RNG.random(12)),
    precision=st.sampled_from([0.9, 0, 1, 2, np.nan, "x", None, True]),
)
def test_links(p, precision):
    space = SPACES["singles"][0]
    for found in (
        answer(inference.links_of_largest_f1, space, p),
        answer(inference.links_at_precision, space, p, precision),
    ):
        if found is not None:
            links = found[0] if isinstance(found, tuple) else found
            assert 0.0 <= links.expected_f1 <= 1.0 + 1e-12
            rows, columns = np.divmod(links.edges, 4)
            assert np.unique(rows).size == np.unique(columns).size == links.edges.size


def test_what_is_no_structure_is_told():
    for space in (None, 3, "x", np.zeros(3), object()):
        with pytest.raises((TypeError, ValueError, MissingCapability), match="structure"):
            inference.marginals(space, np.zeros(3))
