"""Loader of the CMU house and hotel landmarks, from files that the user has."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .scenes import LandmarkSequence

ENVIRONMENT = "MLESTRUCT_DATA"


def data_folder(path: str | Path | None = None) -> Path:
    """The folder with real data: `path`, or what the environment variable MLESTRUCT_DATA names."""
    chosen = path if path is not None else os.environ.get(ENVIRONMENT)
    if chosen is None or not str(chosen):
        raise FileNotFoundError(
            f"no data folder: pass path=... or set the environment variable {ENVIRONMENT}"
        )
    folder = Path(chosen)
    if not folder.is_dir():
        raise FileNotFoundError(f"data folder {folder} does not exist")
    return folder


def load_cmu_landmarks(name: str, path: str | Path | None = None) -> LandmarkSequence:
    """The hand-labelled landmarks of the CMU "house" (111 frames) or "hotel" (101 frames).

    Reads cmu_landmarks/{name}.csv with the columns frame, landmark, x, y.
    """
    if name not in ("house", "hotel"):
        raise ValueError(f"name: expected 'house' or 'hotel', got {name!r}")
    file = data_folder(path) / "cmu_landmarks" / f"{name}.csv"
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    with file.open() as lines:
        header = lines.readline().strip().lower().split(",")
        if header != ["frame", "landmark", "x", "y"]:
            raise ValueError(f"{file}: expected the columns frame,landmark,x,y, got {header}")
        rows = np.loadtxt(lines, delimiter=",", ndmin=2)
    frame, landmark = rows[:, 0].astype(int), rows[:, 1].astype(int)
    points = np.full((frame.max() + 1, landmark.max() + 1, 2), np.nan)
    points[frame, landmark] = rows[:, 2:]
    if np.isnan(points).any():
        missing = np.argwhere(np.isnan(points[..., 0]))[0]
        raise ValueError(f"{file}: frame {missing[0]} has no landmark {missing[1]}")
    return LandmarkSequence(points, name)
