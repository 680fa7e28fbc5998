"""Generated data, and loaders for real data that a user points at."""

from .campus import Campus, CampusYear, Question, generate_campus
from .folder import data_folder
from .horses import HorseImages, load_horses
from .people import make_people
from .scenes import (
    FramePairs,
    LandmarkSequence,
    Solid,
    frame_pairs,
    make_landmark_sequence,
    split_in_three,
    toy_house,
)
from .segmentation import make_segmentation
from .shape_context import descriptor_features, shape_context
from .words import make_words

__all__ = [
    "Campus",
    "CampusYear",
    "FramePairs",
    "HorseImages",
    "LandmarkSequence",
    "Question",
    "Solid",
    "data_folder",
    "descriptor_features",
    "frame_pairs",
    "generate_campus",
    "load_horses",
    "make_landmark_sequence",
    "make_people",
    "make_segmentation",
    "make_words",
    "shape_context",
    "split_in_three",
    "toy_house",
]
