"""What `mlestruct reproduce` does with the experiments: run, keep, compare, show.

An experiment (`contract.py`) is a list of parts and a summary of their results. Parts are kept on
disk (`store.py`), so that a run goes on where it was interrupted; `runner.py` writes pictures,
tables and numbers; `page.py` and `markdown.py` show them beside the published ones.
"""
