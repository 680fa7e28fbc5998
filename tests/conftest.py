"""Property tests explore at random on a developer's machine and repeat themselves in CI."""

import os

from hypothesis import settings

os.environ["MLESTRUCT_QUIET"] = "1"  # what is written does not depend on numba's cache

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
