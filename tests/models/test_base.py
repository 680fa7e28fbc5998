"""What all estimators share."""

import numpy as np
import pytest

from mlestruct import LBFGS, BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF

RING = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])


def matchings(rng):
    X = rng.normal(size=(4, 3, 3, 2))
    return list(X), [rng.permutation(3) for _ in X]


def labelled(shape, sample=lambda x: x):
    """Samples of random features, and labels of other states at each call."""

    def draw(rng):
        X = [sample(rng.normal(size=(*shape, 2))) for _ in range(5)]
        states = rng.choice(list("abcdefgh"), size=3, replace=False)
        return X, [rng.choice(states, size=shape) for _ in X]

    return draw


CASES = [
    (BipartiteMatchingCRF, matchings),
    (ChainCRF, labelled((4,))),
    (GridCRF, labelled((3, 2))),
    (GraphCRF, labelled((4,), lambda x: (x, RING))),
]
NAMES = [estimator.__name__ for estimator, _ in CASES]


def fails(progress):
    raise RuntimeError("from a callback")


def interrupts(progress):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("estimator", "draw"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
@pytest.mark.parametrize(
    ("broken", "error"),
    [(LBFGS(callback=fails), RuntimeError), ("simplex", TypeError)],
    ids=["callback", "solver"],
)
def test_a_failed_fit_leaves_the_estimator_as_it_was(estimator, draw, broken, error):
    rng = np.random.default_rng(0)
    X, Y = draw(rng)
    model = estimator().fit(X, Y)
    before, learned = model.predict(X), {name: id(value) for name, value in vars(model).items()}
    model.set_params(solver=broken)
    with pytest.raises(error):
        model.fit(*draw(rng))
    model.set_params(solver=None)
    for own, other in zip(model.predict(X), before, strict=True):
        np.testing.assert_array_equal(own, other)
    changed = {name for name, value in vars(model).items() if id(value) != learned[name]}
    assert changed <= {"solver"}


@pytest.mark.parametrize(
    ("estimator", "draw"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_an_estimator_that_was_not_fitted_stays_so(estimator, draw):
    model = estimator(solver=LBFGS(callback=fails))
    with pytest.raises(RuntimeError, match="from a callback"):
        model.fit(*draw(np.random.default_rng(0)))
    assert not [name for name in vars(model) if name.endswith("_")]


def test_an_interrupted_fit_belongs_to_the_new_data():
    rng = np.random.default_rng(0)
    draw = labelled((4,))
    model = ChainCRF().fit(*draw(rng))
    X, Y = draw(rng)
    with pytest.warns(UserWarning, match="interrupted"):
        model.set_params(solver=LBFGS(callback=interrupts)).fit(X, Y)
    assert set(np.concatenate(model.predict(X))) <= set(np.concatenate(Y))
    assert not model.converged_
