"""Pairwise graphs: decoders, message passing, exact inference, sampling, spanning trees."""
