"""Generated landmark scenes: a rigid set of points turning before a camera.

A substitute for the CMU house and hotel sequences that needs no download: the same task (match the
landmarks of two frames some way apart) with the same descriptors; the noise sets the difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .shape_context import descriptor_features, shape_context

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LandmarkSequence:
    """Landmarks of all frames, shape (n_frames, n_landmarks, 2), in the same order throughout."""

    points: Floats
    name: str = "scene"

    def __post_init__(self) -> None:
        if self.points.ndim != 3 or self.points.shape[2] != 2:
            raise ValueError(
                f"points: expected shape (frames, landmarks, 2), got {self.points.shape}"
            )

    def descriptors(self) -> Floats:
        """Shape contexts, (n_frames, n_landmarks, 60)."""
        return np.array([shape_context(frame) for frame in self.points])


@dataclass(frozen=True)
class FramePairs:
    """Matching problems between frames: features X, true partners Y, frame numbers and points."""

    X: list[Floats]
    Y: list[Ints]
    frames: list[tuple[int, int]]
    left: list[Floats]
    right: list[Floats]

    def __len__(self) -> int:
        return len(self.X)

    def take(self, indices: Any) -> FramePairs:
        """The pairs at `indices`."""
        chosen = [int(k) for k in np.atleast_1d(indices)]
        return FramePairs(*([part[k] for k in chosen] for part in self._parts()))

    def _parts(self) -> tuple[list[Any], ...]:
        return self.X, self.Y, self.frames, self.left, self.right


def make_landmark_sequence(
    n_landmarks: int = 30,
    n_frames: int = 111,
    degrees_per_frame: float = 0.8,
    noise: float = 0.015,
    perspective: float = 0.15,
    random_state: int | None = None,
) -> LandmarkSequence:
    """A random rigid 3-D point set turned about the vertical axis, seen by a pinhole camera.

    Parameters
    ----------
    noise : standard deviation of the labelling error, in units of the object's half width
    perspective : object half width over camera distance; 0 is an orthographic view
    """
    if n_landmarks < 2 or n_frames < 1:
        raise ValueError(f"need at least 2 landmarks and 1 frame, got {n_landmarks} and {n_frames}")
    rng = np.random.default_rng(random_state)
    body = rng.uniform(-1.0, 1.0, size=(n_landmarks, 3)) * np.array([1.0, 0.8, 0.7])
    frames = []
    for frame in range(n_frames):
        angle = np.deg2rad(degrees_per_frame * frame)
        x = body[:, 0] * np.cos(angle) + body[:, 2] * np.sin(angle)
        depth = body[:, 2] * np.cos(angle) - body[:, 0] * np.sin(angle)
        seen = np.stack([x, body[:, 1]], axis=1) / (1.0 + perspective * depth)[:, None]
        frames.append(seen + noise * rng.normal(size=seen.shape))
    return LandmarkSequence(np.array(frames))


def frame_pairs(
    sequence: LandmarkSequence, gap: int, shuffle: bool = True, random_state: int | None = 0
) -> FramePairs:
    """All pairs (i, i + gap) of frames, i from 0.

    The right side's landmarks are shuffled by default, so that their order contains no information.
    """
    n_frames = sequence.points.shape[0]
    if not 0 <= gap < n_frames:
        raise ValueError(f"gap: expected 0 to {n_frames - 1}, got {gap}")
    rng = np.random.default_rng(random_state)
    descriptors = sequence.descriptors()
    n = sequence.points.shape[1]
    parts: tuple[list[Any], ...] = ([], [], [], [], [])
    for i in range(n_frames - gap):
        order = rng.permutation(n) if shuffle else np.arange(n)
        parts[0].append(descriptor_features(descriptors[i], descriptors[i + gap][order]))
        parts[1].append(np.argsort(order))
        parts[2].append((i, i + gap))
        parts[3].append(sequence.points[i])
        parts[4].append(sequence.points[i + gap][order])
    return FramePairs(*parts)


def split_in_three(pairs: FramePairs) -> tuple[FramePairs, FramePairs, FramePairs]:
    """Training, validation and test pairs: the i-th pair goes by i mod 3."""
    index = np.arange(len(pairs))
    train, validate, test = (pairs.take(index[index % 3 == part]) for part in range(3))
    return train, validate, test
