"""Generated handwriting: words of pixel letters, in the manner of optical character recognition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from .._arguments import as_count, generator

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

HEIGHT, WIDTH = 16, 8
SHORTEST, LONGEST = 5, 15
SHIFTS = (-1, 0, 1)


def make_words(
    n_words: int, n_states: int = 26, random_state: int | None = None
) -> tuple[list[Floats], list[Ints]]:
    """Words of 5 to 15 letters drawn from a Markov chain, each letter a noisy 16 x 8 image.

    A letter's glyph is a smooth random pattern, moved by up to one pixel in each direction; then
    20 % of the pixels are flipped. Glyphs and letter frequencies depend on `random_state`, so draw
    training and test words in one call.

    Returns
    -------
    X : list of float32 arrays of shape (n_letters, 128), of zeros and ones
    Y : list of int arrays of shape (n_letters,)

    Examples
    --------
    >>> from mlestruct.datasets.words import make_words
    >>> X, Y = make_words(3, random_state=0)
    >>> [x.shape[0] == len(y) for x, y in zip(X, Y)]
    [True, True, True]
    """
    as_count(n_words, "n_words")
    as_count(n_states, "n_states", 2)
    rng = generator(random_state)
    noise = rng.normal(size=(n_states, HEIGHT, WIDTH))
    glyphs = gaussian_filter(noise, sigma=(0.0, 1.2, 1.2)) > 0.0
    moved = np.array([[np.roll(glyphs, (i, k), axis=(1, 2)) for k in SHIFTS] for i in SHIFTS])
    following = rng.dirichlet(np.full(n_states, 0.15), size=n_states)
    first = rng.dirichlet(np.full(n_states, 0.5))
    X, Y = [], []
    for length in rng.integers(SHORTEST, LONGEST + 1, size=n_words).tolist():
        letters = [rng.choice(n_states, p=first)]
        while len(letters) < length:
            letters.append(rng.choice(n_states, p=following[letters[-1]]))
        word = np.array(letters, dtype=np.int64)
        down, right = rng.integers(len(SHIFTS), size=(2, length))
        flipped = rng.random((length, HEIGHT, WIDTH)) < 0.2
        pixels = moved[down, right, word] ^ flipped
        X.append(pixels.reshape(length, -1).astype(np.float32))
        Y.append(word)
    return X, Y
