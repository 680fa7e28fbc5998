"""Weizmann horses: telling the pixels of a horse from those around it (the paper's grid CRFs).

`methods.py` has the methods that are compared, `work.py` what is kept of each of them,
`results.py` what is read from that, and `report.py` what is told.
"""

from .experiment import Horses

__all__ = ["Horses"]
