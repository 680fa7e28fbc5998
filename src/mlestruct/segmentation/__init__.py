"""Labels of pixels: from pictures and masks to features, and back."""

from .pictures import PictureProblem, read_mask, read_picture, write_labels, write_probability
from .segmenter import ImageSegmenter

__all__ = [
    "ImageSegmenter",
    "PictureProblem",
    "read_mask",
    "read_picture",
    "write_labels",
    "write_probability",
]
