"""Graphs that output spaces live on."""
