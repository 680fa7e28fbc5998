"""Labels of words in sentences: from columns of text to features, and back."""

from .sentences import read_json_lines, read_sentences
from .tagger import SequenceTagger, token_features

__all__ = [
    "SequenceTagger",
    "read_json_lines",
    "read_sentences",
    "token_features",
]
