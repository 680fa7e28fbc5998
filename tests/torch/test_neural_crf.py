"""`NeuralCRF`: training, early stopping, prediction, files; and the estimator's optimum."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'mlestruct[torch]'")

from scipy.optimize import linear_sum_assignment  # noqa: E402
from sklearn.base import clone  # noqa: E402
from torch import nn  # noqa: E402

from mlestruct import BipartiteMatchingCRF, ChainCRF  # noqa: E402
from mlestruct.exceptions import ModelFileError  # noqa: E402
from mlestruct.metrics import reliability  # noqa: E402
from mlestruct.structures import ExactInference, Subsets  # noqa: E402
from mlestruct.torch import (  # noqa: E402
    ChainNLLLoss,
    FallingTolerance,
    GraphNLLLoss,
    GridNLLLoss,
    MatchingNLLLoss,
    NeuralCRF,
    StructuredLoss,
)


class PairScores(nn.Module):
    """One weight for each feature of a pair."""

    def __init__(self, n_features):
        super().__init__()
        self.linear = nn.Linear(n_features, 1, bias=False)

    def forward(self, pairs):
        return self.linear(pairs)[..., 0]


class TokenScores(nn.Module):
    def __init__(self, n_features, n_states):
        super().__init__()
        self.linear = nn.Linear(n_features, n_states, bias=False)
        self.transitions = nn.Parameter(torch.zeros(n_states, n_states))

    def forward(self, tokens):
        return self.linear(tokens), self.transitions


def matchings(n_samples=24, seed=0, n_features=4):
    """Tables of several sizes with matchings of large scores."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for m in range(n_samples):
        n = 4 + m % 2
        table = rng.normal(size=(n, n, n_features))
        scores = table @ np.arange(1, n_features + 1) / 2 + rng.gumbel(size=(n, n))
        X.append(table)
        Y.append(linear_sum_assignment(-scores)[1])
    return X, Y


def tokens(n_samples=30, seed=0):
    rng = np.random.default_rng(seed)
    Y = [np.cumsum(rng.random(5 + m % 3) < 0.3) % 2 for m in range(n_samples)]
    return [y[:, None] + rng.normal(size=(y.size, 3)) for y in Y], Y


def test_a_linear_layer_reaches_the_optimum_of_the_estimator():
    """alpha / 2 |theta|^2 - log-likelihood, minimised by L-BFGS of PyTorch and by the estimator."""
    X, Y = matchings()
    estimator = BipartiteMatchingCRF(alpha=2.0, rho=0.95, tol=1e-8).fit(X, Y)
    module, loss = PairScores(4).double(), MatchingNLLLoss("sum", rho=0.95, perfect=True, tol=1e-9)
    steps = torch.optim.LBFGS(
        module.parameters(), max_iter=100, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )
    groups = [[m for m in range(len(X)) if len(Y[m]) == n] for n in (4, 5)]

    def objective():
        steps.zero_grad()
        total = 1.0 * sum((w**2).sum() for w in module.parameters())
        for group in groups:
            scores = module(torch.tensor(np.stack([X[m] for m in group])))
            total = total + loss(scores, torch.tensor(np.stack([Y[m] for m in group])), keys=group)
        total.backward()
        return total

    steps.step(objective)
    assert module.linear.weight[0].detach().numpy() == pytest.approx(estimator.coef_, abs=1e-4)
    assert -objective().item() == pytest.approx(estimator.objective_, abs=1e-5)


def test_a_linear_tagger_has_the_likelihood_of_the_estimator():
    X, Y = tokens()
    estimator = ChainCRF(alpha=1e-3, tol=1e-9).fit(X, Y)
    module, loss = TokenScores(3, 2).double(), ChainNLLLoss("sum")
    steps = torch.optim.LBFGS(module.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def objective():
        steps.zero_grad()
        total = sum(
            loss(*module(torch.tensor(x[None])), torch.tensor(y[None]))
            for x, y in zip(X, Y, strict=True)
        )
        total.backward()
        return total

    steps.step(objective)
    reached = -objective().item()
    assert reached == pytest.approx(estimator.approximate_log_likelihood(X, Y).sum(), abs=1e-2)


def test_training_stops_early_and_keeps_the_best_weights(capsys):
    X, Y = matchings(40)
    model = NeuralCRF(
        PairScores(4), MatchingNLLLoss(perfect=True), max_epochs=40, learning_rate=0.3,
        validation_fraction=0.3, patience=3, random_state=0, verbose=1,
    )  # fmt: skip
    start = model.module.linear.weight.detach().clone()
    model.fit(X, Y)
    assert torch.equal(start, model.module.linear.weight)  # the given module stays as it was
    assert "held out" in capsys.readouterr().err
    held = [row["validation_loss"] for row in model.history_]
    assert model.n_epochs_ == int(np.argmin(held)) + 1
    assert len(held) == min(model.n_epochs_ + 3, 40)
    tolerances = [row["tol"] for row in model.history_]
    assert tolerances[0] == 1e-2
    assert all(a >= b for a, b in itertools.pairwise(tolerances))
    assert model.loss_.tol == 1e-6
    assert all(row["gap"] <= 10 * row["tol"] for row in model.history_)
    test = matchings(20, seed=1)
    assert model.score(*test) > 0.55
    tables = model.predict_marginals(test[0])
    assert all(np.allclose(table.sum(axis=1), 1.0, atol=1e-3) for table in tables)
    assert (model.approximate_log_likelihood(*test) <= 1e-3).all()
    assert reliability(*model.events(*test)).ece < 0.2
    again = clone(model).fit(X, Y)
    assert np.array_equal(again.predict_marginals(X)[0], model.predict_marginals(X)[0])


@pytest.mark.parametrize("family", ["chain", "grid", "subsets"])
def test_other_families(family):
    rng = np.random.default_rng(0)
    if family == "chain":
        X, Y = tokens()
        module, loss = TokenScores(3, 2), ChainNLLLoss()
    elif family == "grid":
        Y = [(rng.normal(size=(4, 5)).cumsum(0) > 0).astype(int) for _ in range(20)]
        X = [y[..., None] + rng.normal(size=(4, 5, 3)) for y in Y]
        module, loss = TokenScores(3, 2), GridNLLLoss()
    else:
        X = [rng.normal(size=(5, 4)) for _ in range(20)]
        Y = [(np.argsort(np.argsort(-x[:, 0])) < 2).astype(int) for x in X]
        module, loss = PairScores(4), StructuredLoss(ExactInference(Subsets(5, 2)))
    if family != "subsets":
        Y[0] = Y[0].copy()
        Y[0].flat[0] = -100
    model = NeuralCRF(module, loss, max_epochs=15, learning_rate=0.1, random_state=0).fit(X, Y)
    assert model.history_[-1]["loss"] < model.history_[0]["loss"]
    assert model.score(X, Y) > 0.7
    assert reliability(*model.events(X, Y)).ece < 0.2
    if family != "subsets":
        nothing = np.full_like(Y[0], -100)
        assert model.score(X, [nothing, *Y[1:]]) == model.score(X[1:], Y[1:])
        with pytest.raises(ValueError, match="no label is known"):
            model.score(X[:1], [nothing])


def test_files_hold_weights_only(tmp_path):
    X, Y = matchings(10)
    loss = MatchingNLLLoss(perfect=True)
    model = NeuralCRF(PairScores(4), loss, max_epochs=2, validation_fraction=0).fit(X, Y)
    path = tmp_path / "model.mls"
    model.save(path)
    assert b"pickle" not in path.read_bytes()
    loaded = NeuralCRF.load(path, PairScores(4), loss)
    for one, other in zip(model.predict_marginals(X), loaded.predict_marginals(X), strict=True):
        assert np.array_equal(one, other)
    assert loaded.history_ == model.history_
    with pytest.raises(ModelFileError, match="module: does not fit"):
        NeuralCRF.load(path, PairScores(5), loss)
    with pytest.raises(ModelFileError, match="loss: the file was trained with MatchingNLLLoss"):
        NeuralCRF.load(path, PairScores(4), MatchingNLLLoss())
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.mls").write_bytes(damaged)
    with pytest.raises(ModelFileError):
        NeuralCRF.load(tmp_path / "damaged.mls", PairScores(4), loss)


def test_ctrl_c_keeps_the_weights_so_far():
    class Interrupting(PairScores):
        calls = 0

        def forward(self, pairs):
            type(self).calls += 1
            if type(self).calls > 5:
                raise KeyboardInterrupt
            return super().forward(pairs)

    X, Y = matchings(10)
    model = NeuralCRF(Interrupting(4), MatchingNLLLoss(), batch_size=10, validation_fraction=0)
    with pytest.warns(UserWarning, match="interrupted in epoch"):
        model.fit(X, Y)
    assert model.n_epochs_ >= 1
    Interrupting.calls = -100
    assert len(model.predict(X)) == 10


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"module": 3}, TypeError, "module: expected a torch.nn.Module"),
        ({"loss": GraphNLLLoss()}, TypeError, "loss: expected a loss over scores"),
        ({"max_epochs": 0}, ValueError, "max_epochs: expected at least 1"),
        ({"validation_fraction": 1.5}, ValueError, "validation_fraction: expected 0 to 1"),
        ({"validation_fraction": 0.01}, ValueError, "holds out 0; use 0 to hold out none"),
    ],
)
def test_bad_parameters(options, error, message):
    X, Y = matchings(6)
    model = NeuralCRF(PairScores(4), MatchingNLLLoss()).set_params(**options)
    with pytest.raises(error, match=message):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="Y: expected as many outputs"):
        NeuralCRF(PairScores(4), MatchingNLLLoss()).fit(X, Y[1:])


def test_the_tolerance_falls_to_that_of_the_loss():
    loss = MatchingNLLLoss(tol=1e-3)
    schedule = FallingTolerance(loss, first=4e-3)
    seen = []
    for _ in range(4):
        seen.append(loss.tol)
        schedule.step()
    assert seen == [4e-3, 2e-3, 1e-3, 1e-3]
    with pytest.raises(ValueError, match="factor"):
        FallingTolerance(loss, factor=2.0)
