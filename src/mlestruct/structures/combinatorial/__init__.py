"""Output spaces of combinatorial optimisation with exact partition functions."""
