"""Matchings and b-matchings as output spaces."""
