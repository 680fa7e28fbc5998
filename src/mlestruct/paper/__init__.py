"""The figures and tables of the paper, and `mlestruct reproduce`, which runs and shows them.

An experiment (`contract.py`) is a list of parts (`parts.py`) and what is made of their results.
Parts are kept on disk (`store.py`), so that a run goes on where it was interrupted; `runner.py`
writes pictures, tables and numbers; `document.py` shows them beside the published ones.
"""
