"""`sample`: outputs drawn from the model itself, exactly if counting is exact, otherwise nearly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_count, generator
from ..exceptions import MissingCapability, TooLargeToCount
from ..structures.contract import Structure, StructureLike
from .perturb_and_map import noise_of
from .scores import read_query

Floats = NDArray[np.float64]

METHODS = ("auto", "exact", "mcmc", "perturb")
OPTIONS = ("n_chains", "sweeps", "max_sweeps", "tol_rhat")


@dataclass(frozen=True)
class Samples:
    """Outputs drawn from a model.

    Attributes
    ----------
    labels : array of shape (n_samples, ...), each a label as the structure has them; a list of
        arrays if labels differ in size
    method : "exact", "mcmc": a Markov chain, or "perturb": perturb-and-MAP
    rhat, ess : split R-hat and effective sample size of a Markov chain; else 1 and n_samples
    converged : whether rhat reached its tolerance
    """

    labels: Any
    method: str
    rhat: float
    ess: float
    converged: bool

    def __repr__(self) -> str:
        return (
            f"Samples({len(self.labels)} labels, method={self.method!r}, rhat={self.rhat:.3g}, "
            f"ess={self.ess:.0f}, converged={self.converged})"
        )


def sample(
    structure: StructureLike,
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
    method : "auto", "exact", "mcmc" or "perturb"
        "exact": independent draws, of chains and of problems small enough to count. "mcmc": Markov
        chains over matchings, Gibbs sampling of labellings; they run until they agree, and warn if
        they do not. "perturb": perturb-and-MAP, outputs that are best under perturbed scores, one
        MAP call each: near the model, but with a bias that more samples do not remove. "auto":
        exact if possible, otherwise mcmc, and perturb for outputs that only a decoder describes.
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
        raise ValueError(f"`method` must be one of {list(METHODS)}; got {method!r}.")
    n_samples = as_count(n_samples, "n_samples")
    for name in options:
        if method in ("exact", "perturb") or name not in OPTIONS:
            takes = ", ".join(OPTIONS) if method in ("auto", "mcmc") else "no options"
            raise TypeError(f"{name}: method={method!r} takes {takes}")
    query = read_query(structure, scores)
    rng = generator(random_state)
    if method == "exact" or (method == "auto" and query.structure.offers("exact")):
        try:
            drawn = query.structure.exact(query.scores).sample(n_samples, rng)
            return Samples(drawn, "exact", 1.0, float(n_samples), True)
        except TooLargeToCount:
            if method == "exact":
                raise
    space = query.structure.approximate
    chains = space.offers("markov_chain_samples")
    if method == "perturb" or (method == "auto" and not chains):
        query.require_finite("method='perturb'")
        labels = _perturbed(space, query.scores, n_samples, rng)
        return Samples(labels, "perturb", 1.0, float(n_samples), True)
    if not chains:
        raise MissingCapability(
            f"method='mcmc' has no Markov chain over {type(space).__name__}; use method='perturb'"
        )
    query.require_finite("method='mcmc'")
    found = space.markov_chain_samples(query.scores, n_samples, rng, **options)
    return Samples(found.states, "mcmc", found.rhat, found.ess, found.converged)


def _perturbed(space: Structure, scores: Floats, n_samples: int, rng: np.random.Generator) -> Any:
    """Labels of perturbed maximisers: an array if they have one shape, otherwise a list."""
    noise = noise_of(space)
    best = (space.decode_integral(scores + noise.draw(rng)[0]) for _ in range(n_samples))
    labels = [space.label(found.vertex) for found in best]
    same = len({np.shape(label) for label in labels}) == 1
    return np.array(labels) if same else labels
