"""Matchings: decoders, marginal oracles with their bounds, counting, Markov chains."""
