"""Property tests explore at random on a developer's machine and repeat themselves in CI."""

import os
from importlib.util import find_spec

from hypothesis import HealthCheck, settings

os.environ["MLESTRUCT_QUIET"] = "1"  # what is written does not depend on numba's cache

# No limits of time: an example may take long where it compiles, or where the machine is busy.
free = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", free)
settings.register_profile("ci", free, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "random")

# PyTorch is not part of the test extra. Any other module that cannot be imported is an error.
collect_ignore = [] if find_spec("torch") else ["src/mlestruct/torch", "tests/torch"]
