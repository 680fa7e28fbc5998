"""Checks of the tensors that losses are given: what was expected, and what was found."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Size = int | str  # a name stands for any size


def _check_shape(values: Tensor, name: str, *shapes: tuple[Size, ...]) -> None:
    found = tuple(values.shape)
    for shape in shapes:
        if len(shape) == len(found):
            sizes = dict(zip(shape, found, strict=True))  # equal names have equal sizes
            if tuple(sizes[n] if isinstance(n, str) else n for n in shape) == found:
                return
    wanted = " or ".join(str(shape).replace("'", "") for shape in shapes)
    raise ValueError(f"{name}: expected shape {wanted}, got {found}")


def scores(values: Any, name: str, *shapes: tuple[Size, ...]) -> Tensor:
    """Scores in float64 on the CPU; PyTorch converts gradients back."""
    if not isinstance(values, Tensor) or not values.is_floating_point():
        kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(f"`{name}` must be a tensor of floating-point numbers; got {kind}.")
    _check_shape(values, name, *shapes)
    return values.to("cpu", torch.float64)


def finite(values: Tensor, name: str, forbidden: bool = False) -> Tensor:
    """Scores without NaN and inf, and without -inf unless it forbids something."""
    wrong = ~torch.isfinite(values.detach())
    if forbidden:
        wrong &= values.detach() != -torch.inf
    if bool(wrong.any()):
        wanted = "finite numbers or -inf (forbidden)" if forbidden else "finite numbers"
        raise ValueError(f"{name}: expected {wanted}, got {float(values[wrong][0])}")
    return values


def integers(values: Any, name: str, shape: tuple[Size, ...]) -> NDArray[np.int64]:
    found = torch.as_tensor(values).detach().cpu()
    _check_shape(found, name, shape)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"{name}: expected integers, got {found.dtype}")
    return found.numpy().astype(np.int64)


def mask(values: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A boolean array; all True without a mask."""
    if values is None:
        return np.ones(shape, dtype=bool)
    found = torch.as_tensor(values).detach().cpu()
    _check_shape(found, name, tuple(shape))
    if found.dtype != torch.bool and not bool(((found == 0) | (found == 1)).all()):
        raise ValueError(f"{name}: expected booleans, True for what exists, got {found.dtype}")
    return found.bool().numpy()
