"""What the paper has printed, and which generated question is meant by which of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A question of the paper's survey.

    question : its counterpart in the generated survey, if there is one
    absent : otherwise, why there is none
    """

    name: str
    weight: float
    rank: int
    question: str | None
    absent: str = "The generated survey has no such question."


ONE_FLOOR = "The paper has two such questions, the generated survey one, of little weight."
ITEMS = (
    Item("bed time", -0.0296, 3, "bed time"),
    Item("wake time", -0.0218, 4, "wake time"),
    Item("rising sophomore", 0.0, 10, None),
    Item("cleanliness", -0.0056, 7, "cleanliness"),
    Item("smoking", -0.0484, 1, "smoking"),
    Item("sleeping habits", -0.0025, 8, "sleeping"),
    Item("overnight guests", -0.0097, 6, "overnight guests"),
    Item("personality", -0.037, 2, "personality"),
    Item("study hours", 0.0131, 12, "study hours"),
    Item("study location", -0.0006, 9, "study location"),
    Item("audio or video while studying", -0.0133, 5, "audio while studying"),
    Item("single-sex floor (1)", 0.2277, 14, None, ONE_FLOOR),
    Item("single-sex floor (2)", 0.0518, 13, None, ONE_FLOOR),
    Item("allow in Brownstone", 0.0, 10, None),
)
SHARED = tuple(item for item in ITEMS if item.question is not None)
STRONG = ("smoking", "personality", "bed time")  # said to need the closest agreement
WEAK = ("cleanliness", "study hours", "study location")  # said to be among the least important
WEIGHT_DIGIT = 1e-4
ALPHA = 100.0  # at which the weights were learned
SVM_AUC, SVM_AUC_DIGIT = 0.504, 1e-3
SVM_HAMMING, SVM_HAMMING_DIGIT = 0.9992, 1e-4
TRIED = "lambda up to 1000"  # of the SVM's lambdas, those that the paper tried
