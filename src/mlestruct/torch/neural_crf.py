"""`NeuralCRF`: a scikit-learn estimator around a network that makes scores."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from ..metrics.events import Events, as_events, pair_events, state_events
from ..models.failed_fits import unchanged_on_failure
from .losses import GraphNLLLoss, GroupMatchingNLLLoss, MatchingNLLLoss, NLLLoss, StructuredLoss
from .persistence import load_weights, save_weights
from .problem import IGNORED
from .structured import spaces_of
from .training import FallingTolerance, ProgressBar

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class NeuralCRF(BaseEstimator):
    """Structured outputs from the scores of a network, trained by maximum likelihood.

    Samples of equal shapes are stacked, so that the network is called with a first dimension of
    samples and needs no padding.

    Parameters
    ----------
    module : nn.Module
        Takes a batch of samples (several tensors where a sample is a tuple) and returns scores as
        `loss` takes them: one tensor or a tuple. It is copied, not changed.
    loss : the family of outputs: `MatchingNLLLoss`, `GroupMatchingNLLLoss`, `GridNLLLoss`,
        `ChainNLLLoss` or `StructuredLoss`; its `reduction` has no effect
    max_epochs : int
    batch_size : int
    learning_rate, weight_decay : of AdamW
    optimizer : function from parameters to an optimizer, instead of AdamW
    validation_fraction : share of the samples held out for early stopping; 0: none
    patience : epochs without a better held-out likelihood after which training ends
    first_tol : tolerance of the oracle in the first epoch; it is halved every epoch until it is
        that of `loss`
    random_state : int or None
    verbose : 1 shows a progress bar

    Attributes
    ----------
    module_, loss_ : the trained network and the loss it was trained with
    history_ : list of dict, one per epoch: seconds, tol, loss, gap (mean certificate) and, where
        samples are held out, validation_loss
    n_epochs_ : int, epochs until the best held-out likelihood, whose weights are kept
    """

    def __init__(
        self,
        module: nn.Module,
        loss: NLLLoss,
        *,
        max_epochs: int = 50,
        batch_size: int = 16,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        optimizer: Callable[..., Any] | None = None,
        validation_fraction: float = 0.1,
        patience: int = 5,
        first_tol: float = 1e-2,
        random_state: int | None = None,
        verbose: int = 0,
    ):
        self.module = module
        self.loss = loss
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.first_tol = first_tol
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ training
    def fit(self, X: Sequence[Any], Y: Sequence[Any]) -> NeuralCRF:
        """Train on samples X[m] (arrays, or tuples of arrays) with outputs Y[m].

        An output is what the target of `loss` has for one sample. Ctrl-C keeps the best weights so
        far.
        """
        self._check_parameters()
        if len(X) != len(Y) or len(X) == 0:
            raise ValueError(f"Y: expected as many outputs as samples, {len(X)}, got {len(Y)}")
        rng = np.random.default_rng(self.random_state)
        order = rng.permutation(len(X))
        n_held = round(self.validation_fraction * len(X))
        if self.validation_fraction and not 0 < n_held < len(X):
            raise ValueError(
                f"validation_fraction: {self.validation_fraction} of {len(X)} samples holds out "
                f"{n_held}; use 0 to hold out none"
            )
        with unchanged_on_failure(self), torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            self._train(X, Y, order[n_held:], order[:n_held], rng)
        return self

    def _check_parameters(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise TypeError(f"module: expected a torch.nn.Module, got {self.module!r}")
        if not isinstance(self.loss, NLLLoss) or isinstance(self.loss, GraphNLLLoss):
            raise TypeError(
                "loss: expected a loss over scores with a first dimension of samples, such as "
                f"MatchingNLLLoss(), got {self.loss!r}"
            )
        counts = {
            "max_epochs": self.max_epochs,
            "batch_size": self.batch_size,
            "patience": self.patience,
        }
        for name, count in counts.items():
            if int(count) < 1:
                raise ValueError(f"{name}: expected at least 1, got {count!r}")
        if not 0.0 <= self.validation_fraction < 1.0:
            raise ValueError(
                f"validation_fraction: expected 0 to 1, got {self.validation_fraction!r}"
            )

    def _train(self, X: Any, Y: Any, train: Ints, held: Ints, rng: np.random.Generator) -> None:
        self.module_, self.loss_ = copy.deepcopy(self.module), copy.deepcopy(self.loss)
        self.loss_.reduction = "none"
        steps = (self.optimizer or self._adam)(self.module_.parameters())
        tolerance = FallingTolerance(self.loss_, self.first_tol)
        bar = ProgressBar(self.max_epochs) if self.verbose else None
        kept, best, started = copy.deepcopy(self.module_.state_dict()), np.inf, time.perf_counter()
        self.history_: list[dict[str, float]] = []
        self.n_epochs_ = 0
        try:
            for epoch in range(1, self.max_epochs + 1):
                row = {"epoch": float(epoch), "tol": self.loss_.tol}
                row["loss"], row["gap"] = self._epoch(X, Y, rng.permutation(train), steps)
                tolerance.step()
                if held.size:
                    with tolerance.final():
                        row["validation_loss"] = float(self._losses(X, Y, held).mean())
                row["seconds"] = time.perf_counter() - started
                self.history_.append(row)
                if bar is not None:
                    bar.show(row)
                reached = row.get("validation_loss", row["loss"])
                if not np.isfinite(reached):
                    raise FloatingPointError(f"the loss of epoch {epoch} is {reached}")
                if reached < best or not held.size:
                    best, self.n_epochs_ = reached, epoch
                    kept = copy.deepcopy(self.module_.state_dict())
                elif epoch - self.n_epochs_ >= self.patience:
                    break
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted in epoch {len(self.history_) + 1}; the weights of epoch "
                f"{self.n_epochs_} are kept",
                ConvergenceWarning,
                stacklevel=3,
            )
        finally:
            if bar is not None:
                bar.close()
            tolerance.finish()
            self.loss_.oracle.forget()
            self.module_.load_state_dict(kept)
            self.module_.eval()

    def _adam(self, parameters: Any) -> Any:
        return torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)

    def _epoch(self, X: Any, Y: Any, order: Any, steps: Any) -> tuple[float, float]:
        """One pass over the samples in this order; the mean loss and the mean certificate."""
        self.module_.train()
        total, gaps = 0.0, 0.0
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            steps.zero_grad()
            losses = torch.zeros(())
            for samples, scores in self._scores(X, chosen):
                found = self.loss_(*scores, self._target(Y, samples), keys=samples)
                losses = losses + found.sum()
                gap = self.loss_.last_gap
                assert gap is not None
                gaps += float(gap.sum())
            (losses / len(chosen)).backward()
            steps.step()
            total += float(losses.detach())
        return total / len(order), gaps / len(order)

    def _scores(self, X: Any, chosen: Any) -> Iterator[tuple[list[int], tuple[Tensor, ...]]]:
        """Numbers of samples of equal shapes, and the network's scores of them."""
        groups: dict[Any, list[int]] = {}
        for m in chosen:
            groups.setdefault(tuple(np.shape(part) for part in _parts(X[m])), []).append(int(m))
        like = next(self.module_.parameters(), torch.zeros(()))
        for samples in groups.values():
            columns = zip(*(_parts(X[m]) for m in samples), strict=True)
            stacked = [_stacked(column, like) for column in columns]
            scores = self.module_(*stacked)
            yield samples, scores if isinstance(scores, tuple) else (scores,)

    def _target(self, Y: Any, samples: list[int]) -> Any:
        if isinstance(self.loss_, StructuredLoss):
            return [Y[m] for m in samples]
        return torch.from_numpy(np.stack([np.asarray(Y[m]) for m in samples]))

    def _losses(self, X: Any, Y: Any, chosen: Any) -> Floats:
        """Negative log-likelihoods of samples, in their order."""
        found = self._each(
            X, chosen, lambda scores, samples: self.loss_(*scores, self._target(Y, samples))
        )
        return np.array([float(value) for value in found])

    def _each(
        self, X: Any, chosen: Any, answer: Callable[[tuple[Tensor, ...], list[int]], Any]
    ) -> list[Any]:
        """The answer for every sample, batch by batch, without gradients."""
        self.module_.eval()
        answers: dict[int, Any] = {}
        with torch.no_grad():
            for start in range(0, len(chosen), self.batch_size):
                for samples, scores in self._scores(X, chosen[start : start + self.batch_size]):
                    answers.update(zip(samples, answer(scores, samples), strict=True))
        return [answers[int(m)] for m in chosen]

    # ------------------------------------------------------------------ prediction
    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The most probable output of every sample."""
        check_is_fitted(self, "module_")
        found = self._each(X, range(len(X)), lambda scores, _: self.loss_.decode(*scores))
        return [y.numpy() if isinstance(y, Tensor) else y for y in found]

    def predict_marginals(self, X: Sequence[Any]) -> list[Floats]:
        """Marginal probabilities of every sample, as `marginals` of the loss shapes them."""
        check_is_fitted(self, "module_")
        found = self._each(X, range(len(X)), lambda scores, _: self.loss_.marginals(*scores))
        return [tau.double().numpy() for tau in found]

    predict_proba = predict_marginals

    def approximate_log_likelihood(self, X: Sequence[Any], Y: Sequence[Any]) -> Floats:
        """<scores, y> - log Z_rho of every sample."""
        check_is_fitted(self, "module_")
        return -self._losses(X, Y, range(len(X)))

    def score(self, X: Sequence[Any], Y: Sequence[Any]) -> float:
        """1 - mean Hamming loss per sample, ignored nodes left out."""
        shares = []
        for found, label in zip(self.predict(X), Y, strict=True):
            known = np.asarray(label) != IGNORED
            if known.any():
                shares.append(np.mean((np.asarray(found) == np.asarray(label))[known]))
        if not shares:
            raise ValueError("Y: no label is known, there is nothing to compare with")
        return float(np.mean(shares))

    def events(self, X: Sequence[Any], Y: Sequence[Any]) -> Events:
        """Which pairs, states or coordinates were observed and their probabilities."""
        tables = self.predict_marginals(X)
        if isinstance(self.loss_, MatchingNLLLoss | GroupMatchingNLLLoss):
            sides = isinstance(self.loss_, MatchingNLLLoss)
            return pair_events(tables, Y, bipartite=sides)
        if isinstance(self.loss_, StructuredLoss):
            spaces = spaces_of(self.loss_.structure, len(tables))
            happened = [
                space.encode(y).dense(table.size)
                for space, table, y in zip(spaces, tables, Y, strict=True)
            ]
            return as_events(np.concatenate(happened), np.concatenate(tables))
        return state_events(tables, Y, unknown=IGNORED)

    # ------------------------------------------------------------------ files
    def save(self, path: str | Path) -> None:
        """Write the weights of the network and the history; arrays and text, nothing executable."""
        check_is_fitted(self, "module_")
        learned = {"history": self.history_, "n_epochs": self.n_epochs_}
        save_weights(path, self.module_, repr(self.loss_), learned)

    @classmethod
    def load(cls, path: str | Path, module: nn.Module, loss: NLLLoss) -> NeuralCRF:
        """A model that predicts with the weights of a file.

        `module` has the architecture that was trained, `loss` its family of outputs; the file has
        neither. Raises ModelFileError where they do not fit.
        """
        model = cls(module, loss)
        model.module_, model.loss_ = copy.deepcopy(module), copy.deepcopy(loss)
        model.loss_.reduction = "none"
        learned = load_weights(path, model.module_, repr(model.loss_))
        model.history_, model.n_epochs_ = learned["history"], learned["n_epochs"]
        model.module_.eval()
        return model


def _parts(sample: Any) -> tuple[Any, ...]:
    return sample if isinstance(sample, tuple) else (sample,)


def _stacked(arrays: Sequence[Any], like: Tensor) -> Tensor:
    """A tensor of equally shaped arrays; floating-point numbers have the type of the weights."""
    stacked = torch.stack([torch.as_tensor(array) for array in arrays])
    return stacked.to(like) if stacked.is_floating_point() else stacked.to(like.device)
