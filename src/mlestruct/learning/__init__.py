"""The convex dual problem and its solvers, which use only the contract of its blocks."""

from .block_frank_wolfe import BlockFrankWolfe
from .checkpoint import Checkpoint
from .dual_state import DualState, start_near_observed
from .frank_wolfe import FrankWolfe
from .lbfgs import LBFGS
from .newton import Newton
from .problem import Block, DualProblem, merge_equal
from .result import History, Progress, Result, Stopping
from .solvers import make_solver

__all__ = [
    "LBFGS",
    "Block",
    "BlockFrankWolfe",
    "Checkpoint",
    "DualProblem",
    "DualState",
    "FrankWolfe",
    "History",
    "Newton",
    "Progress",
    "Result",
    "Stopping",
    "make_solver",
    "merge_equal",
    "start_near_observed",
]
