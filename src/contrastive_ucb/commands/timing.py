"""Timings for the benches: always several works in turns, since the machine may be busy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def in_turns(works: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """The median seconds of each work; a slow moment of the machine meets all of them alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, kept in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            kept.append(time.perf_counter() - began)
    return [statistics.median(kept) for kept in times]
