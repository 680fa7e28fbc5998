"""`DecoderSpace`: outputs that are known only by a MAP decoder over 0/1 vectors.

The polytope is the convex hull of the decoder's outputs, the interior point an average of outputs
that the decoder returns for suitable directions, and the entropy one of marginals alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .._arguments import as_count, as_table
from .._running import check_time, is_over
from ..algorithms.covering import covering_outputs
from ..algorithms.frank_wolfe import PlainEntropy, SteppingEntropy
from ..algorithms.fully_corrective import fully_corrective_marginals
from ..algorithms.gumbel import GumbelNoise
from ..exceptions import DecoderError, InfeasibleError
from .contract import Bounds, Decoding, Marginals, Structure, Vertex
from .entropy import Entropy, SeparableEntropy, as_entropy, coordinate_entropy
from .known_outputs import KnownOutputs, described, read_output, slack, vertex_of
from .restricted import Restricted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ADVICE = (
    "decode must return the best output at scores of any sign, which check_structure tests. If it "
    "is a solver that stops at a relative gap: set that to 0 (mip_rel_gap of scipy.optimize.milp). "
    "For any other decoder pass DecoderSpace(decode, n, exact=False), where decode may return a "
    "pair (output, upper bound) for certificates"
)


class DecoderSpace(Structure):
    """0/1 vectors, given by a function that maximises linear scores over them.

    Parameters
    ----------
    decode : function of scores (n_coordinates,), which it may change, to the best output: 0/1 of
        the same shape, or a pair (output, upper bound of the largest score)
    n_coordinates : int
    entropy : an `Entropy` or a pair of functions (value, gradient); by default that of independent
        coordinates, `coordinate_entropy`
    interior : a point at which every coordinate that varies is strictly between 0 and 1; by default
        the mean of the outputs of `covering_outputs`
    exact : whether every output of `decode` has the largest score. If not, certificates hold only
        where it returns an upper bound
    marginals : function of scores to (tau, log Z), or to `Marginals`: a marginal oracle
    bounds : function of scores to (lower, upper) bounds of log Z

    Attributes
    ----------
    calls : number of calls of `decode` so far
    """

    def __init__(
        self,
        decode: Callable[[Floats], Any],
        n_coordinates: int,
        *,
        entropy: Any = None,
        interior: Any = None,
        exact: bool = True,
        marginals: Callable[[Floats], Any] | None = None,
        bounds: Callable[[Floats], Any] | None = None,
    ):
        named = {"decode": decode, "marginals": marginals, "bounds": bounds}
        for name, function in named.items():
            if not (callable(function) or (function is None and name != "decode")):
                raise TypeError(f"`{name}` must be a function of scores; got {function!r}.")
        if not isinstance(exact, bool | np.bool_):
            raise TypeError(f"`exact` must be True or False; got {exact!r}.")
        self._decoder, self.n_coordinates = decode, as_count(n_coordinates, "n_coordinates")
        default = coordinate_entropy(self.n_coordinates)
        self._given_entropy: Any = default if entropy is None else as_entropy(entropy)
        self._given_interior = interior
        self.decodes_exactly = bool(exact)
        self._without_bound = False  # whether some call was neither exact nor bounded
        self._known = KnownOutputs(self.n_coordinates)
        self._labels: dict[bytes, Vertex] = {}  # observed outputs
        self._point: Floats | None = None  # the interior point, once it is found
        self.unproven: Ints = np.zeros(0, dtype=np.int64)  # fixed, as far as the search can tell
        self._oracle, self._bounds = marginals, bounds
        if marginals is not None:
            self.marginals = self._marginals  # type: ignore[method-assign]

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """The output of the user's function, checked against all that is known of the space.

        Raises DecoderError if another output scores more than the answer of an exact decoder, or
        more than an upper bound.
        """
        check_time("decode")
        call = self._known.count_call()
        try:
            returned = self._decoder(np.array(scores))
        except Exception as error:
            error.add_note(
                f"raised by decode in call {call}, at {scores.size} scores from "
                f"{scores.min():.6g} to {scores.max():.6g}; scores may have any sign"
            )
            raise
        output, bound = read_output(returned, self.n_coordinates)
        vertex = vertex_of(output)
        found = Decoding(vertex, vertex.dot(scores), upper_bound=bound)
        self._check(scores, found, call)
        return found

    def _check(self, scores: Floats, found: Decoding, call: int) -> None:
        """Compare an answer with other outputs, and its output with earlier answers."""
        ones, limit = found.vertex.indices, found.score
        what = f"decode: returned an output ({described(ones)}) of score {limit:.6g}"
        if found.upper_bound is not None:
            limit = found.upper_bound
            what = f"decode: returned the upper bound {limit:.6g} of the largest score"
            if limit < found.score - slack(scores):
                raise DecoderError(
                    f"decode: returned an output of score {found.score:.6g} with the upper bound "
                    f"{limit:.6g}, which is below it. The bound is one of <scores, output> for "
                    "all outputs, in the units and with the sign of scores"
                )
        elif not self.decodes_exactly:
            self._without_bound, limit = True, np.inf
        if self._known.add(ones, f"the one that it returned in call {call}"):
            worse = self._known.worse_call(ones)
            if worse is not None:
                raise DecoderError(
                    f"decode: answered call {worse[0]} as if no output had more than "
                    f"{worse[1]:.6g}, but the one that it returns now ({described(ones)}) has "
                    f"{worse[2]:.6g} at the scores of that call. {ADVICE}"
                )
            if self._point is not None:
                self._check_varying(ones, "an output that decode returns")
        if limit < np.inf:
            better = self._known.better_than(limit, scores)
            if better is not None:
                score, name, other = better
                raise DecoderError(
                    f"{what}, but {name} ({described(other)}) scores {score:.6g}. {ADVICE}"
                )
            self._known.keep_call(call, scores, limit)

    def _check_varying(self, ones: Ints, what: str) -> None:
        """Raise if an output differs at coordinates that are taken as fixed."""
        fixed = ~self.varies
        fixed[self.unproven] = False
        output = np.isin(np.arange(self.n_coordinates), ones)
        wrong = np.flatnonzero(fixed & (output != self.interior()))
        if wrong.size == 0:
            return
        k, value = int(wrong[0]), int(output[wrong[0]])
        if self._given_interior is not None:
            raise DecoderError(
                f"interior: is {1 - value} at coordinate {k}, but {what} has {value} there; it "
                "must be strictly between 0 and 1 at every coordinate that varies"
            )
        raise DecoderError(
            f"decode: {what} has {value} at coordinate {k}, but no answer and no upper bound left "
            f"room for that when it was asked for an output with {value} there. {ADVICE}"
        )

    @property
    def calls(self) -> int:
        """Number of calls of `decode` so far."""
        return self._known.calls

    @property
    def has_bound(self) -> bool:
        """Whether every maximum so far was exact or came with a bound, and so did what is fixed."""
        return not (self._without_bound or self.unproven.size)

    @property
    def doubt(self) -> str:
        """Why there is no certificate, where `has_bound` is False."""
        if self._without_bound:
            return "decode is not exact and returned no upper bound"
        shown, more = self.unproven[:5].tolist(), self.unproven.size - 5
        also = f" and {more} more" if more > 0 else ""
        return (
            f"coordinates {shown}{also} are the same in all outputs that the search for an "
            "interior point has found, and the entropy leaves them out, but decode is not exact, "
            "and its upper bounds do not exclude outputs that differ there. Return tighter "
            "bounds, or pass interior= with their values if no output differs there"
        )

    # ------------------------------------------------------------------ interior and entropy
    def interior(self) -> Floats:
        """The given point, or the mean of outputs among which every coordinate varies."""
        if self._point is None:
            given = self._given_interior
            if given is None:
                point = self._search()
            else:
                point = as_table(given, "interior", self.n_coordinates)
                if not ((point >= 0.0) & (point <= 1.0)).all():
                    raise ValueError("interior: marginals must be between 0 and 1")
            self._point = point
        return self._point.copy()

    def _search(self) -> Floats:
        proven = np.full(self.n_coordinates, self.decodes_exactly)

        def maximise(scores: Floats) -> Bools:
            found = self.decode(scores)
            if found.upper_bound is not None:
                # An output with coordinate k at its better value, 1 where scores_k > 0, else 0,
                # has at least this score. Above the bound there is none.
                least = np.minimum(scores, 0.0).sum() + np.abs(scores)
                np.logical_or(proven, least > found.upper_bound + slack(scores), out=proven)
            return found.vertex.dense(self.n_coordinates) > 0.5

        rng = np.random.default_rng(0)  # the same point in every process
        mean: Floats = covering_outputs(
            maximise, self.n_coordinates, rng, self.decodes_exactly
        ).mean(axis=0)
        if self._labels and not self.decodes_exactly:  # they may reach further
            labels = [label.dense(self.n_coordinates) for label in self._labels.values()]
            mean = 0.5 * (mean + np.mean(labels, axis=0))
        # The entropy leaves out coordinates that do not vary. If some output did differ there, the
        # maximum over the polytope could be larger than any bound of a certificate.
        self.unproven = np.flatnonzero(((mean == 0.0) | (mean == 1.0)) & ~proven)
        return mean

    @cached_property
    def varies(self) -> Bools:
        """Coordinates that differ between outputs."""
        point = self.interior()
        return np.asarray((point > 0.0) & (point < 1.0))

    @cached_property
    def _entropy(self) -> Entropy:
        entropy = self._given_entropy
        if isinstance(entropy, SeparableEntropy):
            self._check_size(entropy.a)
            return entropy.masked(self.varies)
        slope = np.asarray(entropy.gradient(self.interior()), dtype=np.float64)
        self._check_size(slope)
        wrong = np.flatnonzero(self.varies & ~np.isfinite(slope))
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(
                f"entropy: its gradient at the interior point is {slope[k]} for coordinate {k}, "
                f"which is {self.interior()[k]:.3g} there; it must be finite inside the polytope"
            )
        return entropy

    def _check_size(self, slope: Floats) -> None:
        if slope.shape != (self.n_coordinates,):
            raise ValueError(
                f"`entropy` must have {self.n_coordinates} coordinates; its gradient has shape "
                f"{slope.shape}."
            )

    def entropy(self, tau: Floats) -> float:
        """H(tau)."""
        return float(self._entropy(tau))

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H; 0 for coordinates that do not vary."""
        return np.where(self.varies, self._entropy.gradient(tau), 0.0)

    @cached_property
    def stepping_entropy(self) -> SteppingEntropy:
        """Compiled line searches for sums over coordinates."""
        entropy = self._entropy
        return entropy if isinstance(entropy, SeparableEntropy) else PlainEntropy(self)

    def hull_entropy(self) -> tuple[SteppingEntropy, Floats | None]:
        """No interior point is searched for if the entropy does not need one."""
        entropy = self._given_entropy
        if isinstance(entropy, SeparableEntropy) and self._given_interior is None:
            self._check_size(entropy.a)
            if ((entropy.a > 0.0) & (entropy.c <= 0.0)).all():
                return entropy, None
        return self.stepping_entropy, self.interior()

    @property
    def is_fixed(self) -> bool:
        """Whether the output farthest from the only known one is this one itself."""
        if self._given_interior is not None or self._point is not None:
            return not bool(self.varies.any())
        only = self._known.only
        if only is None:
            return False
        direction = np.ones(self.n_coordinates)
        direction[only] = -1.0
        return bool(np.array_equal(self.decode(direction).vertex.indices, only))

    # ------------------------------------------------------------------ outputs
    def encode(self, label: Any) -> Vertex:
        """The vertex of a 0/1 vector."""
        return vertex_of(read_output(label, self.n_coordinates, "label: expected")[0])

    def label(self, vertex: Vertex) -> Ints:
        """The 0/1 vector of a vertex."""
        return vertex.dense(self.n_coordinates).astype(np.int64)

    def know(self, vertex: Vertex, where: str) -> None:
        """Compare answers of `decode` with an observed output from now on.

        An exact decoder is asked whether it is one, by a call at the scores 2 y - 1, unless the
        time is up.
        """
        key = vertex.indices.tobytes()
        if key not in self._labels and not (self.decodes_exactly and is_over()):
            if self.decodes_exactly:
                self._require_output(vertex, where)
            self._labels[key] = vertex
        self._known.add(vertex.indices, f"the observed output {where}", rename=True)

    def agree(self, vertex: Vertex, where: str) -> None:
        """Raise if an observed output differs at coordinates that are taken as fixed."""
        if self._point is not None:
            self._check_varying(vertex.indices, f"the observed output {where}")

    def _require_output(self, vertex: Vertex, where: str) -> None:
        y = vertex.dense(self.n_coordinates)
        found = self.decode(2.0 * y - 1.0).vertex.dense(self.n_coordinates)
        differs = np.flatnonzero(found != y)
        if differs.size:
            # An answer that scores more than 0 shares most of its ones with y: a near miss, which
            # a heuristic returns. A solver that minimises avoids y.
            score = float((2.0 * y - 1.0) @ found)
            minimises = " A solver that minimises needs -scores." if score <= 0.0 else ""
            raise ValueError(
                f"{where}: is not an output that decode can return. At the scores 2 y - 1, where y "
                f"would be the best one, decode returns one that differs at coordinates "
                f"{differs[:5].tolist()}{' and more' if differs.size > 5 else ''}.{minimises} If "
                "decode does not always find the best output, pass structure=DecoderSpace(decode, "
                "n, exact=False)"
            )

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of coordinates that differ from `vertex`, as constant + <scores, tau>."""
        y = vertex.dense(self.n_coordinates)
        return float(y.mean()), (1.0 - 2.0 * y) / self.n_coordinates

    def given(self, known: Any) -> Structure:
        """The outputs with known coordinates: 1, 0, or NaN if they are not known.

        Their scores are made so large that an exact decoder returns no other output.
        """
        n, values = self.n_coordinates, np.array(known, dtype=np.float64)
        free = np.isnan(values)
        if values.shape != (n,) or not (free | np.isin(values, (0, 1))).all():
            raise ValueError(
                f"known: expected 1, 0 or NaN (not known) in shape ({n},), got {known!r}"
            )
        if free.all():
            return self
        place, fixed = np.flatnonzero(free), np.where(free, 0.0, values)

        def whole(part: Floats) -> Floats:
            every = fixed.copy()
            every[place] = part
            return every

        def decode(scores: Floats) -> Any:
            every = (2.0 * fixed - 1.0) * (1.0 + 2.0 * float(np.abs(scores).sum()))
            every[place] = scores
            found = self.decode(every)
            output, bound = found.vertex.dense(n), found.upper_bound
            if (output != fixed)[~free].any():
                raise InfeasibleError("known: no output of decode agrees with it", [], "nodes")
            return output[place], None if bound is None else bound - float(every @ fixed)

        decode(np.zeros(place.size))  # or raises
        value = self._given_entropy
        if isinstance(value, SeparableEntropy):
            entropy: Any = SeparableEntropy(value.a[place], value.c[place])
        else:
            slope = value.gradient
            entropy = (lambda tau: value(whole(tau)), lambda tau: slope(whole(tau))[place])
        part = None
        if place.size:
            part = DecoderSpace(decode, place.size, entropy=entropy, exact=self.decodes_exactly)
        return Restricted(self, part, fixed, place)

    # ------------------------------------------------------------------ inference
    def _marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """The answer of the user's marginal oracle."""
        assert self._oracle is not None
        found = self._oracle(np.array(scores))
        if not isinstance(found, Marginals):
            if not isinstance(found, tuple) or len(found) != 2:
                raise DecoderError(
                    f"marginals: must return (tau, log Z) or Marginals, got {type(found).__name__}"
                )
            tau, value = np.asarray(found[0], dtype=np.float64), float(found[1])
            found = Marginals(tau, value, value, None, 1)
        tau, bounds = found.tau, (found.value, found.upper_bound)
        if tau.shape != (self.n_coordinates,):
            raise DecoderError(
                f"marginals: must return tau of shape ({self.n_coordinates},), got {tau.shape}"
            )
        if not ((tau >= -1e-9) & (tau <= 1.0 + 1e-9)).all() or np.isnan(bounds).any():
            raise DecoderError(
                f"marginals: must return numbers from 0 to 1 and a log-partition function, got "
                f"{tau.min()} to {tau.max()} and {found.value}"
            )
        return found

    def gumbel_noise(self) -> GumbelNoise:
        """Every coordinate chooses whether it is 1."""
        at = np.flatnonzero(self.varies)
        own = np.arange(at.shape[0])
        return GumbelNoise(self.n_coordinates, at, own, minimal=True)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """From below outputs found on the way; from above independent coordinates."""
        if self._bounds is not None:
            lower, upper = self._bounds(np.array(scores))
            return Bounds(float(lower), float(upper), "given bounds", "given bounds")
        return bounds_by_decoding(self, scores, tol)


class _Bounding(Structure):
    """The outputs of another space under another, concave entropy; keeps what is decoded."""

    def __init__(self, space: Structure, entropy: SeparableEntropy):
        self.n_coordinates, self._space, self._entropy = space.n_coordinates, space, entropy
        self.found: dict[bytes, Vertex] = {}

    def hull_entropy(self) -> tuple[SteppingEntropy, None]:
        return self._entropy, None

    @property
    def has_bound(self) -> bool:
        return self._space.has_bound

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        best = self._space.decode(scores)
        self.found[best.vertex.indices.tobytes()] = best.vertex
        return best


def bounds_by_decoding(
    space: Structure,
    scores: Floats,
    tol: float,
    entropy: SeparableEntropy | None = None,
    reason: str = "independent coordinates",
) -> Bounds:
    """Bounds of log Z for 0/1 outputs of which only a decoder is known.

    From above: `entropy` is at least that of any distribution with the same marginals, as that of
    independent coordinates is. From below: the sum over all outputs that were decoded on the way.
    """
    if entropy is None:
        entropy = coordinate_entropy(space.n_coordinates)
    outputs = _Bounding(space, entropy)
    upper = fully_corrective_marginals(outputs, scores, tol, 1000).upper
    seen = [vertex for vertex in outputs.found.values() if (vertex.values == 1.0).all()]
    lower = float(logsumexp([vertex.dot(scores) for vertex in seen])) if seen else -np.inf
    if not space.has_bound:
        return Bounds(lower, np.inf, "outputs found", f"none: {doubt_of(space)}")
    return Bounds(lower, upper, "outputs found", reason)


def doubt_of(space: Structure) -> str:
    """Why an output space without `has_bound` has no certificate."""
    if isinstance(space, Restricted) and space.part is not None:
        space = space.part
    if isinstance(space, DecoderSpace):
        return space.doubt
    return f"{type(space).__name__} has no upper bound of log Z"
