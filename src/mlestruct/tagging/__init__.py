"""Labels of words in sentences: from columns of text to features, and back."""

from .conll import SentenceProblem, read_sentences
from .tagger import SequenceTagger, token_features

__all__ = ["SentenceProblem", "SequenceTagger", "read_sentences", "token_features"]
