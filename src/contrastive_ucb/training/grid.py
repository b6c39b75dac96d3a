"""Which rounds are written down: every one at first, then ever fewer, evenly on a log scale."""

from __future__ import annotations


def on_grid(round_number: int, last: int, per_decade: int = 100) -> bool:
    """Whether this round is on the grid; the first and the last always are.

    A round is on the grid when the integer part of per_decade * log10(k) grows, so that a longer
    run of the same seed has the same grid.
    """
    if round_number in (1, last):
        return True
    return _mark(round_number, per_decade) > _mark(round_number - 1, per_decade)


def _mark(round_number: int, per_decade: int) -> int:
    """floor(per_decade log10 k) in integers: rounding of logarithms differs between machines."""
    return len(str(round_number**per_decade)) - 1
