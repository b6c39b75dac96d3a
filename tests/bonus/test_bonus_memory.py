"""The stored transitions: a uniform sample of the past, or the latest ones."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.bonus.memory import TransitionMemory, Transitions
from contrastive_ucb.bonus.spaces import ObservationArrays

ARRAYS = ObservationArrays(spaces.Discrete(10**3))


def numbered(first: int, n: int) -> Transitions:
    """Transitions that contain their number in each part."""
    numbers = np.arange(first, first + n)
    return Transitions((numbers,), numbers, (numbers + 1,))


def filled(capacity: int, sizes: list[int], keep: str, seed: int = 0) -> TransitionMemory:
    memory = TransitionMemory(capacity, ARRAYS, (), np.random.default_rng(seed), keep)
    for at, size in enumerate(sizes):
        memory.add(numbered(sum(sizes[:at]), size))
    return memory


@given(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_the_latest_transitions_are_kept(capacity: int, sizes: list[int]) -> None:
    memory, total = filled(capacity, sizes, "latest"), sum(sizes)
    assert len(memory) == min(total, capacity)
    expected = set(range(max(0, total - capacity), total))
    assert set(memory.all().actions.tolist()) == expected


@given(st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 99))
def test_the_reservoir_holds_whole_distinct_transitions(
    capacity: int, sizes: list[int], seed: int
) -> None:
    memory, total = filled(capacity, sizes, "reservoir", seed), sum(sizes)
    held = memory.all()
    assert len(memory) == len(held) == min(total, capacity)
    assert len(set(held.actions.tolist())) == len(held)
    assert held.actions.max() < total
    np.testing.assert_array_equal(held.obs[0], held.actions)
    np.testing.assert_array_equal(held.next_obs[0], held.actions + 1)


@pytest.mark.parametrize("size", [1, 4, 7])
def test_the_reservoir_is_uniform(size: int) -> None:
    """Each of 28 transitions is kept with probability 5/28, whatever the size of the batches."""
    trials, capacity, total = 4000, 5, 28
    kept = np.zeros(total)
    for seed in range(trials):
        kept[filled(capacity, [size] * (total // size), "reservoir", seed).all().actions] += 1
    share = capacity / total
    deviation = np.sqrt(trials * share * (1 - share))
    assert np.abs(kept - trials * share).max() < 4.5 * deviation


def test_samples_are_drawn_with_replacement_from_the_stored_ones() -> None:
    memory = filled(6, [4], "reservoir")
    drawn = memory.sample(2000)
    numbers, times = np.unique(drawn.actions, return_counts=True)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert times.min() > 400
    np.testing.assert_array_equal(drawn.next_obs[0], drawn.actions + 1)


@pytest.mark.parametrize("keep", ["reservoir", "latest"])
@pytest.mark.parametrize("sizes", [[3], [5, 5, 5]])
def test_a_loaded_memory_continues_bit_for_bit(keep: str, sizes: list[int]) -> None:
    memory, loaded = filled(8, sizes, keep), filled(8, [2], keep, seed=1)
    loaded.load_state_dict(memory.state_dict())
    for first in range(0, 30, 5):
        for one in (memory, loaded):
            one.add(numbered(first, 5))
        np.testing.assert_array_equal(memory.all().obs[0], loaded.all().obs[0])
        np.testing.assert_array_equal(memory.sample(9).actions, loaded.sample(9).actions)
