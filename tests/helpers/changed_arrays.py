"""Arrays changed at random, for tests that any input gives an answer or a reason.

MLESTRUCT_FUZZ sets the number of cases per test; the default is small.
"""

import inspect
import os
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from mlestruct.exceptions import FileProblem, InfeasibleError, MissingCapability, TooLargeToCount

CASES = int(os.environ.get("MLESTRUCT_FUZZ", "6"))
fuzzed = settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=CASES < 50,
)

NUMBERS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-310, 1e-30, 1e30, 1e160, 1e300, -1e300, 1.5,
]  # fmt: skip
KINDS = [
    "float32", "float16", "int8", "int64", "uint8", "bool", "complex128", "object", "str",
    "longdouble", "datetime64[s]",
]  # fmt: skip


@contextmanager
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@st.composite
def arrays_like(draw, array):
    """An array, changed in one to three ways."""
    found = np.array(array)
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.integers(0, 8))
        if change == 0 and found.size:
            place, value = draw(st.integers(0, found.size - 1)), draw(st.sampled_from(NUMBERS))
            found = found.copy()
            with quiet(), suppress(ValueError, OverflowError, TypeError):
                found.flat[place] = value
        elif change == 1:
            kind = draw(st.sampled_from(KINDS))
            with quiet(), suppress(ValueError, TypeError, OverflowError):
                found = found.astype(kind)
        elif change == 2:
            found = np.asfortranarray(found)
        elif change == 3 and found.ndim:
            found = found[:: draw(st.sampled_from([-1, 2]))]
        elif change == 4 and found.ndim:
            found = found[..., : draw(st.integers(0, 2))]
        elif change == 5:
            found = found[None] if draw(st.booleans()) else found.reshape(-1)
        elif change == 6:
            found = found.copy()
            found.flags.writeable = False
        elif change == 7 and found.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                found = found * draw(st.sampled_from([0.0, 1e-200, 1e8, 1e150]))
        elif change == 8 and found.ndim == 2:
            return draw(st.sampled_from([found.tolist(), _frame(found), found]))
    return found


def _frame(found):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(found)


OTHERS = [
    None, True, -1, 0, 2.5, np.nan, np.inf, "x", "", b"x", 1j, [], (), {}, [[]], [None], [[1, "a"]],
    [[1.0], [1.0, 2.0]], np.zeros(0), np.zeros((0, 3)), np.array(1.0), np.array(["a", "b"]),
    np.ma.masked_array([1.0], [1]), range(3), object(),
]  # fmt: skip


def anything_like(array):
    """The array itself, changed, or something else altogether."""
    others = st.sampled_from(OTHERS)
    return st.one_of(st.just(array), arrays_like(array), arrays_like(array), others)


CELLS = [
    "", " ", None, np.nan, "-1", "1e400", "nan", "\x00", "\u00e4\u200b", 3, 2.5, True, b"x",
    "a" * 300,
]  # fmt: skip


@st.composite
def frames_like(draw, frame):
    """A pandas table, changed in one to three ways, or something else."""
    pandas = pytest.importorskip("pandas")
    found = frame.copy()
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.integers(0, 9))
        if change == 0 and found.size:
            row, column = (draw(st.integers(0, size - 1)) for size in found.shape)
            found = found.astype(object)
            found.iat[row, column] = draw(st.sampled_from(CELLS))
        elif change == 1 and found.shape[1]:
            found = found.drop(columns=found.columns[draw(st.integers(0, found.shape[1] - 1))])
        elif change == 2:
            found = found.iloc[: draw(st.integers(0, len(found)))]
        elif change == 3:
            found = found.reset_index(drop=True)
        elif change == 4 and len(found):
            found = pandas.concat([found, found.iloc[:1]])
        elif change == 5:
            found = found.set_axis(range(found.shape[1]), axis=1)
        elif change == 6:
            kind = draw(st.sampled_from(["category", "string", object, float]))
            with suppress(ValueError, TypeError):
                found = found.astype(kind)
        elif change == 7 and found.shape[1]:
            found = found.set_axis([found.columns[0]] * found.shape[1], axis=1)
        elif change == 8:
            found = found.iloc[::-1]
        else:
            forms = [{"a": found.index.tolist()}, found.to_numpy(), *OTHERS]
            return draw(st.sampled_from(forms))
    return found


def options_from(known):
    """At most two options with one of their values each."""
    pairs = [(name, value) for name, values in known.items() for value in values]
    if not pairs:
        return st.just({})
    return st.lists(st.sampled_from(pairs), max_size=2).map(dict)


def answer(function, *arguments, names=(), **options):
    """The answer, or None where the arguments were refused with a message that names one of them.

    Any other error, and a message that names no argument, fails the test.
    """
    own = [*names, *inspect.signature(function).parameters]
    try:
        with quiet():
            return function(*arguments, **options)
    except (InfeasibleError, MissingCapability, TooLargeToCount, FileProblem):
        return None  # reasons of their own
    except (ValueError, TypeError) as error:
        if not any(name in str(error) for name in own):
            pytest.fail(f"{error!r} names none of {own}")
        return None
