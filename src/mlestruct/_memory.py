"""Sizes that cannot fit are refused before anything is allocated.

Linux promises more memory than there is and ends the process that uses it.
"""

from __future__ import annotations

import os


def check_memory(n_numbers: float, what: str) -> None:
    """Raise MemoryError where arrays of so many doubles are larger than the machine's memory."""
    needed = 8.0 * n_numbers
    if needed > total_memory():
        raise MemoryError(
            f"{what}: needs {needed:,.0f} bytes ({needed / 2**30:,.1f} GiB), this machine has "
            f"{total_memory() / 2**30:,.1f} GiB"
        )


def total_memory() -> float:
    """Bytes of physical memory; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
