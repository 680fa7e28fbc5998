"""Limited-memory BFGS on the likelihood, certified at every step.

Every evaluation of P(theta) asks for the marginals of all blocks. They are feasible, so they give a
dual value L(tau) as well; the oracle's upper bounds give a proven lower bound of P(theta).

The dual values of several evaluations together prove more than the best of them (`DualBundle`).
Evaluation k gives feasible marginals with expected moments e_k and entropy h_k. Convex combinations
of marginals are feasible too, and the entropy is concave, so

    L(sum_k w_k tau_k)  <=  R*(target - sum_k w_k e_k) - sum_k w_k h_k

for all weights w on the simplex; R*(r) = |r|^2 / (2 alpha) without an l1 penalty. The right side
needs no tau, only numbers and K-vectors. Errors of single evaluations cancel in the combination, so
its minimum over w is a far better upper bound of the optimum than the best single L(tau_k).

With an l1 penalty a step maximises the quadratic model of the likelihood with the penalty as it is,
by coordinate descent (a proximal quasi-Newton method; Lee, Sun, Saunders, 2014).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.linalg import norm
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._compile import kernel, summing_kernel
from .._running import is_over
from .problem import ElasticNet, Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]

WIDEST = 150.0  # largest range of the change of scores in the first trial of a step
TRIALS = 25  # step lengths of a line search
PASSES = 50  # of coordinate descent on one model
ROOM = 500_000  # numbers: 4 MB


class Start(NamedTuple):
    """Weights to start from, and the states of the oracles there, if they are known."""

    theta: Floats
    states: Any = None


class Evaluation(NamedTuple):
    """P, its bounds and its gradient at one theta."""

    theta: Floats
    value: float  # P(theta) up to the oracle's gap (an upper bound of it)
    primal: float  # proven lower bound of P(theta)
    dual: float  # L at the oracle's marginals: proven upper bound of the optimum
    residual: Floats  # observed minus expected moments
    gradient: Floats  # of P, without the l1 penalty
    oracle_gap: float
    rounding: float  # what rounding may have added to the bounds
    states: Any


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory quasi-Newton ascent; any number of features, any feature map.

    Parameters
    ----------
    memory : steps whose change of the gradient is kept
    max_iter, max_time, callback, verbose, random_state, checkpoint :
        the budget, as in `Solver`
    """

    memory: int = 40

    name: ClassVar[str] = "lbfgs"
    starts_from_weights: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        problem.require("marginals", "solver=LBFGS()")

    def solve(self, problem: Problem, tol: float, start: Start | None = None) -> Result:
        """Maximise P; `start` is the state of another result, or weights."""
        self.check(problem)
        monitor = Monitor(self, tol, problem.has_bound)
        last: list[Evaluation] = []
        zero = np.zeros(problem.n_features)

        def loop() -> None:
            known = monitor.resume()
            bundle = DualBundle(problem.n_features, problem.penalty)
            direction = Direction(problem, self.memory)
            if known is None:
                bundle.add(zero, 0.0)  # the observed output: its entropy is at least 0
                theta, states = (zero, None) if start is None else (start.theta, start.states)
                last.append(evaluate(problem, monitor, theta, 1e-2, states))
                iteration, sharp = 0, False
                if certify(problem, monitor, bundle, last[0], 0):
                    return
            else:
                last.append(Evaluation(*known["at"]))
                bundle.restore(known["bundle"])
                direction.restore(known["direction"])
                iteration, sharp = known["place"]
            while iteration < monitor.max_iter:
                at = last[0]
                step = direction(at)
                # Messages converge along with theta: the oracle's gap follows the fit's, but the
                # dual value may lag far behind P (weak penalties): then the expected progress.
                progress = min(monitor.gap, expected_gain(problem.penalty, at, step))
                oracle_tol = max(0.05 * monitor.tolerance, 0.2 * progress)
                following = line_search(problem, monitor, at, step, oracle_tol)
                if following is None:  # again with sharper marginals, from the gradient
                    direction.forget()
                    following = sharpened(problem, monitor, at)
                    if sharp and following.oracle_gap >= 0.5 * at.oracle_gap:
                        return
                    sharp = True
                else:
                    iteration, sharp = iteration + 1, False
                last[0] = following
                done = certify(problem, monitor, bundle, following, iteration)
                if done or monitor.stalled or is_over():
                    return
                place = iteration, sharp
                monitor.keep(partial(_checkpoint, following, bundle, direction, place))

        result = run(problem, monitor, loop, lambda: last[0].theta if last else zero)
        result.state = Start(last[0].theta, last[0].states) if last else None
        return result


def evaluate(
    problem: Problem, monitor: Monitor, theta: Floats, tol: float, states: Any
) -> Evaluation:
    """P and its bounds; `tol` is the total gap of the oracles."""
    penalty = problem.penalty
    expected, lower, upper, size, states = problem.expect(theta, tol, states)
    monitor.oracle_calls += problem.n_calls
    r = problem.target - expected
    dual = penalty.conjugate(r) + problem.offset_score - lower + float(theta @ expected)
    value, gap = problem.primal(theta, lower), upper - lower
    gradient = r - penalty.l2 * theta
    rounding = problem.rounding(theta, expected, size)
    return Evaluation(theta, value, value - gap, dual, r, gradient, gap, rounding, states)


def certify(
    problem: Problem, monitor: Monitor, bundle: DualBundle, at: Evaluation, iteration: int
) -> bool:
    """Record the bounds at an evaluation; True if the solver should stop."""
    dual = at.dual
    if problem.has_bound:
        entropy = problem.penalty.conjugate(at.residual) - at.dual
        dual = min(dual, bundle.add(at.residual, entropy))
    bounds: Any = {"dual": dual, "primal": at.primal, "rounding": at.rounding}
    return monitor.record(iteration, at.theta, **bounds)


def sharpened(problem: Problem, monitor: Monitor, at: Evaluation) -> Evaluation:
    """The same theta with marginals as sharp as warm starts make them in a few calls."""
    wanted = 0.01 * monitor.tolerance
    for _ in range(20):
        at = evaluate(problem, monitor, at.theta, wanted, at.states)
        if at.oracle_gap <= wanted or is_over():
            break
    return at


def line_search(
    problem: Problem, monitor: Monitor, at: Evaluation, step: Floats, tol: float
) -> Evaluation | None:
    """Backtrack until the proven lower bound of P increases enough, up to the oracle gap."""
    slope, eta = expected_gain(problem.penalty, at, step), _first_length(problem, at, step)
    for _ in range(TRIALS):
        theta, gain = at.theta + eta * step, eta * slope
        trial = evaluate(problem, monitor, theta, tol, at.states)
        for _ in range(5):  # bounds that do not decide are made sharper
            slack = min(trial.oracle_gap, tol) + 1e-13 * (abs(at.primal) + abs(at.dual))
            required = at.primal + 1e-4 * gain - slack
            if trial.primal >= required:
                return trial
            if trial.value < required or is_over():
                break
            trial = evaluate(problem, monitor, theta, tol, trial.states)
        # Quadratic interpolation between the two values and the slope, safeguarded.
        bend = at.primal + gain - trial.primal
        eta *= min(max(0.5 * gain / bend if bend > 0 else 0.5, 0.1), 0.5)
        if is_over():
            break
    return None


def expected_gain(penalty: ElasticNet, at: Evaluation, step: Floats) -> float:
    """What a step adds to P if the smooth part is linear."""
    slope = float(at.gradient @ step)
    if penalty.l1:
        slope -= penalty.l1 * float(np.abs(at.theta + step).sum() - np.abs(at.theta).sum())
    return slope


def _first_length(problem: Problem, at: Evaluation, step: Floats) -> float:
    """1, or less if almost all marginals are 0 or 1, so that full steps are far too long."""
    if float(step @ step) <= float(at.theta @ at.theta):
        return 1.0
    widest = problem.score_range(step)
    return min(1.0, WIDEST / widest) if widest > 0.0 else 1.0


def _checkpoint(
    at: Evaluation, bundle: DualBundle, direction: Direction, place: Any
) -> dict[str, Any]:
    """What the loop continues from."""
    known = {"at": tuple(at), "bundle": bundle.state(), "direction": direction.state()}
    return {**known, "place": place}


class Direction:
    """The maximum of a model of P with the curvature of the last accepted steps.

    It is found by the two-loop recursion, preconditioned if possible; with an l1 penalty by
    coordinate descent.
    """

    def __init__(self, problem: Problem, memory: int):
        self._pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=memory)
        self._last: tuple[Floats, Floats] | None = None  # theta and gradient of the last call
        self._penalty = problem.penalty
        self._scale = problem.penalty.l2 + problem.moment_scale
        if self._penalty.l1:
            self._diagonal = diagonal_curvature(problem, self._scale)
        else:
            self._precondition = preconditioner(problem)

    def forget(self) -> None:
        """Start again from the gradient."""
        self._pairs.clear()
        self._last = None

    def state(self) -> dict[str, Any]:
        return {"pairs": list(self._pairs), "last": self._last}

    def restore(self, known: dict[str, Any]) -> None:
        self._pairs.extend(known["pairs"])
        self._last = known["last"]

    def __call__(self, at: Evaluation) -> Floats:
        if self._last is not None:
            s, y = at.theta - self._last[0], self._last[1] - at.gradient
            product = float(s @ y)
            # No pair where rounding, or the oracle's gap, hides that P is concave.
            if product > 1e-10 * float(norm(s) * norm(y)):
                self._pairs.append((s, y, product))
        self._last = at.theta, at.gradient
        return self._proximal(at) if self._penalty.l1 else self._two_loop(at)

    def _two_loop(self, at: Evaluation) -> Floats:
        q, coefficients = at.gradient.copy(), []
        for s, y, product in reversed(self._pairs):
            coefficients.append(float(s @ q) / product)
            q -= coefficients[-1] * y
        solve = self._precondition
        if solve is not None:
            q = solve(q)
        if self._pairs:
            _, y, product = self._pairs[-1]
            q *= product / float(y @ (y if solve is None else solve(y)))
        elif solve is not None:
            curvature = solve.curvature(q)
            q *= float(at.gradient @ q) / curvature if curvature > 0.0 else 1.0
        else:
            q /= self._scale
        for (s, y, product), coefficient in zip(self._pairs, reversed(coefficients), strict=True):
            q += (coefficient - float(y @ q) / product) * s
        return q

    def _proximal(self, at: Evaluation) -> Floats:
        """The step with the l1 penalty; weights that it keeps at 0 at this gradient stay there.

        The others have the model  diagonal - wide middle^-1 wide'  of the curvature, the compact
        form of the BFGS updates (Byrd, Nocedal and Schnabel, 1994).
        """
        free = np.flatnonzero((at.theta != 0.0) | (np.abs(at.gradient) > self._penalty.l1))
        pairs = [(s[free], y[free]) for s, y, _ in self._pairs]
        pairs = [(s, y) for s, y in pairs if float(s @ y) > 1e-10 * float(norm(s) * norm(y))]
        pairs = pairs[-min(free.size, max(10, ROOM // (4 * free.size + 1))) :]
        diagonal = self._diagonal[free]
        wide = solved = np.empty((free.size, 0))
        if pairs:
            s, y = (np.array(part) for part in zip(*pairs, strict=True))
            # Marginals are peaked: the square root of the diagonal is nearer to the curvature.
            diagonal = np.sqrt(diagonal)
            diagonal *= float(y[-1] @ (y[-1] / diagonal)) / float(s[-1] @ y[-1])
            scaled, products = s * diagonal, s @ y.T
            lower = np.tril(products, -1)
            middle = np.block([[scaled @ s.T, lower], [lower.T, -np.diag(np.diag(products))]])
            both = np.vstack([scaled, y])
            wide = np.ascontiguousarray(both.T)
            solved = np.ascontiguousarray((np.linalg.pinv(middle, hermitian=True) @ both).T)
        step = np.zeros_like(at.theta)
        start, slope = at.theta[free], at.gradient[free]
        step[free] = descend_coordinates(start, slope, diagonal, wide, solved, self._penalty.l1)
        if pairs and not expected_gain(self._penalty, at, step) > 0.0:  # by rounding
            self.forget()
            return self._proximal(at)
        return step


@summing_kernel
def descend_coordinates(
    theta: Floats, gradient: Floats, diagonal: Floats, wide: Floats, solved: Floats, l1: float
) -> Floats:
    """The step d that maximises  gradient' d - d' B d / 2 - l1 |theta + d|_1,  to about 1 %.

    B = diag(diagonal) - wide solved'.
    """
    n, rank = wide.shape
    step, product = np.zeros(n), np.zeros(rank)  # wide' step
    curvature = diagonal.copy()
    for i in range(n):
        for k in range(rank):
            curvature[i] -= wide[i, k] * solved[i, k]
        curvature[i] = max(curvature[i], 1e-10 * diagonal[i])
    total = 0.0
    for _ in range(PASSES):
        gain = 0.0
        for i in range(n):
            slope = 0.0
            for k in range(rank):
                slope += solved[i, k] * product[k]
            slope += gradient[i] - diagonal[i] * step[i]
            old = theta[i] + step[i]
            aim = old + slope / curvature[i]
            new = np.sign(aim) * max(abs(aim) - l1 / curvature[i], 0.0)
            change = new - old
            if change != 0.0:
                gain += change * (slope - 0.5 * curvature[i] * change) - l1 * (abs(new) - abs(old))
                step[i] = new - theta[i]
                for k in range(rank):
                    product[k] += wide[i, k] * change
        total += gain
        if rank == 0 or gain <= 0.01 * total:
            break
    return step


class Segment(NamedTuple):
    """Rows of weights with the curvature  vectors' diag(row of values) vectors  each.

    values : ndarray of shape (n_rows, C), eigenvalues with alpha
    scaling : ndarray of shape (n_rows, C), their power -exponent
    vectors : ndarray of shape (C, C), or None for the identity
    """

    values: Floats
    scaling: Floats
    vectors: Floats | None


class Preconditioner:
    """(curvature + alpha I)^-exponent for a block-diagonal model of the curvature."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments

    def __call__(self, vector: Floats) -> Floats:
        out = np.empty_like(vector)
        for (_, scaling, vectors), part, solved in self._parts(vector, out):
            if vectors is None:
                np.multiply(part, scaling, out=solved)
            else:
                np.matmul((part @ vectors) * scaling, vectors.T, out=solved)
        return out

    def curvature(self, vector: Floats) -> float:
        """<vector, (curvature + alpha I) vector>."""
        total = 0.0
        for (values, _, vectors), part, _ in self._parts(vector, vector):
            rotated = part if vectors is None else part @ vectors
            total += float(np.vdot(rotated * rotated, values))
        return total

    def _parts(self, *vectors: Floats) -> Iterator[tuple[Segment, Floats, Floats]]:
        start = 0
        for segment in self._segments:
            shape = segment.values.shape
            here = slice(start, start + segment.values.size)
            one, other = (vector[here].reshape(shape) for vector in vectors)
            yield segment, one, other
            start = here.stop


def preconditioner(problem: Problem) -> Preconditioner | None:
    """A model of the curvature to start L-BFGS from; None if some features have no moments.

    If the weights form copies of one feature space (one weight vector per state), the Hessian of
    the negative log-likelihood is roughly block diagonal: copy l has  scale_l * (sum of x x').
    """
    found = problem.curvature()
    if found is None:
        return None
    # Of many sparse features only the diagonal is known. Frequent ones have far less curvature than
    # it says, as marginals are peaked: its fourth root is better than the inverse.
    exponent = 0.25 if any(gram.ndim == 1 for gram, _ in found) else 1.0
    segments = []
    for gram, mean in found:
        values, vectors = (gram, None) if gram.ndim == 1 else eigh(gram)
        modelled = np.outer(mean, np.maximum(values, 0.0)) + problem.penalty.l2
        segments.append(Segment(modelled, modelled**-exponent, vectors))
    return Preconditioner(segments)


def diagonal_curvature(problem: Problem, scale: float) -> Floats:
    """The diagonal of that model; `scale` throughout if some features have no moments."""
    found = problem.curvature()
    if found is None:
        return np.full(problem.n_features, scale)
    parts = [np.outer(mean, gram if gram.ndim == 1 else np.diag(gram)) for gram, mean in found]
    return np.concatenate([part.ravel() for part in parts]) + problem.penalty.l2


# ---------------------------------------------------------------------- bundle of dual points
class DualBundle:
    """At most `size` evaluations, or means of some, and the weights that minimise the bound."""

    def __init__(self, n_features: int, penalty: ElasticNet, size: int | None = None):
        if size is None:
            size = max(10 if penalty.l1 else 2, min(40, ROOM // n_features))
        self.penalty, self.size, self.count = penalty, size, 0
        self._residuals = np.empty((size, n_features))  # target - e_k
        self._entropies, self._weights = np.zeros(size), np.zeros(size)
        self._gram = np.zeros((size, size))
        self._bound = np.inf

    def restore(self, known: dict[str, Any]) -> None:
        """Continue from the attributes of another bundle of the same problem."""
        vars(self).update(known)

    def state(self) -> dict[str, Any]:
        """The attributes that change."""
        names = ("count", "_residuals", "_entropies", "_weights", "_gram", "_bound")
        return {name: getattr(self, name) for name in names}

    def add(self, residual: Floats, entropy: float) -> float:
        """Take r_k = target - e_k and h_k of one more evaluation; returns the best bound."""
        if self.count < self.size:
            new = self.count
            self.count += 1
        else:
            new = self._free_row()
        self._residuals[new], self._entropies[new], self._weights[new] = residual, entropy, 0.0
        n = self.count
        if self.penalty.l1:
            return self._shrunk_bound(new)
        products = self._residuals[:n] @ residual / self.penalty.l2
        self._gram[new, :n], self._gram[:n, new] = products, products
        start = self._weights[:n]
        if 0.5 * products[new] - entropy < self._bound:
            start = np.eye(1, n, new)[0]
        gram = np.ascontiguousarray(self._gram[:n, :n])
        self._weights[:n] = minimise_on_simplex(gram, self._entropies[:n], start)
        self._bound = self._value(self._weights[:n])
        return self._bound

    def _value(self, weights: Floats) -> float:
        """The bound at some weights, from the vectors rather than the Gram matrix."""
        n = self.count
        r = weights @ self._residuals[:n]
        return self.penalty.conjugate(r) - float(weights @ self._entropies[:n])

    def _shrunk_bound(self, new: int) -> float:
        """With an l1 penalty R*(r) is the smallest |r - u|^2 / (2 l2) over |u| <= l1.

        Newton steps: R* is quadratic on the entries beyond l1. If they do not decrease the bound,
        all entries and the best u, kept for one step, do.
        """
        n, l1 = self.count, self.penalty.l1
        residuals = self._residuals[:n]
        weights = np.eye(1, n, new)[0]
        best = self._value(weights)
        if self._bound < best:
            weights, best = self._weights[:n].copy(), self._bound
        newton = True
        for _ in range(20):
            r = weights @ residuals
            u = np.clip(r, -l1, l1)
            shifted = residuals[:, u != r] - u[u != r] if newton else residuals - u
            gram = shifted @ shifted.T / self.penalty.l2
            found = minimise_on_simplex(gram, self._entropies[:n], weights)
            before = best
            for _ in range(10):
                value = self._value(found)
                if value < best:
                    weights, best = found, value
                    break
                found = 0.6 * weights + 0.4 * found
            progress = before - best > 1e-5 * abs(best)
            if not (progress or newton):
                break
            newton = progress
        self._weights[:n], self._bound = weights, best
        return best

    def _free_row(self) -> int:
        """The evaluation of smallest weight is dropped; its weight goes to a mean with the next."""
        k, other = np.argsort(self._weights, kind="stable")[:2].tolist()
        total = float(self._weights[k] + self._weights[other])
        if self._weights[k] > 0.0:
            share = float(self._weights[k]) / total
            for values in (self._residuals, self._entropies, self._gram, self._gram.T):
                values[other] += share * (values[k] - values[other])
            self._weights[other] = total
        return k


@kernel
def minimise_on_simplex(gram: Floats, linear: Floats, start: Floats) -> Floats:
    """Minimise w' gram w / 2 - linear' w over the simplex by pairwise Frank-Wolfe steps."""
    n = start.shape[0]
    w = start.copy()
    slope = np.empty(n)
    scale = 1e-300
    for k in range(n):
        total = -linear[k]
        for q in range(n):
            total += gram[k, q] * w[q]
        slope[k] = total
        scale = max(scale, abs(total))
    for _ in range(2000):  # any weights give a bound
        to = 0
        away = -1
        for k in range(n):
            if slope[k] < slope[to]:
                to = k
            if w[k] > 0.0 and (away < 0 or slope[k] > slope[away]):
                away = k
        descent = slope[away] - slope[to]
        if descent <= 1e-14 * scale:
            break
        curvature = gram[to, to] + gram[away, away] - 2.0 * gram[to, away]
        step = w[away]
        if curvature > 0.0:
            step = min(step, descent / curvature)
        w[to] += step
        w[away] = max(w[away] - step, 0.0)
        for k in range(n):
            slope[k] += step * (gram[k, to] - gram[k, away])
    total = 0.0
    for k in range(n):
        total += w[k]
    for k in range(n):
        w[k] /= total
    return w
