"""Roommates: learning from questionnaires who chose to live with whom.

The paper's records cannot be had, so campuses are generated from known weights. `methods.py` has
what is compared and how it is tuned, `evaluation.py` how good weights are, `results.py` what is
read from the parts and what the paper claims, and `experiment.py` what is shown.
"""

from .experiment import Roommates

__all__ = ["Roommates"]
