"""Every bad input gets an error that names the argument, what was found and what would be right."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct import (
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    FrankWolfe,
    InfeasibleError,
    IsingMRF,
    MatchingCRF,
    MissingCapability,
    MultiLabelCRF,
    PairInput,
    StructuredCRF,
)
from mlestruct.features import LazyFeatures, TableFeatures


def sample(n=3, k=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n, k))


GOOD_X = [sample(seed=0), sample(seed=1)]
GOOD_Y = [np.array([0, 1, 2]), np.array([2, 0, 1])]


def with_value(value):
    x = sample()
    x[1, 2, 0] = value
    return [x, GOOD_X[1]]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([], [], "X is empty"),
        (None, GOOD_Y, "X: expected a sequence"),
        (GOOD_X, GOOD_Y[:1], "X has 2 samples but Y has 1"),
        (with_value(np.nan), GOOD_Y, r"X\[0\]: found nan at \(1, 2, 0\)"),
        (with_value(np.inf), GOOD_Y, r"X\[0\]: found inf"),
        (with_value(-np.inf), GOOD_Y, r"X\[0\]: found -inf"),
        ([np.zeros((3, 3)), GOOD_X[1]], GOOD_Y, r"X\[0\]: expected 3 dimensions"),
        ([np.zeros((0, 0, 2)), GOOD_X[1]], GOOD_Y, r"X\[0\]: has an empty dimension"),
        ([sample(k=2), sample(k=3)], GOOD_Y, r"X\[1\] has 3 features, X\[0\] has 2"),
        (["ab", "cd"], GOOD_Y, r"X\[0\]: expected an array"),
        (GOOD_X, [np.array([0, 1, 1]), GOOD_Y[1]], r"Y\[0\]: column 1 is the partner of rows"),
        (GOOD_X, [np.array([0, 1, 3]), GOOD_Y[1]], r"Y\[0\]: row 2 has partner 3; expected 0 to 2"),
        (GOOD_X, [np.array([0, 1, -1]), GOOD_Y[1]], r"Y\[0\]: row 2 is single"),
        (GOOD_X, [np.array([0, 1]), GOOD_Y[1]], r"Y\[0\]: expected shape \(3,\)"),
        (GOOD_X, [np.array([0.5, 1, 2]), GOOD_Y[1]], r"Y\[0\]: partners must be integers"),
    ],
)
def test_bad_samples(X, Y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BipartiteMatchingCRF().fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"alpha": 0}, "alpha must be positive"),
        ({"alpha": np.inf}, "alpha must be positive and finite"),
        ({"alpha": "1"}, "alpha must be a number"),
        ({"l1_ratio": 1.0}, r"l1_ratio must be at least 0 and less than 1 \(like 0.99\), got 1.0"),
        ({"l1_ratio": "half"}, "l1_ratio must be a number"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"max_time": -1}, "max_time must be positive"),
        ({"rho": 0.3}, r"rho must lie in \[0.5, 1\]"),
        ({"rho": 1.2}, r"rho must lie in \[0.5, 1\]"),
        ({"rho": np.ones(4)}, r"rho: expected a scalar or shape \(6,\)"),
        ({"solver": "sgd"}, "solver: expected 'auto'"),
        ({"solver": 3}, "solver: expected a string or a solver object"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"perfect": "no"}, "perfect must be True, False"),
        ({"perfect": 0}, "perfect must be True, False"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BipartiteMatchingCRF(**parameters).fit(GOOD_X, GOOD_Y)


def test_bad_weights():
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="sample_weight"):
            BipartiteMatchingCRF().fit(GOOD_X, GOOD_Y, sample_weight=weights)


def test_one_item_a_side_has_nothing_to_learn():
    with pytest.raises(ValueError, match="nothing to learn"):
        BipartiteMatchingCRF().fit([np.ones((1, 1, 2))], [np.array([0])])
    # Beside informative samples it does no harm, and it can be predicted.
    model = BipartiteMatchingCRF().fit([*GOOD_X, np.ones((1, 1, 2))], [*GOOD_Y, np.array([0])])
    assert model.predict([np.ones((1, 1, 2))])[0].tolist() == [0]
    assert model.predict_marginals([np.ones((1, 1, 2))])[0].tolist() == [[1.0]]


def test_an_infeasible_mask_names_the_sample_and_the_rows():
    mask = np.ones((3, 3), dtype=bool)
    mask[1] = mask[2] = [True, False, False]
    with pytest.raises(InfeasibleError, match=r"X\[1\].*2 rows \[1, 2\].*partners \[0\]") as error:
        BipartiteMatchingCRF().fit([GOOD_X[0], PairInput(GOOD_X[1], mask=mask)], GOOD_Y)
    assert error.value.rows == [1, 2]


def test_a_label_on_a_forbidden_pair_is_named():
    mask = ~np.eye(3, dtype=bool)
    with pytest.raises(ValueError, match=r"Y\[0\].*row 0 with column 0"):
        BipartiteMatchingCRF().fit([PairInput(GOOD_X[0], mask=mask)], GOOD_Y[:1])


def test_bad_pair_inputs():
    bad = [
        (PairInput(GOOD_X[0], mask=np.ones((2, 3))), "mask has shape"),
        (PairInput(GOOD_X[0], offset=np.full((3, 3), np.nan)), "offset contains NaN"),
        (PairInput(GOOD_X[0], offset=np.zeros(4)), "offset has shape"),
        (PairInput(GOOD_X[0], mask=np.full((3, 3), "yes")), "mask must hold booleans"),
        (PairInput(GOOD_X[0], mask=np.full((3, 3), np.nan)), "mask must hold booleans"),
    ]
    for x, message in bad:
        with pytest.raises(ValueError, match=message):
            BipartiteMatchingCRF().fit([x], GOOD_Y[:1])


def test_solver_options_and_score_shapes_are_checked():
    for solver in (BlockFrankWolfe(sampling="gaps"), FrankWolfe(step="linesearch")):
        with pytest.raises(ValueError, match="expected one of"):
            BipartiteMatchingCRF(solver=solver).fit(GOOD_X, GOOD_Y)
    model = BipartiteMatchingCRF().fit(GOOD_X, GOOD_Y)
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape \(3,\)"):
        model.score(GOOD_X, [0, 0])
    with pytest.raises(ValueError, match="rescale"):
        BipartiteMatchingCRF().fit([x * 1e100 for x in GOOD_X], GOOD_Y)


def test_prediction_checks_the_number_of_features():
    model = BipartiteMatchingCRF().fit(GOOD_X, GOOD_Y)
    with pytest.raises(ValueError, match="was fitted with 2"):
        model.predict([sample(k=3)])
    with pytest.raises(ValueError, match="X is empty"):
        model.predict([])


def test_newton_without_a_feature_matrix_is_refused_before_any_work():
    calls = []

    def features(start, stop):
        calls.append(start)
        return GOOD_X[0][start:stop]

    lazy = LazyFeatures(features, 3, 3, 2)
    with pytest.raises(MissingCapability, match="Use solver='lbfgs'"):
        BipartiteMatchingCRF(solver="newton").fit([lazy], GOOD_Y[:1])


def test_feature_maps_check_their_input():
    with pytest.raises(ValueError, match="left: contains NaN"):
        TableFeatures([[np.nan]], [[1.0]])
    with pytest.raises(ValueError, match="same number of features"):
        TableFeatures([[1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="must give shape"):
        LazyFeatures(lambda i, j: np.zeros((1, 1)), 2, 2, 1).scores(np.zeros(1))


def signs(scores):
    return (scores > 0).astype(int)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_features_of_decoders_are_real_and_moderate(make):
    x, y = np.eye(3, 2), np.array([1, 0, 1])
    model = StructuredCRF(decode=signs)
    with pytest.raises(ValueError, match=r"X\[1\].*real numbers, got dtype complex128"):
        model.fit([make(x), make(x + 1j)], [y, 1 - y])
    with pytest.raises(ValueError, match=r"X\[1\]: has features beyond"):
        model.fit([make(x), make(1e300 * x)], [y, 1 - y])
    with pytest.raises(ValueError, match=r"X\[0\]: found nan"):
        model.fit([make(np.nan * x), make(x)], [y, 1 - y])


def test_label_sets_of_huge_features_are_refused():
    x, y = np.random.default_rng(0).normal(size=(12, 2)), np.eye(12, 3, dtype=int)
    with pytest.raises(ValueError, match="X: has features beyond"):
        MultiLabelCRF().fit(1e300 * x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_names": 5}, "feature_names must be a sequence of strings, got 5"),
        ({"rho": 1j}, "rho must be a number, got 1j"),
        ({"rho": "x"}, "rho: expected a number or an array"),
        ({"rho": {}}, "rho: expected an array of numbers"),
        ({"rho": b"a"}, "rho: expected an array of numbers"),
        ({"rho": np.ma.masked_less([0.4, 0.6, 0.6, 0.6], 0.5)}, "rho: .* masked entries"),
        ({"feature_names": np.array("a")}, "feature_names must be a sequence of strings"),
    ],
)
def test_parameters_are_named(options, message):
    x = np.ones((4, 4, 2))
    with pytest.raises((TypeError, ValueError), match=message):
        MatchingCRF(**options).fit([x], [[1, 0, 3, 2]])


@pytest.mark.parametrize("n_states", [10**6, 10**15])
def test_states_that_cannot_fit_are_refused_with_the_bytes(n_states):
    with pytest.raises(MemoryError, match=rf"n_states={n_states}: .* needs [\d,]+ bytes"):
        ChainCRF(n_states=n_states).fit([np.ones((2, 1))], [[0, 1]])


TABLE = np.random.default_rng(0).integers(0, 2, (30, 3))


@pytest.mark.parametrize("value", [9, -0.1, float("nan"), "x", True, [0.5]])
def test_parameters_are_checked_also_where_they_are_not_used(value):
    for name, model in (("threshold", MultiLabelCRF()), ("density", IsingMRF(graph="full"))):
        given = (TABLE.astype(float), TABLE) if name == "threshold" else (TABLE,)
        model.set_params(**{name: value})
        with pytest.raises((TypeError, ValueError), match=f"{name}: expected a number from 0 to 1"):
            model.fit(*given)
    with pytest.raises(ValueError, match="rule: expected one of"):
        IsingMRF(graph="full", rule=str(value)).fit(TABLE)
    with pytest.raises(ValueError, match="l1 must be positive"):
        IsingMRF(graph="none", l1=-1).fit(TABLE)


def test_a_fitted_model_checks_the_threshold_it_is_given():
    model = MultiLabelCRF(decision="marginal").fit(TABLE.astype(float), TABLE)
    with pytest.raises(ValueError, match="threshold: expected a number from 0 to 1, got 2"):
        model.set_params(threshold=2).predict(TABLE.astype(float))


@pytest.mark.parametrize("name", ["marginals", "bounds", "features"])
def test_functions_beside_a_decoder_are_functions(name):
    with pytest.raises(TypeError, match=f"{name}: expected a function of .* or None, got 3"):
        StructuredCRF(signs, **{name: 3}).fit([np.ones((3, 1))], [np.ones(3)])


@pytest.mark.parametrize("solver", ["fw", "bcfw", "block_marginals"])
def test_solvers_that_need_an_entropy_are_named(solver):
    with pytest.raises(MissingCapability, match=f"solver='{solver}' needs .* Use solver='auto'"):
        MultiLabelCRF(inference="exact", solver=solver).fit(TABLE.astype(float), TABLE)


NODES = [np.ones((2, 1)), np.zeros((2, 1))]


@pytest.mark.parametrize(
    "labels",
    [np.array([0, 2**63], dtype=np.uint64), np.array([0, 10**400], dtype=object), [0, -(2**70)]],
    ids=["uint64", "object", "list"],
)
def test_labels_beyond_integers_are_refused(labels):
    with pytest.raises(ValueError, match=r"Y\[0\]: found .*labels must be"):
        ChainCRF().fit(NODES, [labels, [0, 1]])


@pytest.mark.parametrize("weight", [np.float64(1.0), np.array(1.0), object(), len, 3])
def test_weights_of_sequences_are_sequences(weight):
    with pytest.raises(ValueError, match="sample_weight: "):
        ChainCRF().fit(NODES, [[0, 1], [1, 0]], sample_weight=weight)


def test_threads_are_of_this_world():
    with pytest.raises(ValueError, match="n_jobs: no system has"):
        ChainCRF(n_jobs=10**19).fit(NODES, [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    "features",
    [TABLE + 1j, np.full((30, 2), object()), np.full((30, 2), 10**400, dtype=object), "abc", {},
     np.ma.masked_equal(TABLE, 1), iter(TABLE)],
    ids=["complex", "objects", "huge", "text", "dict", "masked", "iterator"],
)  # fmt: skip
def test_features_of_label_sets_are_named(features):
    model = MultiLabelCRF().fit(TABLE.astype(float), TABLE)
    for call in (lambda: MultiLabelCRF().fit(features, TABLE), lambda: model.predict(features)):
        with pytest.raises((TypeError, ValueError), match=r"^X: |array X"):
            call()


def test_label_sets_are_named():
    for labels in (np.ma.masked_equal(TABLE, 1), [[0, 1], [1]], [[0, object()], [1, 1]]):
        with pytest.raises(ValueError, match=r"^Y: "):
            MultiLabelCRF().fit(TABLE[:2].astype(float), labels)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_features_of_decoders_in_any_form(form):
    X = [
        np.array([[1.0, 0.0], [0.0, -2.0], [3.0, 1.0]]),
        np.array([[0.5, 1.0], [2.0, 0], [0, 1.0]]),
    ]
    Y = [[1, 0, 1], [0, 1, 1]]
    wanted = StructuredCRF(signs, random_state=0).fit(X, Y).coef_
    given = [getattr(sparse, f"{form}_array")(x) for x in X]
    found = StructuredCRF(signs, random_state=0).fit(given, Y).coef_
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
