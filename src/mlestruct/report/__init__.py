"""One self-contained page about a model: what it says, what it learned, how well it fits."""

from .links import links_report
from .tags import tags_report

__all__ = ["links_report", "tags_report"]
