"""What the paper compares with, under the same decoders and the same manners."""

from .exact_mle import ExactBipartiteMLE, ExactGraphMLE, ExactGridMLE, ExactMatchingMLE
from .matching_bp import MatchingBP
from .sinkhorn import UnrolledSinkhorn
from .softmax import RowSoftmax
from .structured_perceptron import MatchingPerceptron
from .structured_svm import MatchingSVM, StructuredSVM
from .truncated_trw import TruncatedTRW

__all__ = [
    "ExactBipartiteMLE",
    "ExactGraphMLE",
    "ExactGridMLE",
    "ExactMatchingMLE",
    "MatchingBP",
    "MatchingPerceptron",
    "MatchingSVM",
    "RowSoftmax",
    "StructuredSVM",
    "TruncatedTRW",
    "UnrolledSinkhorn",
]
