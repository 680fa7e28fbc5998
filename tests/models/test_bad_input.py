"""Every bad input gets an error that names the argument, what was found and what would be right."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct import (
    LBFGS,
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    FrankWolfe,
    InfeasibleError,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    PairInput,
    StructuredCRF,
)


def sample(n=3, k=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n, k))


GOOD_X = [sample(seed=0), sample(seed=1)]
GOOD_Y = [np.array([0, 1, 2]), np.array([2, 0, 1])]
THREE = np.eye(3, 2)
TABLE = np.random.default_rng(0).integers(0, 2, (30, 3))


def signs(scores):
    return (scores > 0).astype(int)


def with_value(value):
    x = sample()
    x[1, 2, 0] = value
    return [x, GOOD_X[1]]


def pair_input(**options):
    return [PairInput(GOOD_X[0], **options)]


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
        (GOOD_X, [np.array([0, 1, 1]), GOOD_Y[1]], r"Y\[0\]: column 1 has 2 partners"),
        (GOOD_X, [np.array([0, 1, 3]), GOOD_Y[1]], r"Y\[0\]: row 2 has partner 3; expected 0 to 2"),
        (GOOD_X, [np.array([0, 1, -1]), GOOD_Y[1]], r"Y\[0\]: row 2 has 0 partners.*perfect=False"),
        (GOOD_X, [np.array([0, 1]), GOOD_Y[1]], r"Y\[0\]: expected shape \(3,\)"),
        (GOOD_X, [np.array([0.5, 1, 2]), GOOD_Y[1]], r"Y\[0\]: partners must be integers"),
        ([x * 1e100 for x in GOOD_X], GOOD_Y, "rescale"),
        (
            pair_input(mask=~np.eye(3, dtype=bool)),
            GOOD_Y[:1],
            r"Y\[0\]: row 0 and column 0 are",
        ),
        (pair_input(mask=np.ones((2, 3))), GOOD_Y[:1], "mask has shape"),
        (pair_input(mask=np.full((3, 3), "yes")), GOOD_Y[:1], "mask must hold booleans"),
        (pair_input(mask=np.full((3, 3), np.nan)), GOOD_Y[:1], "mask must hold booleans"),
        (pair_input(offset=np.full((3, 3), np.nan)), GOOD_Y[:1], "offset contains NaN"),
        (pair_input(offset=np.zeros(4)), GOOD_Y[:1], "offset has shape"),
    ],
)
def test_bad_samples(X, Y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BipartiteMatchingCRF().fit(X, Y)


DATA = {
    BipartiteMatchingCRF: {"X": GOOD_X, "Y": GOOD_Y},
    MatchingCRF: {"X": [np.ones((4, 4, 2))], "Y": [[1, 0, 3, 2]]},
    ChainCRF: {"X": [np.ones((2, 1)), np.zeros((2, 1))], "Y": [[0, 1], [1, 0]]},
    MultiLabelCRF: {"X": TABLE.astype(float), "y": TABLE},
    IsingMRF: {"X": TABLE},
    StructuredCRF: {"X": [THREE, -THREE], "Y": [[1, 0, 1], [0, 1, 0]]},
}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BipartiteMatchingCRF(alpha=-1.0), "`alpha` must be positive"),
        (BipartiteMatchingCRF(alpha=0), "`alpha` must be positive"),
        (BipartiteMatchingCRF(alpha=np.inf), "`alpha` must be positive and finite"),
        (BipartiteMatchingCRF(alpha="1"), "`alpha` must be a number"),
        (
            BipartiteMatchingCRF(l1_ratio=1.0),
            r"`l1_ratio` must be less than 1",
        ),
        (BipartiteMatchingCRF(l1_ratio="half"), "`l1_ratio` must be a number"),
        (BipartiteMatchingCRF(tol=0.0), "`tol` must be positive"),
        (BipartiteMatchingCRF(max_iter=0), "`max_iter` must be a whole number"),
        (BipartiteMatchingCRF(solver=LBFGS(max_time=-1)), "expected a positive number, got -1"),
        (BipartiteMatchingCRF(rho=0.3), r"rho must lie in \[0.5, 1\]"),
        (BipartiteMatchingCRF(rho=1.2), r"rho must lie in \[0.5, 1\]"),
        (BipartiteMatchingCRF(rho=np.ones(4)), r"rho: expected a scalar or shape \(6,\)"),
        (BipartiteMatchingCRF(solver="sgd"), "`solver` must be None or an object with solve"),
        (BipartiteMatchingCRF(solver=3), "`solver` must be None or an object with solve"),
        (
            BipartiteMatchingCRF(solver=FrankWolfe(step="linesearch")),
            "`step` must be",
        ),
        (
            BipartiteMatchingCRF(solver=BlockFrankWolfe(step="far")),
            "`step` must be",
        ),
        (BipartiteMatchingCRF(n_jobs=0), "`n_jobs` must be"),
        (BipartiteMatchingCRF(perfect="no"), "perfect must be True, False"),
        (BipartiteMatchingCRF(perfect=0), "perfect must be True, False"),
        (MatchingCRF(rho=1j), "rho must be a number, got 1j"),
        (MatchingCRF(rho="x"), "rho: expected a number or an array"),
        (MatchingCRF(rho={}), "rho: expected an array of numbers"),
        (MatchingCRF(rho=b"a"), "rho: expected an array of numbers"),
        (MatchingCRF(rho=np.ma.masked_less([0.4, 0.6, 0.6, 0.6], 0.5)), "rho: .* masked entries"),
        (ChainCRF(n_jobs=10**19), "`n_jobs`: no system has"),
        (IsingMRF(graph="none", l1=-1), "`l1` must be positive"),
        (StructuredCRF(signs, features=3), "`features` must be a function of x or None; got 3"),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(**DATA[type(model)])


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


NO_TABLES = [TABLE + 1j, np.full((30, 2), object()), np.full((30, 2), 10**400, dtype=object),
             "abc", {}, np.ma.masked_equal(TABLE, 1), iter(TABLE)]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "given", "error", "message"),
    [
        *(
            (BipartiteMatchingCRF(), {"sample_weight": weights}, ValueError, "sample_weight")
            for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan])
        ),
        *(
            (ChainCRF(), {"sample_weight": weights}, ValueError, "sample_weight: ")
            for weights in (np.float64(1.0), np.array(1.0), object(), len, 3)
        ),
        *(
            (ChainCRF(), {"Y": [labels, [1, 0]]}, ValueError, r"Y\[0\]: found .*labels must be")
            for labels in (np.array([0, 2**63], "u8"), np.array([0, 10**400]), [0, -(2**70)])
        ),
        (ChainCRF(), {"classes": range(10**6)}, MemoryError, r"1000000 classes: .* needs [\d,]+ b"),
        (MultiLabelCRF(), {"X": 1e300 * TABLE}, ValueError, "X: has features beyond"),
        *((MultiLabelCRF(), {"X": x}, (TypeError, ValueError), r"^X: |array X") for x in NO_TABLES),
        *(
            (MultiLabelCRF(), {"X": TABLE[:2], "y": labels}, ValueError, r"^Y: ")
            for labels in (np.ma.masked_equal(TABLE, 1), [[0, 1], [1]], [[0, object()], [1, 1]])
        ),
        *(
            (StructuredCRF(signs), {"X": [THREE, make(THREE * factor)]}, ValueError, message)
            for make in (np.asarray, sparse.csr_array)
            for factor, message in (
                (1j, r"X\[1\].*real numbers.* got dtype complex128"),
                (1e300, r"X\[1\]: has features beyond"),
                (np.nan, r"X\[1\]: found nan"),
            )
        ),
    ],
)
def test_bad_data(model, given, error, message):
    with pytest.raises(error, match=message):
        model.fit(**DATA[type(model)] | given)


def test_errors_of_fitted_models():
    model = BipartiteMatchingCRF().fit(GOOD_X, GOOD_Y)
    with pytest.raises(ValueError, match="was fitted with 2"):
        model.predict([sample(k=3)])
    with pytest.raises(ValueError, match="X is empty"):
        model.predict([])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape \(3,\)"):
        model.score(GOOD_X, [0, 0])
    model = MultiLabelCRF(decision="marginal").fit(TABLE.astype(float), TABLE)
    for table in NO_TABLES:
        with pytest.raises((TypeError, ValueError), match=r"^X: |array X"):
            model.predict(table)


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
