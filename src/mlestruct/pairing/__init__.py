"""Who is paired with whom: people of one group, or records of two sides with capacities."""

from .group import GroupMatcher
from .matches import Matches
from .questions import Question, guess_questions
from .sides import SideMatcher

__all__ = ["GroupMatcher", "Matches", "Question", "SideMatcher", "guess_questions"]
