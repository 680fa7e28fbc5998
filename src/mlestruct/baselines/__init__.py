"""What the paper compares with, under the same decoders and the same manners."""

from .structured_svm import StructuredSVM

__all__ = ["StructuredSVM"]
