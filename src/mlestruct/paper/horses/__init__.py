"""Weizmann horses: telling the pixels of a horse from those around it (the paper's grid CRFs).

`data.py` has the pictures, `methods.py` the methods that are compared and `evaluation.py` what is
kept of each; `results.py` reads it, and `experiment.py` makes tables, pictures and claims of it.
"""

from .experiment import Horses

__all__ = ["Horses"]
