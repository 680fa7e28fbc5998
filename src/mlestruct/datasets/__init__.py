"""Generated data, and loaders for real data that a user points at."""

from .landmarks import data_folder, load_cmu_landmarks
from .scenes import (
    FramePairs,
    LandmarkSequence,
    frame_pairs,
    make_landmark_sequence,
    split_in_three,
)
from .shape_context import descriptor_features, shape_context

__all__ = [
    "FramePairs",
    "LandmarkSequence",
    "data_folder",
    "descriptor_features",
    "frame_pairs",
    "load_cmu_landmarks",
    "make_landmark_sequence",
    "shape_context",
    "split_in_three",
]
