"""Marginals, partition functions and their bounds."""
