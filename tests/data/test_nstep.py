"""The n-step rules against loops over single windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.data.nstep import jump_mask, n_step

# A step continues, terminates or is truncated.
STEP = st.tuples(st.integers(-3, 3), st.sampled_from(["on", "on", "terminated", "truncated"]))
WINDOWS = st.lists(st.lists(STEP, min_size=8, max_size=8), min_size=1, max_size=6)
Steps = list[tuple[int, str]]


def arrays(windows: list[Steps]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rewards = np.array([[reward for reward, _ in window] for window in windows], dtype=float)
    kind = np.array([[kind for _, kind in window] for window in windows])
    return rewards, kind == "terminated", kind == "truncated"


def episode_rule(window: Steps, n: int, discount: float) -> tuple[float, int, float]:
    """Return, reach and bootstrap factor by the definition."""
    total = 0.0
    for k in range(n):
        reward, kind = window[k]
        total += discount**k * reward
        if kind == "terminated":
            return total, k + 1, 0.0
        if kind == "truncated":
            return total, k + 1, discount ** (k + 1)
    return total, n, discount**n


def published_rule(window: Steps, n: int, discount: float, jumps: int) -> tuple[float, int, float]:
    """The same by the operations of the released code."""
    ends = [kind != "on" for _, kind in window]
    total, ended = 0.0, False
    for k in range(n):
        total += discount**k * window[k][0] * (not ended)
        ended = ended or ends[k]
    factor = discount**n * (not ends[0])  # the release stores only the flag of the first step
    shown = list(range(len(window) + 1))  # which observation is used at each step
    seen_ends = [k for k in range(jumps + 1) if ends[k]]
    if seen_ends:
        first = seen_ends[0]
        shown[first + 1 :] = [first] * len(shown[first + 1 :])
    return total, shown[n], factor


@settings(max_examples=100)
@given(windows=WINDOWS, n=st.integers(1, 8), discount=st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_n_step_equals_definition(windows: list[Steps], n: int, discount: float) -> None:
    rewards, terminated, truncated = arrays(windows)
    got = n_step(rewards[:, :n], terminated, truncated, discount)
    for i, window in enumerate(windows):
        total, reach, factor = episode_rule(window, n, discount)
        np.testing.assert_allclose(got.returns[i], total, atol=1e-12)
        np.testing.assert_allclose(got.weights[i] @ rewards[i, :n], total, atol=1e-12)
        assert (got.reach[i], got.discounts[i]) == (reach, pytest.approx(factor))


@settings(max_examples=100)
@given(windows=WINDOWS, n=st.integers(1, 8), jumps=st.integers(0, 7))
def test_published_rule_equals_released_code(windows: list[Steps], n: int, jumps: int) -> None:
    rewards, terminated, truncated = arrays(windows)
    got = n_step(rewards[:, :n], terminated, truncated, 0.9, "published", jumps)
    for i, window in enumerate(windows):
        total, reach, factor = published_rule(window, n, 0.9, jumps)
        np.testing.assert_allclose(got.returns[i], total, atol=1e-12)
        assert (got.reach[i], got.discounts[i]) == (reach, pytest.approx(factor))


@settings(max_examples=100)
@given(windows=WINDOWS, jumps=st.integers(0, 7))
def test_jump_mask_equals_loop(windows: list[Steps], jumps: int) -> None:
    _, terminated, truncated = arrays(windows)
    got = jump_mask(terminated, truncated, jumps)
    published = jump_mask(terminated, truncated, jumps, "published")
    assert got.shape == published.shape == (len(windows), jumps)
    for i, window in enumerate(windows):
        kinds = [kind for _, kind in window]
        for k in range(1, jumps + 1):
            before = kinds[: k - 1]
            assert got[i, k - 1] == (before == ["on"] * (k - 1) and kinds[k - 1] != "terminated")
            assert published[i, k - 1] == all(kind == "on" for kind in kinds[: k + 1])
