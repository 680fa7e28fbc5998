"""The order of the examples in the gallery: what most people come for first."""

from pathlib import Path

ORDER = [
    "tracking", "record_linkage", "addresses", "couples",
    "scribbles", "digits", "multi_label", "ensembles",
    "graph_matching", "scheduling", "paths", "top_k", "spanning_trees", "dependency_parsing",
    "factor_graph", "planar_ising",
    "neural_keypoints", "neural_tagging", "neural_segmentation",
]  # fmt: skip


def place(file: str) -> int:
    """Of a script of `examples/`; sphinx-gallery sorts by it."""
    return ORDER.index(Path(file).stem.removeprefix("plot_"))
