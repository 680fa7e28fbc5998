"""Generated data, and loaders for real data that a user points at."""

from .campus import Campus, CampusYear, Question, generate_campus
from .campus_files import read_campus, write_campus
from .horses import HorseImages, load_horses, split_horses
from .landmarks import data_folder, load_cmu_landmarks
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
from .topics import make_topic_counts, topic_similarity
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
    "load_cmu_landmarks",
    "load_horses",
    "make_landmark_sequence",
    "make_people",
    "make_segmentation",
    "make_topic_counts",
    "make_words",
    "read_campus",
    "shape_context",
    "split_horses",
    "split_in_three",
    "topic_similarity",
    "toy_house",
    "write_campus",
]
