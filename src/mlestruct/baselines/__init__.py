"""The paper's competitors: solvers of other objectives, for any estimator."""

from .exact_likelihood import ExactLikelihood
from .structured_perceptron import StructuredPerceptron
from .structured_svm import StructuredSVM

__all__ = ["ExactLikelihood", "StructuredPerceptron", "StructuredSVM"]
