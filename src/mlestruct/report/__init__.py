"""One self-contained page about a model: what it says, what it learned, how well it fits."""
