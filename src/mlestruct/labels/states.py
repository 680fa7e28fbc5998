"""The states that tokens, pixels or nodes can take: users' labels to numbers 0 .. L-1 and back."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

UNKNOWN = -1  # the state number of a label that is not known
OTHER = UNKNOWN - 1  # that of a string which is none of the states


class States:
    """A fixed list of states.

    Integer labels are the states themselves, 0 .. n_states-1, seen in training or not; -1 stands
    for a label that is not known. Strings are numbered in sorted order, None is not known.

    Attributes
    ----------
    classes : ndarray of shape (n_states,), the label of each state
    named : bool, whether the labels are strings
    """

    def __init__(self, classes: Sequence[str] | int):
        self.named = not isinstance(classes, int)
        self.classes: NDArray[Any] = (
            np.arange(classes) if isinstance(classes, int) else np.array(list(classes), dtype=str)
        )
        self._number = {str(label): k for k, label in enumerate(classes)} if self.named else {}  # type: ignore[arg-type]

    @classmethod
    def from_classes(cls, classes: Any) -> States:
        """States from the label of each: strings, or the numbers 0 .. n-1."""
        listed = np.asarray(classes).tolist()
        if isinstance(listed, list) and listed and all(isinstance(item, str) for item in listed):
            return cls(listed)
        if listed != list(range(np.size(classes))) or not listed:
            raise ValueError(
                f"classes: expected strings, or the numbers 0, 1, ...; got {classes!r}"
            )
        return cls(len(listed))

    @classmethod
    def learn(cls, labels: Sequence[Any], n_states: int | None = None) -> States:
        """The states of observed labels: arrays of any shape, one per sample."""
        if n_states is not None:
            n_states = check_n_states(n_states)
        arrays = [_read(label, f"Y[{m}]") for m, label in enumerate(labels)]
        kinds = [_is_named(array) for array in arrays]
        named = next((kind for kind in kinds if kind is not None), None)
        if named is None:
            raise ValueError("Y: no label is known, there is nothing to learn from")
        for m, kind in enumerate(kinds):
            if kind not in (None, named):
                raise ValueError(f"Y[{m}] holds {_kind(kind)}, earlier samples {_kind(named)}")
        if named:
            found = sorted({x for array in arrays for x in array.ravel().tolist() if x is not None})
            if n_states not in (None, len(found)):
                raise ValueError(
                    f"n_states={n_states}, but Y has {len(found)} different labels; strings that "
                    "do not occur in Y cannot be predicted, so leave n_states out"
                )
            if len(found) < 2:
                raise ValueError(f"Y has only the label {found[0]!r}: there is nothing to learn")
            return cls(found)
        if n_states is None:
            seen = np.unique(np.concatenate([_as_integers(array).ravel() for array in arrays]))
            if seen[-1] < 0:
                raise ValueError(
                    f"Y holds the label {seen[0]}; expected 0 and up, or -1 if not known"
                )
            largest, seen = int(seen[-1]), seen[seen >= 0]
            if 4 * len(seen) <= largest:  # such as the grey levels 0 and 255 of a mask
                raise ValueError(
                    f"Y holds only {len(seen)} different labels, but the largest is {largest}; "
                    "states are numbered from 0. Renumber them, pass strings, or give "
                    f"n_states={largest + 1} if there are really that many states"
                )
            if largest < 1:
                raise ValueError(
                    "Y has only the label 0: there is nothing to learn. If there are more states "
                    "that were not observed, give n_states"
                )
            n_states = largest + 1
        return cls(n_states)

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
        shape : the expected shape, if any
        allow_others : bool
            Strings that are none of these states get -2; otherwise they are an error.
        """
        array = _read(label, where)
        _check_shape(array, shape, where)
        kind = _is_named(array)
        if kind is not None and kind != self.named:
            raise ValueError(
                f"{where}: expected {_kind(self.named)} like the classes, found {_kind(kind)}"
            )
        if self.named:
            listed = [
                UNKNOWN if value is None else self._number.get(value, OTHER)
                for value in array.ravel().tolist()
            ]
            states = np.array(listed, dtype=np.int64).reshape(array.shape)
            wrong = (states == OTHER) & (not allow_others)
        else:
            states = _as_integers(array)
            wrong = (states < UNKNOWN) | (states >= len(self))
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            found = f"{where}: found the label {array.item(at)!r} at {_position(at)}"
            if self.named:
                expected = "one of " + ", ".join(repr(str(name)) for name in self.classes[:10])
                expected += (", ..." if len(self) > 10 else "") + ", or None if not known"
            else:
                expected = f"0 to {len(self) - 1}, or -1 if not known"
            raise ValueError(f"{found}; expected {expected}")
        return states

    def decode(self, states: Ints) -> NDArray[Any]:
        """The labels of state numbers."""
        return self.classes[states]

    def known(
        self, label: Any, where: str, shape: tuple[int, ...] | None = None
    ) -> NDArray[np.bool_]:
        """Where a label is known, whether or not it is one of these states."""
        array = _read(label, where)
        _check_shape(array, shape, where)
        return ~_unknown(array)

    def to_list(self) -> list[str] | int:
        """What `States(...)` makes these states again from: plain types only."""
        return [str(name) for name in self.classes] if self.named else len(self)


def check_n_states(n_states: Any) -> int:
    """The user's number of states as an integer of at least 2."""
    if isinstance(n_states, bool) or not isinstance(n_states, numbers.Integral):
        raise TypeError(f"n_states must be an integer, got {n_states!r}")
    if n_states < 2:
        raise ValueError(f"n_states must be at least 2, got {n_states}")
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
    return _is_named(_read(label, where))


def _read(label: Any, where: str) -> NDArray[Any]:
    """An array of integers, or an array of objects: strings, integers and None."""
    try:
        array = np.asarray(label)
        if array.dtype.kind in "UT" and not isinstance(label, np.ndarray):
            array = np.asarray(label, dtype=object)  # keeps None and NaN apart from strings
    except ValueError:
        raise ValueError(f"{where}: labels do not form an array (rows of unequal size)") from None
    if array.dtype.kind == "f":
        bad = ~((np.abs(array) < 2.0**53) & (array == np.round(array)))
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            raise ValueError(
                f"{where}: found {array[at]} at {_position(at)}; labels must be whole numbers or "
                "strings; -1 stands for a label that is not known"
            )
    if array.dtype.kind in "biuf":
        return array.astype(np.int64)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype != object:
        raise ValueError(f"{where}: labels must be integers or strings, got dtype {array.dtype}")
    if all(value is None or isinstance(value, str) for value in array.ravel().tolist()):
        return array
    array = array.copy()
    for at, value in np.ndenumerate(array):
        if value is None or isinstance(value, str):
            continue
        if not isinstance(value, numbers.Integral | np.bool_):
            raise ValueError(
                f"{where}: found {value!r} at {_position(at)}; labels must be integers or strings, "
                "None stands for a label that is not known"
            )
        array[at] = int(value)
    return array


def _is_named(array: NDArray[Any]) -> bool | None:
    """True for strings, False for integers, None if no label is known."""
    if array.dtype != object:
        return False if array.size and (array != UNKNOWN).any() else None
    kinds = {isinstance(value, str) for value in array.ravel().tolist() if value is not None}
    if len(kinds) == 2:
        raise ValueError("Y mixes strings and integers; use one or the other")
    return kinds.pop() if kinds else None


def _as_integers(array: NDArray[Any]) -> Ints:
    if array.dtype != object:
        return array
    return np.where(_unknown(array), UNKNOWN, array).astype(np.int64)


def _unknown(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a label says that it is not known."""
    if array.dtype != object:
        return np.asarray(array == UNKNOWN)
    listed = [value is None or value == UNKNOWN for value in array.ravel().tolist()]
    return np.array(listed, dtype=np.bool_).reshape(array.shape)


def _check_shape(array: NDArray[Any], shape: tuple[int, ...] | None, where: str) -> None:
    if shape is not None and array.shape != shape:
        raise ValueError(
            f"{where}: expected shape {shape}, a label for every node, got {array.shape}"
        )


def _kind(named: bool | None) -> str:
    return "strings" if named else "integers"


def _position(at: tuple[int, ...]) -> str:
    return f"position {at if len(at) > 1 else sum(at)}"
