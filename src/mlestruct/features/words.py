"""Features of plain words for `ChainCRF`."""

from __future__ import annotations

import re
from collections.abc import Sequence

SHAPES = ((re.compile(r"\d+"), "1"), (re.compile("[a-z]+"), "a"), (re.compile("[A-Z]+"), "A"))


def token_features(
    sentence: Sequence[str | tuple[str, ...]], window: int = 1, affix: int = 3
) -> list[dict[str, bool]]:
    """A dictionary of features for each token of a sentence, as `ChainCRF` takes them.

    Features are the word in lower case, its shape ("Aa1-" for "Main42-"), its prefixes and
    suffixes, and the words and shapes of its neighbours. The ends of the sentence are marked.

    Parameters
    ----------
    sentence : sequence of words, or of tuples (word, column, ...)
        Further columns, for example part-of-speech tags, are features without change.
    window : int
        Number of neighbours on each side.
    affix : int
        Largest length of prefixes and suffixes.

    Examples
    --------
    >>> from mlestruct import ChainCRF
    >>> from mlestruct.features import token_features
    >>> sentences = [["12", "Main", "St"], ["7", "Lake", "Ave"], ["Oak", "Rd", "221"]]
    >>> labels = [["NUMBER", "NAME", "KIND"]] * 2 + [["NAME", "KIND", "NUMBER"]]
    >>> model = ChainCRF(alpha=0.1).fit([token_features(words) for words in sentences], labels)
    >>> model.predict([token_features(["45", "Hill", "St"])])[0].tolist()
    ['NUMBER', 'NAME', 'KIND']
    """
    if isinstance(sentence, str):
        raise TypeError(f"`sentence` must be a list of words; got {sentence!r:.60}. Split it.")
    for name, value in (("window", window), ("affix", affix)):
        if value < 0:
            raise ValueError(f"`{name}` must be at least 0; got {value!r}.")
    tokens = [(token,) if isinstance(token, str) else token for token in sentence]
    own = [_own_features(token) for token in tokens]
    features = []
    for k, token in enumerate(tokens):
        word = token[0].lower()
        names = ["bias"]
        for size in range(1, min(affix, len(word)) + 1):
            names += [f"prefix={word[:size]}", f"suffix={word[-size:]}"]
        for shift in range(-window, window + 1):
            if 0 <= k + shift < len(own):
                names += [f"{shift:+d} {name}" for name in own[k + shift]]
            elif k + shift in (-1, len(own)):
                names.append(f"{shift:+d} end of sentence")
        features.append(dict.fromkeys(names, True))
    return features


def _own_features(token: tuple[str, ...]) -> list[str]:
    shape = token[0]
    for characters, letter in SHAPES:
        shape = characters.sub(letter, shape)
    columns = [f"column {k}={value}" for k, value in enumerate(token[1:], start=2)]
    return [f"word={token[0].lower()}", f"shape={shape}", *columns]
