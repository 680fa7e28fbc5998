"""`DecoderSpace`: outputs that are known only by a MAP decoder over 0/1 vectors.

The polytope is the convex hull of the decoder's outputs, the interior point an average of outputs
that the decoder returns for suitable directions, and the entropy one of marginals alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp

from .._arrays import as_count, as_table
from .._deadline import check_time, is_over
from .._lazy import cached_property
from ..algorithms.covering import covering_outputs
from ..algorithms.frank_wolfe import PlainEntropy, SteppingEntropy
from ..algorithms.fully_corrective import fully_corrective_marginals
from ..algorithms.gumbel import GumbelNoise
from ..exceptions import DecoderError, InfeasibleError
from .conditioned import Conditioned
from .contract import Bounds, Decoding, Marginals, Structure, Vertex
from .entropy import SeparableEntropy, coordinate_entropy
from .known_outputs import KnownOutputs, described, slack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ADVICE = (
    "It must return the best output at scores of any sign (or pass exact=False to DecoderSpace, "
    "with upper bounds if it has them); check_structure tests it"
)

SMALL_GAP = 1e-3  # relative: solvers stop there by default, at 1e-4 most of them


def advice(limit: float, score: float) -> str:
    """What to do about an answer of at most `limit` where another output has `score`."""
    short = (score - limit) / max(abs(score), abs(limit), 1e-300)
    if short > SMALL_GAP:
        return ADVICE
    return (
        f"It falls short by {short:.1g} of the score, as a solver does that stops at a relative "
        "gap: set that to 0 (mip_rel_gap of scipy.optimize.milp), or keep it and return the pair "
        "(output, upper bound) to DecoderSpace(decode, n, exact=False), so that certificates allow "
        "for it"
    )


class Entropy(Protocol):
    """A concave entropy of marginals and its gradient."""

    def __call__(self, tau: Floats) -> float: ...

    def gradient(self, tau: Floats) -> Floats: ...


class EntropyPair:
    """An `Entropy` from two functions."""

    def __init__(self, value: Callable[[Floats], float], gradient: Callable[[Floats], Floats]):
        self.value, self.slope = value, gradient

    def __call__(self, tau: Floats) -> float:
        return float(self.value(tau))

    def gradient(self, tau: Floats) -> Floats:
        return np.asarray(self.slope(tau), dtype=np.float64)


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
        self._given_entropy, self._given_interior = as_entropy(entropy), interior
        self.decodes_exactly = bool(exact)
        self._without_bound = False  # whether some call was neither exact nor bounded
        self._known = KnownOutputs(self.n_coordinates)
        self._checked: set[bytes] = set()  # labels that `decode` has returned
        self._seeds: list[Bools] = []  # labels that reach further than those before
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
        return self._ask(scores)

    def _ask(self, scores: Floats) -> Decoding:
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
        indices = np.flatnonzero(output)
        vertex = Vertex(indices, np.ones(indices.shape[0]))
        found = Decoding(vertex, vertex.dot(scores), upper_bound=bound)
        self._check(scores, found, call)
        return found

    def _check(self, scores: Floats, found: Decoding, call: int) -> None:
        """Compare an answer with other outputs, and its output with earlier answers."""
        limit, bound = found.score, found.upper_bound
        if bound is not None:
            if bound < limit - slack(scores):
                raise DecoderError(
                    f"decode: returned an output of score {limit:.6g} with the upper bound "
                    f"{bound:.6g}, which is below it. The bound is one of <scores, output> for "
                    "all outputs, in the units and with the sign of scores"
                )
            limit = bound
        elif not self.decodes_exactly:
            self._without_bound, limit = True, np.inf
        if self._known.add(found.vertex.indices, f"the one that it returned in call {call}"):
            self._check_new(found.vertex.indices)
        if limit < np.inf:
            better = self._known.better_than(limit, scores)
            if better is not None:
                raise DecoderError(_not_best(found, *better))
            self._known.keep_call(call, scores, limit)

    def _check_new(self, indices: Ints) -> None:
        """An output that was not known: what was concluded from earlier calls must allow for it."""
        worse = self._known.worse_call(indices)
        if worse is not None:
            call, limit, score = worse
            raise DecoderError(
                f"decode: answered call {call} as if no output had more than {limit:.6g}, but the "
                f"one that it returns now ({described(indices)}) has {score:.6g} at the scores of "
                f"that call. {advice(limit, score)}"
            )
        if "_interior" in vars(self):
            self._check_varying(indices, "an output that decode returns")

    def _check_varying(self, indices: Ints, what: str) -> None:
        """Raise if an output differs at coordinates that are taken as fixed."""
        fixed = ~self.varies
        fixed[self.unproven] = False
        output = np.zeros(self.n_coordinates)
        output[indices] = 1.0
        wrong = np.flatnonzero(fixed & (output != self._interior))
        if wrong.size == 0:
            return
        k = int(wrong[0])
        value = int(output[k])
        if self._given_interior is not None:
            raise DecoderError(
                f"interior: is {1 - value} at coordinate {k}, but {what} has {value} there; it "
                "must be strictly between 0 and 1 at every coordinate that varies"
            )
        answered = "decode returned" if self.decodes_exactly else "its upper bound left only"
        sign = "+" if value else "-"
        raise DecoderError(
            f"decode: {what} has {value} at coordinate {k}, but {answered} {1 - value} there when "
            f"it was asked for an output with {value}, by scores of {sign}0.5 to {sign}1 there and "
            f"almost 0 elsewhere. {ADVICE}"
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
    @cached_property
    def _interior(self) -> Floats:
        if self._given_interior is not None:
            return read_interior(self._given_interior, self.n_coordinates)
        proven = np.full(self.n_coordinates, self.decodes_exactly)

        def maximise(scores: Floats) -> Bools:
            found = self._ask(scores)
            if found.upper_bound is not None:
                np.logical_or(proven, _fixed_by(scores, found.upper_bound), out=proven)
            return found.vertex.dense(self.n_coordinates) > 0.5

        outputs = covering_outputs(
            maximise,
            self.n_coordinates,
            np.random.default_rng(0),  # the same point in every process
            self.decodes_exactly,
        )
        if self._seeds:
            outputs = np.unique(np.vstack([outputs, *self._seeds]), axis=0)
        mean: Floats = outputs.mean(axis=0)
        # The entropy leaves out coordinates that do not vary. If some output did differ there, the
        # maximum over the polytope could be larger than any bound of a certificate.
        self.unproven = np.flatnonzero(((mean == 0.0) | (mean == 1.0)) & ~proven)
        return mean

    def interior(self) -> Floats:
        """The given point, or the mean of outputs among which every coordinate varies."""
        return self._interior.copy()

    @cached_property
    def varies(self) -> Bools:
        """Coordinates that differ between outputs."""
        return np.asarray((self._interior > 0.0) & (self._interior < 1.0))

    @cached_property
    def _entropy(self) -> Entropy:
        entropy = self._given_entropy
        if entropy is None:
            entropy = coordinate_entropy(self.n_coordinates)
        if isinstance(entropy, SeparableEntropy):
            slope = entropy.a
        else:
            slope = np.asarray(entropy.gradient(self.interior()), dtype=np.float64)
        self._check_size(slope)
        if isinstance(entropy, SeparableEntropy):
            return entropy.masked(self.varies)
        wrong = np.flatnonzero(self.varies & ~np.isfinite(slope))
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(
                f"entropy: its gradient at the interior point is {slope[k]} for coordinate {k}, "
                f"which is {self._interior[k]:.3g} there; it must be finite inside the polytope"
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
        slope: Floats = self._entropy.gradient(tau)
        if isinstance(self._entropy, SeparableEntropy):
            return slope
        return np.where(self.varies, slope, 0.0)

    @cached_property
    def stepping_entropy(self) -> SteppingEntropy:
        """Compiled line searches for sums over coordinates."""
        entropy = self._entropy
        return entropy if isinstance(entropy, SeparableEntropy) else PlainEntropy(self)

    def hull_entropy(self) -> tuple[SteppingEntropy, Floats | None]:
        """No interior point is searched for if the entropy does not need one."""
        entropy = self._given_entropy
        if entropy is None:
            entropy = coordinate_entropy(self.n_coordinates)
        if isinstance(entropy, SeparableEntropy) and self._given_interior is None:
            self._check_size(entropy.a)
            if ((entropy.a > 0.0) & (entropy.c <= 0.0)).all():
                return entropy, None
        return self.stepping_entropy, self.interior()

    @property
    def is_fixed(self) -> bool:
        """Whether the output farthest from the only known one is this one itself."""
        if self._given_interior is not None or "_interior" in vars(self):
            return not bool(self.varies.any())
        only = self._known.only
        if only is None:
            return False
        direction = np.ones(self.n_coordinates)
        direction[only] = -1.0
        return bool(np.array_equal(self._ask(direction).vertex.indices, only))

    # ------------------------------------------------------------------ outputs
    def encode(self, label: Any) -> Vertex:
        """The vertex of a 0/1 vector."""
        output, _ = read_output(label, self.n_coordinates, "label: expected")
        indices = np.flatnonzero(output)
        return Vertex(indices, np.ones(indices.shape[0]))

    def label(self, vertex: Vertex) -> Ints:
        """The 0/1 vector of a vertex."""
        return vertex.dense(self.n_coordinates).astype(np.int64)

    def know(self, vertex: Vertex, where: str) -> None:
        """Compare answers of `decode` with an observed output from now on.

        An exact decoder is asked whether it is one, by a call at the scores 2 y - 1, unless the
        time is up.
        """
        if vertex.indices.tobytes() in self._checked:
            return
        if self.decodes_exactly and not is_over():
            self._require_output(vertex, where)
            self._checked.add(vertex.indices.tobytes())
        output = vertex.dense(self.n_coordinates) > 0.5
        reaches = self._seeds and np.any([seen == output for seen in self._seeds], axis=0).all()
        if not (self.decodes_exactly or reaches or "_interior" in vars(self)):
            self._seeds.append(output)
        self._known.add(vertex.indices, f"the observed output {where}", rename=True)

    def agree(self, vertex: Vertex, where: str) -> None:
        """Raise if an observed output differs at coordinates that are taken as fixed."""
        if "_interior" in vars(self):
            self._check_varying(vertex.indices, f"the observed output {where}")

    def _require_output(self, vertex: Vertex, where: str) -> None:
        y = vertex.dense(self.n_coordinates)
        found = self._ask(2.0 * y - 1.0).vertex.dense(self.n_coordinates)
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

    # ------------------------------------------------------------------ parts that are known
    def given(self, known: Any) -> Structure:
        """The outputs with known coordinates: 1, 0, or NaN if they are not known.

        Their scores are made so large that an exact decoder returns no other output.
        """
        values = _read_known(known, self.n_coordinates)
        free = np.isnan(values)
        if free.all():
            return self
        place, fixed = np.flatnonzero(free), np.where(free, 0.0, values)

        def decode(scores: Floats) -> Any:
            every = (2.0 * fixed - 1.0) * (1.0 + 2.0 * float(np.abs(scores).sum()))
            every[place] = scores
            found = self._ask(every)
            output, bound = found.vertex.dense(self.n_coordinates), found.upper_bound
            if (output != fixed)[~free].any():
                raise InfeasibleError("known: no output of decode agrees with it", [], "nodes")
            return output[place], None if bound is None else bound - float(every @ fixed)

        part = None
        if place.size:
            given = self._given_entropy
            entropy = None if given is None else restricted_entropy(given, fixed, place)
            exact = self.decodes_exactly
            part = DecoderSpace(decode, place.size, entropy=entropy, exact=exact)
        decode(np.zeros(place.size))  # or raises
        ones = (np.ones(place.size), (place, np.arange(place.size)))
        embedding = csr_array(ones, shape=(self.n_coordinates, place.size))
        return Conditioned(self, part, embedding, fixed, place)

    # ------------------------------------------------------------------ inference
    def _marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """The answer of the user's marginal oracle."""
        assert self._oracle is not None
        found = self._oracle(np.array(scores))
        if isinstance(found, Marginals):
            return found
        tau, value = found
        return Marginals(np.asarray(tau, dtype=np.float64), float(value), float(value), None, 1)

    def gumbel_noise(self) -> GumbelNoise:
        """Every coordinate chooses whether it is 1."""
        at = np.flatnonzero(self.varies)
        own = np.arange(at.shape[0])
        return GumbelNoise(self.n_coordinates, at, own, np.zeros_like(own), minimal=True)

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
    if isinstance(space, Conditioned) and space.part is not None:
        space = space.part
    if isinstance(space, DecoderSpace):
        return space.doubt
    return f"{type(space).__name__} has no upper bound of log Z"


def _fixed_by(scores: Floats, bound: float) -> Bools:
    """Coordinates that an upper bound of all outputs' scores proves to be the same in all outputs.

    An output with coordinate k at its better value, 1 where scores_k > 0, else 0, has a score of
    at least sum_j min(scores_j, 0) + |scores_k|. Where that is above the bound there is none.
    """
    least = float(np.minimum(scores, 0.0).sum())
    return np.asarray(least + np.abs(scores) > bound + slack(scores))


def _not_best(found: Decoding, score: float, name: str, indices: Ints) -> str:
    """The message where a known output scores more than an answer or its bound."""
    own = f"({described(found.vertex.indices)})"
    if found.upper_bound is None:
        what = f"decode: returned an output {own} of score {found.score:.6g}"
    else:
        what = f"decode: returned the upper bound {found.upper_bound:.6g} of the largest score"
    limit = found.score if found.upper_bound is None else found.upper_bound
    todo = advice(limit, score)
    return f"{what}, but {name} ({described(indices)}) scores {score:.6g}. {todo}"


def as_entropy(entropy: Any) -> Entropy | None:
    """An `Entropy` from what a user may give; None for the default."""
    if entropy is None or (callable(entropy) and callable(getattr(entropy, "gradient", None))):
        given: Entropy | None = entropy
        return given
    if isinstance(entropy, tuple) and len(entropy) == 2 and all(map(callable, entropy)):
        return EntropyPair(*entropy)
    raise TypeError(
        "entropy: expected an object that is callable and has a method gradient (such as "
        f"coordinate_entropy(n), factor_entropy(...)) or a pair (value, gradient), got {entropy!r}"
    )


def restricted_entropy(entropy: Entropy, fixed: Floats, place: Ints) -> Entropy:
    """An entropy of the coordinates at `place`, the others being `fixed`."""
    if isinstance(entropy, SeparableEntropy):
        return SeparableEntropy(entropy.a[place], entropy.c[place])

    def whole(tau: Floats) -> Floats:
        every = fixed.copy()
        every[place] = tau
        return every

    return EntropyPair(
        lambda tau: entropy(whole(tau)), lambda tau: entropy.gradient(whole(tau))[place]
    )


def _read_known(known: Any, n_coordinates: int) -> Floats:
    """What is known of an output: 1, 0, or NaN."""
    values = np.array(known, dtype=np.float64)
    if values.shape != (n_coordinates,) or not (np.isnan(values) | np.isin(values, (0, 1))).all():
        raise ValueError(
            f"known: expected 1, 0 or NaN (not known) in shape ({n_coordinates},), got {known!r}"
        )
    return values


def read_output(
    returned: Any, n_coordinates: int, subject: str = "decode: must return"
) -> tuple[Bools, float | None]:
    """An output as booleans, and the upper bound that came with it, if any."""
    bound = None
    if isinstance(returned, Decoding):
        returned, bound = returned.vertex.dense(n_coordinates), returned.upper_bound
    elif isinstance(returned, Vertex):
        returned = returned.dense(n_coordinates)
    elif isinstance(returned, tuple) and len(returned) == 2 and np.ndim(returned[1]) == 0:
        returned, bound = returned[0], None if returned[1] is None else float(returned[1])
    form = f"{subject} a 0/1 vector of shape ({n_coordinates},)"
    try:
        values = np.asarray(returned)
    except ValueError as error:
        raise DecoderError(f"{form}, got a {type(returned).__name__}: {error}") from None
    if values.dtype.kind not in "fiub":
        raise DecoderError(f"{form}, got {type(returned).__name__} {returned!r:.60}")
    if values.shape != (n_coordinates,):
        raise DecoderError(f"{form}, got shape {values.shape}")
    output = values > 0.5
    # Integer programs return values that are not quite 0 or 1.
    wrong = ~(np.abs(values - output.astype(np.float64)) <= 1e-6)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DecoderError(f"{form}, got {values[k]} at coordinate {k}")
    if bound is not None and np.isnan(bound):
        raise DecoderError(f"{form} and an upper bound, got nan as the bound")
    return output, bound


def read_interior(given: Any, n_coordinates: int) -> Floats:
    """An interior point that a user gives."""
    point = as_table(given, "interior", n_coordinates)
    if not ((point >= 0.0) & (point <= 1.0)).all():
        raise ValueError("interior: marginals must be between 0 and 1")
    return point
