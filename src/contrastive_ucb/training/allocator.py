"""Memory that an update frees stays with the process, ready for the next update."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # names and numbers of glibc's malloc.h
LARGEST_HEAP_BLOCK = 32 << 20  # bytes; glibc refuses more
KEPT_FREE = (2 << 30) - 1  # bytes; the largest int


def keep_freed_memory() -> bool:
    """Ask glibc not to hand freed buffers back to the kernel; whether it agreed.

    By default buffers of megabytes are mapped anew in every update, and the kernel clears every
    page of them. Elsewhere than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    kept = mallopt(M_TRIM_THRESHOLD, KEPT_FREE)  # 1 is success
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_HEAP_BLOCK) and kept)
