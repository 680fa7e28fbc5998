"""The states that tokens, pixels or nodes can take: users' labels to numbers 0 .. L-1 and back."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import check_unmasked
from .._deadline import in_time
from .._memory import check_memory

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST = 2**63 - 1  # of int64
UNKNOWN = -1  # the state number of a label that is not known
OTHER = UNKNOWN - 1  # that of a label which is none of the states


class States:
    """A fixed list of states, integers or strings, numbered in increasing order.

    Parameters
    ----------
    classes : sequence of distinct integers or strings, or the number of states 0, 1, ...
    unknown : the label that means "not known", beside None
        By default -1 where the states are 0, 1, ..., and None alone otherwise.

    Attributes
    ----------
    classes : ndarray of shape (n_states,), the label of each state
    named : bool, whether the labels are strings
    part : str, what has a label, for messages
    """

    part = "node"

    def __init__(self, classes: Sequence[Any] | int, unknown: Any = None):
        listed = list(range(classes)) if isinstance(classes, int) else list(classes)
        self.named = bool(listed) and isinstance(listed[0], str)
        self.classes: NDArray[Any] = np.array(listed, dtype=str if self.named else np.int64)
        self._counted = not self.named and listed == list(range(len(listed)))  # 0, 1, ...
        self.unknown = UNKNOWN if unknown is None and self._counted else unknown
        self._number = {str(label): k for k, label in enumerate(listed)} if self.named else {}
        self._assumed = False  # whether nobody said what `unknown` is

    @classmethod
    def from_classes(cls, classes: Any, unknown: Any = None) -> States:
        """States from the label of each: distinct strings or integers, in increasing order."""
        listed = np.asarray(classes).tolist()
        kinds = {type(item) for item in listed} if isinstance(listed, list) else set()
        if kinds not in ({str}, {int}) or listed != sorted(set(listed)):
            raise ValueError(
                "classes: expected distinct strings or distinct integers in increasing order, got "
                f"{classes!r}"
            )
        return cls(listed, unknown)

    @classmethod
    def learn(
        cls, labels: Sequence[Any], n_states: int | None = None, unknown: Any = None
    ) -> States:
        """The states of observed labels: arrays of any shape, one per sample.

        Integers are the states 0 .. n_states-1 where `n_states` is given, otherwise those that
        occur. If `unknown` is not given, -1 is taken for it where the other labels are 0, 1, ...
        without a gap; a warning tells so.
        """
        if n_states is not None:
            n_states = check_n_states(n_states)
        found: dict[Any, None] = {}
        named = None
        together = _joined(labels)
        if isinstance(together, list):
            together = list(dict.fromkeys(together))
        parts = labels if together is None else [together]
        for m, label in enumerate(in_time(parts, "reading Y")):
            array, hidden = _read(label, f"Y[{m}]", unknown)
            kind = _is_named(array, hidden, f"Y[{m}]")
            if kind is not None and named is not None and kind != named:
                raise ValueError(f"Y[{m}] holds {_kind(kind)}, earlier samples {_kind(named)}")
            named = kind if named is None else named
            seen = array[~hidden]
            found.update(dict.fromkeys(_distinct(seen)))
        if named is None:
            raise ValueError("Y: no label is known, there is nothing to learn from")
        if named or n_states is None:
            return cls._occurring(sorted(found), n_states, unknown)
        return cls(n_states, unknown)

    @staticmethod
    def occurring(labels: Sequence[Any], unknown: Any = None) -> NDArray[Any]:
        """The distinct known labels of arrays of any shape, for `learn` of many such parts."""
        found: dict[Any, None] = {}
        for m, label in enumerate(labels):
            array, hidden = _read(label, f"Y[{m}]", unknown)
            _is_named(array, hidden, f"Y[{m}]")
            found.update(dict.fromkeys(_distinct(array[~hidden])))
        return np.array(list(found), dtype=object)

    @classmethod
    def _occurring(cls, found: list[Any], n_states: int | None, unknown: Any) -> States:
        """States of the labels that occur, in increasing order."""
        if n_states not in (None, len(found)):
            raise ValueError(
                f"n_states={n_states}, but Y has {len(found)} different labels; strings that "
                "do not occur in Y cannot be predicted, so leave n_states out"
            )
        others = [label for label in found if label != UNKNOWN]
        assumed = unknown is None and len(others) >= 2 and others == list(range(len(others)))
        if assumed:
            found = others
        elif unknown is None and len(found) > len(others) >= 2 and min(others) >= 0:
            warnings.warn(
                f"Y: -1 is a state like {', '.join(map(str, others[:3]))}, ...; if it marks labels "
                "that are not known, say unknown=-1",
                UserWarning,
                stacklevel=6,
            )
        if len(found) < 2:
            raise ValueError(
                f"Y has only the label {found[0]!r}: there is nothing to learn. If integer labels "
                "have more states that were not observed, give n_states"
            )
        states = cls(found, unknown)
        states._assumed = assumed
        return states

    def __len__(self) -> int:
        return int(self.classes.shape[0])

    def encode(
        self,
        label: Any,
        where: str,
        shape: tuple[int, ...] | None = None,
        *,
        allow_others: bool = False,
    ) -> Ints:
        """State numbers in the shape of `label`, -1 where it is not known.

        Parameters
        ----------
        shape : the expected shape, if any; None in place of labels then means that none is known
        allow_others : bool
            Labels that are none of these states get -2; otherwise they are an error.
        """
        if label is None and shape is not None:
            return np.full(shape, UNKNOWN)
        array, hidden = self._read(label, where, shape)
        kind = _is_named(array, hidden, where)
        if kind is not None and kind != self.named:
            raise ValueError(
                f"{where}: expected {_kind(self.named)} like the classes, found {_kind(kind)}"
            )
        if self._counted and array.dtype != object:
            states = np.where((array >= 0) & (array < len(self)), array, OTHER)
            states[hidden] = UNKNOWN
        else:
            states, seen = np.full(array.shape, UNKNOWN), array[~hidden]
            if self.named:
                states[~hidden] = [self._number.get(value, OTHER) for value in seen.tolist()]
            else:
                at = np.searchsorted(self.classes, seen.astype(np.int64))
                at[at == len(self)] = 0
                states[~hidden] = np.where(self.classes[at] == seen, at, OTHER)
        wrong = states == OTHER
        if wrong.any() and not allow_others:
            first = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise ValueError(
                f"{where}: found the label {array.item(first)!r} at {_position(first)}; expected "
                f"{self._expected()}"
            )
        return states

    def encode_all(self, labels: Sequence[Any], lengths: Sequence[int], name: str) -> list[Ints]:
        """`encode` of sequences of labels of these lengths, which messages number after `name`."""
        states = self._encode_together(labels, lengths)
        if states is None:
            pairs = in_time(zip(labels, lengths, strict=True), f"reading {name}")
            return [self.encode(y, f"{name}[{m}]", (n,)) for m, (y, n) in enumerate(pairs)]
        ends = list(accumulate(lengths, initial=0))
        return [states[a:b] for a, b in pairwise(ends)]

    def _encode_together(self, labels: Sequence[Any], lengths: Sequence[int]) -> Ints | None:
        """State numbers of all sequences in a row; None where something is to be told of one."""
        whole = _joined(labels)
        if whole is None or self.named != isinstance(whole, list) or len(whole) == 0:
            return None
        if list(map(len, labels)) != list(lengths):
            return None
        if isinstance(whole, list):
            numbers: dict[Any, int] = {**self._number, None: UNKNOWN}
            if isinstance(self.unknown, str):
                numbers[self.unknown] = UNKNOWN
            states = np.fromiter(map(numbers.get, whole, repeat(OTHER)), np.int64, len(whole))
        elif self._assumed and whole.min() < 0:
            return None
        else:
            states = self.encode(whole, "", allow_others=True)
        return None if states.min() == OTHER else states

    def _expected(self) -> str:
        listed = self.classes.tolist()
        if listed == list(range(len(self))):
            names = f"0 to {len(self) - 1}"
        else:
            names = "one of " + ", ".join(map(repr, listed[:10])) + ", ..." * (len(self) > 10)
        return f"{names}, or {self.unknown!r} if not known"

    def decode(self, states: Ints) -> NDArray[Any]:
        """The labels of state numbers."""
        return self.classes[states]

    def _read(
        self, label: Any, where: str, shape: tuple[int, ...] | None
    ) -> tuple[NDArray[Any], Bools]:
        """Labels, and where they are not known; tells if that was only assumed."""
        array, hidden = _read(label, where, self.unknown)
        if shape is not None and array.shape != shape:
            found = f"{array.shape}" if array.ndim else f"the one label {label!r:.60}"
            raise ValueError(
                f"{where}: expected shape {shape}, a label for every {self.part}, got {found}"
            )
        if self._assumed and array.dtype != object and hidden.any():
            self._assumed = False  # once is enough
            warnings.warn(
                f"{where}: -1 is taken for 'not known', since the states are 0 to {len(self) - 1}; "
                "say unknown=-1 if that is right, give -1 another number if it is a state",
                UserWarning,
                stacklevel=7,
            )
        return array, hidden

    def to_list(self) -> list[Any]:
        """`classes` in plain types."""
        return list(self.classes.tolist())


def _joined(labels: Sequence[Any]) -> Ints | list[Any] | None:
    """Labels of all samples in a row: arrays of integers, or sequences of strings and None.

    None where some are of another kind, which are read one by one.
    """
    kinds = {type(label) for label in labels}
    if kinds == {np.ndarray} and all(y.dtype == np.int64 and y.ndim == 1 for y in labels):
        return np.concatenate(labels)
    if not kinds <= {list, tuple, np.ndarray}:
        return None
    if np.ndarray in kinds:
        arrays = [label for label in labels if isinstance(label, np.ndarray)]
        if any(y.ndim != 1 or y.dtype.kind not in "UO" for y in arrays):
            return None
        labels = [y.tolist() if isinstance(y, np.ndarray) else y for y in labels]
    flat = list(chain.from_iterable(labels))
    return flat if set(map(type, flat)) <= {str, type(None)} else None


def _distinct(seen: NDArray[Any]) -> list[Any]:
    """Labels that occur, some of them repeatedly; of many integers each once."""
    if seen.dtype == object or seen.size < 1000:  # sorting a short sequence takes longer
        return list(seen.tolist())
    return list(np.unique(seen).tolist())


def check_n_states(n_states: Any) -> int:
    """The user's number of states as an integer of at least 2."""
    if isinstance(n_states, bool) or not isinstance(n_states, numbers.Integral):
        raise TypeError(f"n_states must be an integer, got {n_states!r}")
    if n_states < 2:
        raise ValueError(f"n_states must be at least 2, got {n_states}")
    check_memory(float(n_states) ** 2, f"n_states={n_states}: a weight for each pair of states")
    return int(n_states)


def check_states(label: Any, n_nodes: int, n_states: int) -> Ints:
    """State numbers 0 .. n_states-1 of all nodes of an output space."""
    states = np.asarray(label, dtype=np.int64)
    if states.shape != (n_nodes,):
        raise ValueError(f"expected {n_nodes} states, got shape {states.shape}")
    if n_nodes and (states.min() < 0 or states.max() >= n_states):
        raise ValueError(
            f"expected states from 0 to {n_states - 1}, found {states.min()} to {states.max()}"
        )
    return states


def is_named(label: Any, where: str) -> bool | None:
    """True for labels that are strings, False for integers, None if no label is known."""
    return _is_named(*_read(label, where, UNKNOWN), where)


def _read(label: Any, where: str, unknown: Any) -> tuple[NDArray[Any], Bools]:
    """Labels, an array of integers or of objects, and where they are None or `unknown`."""
    check_unmasked(label, where)
    try:
        array = np.asarray(label)
        if array.dtype.kind in "UT" and not isinstance(label, np.ndarray):
            array = np.asarray(label, dtype=object)  # keeps None and NaN apart from strings
    except ValueError:
        raise ValueError(f"{where}: labels do not form an array (rows of unequal size)") from None
    if array.dtype.kind in "biuf":
        return _read_numbers(array, where, unknown)
    if array.dtype.kind not in "UTO":
        raise ValueError(f"{where}: labels must be integers or strings, got dtype {array.dtype}")
    array = array.astype(object)  # a copy
    flat = array.ravel().tolist()
    hidden = np.array([value is None or _equal(value, unknown) for value in flat], dtype=np.bool_)
    for k, value in enumerate(flat):
        if isinstance(value, str) or hidden[k]:
            continue
        if (
            not isinstance(value, numbers.Integral | np.bool_)
            or not -LARGEST <= int(value) <= LARGEST
        ):
            at = tuple(int(i) for i in np.unravel_index(k, array.shape))
            raise ValueError(
                f"{where}: found {value!r} at {_position(at)}; labels must be integers or strings, "
                "None stands for a label that is not known"
            )
    return array, hidden.reshape(array.shape)


def _read_numbers(array: NDArray[Any], where: str, unknown: Any) -> tuple[Ints, Bools]:
    if not isinstance(unknown, numbers.Real):
        hidden = np.zeros(array.shape, dtype=np.bool_)
    elif math.isnan(unknown):
        hidden = np.isnan(array)
    else:
        hidden = np.asarray(array == unknown)
    if array.dtype.kind == "f":
        bad = ~hidden & ~((np.abs(array) < 2.0**53) & (array == np.round(array)))
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            raise ValueError(
                f"{where}: found {array[at]} at {_position(at)}; labels must be whole numbers or "
                "strings; say unknown=np.nan if NaN marks labels that are not known"
            )
        array = np.where(hidden, 0.0, array)
    if array.dtype.kind == "u" and array.max(initial=0) > LARGEST:  # would become negative
        raise ValueError(f"{where}: found {array.max()}; labels must be at most {LARGEST}")
    return array.astype(np.int64), hidden


def _equal(value: Any, unknown: Any) -> bool:
    """Whether a label is the one that means "not known"."""
    if isinstance(unknown, float) and np.isnan(unknown):
        return isinstance(value, float) and bool(np.isnan(value))
    return isinstance(value, str) == isinstance(unknown, str) and bool(value == unknown)


def _is_named(array: NDArray[Any], hidden: Bools, where: str) -> bool | None:
    """True for strings, False for integers, None if no label is known."""
    if array.dtype != object:
        return None if hidden.all() else False
    kinds = {isinstance(value, str) for value in array[~hidden].tolist()}
    if len(kinds) == 2:
        raise ValueError(f"{where} mixes strings and integers; use one or the other")
    return kinds.pop() if kinds else None


def _kind(named: bool) -> str:
    return "strings" if named else "integers"


def _position(at: tuple[int, ...]) -> str:
    return f"position {at if len(at) > 1 else sum(at)}"
