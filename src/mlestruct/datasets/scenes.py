"""Generated landmark scenes: a rigid set of points, or a toy house, turning before a camera.

A substitute for the CMU house and hotel sequences that needs no download: the same task (match the
landmarks of two frames some way apart) with the same descriptors; the noise sets the difficulty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arguments import as_count, as_number, as_table, generator
from .descriptors import descriptor_features, shape_context

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


@dataclass(frozen=True)
class Solid:
    """An object to be drawn.

    points : ndarray of shape (n, 3): to the right, upwards, away from the viewer
    faces : of each face the points around it, counter-clockwise seen from outside
    colours : of the faces
    """

    points: Floats
    faces: tuple[tuple[int, ...], ...]
    colours: tuple[str, ...]


def toy_house() -> Solid:
    """A house of 30 landmarks: corners of walls, roof, chimney, door and two windows."""
    corners = [(-1, -0.8, -0.7), (1, -0.8, -0.7), (1, -0.8, 0.7), (-1, -0.8, 0.7)]
    eaves = [(x, 0.1, z) for x, _, z in corners]
    ridge = [(-1, 0.75, 0), (1, 0.75, 0)]
    foot = [(0.35, 0.38, -0.4), (0.6, 0.38, -0.4), (0.6, 0.61, -0.15), (0.35, 0.61, -0.15)]
    chimney = [(x, 1.0, z) for x, _, z in foot]
    front = [_rectangle(-0.15, 0.2, -0.8, -0.2)]
    front += [_rectangle(x, x + 0.35, -0.45, -0.1) for x in (-0.75, 0.45)]
    points = [*corners, *eaves, *ridge, *foot, *chimney, *(at for one in front for at in one)]
    walls = ((0, 1, 5, 4), (1, 2, 6, 9, 5), (2, 3, 7, 6), (3, 0, 4, 8, 7))
    roof = ((4, 5, 9, 8), (6, 7, 8, 9))
    sides = tuple((10 + k, 10 + (k + 1) % 4, 14 + (k + 1) % 4, 14 + k) for k in range(4))
    openings = tuple(tuple(range(k, k + 4)) for k in (18, 22, 26))
    return Solid(
        np.array(points, dtype=np.float64),
        (*walls, *roof, *sides, (14, 15, 16, 17), *openings),
        (
            *("#f4e6c8", "#e9d5ae") * 2, *["#cf7f5a"] * 2, *("#b5674a", "#a25a40") * 2, "#8a4a34",
            "#8b6b4a", *["#b7dbe8"] * 2,
        ),
    )  # fmt: skip


def _rectangle(left: float, right: float, low: float, high: float) -> list[tuple[float, ...]]:
    """On the front wall."""
    return [(left, low, -0.7), (right, low, -0.7), (right, high, -0.7), (left, high, -0.7)]


def make_landmark_sequence(
    n_landmarks: int = 30,
    n_frames: int = 111,
    degrees_per_frame: float = 0.8,
    noise: float = 0.015,
    perspective: float = 0.15,
    random_state: int | None = None,
    body: ArrayLike | None = None,
    first_degrees: float = 0.0,
    elevation: float = 0.0,
) -> LandmarkSequence:
    """A rigid 3-D point set turned about the vertical axis, seen by a pinhole camera.

    Parameters
    ----------
    n_landmarks : of a random point set
    noise : standard deviation of the labelling error, in units of the object's half width
    perspective : object half width over camera distance; 0 is an orthographic view
    body : array of shape (n_landmarks, 3), optional: the points, for example `toy_house().points`;
        random ones by default
    first_degrees : the angle of the first frame
    elevation : degrees by which the camera looks down
    """
    as_count(n_landmarks, "n_landmarks", 2)
    as_count(n_frames, "n_frames")
    as_number(noise, "noise", 0.0)
    as_number(perspective, "perspective", 0.0, 1.0)
    rng = generator(random_state)
    if body is None:
        points = rng.uniform(-1.0, 1.0, size=(n_landmarks, 3)) * np.array([1.0, 0.8, 0.7])
    else:
        points = as_table(body, "body", "n", 3)
        as_count(len(points), "len(body)", 2)
    tilt = np.deg2rad(elevation)
    frames = []
    for frame in range(n_frames):
        angle = np.deg2rad(first_degrees + degrees_per_frame * frame)
        x = points[:, 0] * np.cos(angle) + points[:, 2] * np.sin(angle)
        away = points[:, 2] * np.cos(angle) - points[:, 0] * np.sin(angle)
        height = points[:, 1] * np.cos(tilt) + away * np.sin(tilt)
        depth = away * np.cos(tilt) - points[:, 1] * np.sin(tilt)
        seen = np.stack([x, height], axis=1) / (1.0 + perspective * depth)[:, None]
        frames.append(seen + noise * rng.normal(size=seen.shape))
    return LandmarkSequence(np.array(frames))


def frame_pairs(
    sequence: LandmarkSequence, gap: int, shuffle: bool = True, random_state: int | None = 0
) -> FramePairs:
    """All pairs (i, i + gap) of frames, i from 0.

    The right side's landmarks are shuffled by default, so that their order contains no information.
    """
    if not isinstance(sequence, LandmarkSequence):
        raise TypeError(f"`sequence` must be a LandmarkSequence; got {sequence!r:.60}.")
    n_frames = sequence.points.shape[0]
    if as_count(gap, "gap", 0) >= n_frames:
        raise ValueError(f"`gap` must be from 0 to {n_frames - 1}; got {gap}.")
    rng = generator(random_state)
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
    if not isinstance(pairs, FramePairs):
        raise TypeError(f"pairs: expected FramePairs, got {pairs!r:.60}")
    index = np.arange(len(pairs))
    train, validate, test = (pairs.take(index[index % 3 == part]) for part in range(3))
    return train, validate, test
