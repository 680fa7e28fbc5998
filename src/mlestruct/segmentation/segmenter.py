"""`ImageSegmenter`: a GridCRF over colour, place and gradients of pixels, and contrast of edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..features import edge_features, node_feature_names, node_features
from ..models import GridCRF
from ..models.failed_fits import unchanged_on_failure
from ..models.tuned import TunedLabelling
from ..models.validation import check_count


class ImageSegmenter(TunedLabelling):
    """Labels of the pixels of pictures, with probabilities, learned from masks.

    Parameters
    ----------
    hog : histograms of oriented gradients as features; needs scikit-image
    neighbours : 4 or 8
    max_side : pixels of the longest side to which pictures were shrunk; others should be, too
    unknown : label of pixels that are not to be learned from
    alpha : penalty of the weights, or "auto": by cross-validated likelihood
    tol, max_time, n_jobs, verbose : as in `GridCRF`
    random_state : of the folds

    Attributes
    ----------
    estimator_ : the fitted `GridCRF`
    alpha_ : the penalty that was used
    held_out_ : quality in cross-validation; None if alpha was given
    """

    _stored_as = "grid"

    def __init__(
        self,
        hog: bool = True,
        neighbours: int = 4,
        max_side: int | None = None,
        unknown: str | None = None,
        alpha: float | str = "auto",
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.hog = hog
        self.neighbours = neighbours
        self.max_side = max_side
        self.unknown = unknown
        self.alpha = alpha
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, images: Sequence[Any], masks: Sequence[Any]) -> ImageSegmenter:
        """Learn from pictures (height, width, 3), bytes or from 0 to 1, and masks of text.

        `predict` and `predict_marginals` then take pictures and return arrays (height, width) and
        (height, width, n_labels).
        """
        if len(images) != len(masks):
            raise ValueError(f"masks: expected {len(images)}, one per picture, got {len(masks)}")
        if self.max_side is not None:
            check_count(self.max_side, "max_side")
        # Pixels are many and alike: weaker penalties take long and predict no better.
        alphas = (1.0, 10.0, 100.0, 1000.0)
        features = self._features(images)
        with unchanged_on_failure(self):
            self.estimator_ = self._fit_tuned(features, list(masks), alphas=alphas)
        return self

    def _features(self, images: Sequence[Any]) -> list[Any]:
        return [
            (node_features(image, hog=self.hog), edge_features(image, neighbours=self.neighbours))
            for image in images
        ]

    def _estimator(self, alpha: float) -> GridCRF:
        return GridCRF(
            alpha=alpha, neighbours=self.neighbours, unknown=self.unknown, tol=self.tol,
            max_time=self.max_time, n_jobs=self.n_jobs, verbose=self.verbose,
            feature_names=node_feature_names(hog=self.hog),
        )  # fmt: skip
