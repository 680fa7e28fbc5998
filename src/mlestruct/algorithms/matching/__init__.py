"""Matchings: MAP decoders, marginal oracles with certified bounds, counting, Markov chains.

Terms, the same in all files:

* **prices**: the dual variables of the node constraints (of the columns only, where rows are solved
  exactly). The *reduced score* of an edge is its score minus the prices of its ends; decoders that
  keep it non-positive call minus it the *slack* of the edge.
* **t**, **z**: marginals of edges, and of nodes staying single (or their expected unused capacity).
* **free**: nodes that may stay single; **single**: the scores of staying single.
* A graph is stored as (ptr, col): CSR rows of a bipartite graph, or of the strict upper triangle.

Where to look:

* MAP: `assignment` (bipartite, and the local polytope of a group), `blossom` (matchings),
  `b_matching` (capacities above 1).
* Marginals with certified bounds: `oracle` (`belief_propagation`, `newton` where that stalls),
  `edge_dual` (large complete groups, capacities above 1); `odd_sets` proves that marginals are a
  mixture of matchings.
* log Z: `counting` (exactly).
* Samples: `worm_chain`.
"""
