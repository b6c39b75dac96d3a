"""The sum tree against a cumulative sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.data.sumtree import SumTree

# Sums of integers have no rounding error, so the oracle is exact.
PRIORITIES = st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any)


def tree_of(priorities: list[int]) -> SumTree:
    tree = SumTree(len(priorities))
    tree.set(np.arange(len(priorities)), np.array(priorities, dtype=float))
    return tree


@given(priorities=PRIORITIES)
def test_find_equals_cumulative_sum(
    priorities: list[int],
) -> None:
    tree = tree_of(priorities)
    mass = np.arange(2 * sum(priorities)) / 2
    expected = np.searchsorted(np.cumsum(priorities), mass, side="right")
    np.testing.assert_array_equal(tree.find(mass), expected)
    assert tree.total == sum(priorities)


@settings(max_examples=50)
@given(
    capacity=st.integers(1, 33),
    writes=st.lists(
        st.tuples(st.integers(0, 1000), st.floats(0, 1e6), st.integers(1, 5)), max_size=20
    ),
)
def test_leaves_determine_the_tree(capacity: int, writes: list[tuple[int, float, int]]) -> None:
    """Independent of the order of writes; the last of repeated indices counts."""
    tree, leaves = SumTree(capacity), np.zeros(capacity)
    for start, value, n in writes:
        index = (start + 7 * np.arange(n)) % capacity
        values = value * np.arange(1, n + 1) / n
        tree.set(index, values)
        for i, x in zip(index, values, strict=True):
            leaves[i] = x
    again = SumTree(capacity)
    again.set(np.arange(capacity), leaves)
    np.testing.assert_array_equal(tree.get(np.arange(capacity)), leaves)
    np.testing.assert_array_equal(tree.node, again.node)
    np.testing.assert_allclose(tree.total, leaves.sum())


@given(
    priorities=st.lists(st.sampled_from([0.0, 1e-300, 1e-8, 0.1, 1 / 3, 1e8]), min_size=1).filter(
        any
    ),
    seed=st.integers(0, 1000),
)
def test_zero_leaf_is_never_drawn(priorities: list[float], seed: int) -> None:
    """Also at both ends of every interval, where rounding matters."""
    tree = SumTree(len(priorities))
    tree.set(np.arange(len(priorities)), np.array(priorities))
    below_one = np.nextafter(1.0, 0.0)
    for uniforms in (np.zeros(8), np.full(8, below_one), np.random.default_rng(seed).random(8)):
        assert (np.array(priorities)[tree.sample(uniforms)] > 0).all()
    assert priorities[tree.find(np.array([tree.total]))[0]] > 0


def test_stratified_draws() -> None:
    """With equal priorities and as many draws as leaves, each is drawn once."""
    tree = tree_of([1] * 16)
    uniforms = np.random.default_rng(0).random(16)
    np.testing.assert_array_equal(tree.sample(uniforms), np.arange(16))
    independent = tree.sample(uniforms, stratified=False)
    np.testing.assert_array_equal(independent, (uniforms * 16).astype(int))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_invalid_priority(bad: float) -> None:
    tree = tree_of([1, 2])
    with pytest.raises(ValueError, match=str(bad)):
        tree.set(np.array([0, 1]), np.array([1.0, bad]))
    assert tree.total == 3.0


def test_empty_tree() -> None:
    with pytest.raises(ValueError, match="every priority is 0"):
        SumTree(4).sample(np.zeros(2))
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        SumTree(0)
