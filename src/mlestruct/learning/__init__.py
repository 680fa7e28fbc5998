"""The convex dual problem, and solvers that ask it for expectations or decode its blocks."""

from .checkpoint import Checkpoint
from .frank_wolfe import BlockFrankWolfe, FrankWolfe
from .fully_corrective import FullyCorrective
from .lbfgs import LBFGS
from .problem import Block, Problem, merge_equal
from .solver import History, Monitor, Progress, Result, Solver, run
from .workers import Parts

__all__ = [
    "LBFGS",
    "Block",
    "BlockFrankWolfe",
    "Checkpoint",
    "FrankWolfe",
    "FullyCorrective",
    "History",
    "Monitor",
    "Parts",
    "Problem",
    "Progress",
    "Result",
    "Solver",
    "merge_equal",
    "run",
]
