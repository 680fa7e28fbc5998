"""`sample`: outputs drawn from the model itself, exactly where counting is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..algorithms.markov_chains import Draws
from ..algorithms.pairwise.gibbs import gibbs_samples
from ..exceptions import TooLargeToCount
from ..structures import (
    BinaryPairwise,
    BipartiteMatching,
    Chains,
    LocalMatching,
    MissingCapability,
    Pairwise,
)
from .exact import exact_distribution
from .matching_chains import sample_structure
from .result import Samples
from .scores import Query, check_count, read_query

METHODS = ("auto", "exact", "mcmc")
OPTIONS = ("n_chains", "sweeps", "max_sweeps", "tol_rhat")


def sample(
    structure: Any,
    scores: Any,
    n_samples: int = 1,
    method: str = "auto",
    *,
    random_state: Any = None,
    **options: Any,
) -> Samples:
    """Draw outputs y with probability exp(<scores, y>) / Z.

    Parameters
    ----------
    structure, scores : as in `marginals`
    n_samples : int
    method : "auto", "exact" or "mcmc"
        "exact": independent draws, of chains and of problems small enough to count. "mcmc": Markov
        chains over matchings, Gibbs sampling of labellings; they run until they agree, and warn if
        they do not. "auto": exact where possible.
    random_state : int, Generator or None
    options : of "mcmc": n_chains=2, sweeps=100, max_sweeps=50_000, tol_rhat=1.05

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import sample
    >>> from mlestruct.structures import BipartiteMatching
    >>> drawn = sample(BipartiteMatching((3, 3)), 5 * np.eye(3), 1000, random_state=0)
    >>> drawn.labels.shape, drawn.method
    ((1000, 3), 'exact')
    >>> bool((drawn.labels == np.arange(3)).all(axis=1).mean() > 0.9)
    True
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {list(METHODS)}, got {method!r}")
    check_count(n_samples, "n_samples")
    for name in options:
        if method == "exact" or name not in OPTIONS:
            takes = "no options" if method == "exact" else ", ".join(OPTIONS)
            raise TypeError(f"{name}: method={method!r} takes {takes}")
    query = read_query(structure, scores)
    rng = np.random.default_rng(random_state)
    if method != "mcmc":
        try:
            drawn = exact_distribution(query.structure, query.scores).sample(int(n_samples), rng)
            return Samples(drawn, "exact", 1.0, float(n_samples), True)
        except TooLargeToCount:
            if method == "exact":
                raise
    found = _markov_chain(query, int(n_samples), rng, options)
    return Samples(found.states, "mcmc", found.rhat, found.ess, found.converged)


def _markov_chain(
    query: Query, n_samples: int, rng: np.random.Generator, options: dict[str, Any]
) -> Draws:
    structure, scores = query.relaxed, query.scores
    if isinstance(structure, BipartiteMatching | LocalMatching):
        return sample_structure(structure, scores, n_samples, rng, **options)
    query.require_finite("method='mcmc'")
    if isinstance(structure, BinaryPairwise | Pairwise | Chains):
        tail, head = structure.ends
        nodes, edges = structure.score_tables(scores)
        return gibbs_samples(
            nodes.shape[0], tail, head, nodes, edges, n_samples, rng=rng, **options
        )
    raise MissingCapability(f"method='mcmc' has no Markov chain over {type(structure).__name__}")
