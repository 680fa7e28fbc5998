"""The experiments of "Bethe Learning of Conditional Random Fields via MAP Decoding", one file each.

    python -m reproduction NAME [--quick]

An experiment is a module with TITLE, PLACE (in the paper), SOLVERS (which made which numbers) and

    setting(quick)          everything that decides the results, as plain data
    parts(setting)          the work, by name; each part is a function without arguments
    report(setting, found)  tables, pictures, published numbers beside ours, and claims

`runner.py` keeps every finished part on disk and writes the report.
"""

NAMES = (
    "synthetic",
    "rho",
    "house-hotel",
    "mismatch",
    "roommates",
    "horses",
    "small-horses",
    "perturb-and-map",
    "belief-propagation",
)
