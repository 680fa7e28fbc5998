"""Weights of networks in files: arrays and one JSON text, as in `models/persistence.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import __version__
from .._archive import Arrays, packed
from .._files import write_whole
from ..exceptions import ModelFileError
from ..models.persistence import read_archive

FORMAT = 1  # of the files; others are refused


def save_weights(path: str | Path, module: nn.Module, loss: str, learned: dict[str, Any]) -> None:
    """Write the state of `module`; `loss` describes what it was trained for."""
    arrays: Arrays = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, torch.Tensor) or value.dtype == torch.bfloat16:
            raise TypeError(f"module: {name} is not a tensor that NumPy has a type for")
        arrays[name] = value.detach().cpu().numpy()
    header = {"format": FORMAT, "mlestruct": __version__, "kind": "NeuralCRF", "loss": loss}
    write_whole(path, packed({**header, "learned": learned}, arrays))


def load_weights(path: str | Path, module: nn.Module, loss: str) -> dict[str, Any]:
    """Read the state of `module` from a file, and what else was learned."""
    header, arrays = read_archive(path)
    if header.get("kind") != "NeuralCRF" or header.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not the weights of a NeuralCRF of format {FORMAT}")
    if header.get("loss") != loss:
        raise ModelFileError(f"loss: the file was trained with {header.get('loss')}, got {loss}")
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ModelFileError(f"module: does not fit the weights of {path}: {error}") from None
    learned = header.get("learned")
    if not isinstance(learned, dict) or set(learned) != {"history", "n_epochs"}:
        raise ModelFileError(f"{path}: the header is damaged")
    return learned
