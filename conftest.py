"""Property tests explore at random on a developer's machine and repeat themselves in CI."""

import os
import sys
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

os.environ["MLESTRUCT_QUIET"] = "1"  # what is written does not depend on numba's cache

# No limits of time: an example may take long where it compiles, or where the machine is busy.
free = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", free)
settings.register_profile("ci", free, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "random")

# PyTorch is not part of the test extra. Any other module that cannot be imported is an error.
collect_ignore = [] if find_spec("torch") else ["src/mlestruct/torch", "tests/torch"]


@pytest.fixture(autouse=True)
def _each_interrupt_is_the_first():
    """Two tests that interrupt a fit within seconds are not one person who presses Ctrl-C twice."""
    base = sys.modules.get("mlestruct.models.base")
    if base is not None:
        base._interrupted[0] = float("-inf")
