"""What the paper compares with: one class per learner, over the output space of an estimator."""

from .exact_mle import ExactMLE
from .structured_perceptron import StructuredPerceptron
from .structured_svm import StructuredSVM

__all__ = ["ExactMLE", "StructuredPerceptron", "StructuredSVM"]
