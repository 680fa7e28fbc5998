"""What the paper compares with, under the same decoders and the same manners."""

from .exact_mle import ExactBipartiteMLE, ExactGraphMLE, ExactGridMLE, ExactMatchingMLE
from .matching_bp import MatchingBP
from .sinkhorn import UnrolledSinkhorn
from .softmax import RowSoftmax
from .structured_perceptron import (
    BipartiteMatchingPerceptron,
    ChainPerceptron,
    GraphPerceptron,
    GridPerceptron,
    MatchingPerceptron,
)
from .structured_svm import BipartiteMatchingSVM, ChainSVM, GraphSVM, GridSVM, MatchingSVM
from .truncated_trw import TruncatedTRW

__all__ = [
    "BipartiteMatchingPerceptron",
    "BipartiteMatchingSVM",
    "ChainPerceptron",
    "ChainSVM",
    "ExactBipartiteMLE",
    "ExactGraphMLE",
    "ExactGridMLE",
    "ExactMatchingMLE",
    "GraphPerceptron",
    "GraphSVM",
    "GridPerceptron",
    "GridSVM",
    "MatchingBP",
    "MatchingPerceptron",
    "MatchingSVM",
    "RowSoftmax",
    "TruncatedTRW",
    "UnrolledSinkhorn",
]
