"""Reading of labels of nodes: `States` numbers them from 0 and translates back."""

from .states import UNKNOWN, States, check_states, is_named

__all__ = ["UNKNOWN", "States", "check_states", "is_named"]
