"""Labels of words in sentences: from columns of text to features, and back."""

from .sentences import read_json_lines, read_sentences, split_labels
from .tagger import SequenceTagger, token_features

__all__ = [
    "SequenceTagger",
    "read_json_lines",
    "read_sentences",
    "split_labels",
    "token_features",
]
