"""Graphs that define output spaces."""
