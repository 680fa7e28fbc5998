"""Labels of pixels: from pictures and masks to features, and back."""

from .pictures import read_mask, read_picture, write_labels, write_probability
from .segmenter import ImageSegmenter

__all__ = [
    "ImageSegmenter",
    "read_mask",
    "read_picture",
    "write_labels",
    "write_probability",
]
