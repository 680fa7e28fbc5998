"""How the samples of a `StructuredCRF` become output spaces and features."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from threading import RLock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._arrays import as_floats
from .._threads import Each
from ..exceptions import Naming, OutOfTimeError
from ..features import DenseFeatures, FeatureMap, SparseFeatures, as_feature_map
from ..features.contract import is_feature_map
from ..structures.contract import Structure, as_structure
from ..structures.decoder import DecoderSpace, as_entropy, doubt_of
from .slow_calls import watched
from .validation import check_finite

Floats = NDArray[np.float64]

# Seconds. Around each call of `decode` is Python, which threads only hinder: at .2 ms two of them
# lose a fifth where calls hold the GIL, at 2 ms next to nothing.
LONG_CALL = 2e-3


class CallTimes:
    """Seconds of the last calls of a decoder: threads share out samples where calls are long.

    Waiting for another process counts. Half of the calls decide, so that neither a first call
    that compiles nor one that was interrupted does.
    """

    def __init__(self, decode: Any):
        self.decode = decode
        self._last: deque[float] = deque(maxlen=15)
        self._turn = RLock()

    def __reduce__(self) -> Any:
        return type(self), (None,)  # locks cannot be pickled, and times differ between machines

    def timed(self, decode: Callable[[Floats], Any]) -> Callable[[Floats], Any]:
        def call(scores: Floats) -> Any:
            start = perf_counter()
            found = watched(decode, scores)
            self._last.append(perf_counter() - start)
            return found

        return call

    @property
    def are_short(self) -> bool:
        """Whether threads would not pay; False before the first call."""
        last = self._last.copy()
        return bool(last) and median(last) < LONG_CALL

    def turn(self) -> AbstractContextManager[Any]:
        """One sample at a time where calls turn out to be short after threads have begun."""
        return self._turn if self.are_short else nullcontext()


class Spaces:
    """Output spaces of samples, from a structure or a function of x to one."""

    def __init__(self, given: Any):
        self._given = as_structure(given) if hasattr(given, "n_coordinates") else given
        if not isinstance(self._given, Structure) and not callable(given):
            raise TypeError(f"structure: expected one, or a function of x to one, got {given!r}")
        self.made: list[Structure] = []
        self.names: list[str] = []  # of the first sample of each
        self._places: set[int] = set()
        self._calls_before = self.n_preparing_calls = 0

    def of(self, x: Any, n_scored: int, where: str) -> Structure:
        """The output space of a sample with this many rows of features."""
        space = self._given
        if not isinstance(space, Structure):
            try:
                space = as_structure(space(x))
            except Exception as error:
                error.add_note(
                    f"structure: was called with {where}, as a function of a sample to its output "
                    "space; a function of scores is given as decode="
                )
                raise
        if space.n_scored != n_scored:
            raise ValueError(
                f"{where}: has {n_scored} rows of features, {type(space).__name__} has "
                f"{space.n_scored} scored coordinates"
            )
        self._keep(space, where)
        return space

    def _keep(self, space: Structure, where: str) -> None:
        if id(space) not in self._places:
            self._places.add(id(space))
            self.made.append(space)
            self.names.append(where)
            if isinstance(space, DecoderSpace):
                self._calls_before += space.calls

    def take(self, former: Spaces | None) -> None:
        """Use output spaces again, with what is known of them, where they are still the same."""

    def doubt(self) -> str | None:
        """Why the duality gap of a fit is no certificate; None where it is one."""
        for space, where in zip(self.made, self.names, strict=True):
            if not space.has_bound:
                return f"{where}: {doubt_of(space)}"
        return None

    def __reduce__(self) -> Any:
        return type(None), ()  # pickled models make their spaces again

    def prepare(self, each: Each, times: CallTimes) -> None:
        """Find interior points; keep the number of calls of decoders, which no solver counts."""
        decoders = [
            (space, where)
            for space, where in zip(self.made, self.names, strict=True)
            if isinstance(space, DecoderSpace)
        ]
        done: list[str] = []

        def one(item: tuple[DecoderSpace, str]) -> None:
            space, where = item
            with times.turn(), Naming(where, "looking for an interior point"):
                space.interior()
            done.append(where)

        try:
            list(each(one, decoders))
        except OutOfTimeError as error:
            calls = sum(space.calls for space, _ in decoders) - self._calls_before
            raise OutOfTimeError(
                f"{error}; set-up has taken all of the time: {calls} calls of decode, which found "
                f"interior points for {len(done)} of {len(decoders)} output spaces. "
                "Give interior=, n_jobs= or more max_time"
            ) from None
        self.n_preparing_calls = sum(space.calls for space, _ in decoders) - self._calls_before


class Decoders(Spaces):
    """Output spaces from the functions of a `StructuredCRF`."""

    def __init__(self, estimator: Any, times: CallTimes):
        self._estimator, self._times = estimator, times
        self._takes_x = any(
            takes_sample(function)
            for function in (estimator.decode, estimator.marginals, estimator.bounds)
            if function is not None
        )
        self._varies = self._takes_x or any(
            callable(given) and not hasattr(given, "gradient")
            for given in (estimator.entropy, estimator.interior)
        )
        self._known: dict[int, DecoderSpace] = {}  # by the number of coordinates
        self._own: dict[int, tuple[Any, DecoderSpace]] = {}  # by id of the sample, which is kept
        self._former = self._own
        names = ("decode", "marginals", "bounds", "entropy", "interior", "exact")
        self._functions = [getattr(estimator, name) for name in names]
        self.made, self.names, self._places = [], [], set()
        self._calls_before = self.n_preparing_calls = 0

    def doubt(self) -> str | None:
        if not (self.made or self._estimator.exact):  # the spaces of partitions are elsewhere
            return "decode is not exact, and samples in partitions do not tell what bounds prove"
        return super().doubt()

    def take(self, former: Spaces | None) -> None:
        if isinstance(former, Decoders):
            pairs = zip(self._functions, former._functions, strict=True)
            if all(own is other for own, other in pairs):
                self._known, self._former = former._known, former._own

    def of(self, x: Any, n_scored: int, where: str) -> Structure:
        """One space for all samples of the same size, or one for each where functions take x."""
        if self._varies:
            kept, space = self._former.get(id(x), (None, None))
            if kept is not x or space is None or space.n_coordinates != n_scored:
                space = self._make(x, n_scored)
            self._own[id(x)] = x, space
        else:
            if n_scored not in self._known:
                self._known[n_scored] = self._make(x, n_scored)
            space = self._known[n_scored]
        self._keep(space, where)
        return space

    def _make(self, x: Any, n_scored: int) -> DecoderSpace:
        chosen = self._estimator

        def bound_to_x(function: Callable[..., Any] | None) -> Callable[[Floats], Any] | None:
            if function is None or not takes_sample(function):
                return function
            return lambda scores: function(scores, x)

        entropy, interior = chosen.entropy, chosen.interior
        if callable(entropy) and not hasattr(entropy, "gradient"):
            entropy = entropy(x)
        if callable(interior):
            interior = interior(x)
        decode = bound_to_x(chosen.decode)
        assert decode is not None
        return DecoderSpace(
            self._times.timed(decode),
            n_scored,
            entropy=as_entropy(entropy),
            interior=interior,
            exact=bool(chosen.exact),
            marginals=bound_to_x(chosen.marginals),
            bounds=bound_to_x(chosen.bounds),
        )


def takes_sample(function: Callable[..., Any]) -> bool:
    """Whether a function of scores also takes the sample: a second argument that has no default,
    or is called x.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of built-in functions
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in parameters if p.kind in positional]
    return len(places) > 1 and (
        places[1].default is inspect.Parameter.empty or places[1].name == "x"
    )


def read_features(given: Any, where: str) -> FeatureMap:
    """The features of one sample, one row for each coordinate."""
    if isinstance(given, tuple) and len(given) == 2:
        given = given[0]
    if is_feature_map(given):
        return as_feature_map(given)
    if issparse(given):
        if given.dtype.kind == "c":
            raise ValueError(f"{where}: expected real numbers, got dtype {given.dtype}")
        stored = given.tocsr()  # lists and dictionaries of entries have no array of values
        found: FeatureMap = SparseFeatures(stored)
        values = stored.data
    else:
        try:
            array = as_floats(given)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{where}: cannot be read as an array of features ({error}); `features` may be a "
                "function that makes them from a sample"
            ) from None
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(
                f"{where}: expected features of shape (n_coordinates, n_features), "
                f"got shape {array.shape}"
            )
        found, values = DenseFeatures(array), array
    check_finite(values, where)
    return found
