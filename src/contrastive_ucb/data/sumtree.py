"""Sum tree: sampling in proportion to priorities (Schaul et al. 2016, appendix B.2.1)."""

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_size


class SumTree:
    """A binary tree in one array: node 1 is the root, leaf i is node `leaves + i`.

    A parent is always recomputed from its children, so rounding errors do not accumulate, the
    leaves determine the tree, and a leaf of priority 0 is never drawn.
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
        """Set the priorities of the leaves `index` (n,) to `value` (n,); the last duplicate wins.

        Common ancestors are recomputed once per leaf, which is faster than finding duplicates.
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
        """The leaves at the given points of the cumulative sum, 0 <= mass < total.  (n,)"""
        at = np.ones(len(mass), dtype=np.int64)
        for _ in range(self.levels):
            left = self.left[at]
            goes_right = (mass >= left) & (self.right[at] > 0)
            mass = mass - left * goes_right
            at = 2 * at + goes_right
        return at - self.leaves

    def sample(self, uniforms: Array, stratified: bool = True) -> IntArray:
        """B leaves, drawn in proportion to their priorities.

        uniforms    (B,)  in [0, 1), from the caller's random stream
        stratified  one leaf from each of B equal intervals of the total; otherwise independent
        """
        if not self.total > 0:
            raise ValueError("every priority is 0; set a positive priority before sampling")
        n = len(uniforms)
        points = (np.arange(n) + uniforms) / n if stratified else uniforms
        return self.find(points * self.total)
