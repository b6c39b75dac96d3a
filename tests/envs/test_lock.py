"""The combination lock: its kernel, its two rewards, and that only the combination opens it."""

import numpy as np
import pytest

from contrastive_ucb.envs import Lock
from contrastive_ucb.evaluation.exact import optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import greedy, plan


def combination_policy(lock: Lock) -> np.ndarray:
    policy = np.zeros((lock.horizon, lock.n_states), dtype=int)
    policy[:, :2] = lock.combination
    return policy


@pytest.mark.parametrize("n_dead", [1, 20])
def test_arrays_by_the_rules_one_by_one(n_dead: int) -> None:
    lock = Lock(horizon=4, n_actions=3, n_dead=n_dead, seed=2)
    assert lock.combination.shape == (4, 2)
    assert lock.reward_scale is not None
    for h, s, a in np.ndindex(4, 2 + n_dead, 3):
        right = s < 2 and a == lock.combination[h, s]
        after = [0.5, 0.5] + [0.0] * n_dead if right else [0.0, 0.0] + [1 / n_dead] * n_dead
        np.testing.assert_allclose(lock.transitions[h, s, a], after, atol=1e-15)
        paid = float(h == 3) if right else 0.1 * (s < 2)
        assert lock.reward_scale[h, s, a] == paid
        assert lock.rewards[h, s, a] == (paid if right else paid / 2)
    np.testing.assert_array_equal(lock.initial, [0.5, 0.5] + [0.0] * n_dead)


def test_says_what_it_is() -> None:
    lock = Lock()
    assert (lock.horizon, lock.n_actions, lock.n_states, lock.rank) == (6, 10, 3, 2)
    assert not lock.reveals_reward
    assert lock.solved_gap == 0.05


@pytest.mark.parametrize("seed", range(5))
def test_only_the_combination_opens_it(seed: int) -> None:
    lock = Lock(n_dead=20, n_actions=5, horizon=6, seed=seed)
    assert optimal_value(lock) == pytest.approx(1, abs=1e-12)
    assert suboptimality(lock, combination_policy(lock)) == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(
        greedy(plan(lock.kernel, lock.rewards)[0]).argmax(-1)[:, :2], lock.combination
    )
    uniform = np.full(lock.rewards.shape, 1 / 5)
    assert suboptimality(lock, uniform) > 1 - 0.06
    wrong = combination_policy(lock)
    wrong[-1] = (wrong[-1] + 1) % 5
    assert suboptimality(lock, wrong) == pytest.approx(0.95)


def test_the_bribe_is_a_tenth_half_of_the_time() -> None:
    lock = Lock(horizon=1, n_actions=2, seed=0)
    seen = []
    lock.reset(seed=0)
    for _ in range(2000):
        (_, state), _ = lock.reset()
        seen.append(lock.step(1 - lock.combination[0, state])[1])
    assert set(seen) == {0.0, 0.1}
    assert abs(np.mean(seen) - 0.05) < 4.5 * 0.05 / np.sqrt(2000)
    (_, state), _ = lock.reset()
    assert lock.step(lock.combination[0, state])[1] == 1.0


def test_same_seed_same_lock_other_seed_another() -> None:
    np.testing.assert_array_equal(Lock(seed=1).combination, Lock(seed=1).combination)
    assert (Lock(seed=1).combination != Lock(seed=2).combination).any()


@pytest.mark.parametrize("name", ["horizon", "n_actions", "n_dead"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Lock(**{name: 0})
