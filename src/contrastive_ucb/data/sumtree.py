"""Draws in proportion to priorities: a binary tree of sums in one array."""

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size


class SumTree:
    """Priorities in the leaves, sums above them; node 1 is the root, leaf i is node `leaves + i`.

    Parents are summed anew from their children, so rounding never accumulates, the leaves alone
    determine the tree, and a zero leaf is never drawn.
    """

    def __init__(self, capacity: int):
        check_size("capacity", capacity)
        self.levels = (capacity - 1).bit_length()
        self.leaves = 1 << self.levels
        self.node = np.zeros(2 * self.leaves)
        self.left, self.right = self.node.reshape(-1, 2).T  # views: the children of every node

    @property
    def total(self) -> float:
        return float(self.node[1])

    def get(self, index: IntArray) -> Array:
        """The priorities of the leaves `index`."""
        return self.node[self.leaves + index]

    def set(self, index: IntArray, value: Array) -> None:
        """Give the leaves `index` (n,) the priorities `value` (n,); of equal indices the last wins.

        No index is dropped on the way up: two paths that meet compute the same sum twice, which
        costs less than finding out that they met.
        """
        if not (np.isfinite(value) & (value >= 0)).all():
            bad = value[~(np.isfinite(value) & (value >= 0))][0]
            raise ValueError(f"a priority must be finite and at least 0, got {bad}")
        at = self.leaves + index
        self.node[at] = value
        for _ in range(self.levels):
            at = at >> 1
            self.node[at] = self.left[at] + self.right[at]

    def find(self, mass: Array) -> IntArray:
        """Leaves that hold the given points of the cumulated mass, 0 <= mass < total."""
        at = np.ones(len(mass), dtype=np.int64)
        for _ in range(self.levels):
            left = self.left[at]
            goes_right = (mass >= left) & (self.right[at] > 0)
            mass = mass - left * goes_right
            at = 2 * at + goes_right
        return at - self.leaves

    def sample(self, uniforms: Array, stratified: bool = True) -> IntArray:
        """B leaves, drawn in proportion to their priorities.

        uniforms    (B,)  numbers in [0, 1), from the caller's stream
        stratified  one leaf from each of B equal shares of the mass; otherwise independent draws
        """
        if not self.total > 0:
            raise ValueError("every priority is 0, so there is nothing to draw")
        n = len(uniforms)
        points = (np.arange(n) + uniforms) / n if stratified else uniforms
        return self.find(points * self.total)
