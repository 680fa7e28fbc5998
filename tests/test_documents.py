"""Files and names of the package that the documents mention exist."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").is_file(), reason="the documents are not beside the tests"
)


def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    if name.startswith("mlestruct.torch") and importlib.util.find_spec("torch") is None:
        return True  # needs PyTorch, which is not part of the test extra
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document):
    """Paths are relative to the package, the repository or the document."""
    places = (ROOT / "src" / "mlestruct", ROOT / "src", ROOT, document.parent)
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])[\w.-]+(?:/[\w.-]+)*/[\w.-]+\.py\b", text))
    missing = [path for path in named if not any((place / path).is_file() for place in places)]
    assert not sorted(missing)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_names_exist(document):
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/])(?:mlestruct|benchmarks)(?:\.(?!md\b)[A-Za-z_]\w*)+", text))
    assert not sorted(name for name in named if not is_importable(name))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_linked_files_exist(document):
    text = document.read_text(encoding="utf-8")
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)}
    local = {link for link in links if link and "://" not in link}
    assert not sorted(link for link in local if not (document.parent / link).exists())
