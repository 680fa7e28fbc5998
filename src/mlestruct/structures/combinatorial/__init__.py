"""Output spaces of combinatorial optimisation, each in one file with its algorithms."""
