"""MAP solvers, one thin adapter each."""
