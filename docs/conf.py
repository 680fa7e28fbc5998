"""The documentation site: `pip install -e ".[docs]" && sphinx-build -W --keep-going docs BUILD`.

Pages are Markdown (MyST). The reference is made from docstrings, the gallery from `examples/`; an
example whose packages are not installed is shown without being run.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from sphinx.ext.autodoc.mock import mock

import mlestruct

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path.insert(0, str(HERE / "_extensions"))

project = "mlestruct"
copyright = "the mlestruct developers, BSD-3-Clause"
version = release = mlestruct.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "plain_docstrings",
]
templates_path = ["_templates"]
default_role = "py:obj"

# ---------------------------------------------------------------------- Markdown
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# ---------------------------------------------------------------------- reference
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]  # which need not be installed
MODULES = re.findall(r"^ +(mlestruct[\w.]*)$", (HERE / "api.rst").read_text(), re.MULTILINE)


def public_names() -> dict[str, list[str]]:
    """The names that each module shows: all public ones that no module before it has shown."""
    seen: set[int] = set()
    shown: dict[str, list[str]] = {}
    for name in MODULES:  # SciPy does not import beside a mock of PyTorch
        if name != "mlestruct.torch":
            import_module(name)
    import_module("scipy.stats")
    with mock(autodoc_mock_imports):
        modules = [import_module(name) for name in MODULES]
    for module in modules:
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if isinstance(value, type)
        ]
        found = {name: id(getattr(module, name)) for name in sorted(names) if name[0] != "_"}
        shown[module.__name__] = [name for name, key in found.items() if key not in seen]
        seen |= set(found.values())
    return shown


autosummary_generate = True
autosummary_imported_members = True
autosummary_context = {"public": public_names()}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries_show_parents = "hide"


# ---------------------------------------------------------------------- gallery
def is_runnable(example: Path) -> bool:
    """Whether all packages that an example needs are installed; those in `try` are extra."""
    names: set[str] = set()
    for node in ast.parse(example.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return all(find_spec(name) is not None for name in names)


runnable = "|".join(
    re.escape(path.name) for path in sorted(EXAMPLES.glob("plot_*.py")) if is_runnable(path)
)
sphinx_gallery_conf = {
    "examples_dirs": [str(EXAMPLES)],
    "gallery_dirs": ["gallery"],
    "filename_pattern": f"/({runnable})$",
    "within_subsection_order": "gallery_order.place",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "backreferences_dir": None,
    "matplotlib_animations": False,
    "plot_gallery": "True",
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# ---------------------------------------------------------------------- look
html_theme = "pydata_sphinx_theme"
html_title = "mlestruct"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
