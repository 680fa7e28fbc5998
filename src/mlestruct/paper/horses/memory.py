"""The highest memory of the process, since a moment. Known on Linux only."""

from __future__ import annotations

import re
from pathlib import Path

PROCESS = Path("/proc/self")
FORGET_PEAK = "5"


def forget_peak() -> bool:
    """Start to measure anew; False if the system cannot."""
    try:
        (PROCESS / "clear_refs").write_text(FORGET_PEAK)
    except OSError:
        return False
    return True


def peak_gb() -> float | None:
    """The highest memory since `forget_peak`, in 10^9 bytes; None if the system does not tell."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text())
    except OSError:
        return None
    return None if found is None else int(found.group(1)) * 1024 / 1e9
