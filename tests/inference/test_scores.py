"""Scores in every form that is accepted, and errors that name what is wrong with others."""

import labellings
import numpy as np
import pytest
from enumerated_spaces import (
    KINDS,
    METHODS,
    SHORT,
    SQUARE_AND_TAIL,
    ask,
    case_of,
)

from mlestruct.inference import log_partition, log_partition_bounds, marginals, sample
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    Pairwise,
    PairwiseGraph,
    Sequences,
    Structure,
)


# ---------------------------------------------------------------------- reading scores
def forms(values):
    wide = np.zeros((values.size, 2))
    wide[:, 0] = values
    fixed = values.copy()
    fixed.flags.writeable = False
    return {
        "list": values.tolist(),
        "float32": values.astype(np.float32),
        "integers": values.astype(np.int64),
        "strided": wide[:, 0],
        "backwards": values[::-1].copy()[::-1],
        "read-only": fixed,
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "kind", ["singles", "hull", "b-matching", "binary triangle", "forest", "chain"]
)
def test_scores_in_any_form(kind, method):
    case = case_of(kind)
    values = np.random.default_rng(0).integers(-2, 3, case.size).astype(float)
    plain = ask(case, values, method, **SHORT.get(method, {}))
    for form in forms(values).values():
        found = ask(case, form, method, **SHORT.get(method, {}))
        if found is None:
            return
        np.testing.assert_array_equal(found.tau, plain.tau)
        assert found.log_partition == plain.log_partition


def test_tables_and_coordinates_are_the_same():
    rng = np.random.default_rng(0)
    table = np.asfortranarray(rng.normal(size=(3, 4)))
    found, flat = (marginals(BipartiteMatching((3, 4)), w) for w in (table, table.ravel()))
    np.testing.assert_array_equal(found.tau, flat.tau)
    np.testing.assert_array_equal(found.table, found.tau[:12].reshape(3, 4))


@pytest.mark.parametrize("states", [2, 3])
def test_tables_of_labellings(states):
    rng = np.random.default_rng(0)
    graph = PairwiseGraph(4, SQUARE_AND_TAIL[:4])
    nodes, edges = rng.normal(size=(4, states)), rng.normal(size=(4, states, states))
    space = labellings.Labellings(4, np.array(SQUARE_AND_TAIL[:4]), states)
    exact = space.log_partition(np.concatenate([nodes.ravel(), edges.ravel()]))
    structure = Pairwise(graph, states)
    found = marginals(structure, (nodes, edges), "exact")
    assert found.log_partition == pytest.approx(exact, abs=1e-9)
    assert found.table.shape == (4, states)
    shared = marginals(structure, (nodes, edges[0]), "exact")
    repeated = marginals(structure, (nodes, np.stack([edges[0]] * 4)), "exact")
    assert shared.log_partition == repeated.log_partition


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_the_coordinate_that_is_not_a_score_is_named(kind, bad):
    case = case_of(kind)
    scores = np.zeros(case.size)
    scores[case.size // 2] = bad
    for call in (marginals, log_partition, sample):
        with pytest.raises(ValueError, match=f"coordinate {case.size // 2} is {bad}"):
            call(case.structure, scores)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shape_that_is_expected_is_named(kind):
    case = case_of(kind)
    for shape in ((case.size + 1,), (2, 2, 2), ()):
        with pytest.raises(
            ValueError, match=rf"scores: expected shape \({case.structure.n_scored},"
        ):
            marginals(case.structure, np.zeros(shape))


@pytest.mark.parametrize(
    ("structure", "scores", "message"),
    [
        (BipartiteMatching((2, 3)), np.zeros((3, 2)), r"table of shape \(2, 3\)"),
        (BipartiteMatching((2, 2)), (np.zeros(2), np.zeros(2)), "not a tuple"),
        (LocalMatching(4), np.arange(16.0).reshape(4, 4), r"not symmetric at \(0, 1\)"),
        (Sequences(2, 2), (np.zeros((2, 2)),), "a tuple holds"),
        (Sequences(2, 2), (np.zeros((3, 2)), np.zeros((2, 2))), r"nodes: expected shape \(2, 2\)"),
        (Sequences(2, 2), (np.zeros((2, 2)), np.zeros((3, 2, 2))), r"edges: expected shape"),
        (Sequences(2, 2), "scores", "scores"),
        (Sequences(2, 2), [[1.0], [2.0, 3.0]], "scores"),
        (Sequences(2, 2), np.ma.masked_array(np.zeros(8)), "mask"),
    ],
)
def test_other_forms_of_scores_are_refused(structure, scores, message):
    with pytest.raises(ValueError, match=message):
        marginals(structure, scores)


@pytest.mark.parametrize("call", [marginals, log_partition_bounds, sample])
def test_scores_whose_sums_overflow_are_refused(call):
    with pytest.raises(ValueError, match=r"scores: as large as 1.7e\+308"):
        call(BipartiteMatching((4, 4), 1.0), np.full((4, 4), 1.7e308))


def test_a_structure_without_its_size_is_refused_by_name():
    class Forgetful(Structure):
        pass

    with pytest.raises(TypeError, match=r"structure: expected an output space.*n_coordinates"):
        marginals(Forgetful(), np.zeros(2))
