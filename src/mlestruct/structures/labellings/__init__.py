"""Labellings of pairwise graphs as output spaces."""
