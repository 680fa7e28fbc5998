"""The order of the examples in the gallery."""

from pathlib import Path

ORDER = [
    "tracking", "record_linkage", "roommates", "tagging",
    "segmentation", "multi_label", "neurons", "neural_segmentation",
    "scheduling", "paths", "top_k", "spanning_trees", "dependency_parsing",
    "factor_graph", "planar_ising",
]  # fmt: skip


def place(file: str) -> int:
    """Position of a script in the gallery; sphinx-gallery sorts by it."""
    return ORDER.index(Path(file).stem.removeprefix("plot_"))
