"""Which rounds are written down: every one at first, then ever fewer, evenly on a log scale."""

from __future__ import annotations

FIRST = 100  # rounds that are all written down
PER_DECADE = 100


def on_grid(round_number: int, last: int) -> bool:
    """Whether this round is on the grid; the last one always is.

    From 100 on, a round is on the grid when the integer part of 100 log10(k) grows, so a decade has
    100 points wherever a run ends: a longer run of the same seed has the same grid.
    """
    if round_number <= FIRST or round_number == last:
        return True
    return _mark(round_number) > _mark(round_number - 1)


def _mark(round_number: int) -> int:
    """floor(PER_DECADE log10 k) in integers: rounding of logarithms differs between machines."""
    return len(str(round_number**PER_DECADE)) - 1
