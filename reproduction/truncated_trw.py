"""Likelihood of labellings by a fixed number of message-passing sweeps: a rival.

After Domke (2013, "Learning graphical model parameters with approximate marginal inference"): for
every theta the messages of each image start anew from uniform ones and get n_sweeps sweeps of
tree-reweighted message passing. The resulting pseudo-marginals tau stand in for the maximisers,

    log Z_rho  ~  <scores, tau> + H_rho(tau),      gradient  ~  moments of (y - tau),

and L-BFGS maximises this surrogate of the likelihood. The messages of `GridCRF` are used (one sweep
is a pass forwards and one back), so a sweep costs the same on both sides. There is no certificate,
and for no finite number of sweeps is the result guaranteed to be the optimum.
"""

import numpy as np
from scipy.optimize import minimize


def fit_truncated(problem, n_sweeps, watch, max_iter=1000, tol=1e-9, gradient_tol=1e-5):
    """Maximise the surrogate from theta = 0.

    Parameters
    ----------
    problem : what `GridCRF._problem` returns
    watch : called with iteration, theta and the surrogate there, first at 0; True stops the fit
    tol : L-BFGS stops when the surrogate changes by less than this, relative to its size,
    gradient_tol : and when no component of the gradient is larger than this

    Returns
    -------
    theta of the best surrogate value, and whether L-BFGS stopped by its criteria
    """
    theta, best = np.zeros(problem.n_features), -np.inf
    iteration = -1

    def report(at, value):
        nonlocal iteration
        iteration += 1
        if watch(iteration, at.copy(), value):
            raise StopIteration

    def negative(at):
        nonlocal theta, best
        value, gradient = surrogate(problem, at, n_sweeps)
        if value > best:
            theta, best = at.copy(), value
        if iteration < 0:
            report(at, value)
        return -value, -gradient

    def iterated(intermediate_result):
        report(intermediate_result.x, -intermediate_result.fun)

    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": 20}
    options |= {"ftol": tol, "gtol": gradient_tol}
    found = minimize(
        negative, theta, jac=True, method="L-BFGS-B", callback=iterated, options=options
    )
    return theta, bool(found.success)


def surrogate(problem, theta, n_sweeps):
    """The surrogate of P(theta), an upper bound of it, and its approximate gradient."""
    total, expected = 0.0, np.zeros_like(theta)
    for block in problem.blocks:
        tau, value = truncated_marginals(block.structure, block.scores(theta), n_sweeps)
        total += block.weight * value
        expected += block.weight * block.moments(tau)
    gradient = problem.target - expected - problem.alpha * theta
    return problem.primal(theta, total), gradient


def truncated_marginals(structure, scores, n_sweeps):
    """tau after n_sweeps sweeps from uniform messages, and <scores, tau> + H_rho(tau).

    tau is a point of the local polytope with the nodes' beliefs; there is one certificate, at the
    end.
    """
    found = structure.marginals(scores, None, 0.0, n_sweeps, first=n_sweeps)
    return found.tau, found.value
