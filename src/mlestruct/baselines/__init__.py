"""What the paper compares with: one class per learner, over the output space of an estimator."""

from .exact_mle import ExactMLE
from .matching_bp import MatchingBP
from .row_softmax import RowSoftmax
from .sinkhorn import UnrolledSinkhorn
from .structured_perceptron import StructuredPerceptron
from .structured_svm import StructuredSVM
from .truncated_trw import TruncatedTRW

__all__ = [
    "ExactMLE",
    "MatchingBP",
    "RowSoftmax",
    "StructuredPerceptron",
    "StructuredSVM",
    "TruncatedTRW",
    "UnrolledSinkhorn",
]
