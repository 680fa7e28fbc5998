"""Commands that work on files: reading, answering in plain words, writing."""
