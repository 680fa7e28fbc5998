"""`SequenceTagger`: a ChainCRF over features of words, their form and their neighbours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models import ChainCRF
from ..models.failed_fits import unchanged_on_failure
from ..models.tuned import TunedLabelling
from .sentences import Token

Floats = NDArray[np.float64]
DIGITS, LETTERS, CAPITALS = (re.compile(kind) for kind in (r"\d+", "[a-z]+", "[A-Z]+"))
Sentence = Sequence[Any]  # of words, of tuples of columns, or of dictionaries of features


def token_features(
    sentence: Sequence[Token | str], window: int = 1, affix: int = 3
) -> list[dict[str, Any]]:
    """A dictionary of features for each token, a tuple of columns or a word alone.

    The first column is the word: in lower case, its first and last letters up to `affix`, its form
    ("Aa1-" for "Main42-"). Other columns are taken as they are. All but first and last letters are
    features of the `window` tokens on both sides, too; ends of the sentence are marked.
    """
    _check_sizes(window, affix)
    tokens = _read_tokens(sentence, "sentence")
    if any(isinstance(token, Mapping) for token in tokens):
        raise TypeError("sentence: dictionaries are features already; expected tuples of columns")
    return _token_features(tokens, window, affix)


def _token_features(sentence: Sequence[Token], window: int, affix: int) -> list[dict[str, Any]]:
    """`token_features` of tuples of columns that were checked."""
    own = [_columns(token) for token in sentence]
    shifts = [(shift, f"{shift:+d} ") for shift in range(-window, window + 1)]
    out: list[dict[str, Any]] = []
    for k, token in enumerate(sentence):
        word = token[0].lower()
        features: dict[str, Any] = {"bias": True}
        for size in range(1, min(affix, len(word)) + 1):
            features["begins:" + word[:size]] = True
            features["ends:" + word[-size:]] = True
        for shift, prefix in shifts:
            place = k + shift
            if 0 <= place < len(own):
                for name in own[place]:
                    features[prefix + name] = True
            elif place in (-1, len(own)):
                features[prefix + "end of sentence"] = True
        out.append(features)
    return out


def _columns(token: Token) -> list[str]:
    word = token[0]
    form = CAPITALS.sub("A", LETTERS.sub("a", DIGITS.sub("1", word)))
    extra = [f"column {k}={value}" for k, value in enumerate(token[1:], start=2)]
    return [f"word={word.lower()}", f"form={form}", *extra]


def _check_sizes(window: Any, affix: Any) -> None:
    for name, value in (("window", window), ("affix", affix)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < 0:
            raise ValueError(f"{name}: expected a whole number of at least 0, got {value!r}")


def _read_tokens(sentence: Any, where: str) -> list[Any]:
    """Tokens as tuples of text or as dictionaries; a word alone is a tuple of one."""
    if isinstance(sentence, str):
        raise ValueError(
            f"{where}: expected a list of tokens, got the text {sentence!r:.60}; split it into "
            "words"
        )
    if isinstance(sentence, bytes | Mapping) or not isinstance(sentence, Sequence):
        raise ValueError(f"{where}: expected a list of tokens, got {sentence!r:.60}")
    tokens = [(token,) if isinstance(token, str) else token for token in sentence]
    for token in tokens:
        columns = isinstance(token, (tuple, list)) and len(token) > 0
        if not (columns and all(isinstance(value, str) for value in token)) and not isinstance(
            token, Mapping
        ):
            raise ValueError(
                f"{where}: a token is a word, a tuple of texts, the word first, or a dictionary of "
                f"features, got {token!r:.60}"
            )
    return tokens


def _label_array(labels: Any, where: str) -> NDArray[Any]:
    try:
        found = np.array(labels)
    except ValueError as error:
        raise ValueError(f"{where}: expected a label for each token: {error}") from None
    if not found.ndim or (found.dtype == object and any(np.ndim(y) for y in found.flat)):
        raise ValueError(f"{where}: expected a label for each token, got {labels!r:.60}")
    return found


def _judged(X: Sequence[Any], Y: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Sentences that can be left out and judged by: those with a known label."""
    pairs = [
        (x, y)
        for x, y in zip(X, Y, strict=False)  # other lengths are an error of the fit
        if y is not None and any(label is not None for label in y.ravel().tolist())
    ]
    return [x for x, _ in pairs], [y for _, y in pairs]


class SequenceTagger(TunedLabelling):
    """Labels of the words of a sentence, with probabilities.

    Parameters
    ----------
    window : neighbours on each side whose word, form and columns are features
    affix : longest beginnings and ends of words that are features
    alpha : penalty of the weights, or "auto": by cross-validated likelihood
    tol, max_time, n_jobs, verbose, forbidden_transitions : as in `ChainCRF`
    random_state : of the folds

    Attributes
    ----------
    estimator_ : the fitted `ChainCRF`
    alpha_ : the penalty that was used
    held_out_ : quality in cross-validation; None if alpha was given
    n_columns_ : columns of a token; 0 where tokens are dictionaries of features

    Examples
    --------
    >>> from mlestruct.tagging import SequenceTagger
    >>> sentences = [["12", "Main", "St"], ["7", "Lake", "Ave"], ["Oak", "Rd", "221"]]
    >>> labels = [["NUMBER", "NAME", "KIND"]] * 2 + [["NAME", "KIND", "NUMBER"]]
    >>> tagger = SequenceTagger(alpha=0.1).fit(sentences, labels)
    >>> tagger.predict([["45", "Hill", "St"]])[0].tolist()
    ['NUMBER', 'NAME', 'KIND']
    >>> tagger.predict_marginals([["45", "Hill", "St"]])[0].shape
    (3, 3)
    """

    _stored_as = "chain"

    def __init__(
        self,
        window: int = 1,
        affix: int = 3,
        alpha: float | str = "auto",
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        forbidden_transitions: Any = None,
    ):
        self.window = window
        self.affix = affix
        self.alpha = alpha
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.forbidden_transitions = forbidden_transitions

    def fit(self, sentences: Sequence[Sentence], labels: Sequence[Sequence[str]]) -> SequenceTagger:
        """Learn from sentences and the labels of their tokens.

        A token is a word, a tuple of columns, the word first, or a dictionary of features that are
        taken as they are. Labels are None where they are not known, of a token or of a whole
        sentence.
        """
        _check_sizes(self.window, self.affix)
        sentences = [_read_tokens(x, f"sentences[{m}]") for m, x in enumerate(sentences)]
        first = next((token for sentence in sentences for token in sentence), None)
        if first is None:
            raise ValueError("sentences: expected at least one that has tokens")
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise ValueError(f"labels: expected a list for each sentence, got {labels!r:.60}")
        with unchanged_on_failure(self):
            self.n_columns_ = 0 if isinstance(first, Mapping) else len(first)
            Y = [None if y is None else _label_array(y, f"labels[{m}]")
                 for m, y in enumerate(labels)]  # fmt: skip
            X = self._features(sentences)
            self.estimator_ = self._fit_tuned(X, Y, _judged(X, Y))
        return self

    def predict(self, sentences: Sequence[Sentence]) -> list[NDArray[Any]]:
        """The labels of the most probable sequence for each sentence, arrays of shape (T,)."""
        return super().predict(sentences)

    def predict_marginals(self, sentences: Sequence[Sentence]) -> list[Floats]:
        """The probability of every label of every token, arrays of shape (T, n_labels)."""
        return super().predict_marginals(sentences)

    def _features(self, sentences: Sequence[Sentence]) -> list[list[dict[str, Any]]]:
        read = [_read_tokens(x, f"sentences[{m}]") for m, x in enumerate(sentences)]
        for m, sentence in enumerate(read):
            for token in sentence:
                if (type(token) is not tuple and isinstance(token, Mapping)) != (
                    self.n_columns_ == 0
                ):
                    raise ValueError(
                        f"sentences[{m}]: tokens must be of the kind that was learned from: "
                        f"{'columns' if self.n_columns_ else 'dictionaries of features'}"
                    )
                if self.n_columns_ and len(token) != self.n_columns_:
                    raise ValueError(
                        f"sentences[{m}]: a token has {len(token)} columns, expected "
                        f"{self.n_columns_}"
                    )
        if self.n_columns_ == 0:
            return read
        return [_token_features(sentence, self.window, self.affix) for sentence in read]

    def _estimator(self, alpha: float) -> ChainCRF:
        return ChainCRF(
            alpha=alpha, tol=self.tol, max_time=self.max_time, n_jobs=self.n_jobs,
            verbose=self.verbose, state_features="observed",
            forbidden_transitions=self.forbidden_transitions,
        )  # fmt: skip

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        names, layout = super()._learned_names()
        return names, {**(layout or {}), "columns": self.n_columns_}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        super()._reload(coef, names, layout)
        self.n_columns_ = int((layout or {})["columns"])
