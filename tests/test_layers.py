"""Imports go down only: each package imports only from those below it."""

import ast
from pathlib import Path

import mlestruct

PACKAGE = Path(mlestruct.__file__).parent
ANYWHERE = {
    "_arguments",
    "_compile",
    "_files",
    "_lazy",
    "_running",
    "exceptions",
    "__version__",
}
MIDDLE = {"structures", "features", "metrics", "datasets", "algorithms"}

# What a package may import from; a dotted name is one module of a package.
BELOW = {
    "_arguments": set(),
    "_compile": set(),
    "_files": set(),
    "_lazy": set(),
    "_running": set(),
    "exceptions": set(),
    "algorithms": set(),
    "features": {"algorithms"},
    "structures": {"algorithms"},
    "metrics": {"algorithms"},
    "datasets": {"features", "algorithms"},
    "inference": MIDDLE,
    "learning": MIDDLE,
    "models": MIDDLE | {"inference", "learning"},
    "baselines": MIDDLE | {"learning"},
    "plotting": {"metrics", "datasets.scenes"},
}
BELOW["torch"] = MIDDLE | {"inference", "learning", "models"}
BELOW["linkage"] = {"features", "learning", "metrics", "models", "structures"}
BELOW["demo"] = MIDDLE | {"models", "plotting"}
BELOW["warmup"] = {"learning", "models"}
BELOW["cli"] = {"demo", "linkage", "warmup"}
LAZY = {"cli", ""}  # may import inside functions: the command line and the package itself


def imported(path):
    """What a file imports from the package: (module, name, whether inside a function)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ("mlestruct", *path.relative_to(PACKAGE).parent.parts)
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    inside = {node for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*start, *filter(None, [node.module])))
            found = [(module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            continue
        for module, name in found:
            if module.split(".")[0] == "mlestruct":
                yield module[len("mlestruct.") :], name, node in inside


def violations():
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        package = "" if file == "__init__.py" else file.split("/")[0].removesuffix(".py")
        for module, name, inside in imported(path):
            target = module or name
            parts = f"{module}.{name}".strip(".").split(".")
            reached = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
            if package and not reached & (BELOW[package] | ANYWHERE | {package}):
                yield file, target
            if inside and package not in LAZY:
                yield file, f"{target}, inside a function"


def test_imports_go_down_only():
    assert sorted(set(violations())) == []
