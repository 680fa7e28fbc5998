"""Generated data, and loaders for real data that a user points at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .campus import Campus, CampusYear, Question, generate_campus
    from .descriptors import descriptor_features, shape_context
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
    from .words import make_words

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Campus": ".campus",
        "CampusYear": ".campus",
        "FramePairs": ".scenes",
        "HorseImages": ".horses",
        "LandmarkSequence": ".scenes",
        "Question": ".campus",
        "Solid": ".scenes",
        "data_folder": ".folder",
        "descriptor_features": ".descriptors",
        "frame_pairs": ".scenes",
        "generate_campus": ".campus",
        "load_horses": ".horses",
        "make_landmark_sequence": ".scenes",
        "make_people": ".people",
        "make_segmentation": ".segmentation",
        "make_words": ".words",
        "shape_context": ".descriptors",
        "split_in_three": ".scenes",
        "toy_house": ".scenes",
    },
)
