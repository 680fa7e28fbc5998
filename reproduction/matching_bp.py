"""Maximum likelihood of matchings by belief propagation inside a gradient loop: a rival.

Converged beliefs are the gradient of log Z_rho. The classical double loop passes messages to
convergence, then makes one step of L-BFGS; the next messages start from the last ones. What it
reports is right as far as its messages have converged.
"""

import numpy as np
from scipy.optimize import minimize

from .huang_jebara import belief_propagation


class DoubleLoop:
    """Maximises P(theta) of a problem over matchings of two sides.

    Parameters
    ----------
    problem : what `BipartiteMatchingCRF._problem` returns
    max_sweeps : over all messages of a sample, for each gradient
    bp_tol : messages have converged when no belief moves by more than this in four sweeps

    Attributes
    ----------
    theta, value, gradient : of P where it was evaluated last
    runs : of belief propagation, one for each sample and gradient
    unconverged : those of them that used up `max_sweeps`
    converged : of the outer loop, with all messages at theta converged
    """

    def __init__(self, problem, max_sweeps=2000, bp_tol=1e-8):
        self.problem, self.max_sweeps, self.bp_tol = problem, max_sweeps, bp_tol
        self.warm = [None] * len(problem.blocks)
        self.runs = self.unconverged = 0
        self.messages_converged = self.converged = False

    def evaluate(self, theta):
        """P(theta) and its gradient."""
        problem, total, expected = self.problem, 0.0, np.zeros_like(theta)
        before = self.unconverged
        for m, block in enumerate(problem.blocks):
            scores, limits = block.scores(theta), (0.0, self.max_sweeps, self.bp_tol)
            found = belief_propagation(block.structure, scores, *limits, self.warm[m])
            self.warm[m] = found.warm
            self.runs += 1
            self.unconverged += not found.converged
            total += block.weight * found.log_partition
            expected += block.weight * block.moments(found.tau)
        self.messages_converged = self.unconverged == before
        self.theta, self.value = theta.copy(), problem.primal(theta, total)
        self.gradient = problem.target - expected - problem.alpha * theta
        return self.value, self.gradient

    def within(self, tol):
        """Whether |gradient|^2 / (2 alpha), a bound of the suboptimality, is small."""
        slack = self.gradient @ self.gradient / (2.0 * self.problem.alpha)
        size = min(abs(self.value), abs(self.value + slack))
        return bool(slack <= tol * max(1.0, size))

    def solve(self, tol, max_iter):
        def negative(theta):
            value, gradient = self.evaluate(theta)
            return -value, -gradient

        def stop(intermediate_result):
            if self.within(tol):  # the step just accepted is the one evaluated last
                raise StopIteration

        options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": 20, "ftol": 0, "gtol": 0}
        start = np.zeros(self.problem.n_features)
        found = minimize(
            negative, start, jac=True, method="L-BFGS-B", callback=stop, options=options
        )
        if not np.array_equal(found.x, self.theta):
            self.evaluate(found.x)
        self.converged = self.within(tol) and self.messages_converged
        return self
