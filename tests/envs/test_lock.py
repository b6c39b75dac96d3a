"""Lock and LockGame: arrays by their rules, and who can exploit whom in the game."""

import hashlib

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Lock, LockGame
from contrastive_ucb.evaluation.exact import best_responses, optimal_value, suboptimality
from contrastive_ucb.planning.value_iteration import greedy, plan


def combination_policy(lock: Lock) -> np.ndarray:
    policy = np.zeros((lock.horizon, lock.n_states), dtype=int)
    policy[:, :2] = lock.combination
    return policy


@pytest.mark.parametrize("n_dead", [1, 20])
def test_arrays_of_the_lock(n_dead: int) -> None:
    lock = Lock(horizon=4, n_actions=3, n_dead=n_dead, seed=2)
    assert lock.combination.shape == (4, 2)
    assert lock.reward_scale is not None
    for h, s, a in np.ndindex(4, 2 + n_dead, 3):
        right = s < 2 and a == lock.combination[h, s]
        after = [0.5, 0.5] + [0.0] * n_dead if right else [0.0, 0.0] + [1 / n_dead] * n_dead
        np.testing.assert_allclose(lock.transitions[h, s, a], after, atol=1e-15)
        scale = float(h == 3) if right else 0.1 * (s < 2)
        assert lock.reward_scale[h, s, a] == scale
        assert lock.rewards[h, s, a] == (scale if right else scale / 2)
    np.testing.assert_array_equal(lock.initial, [0.5, 0.5] + [0.0] * n_dead)


@pytest.mark.parametrize("n_dead", [1, 20])
def test_arrays_of_the_game(n_dead: int) -> None:
    game = LockGame(horizon=4, n_actions=(2, 3), n_dead=n_dead, seed=2)
    assert game.combination.shape == (4, 2, 2)
    assert game.reward_scale is not None
    for h, s, a, b in np.ndindex(4, 2 + n_dead, 2, 3):
        key, gate = game.combination[h, s] if s < 2 else (-1, -1)
        right = a == key and b == gate
        after = [0.5, 0.5] + [0.0] * n_dead if right else [0.0, 0.0] + [1 / n_dead] * n_dead
        np.testing.assert_allclose(game.transitions[h, s, a, b], after, atol=1e-15)
        scale, probability = 0.0, 1.0
        if s < 2 and b != gate:
            scale = 0.5
        elif s < 2 and a != key:
            scale, probability = 0.1, 0.5
        elif right and h == 3:
            scale = 1.0
        assert game.reward_scale[h, s, a, b] == scale
        assert game.rewards[h, s, a, b] == scale * probability
    np.testing.assert_array_equal(game.initial, [0.5, 0.5] + [0.0] * n_dead)


def test_arrays_do_not_change_between_versions() -> None:
    lock = Lock(horizon=4, n_actions=3, n_dead=20, seed=2)
    assert lock.combination.tolist() == [[2, 0], [1, 2], [1, 2], [1, 1]]
    features, measures = lock.kernel.features, lock.kernel.measures
    arrays = (features, measures, lock.rewards, lock.reward_scale, lock.initial)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert digest.hexdigest()[:16] == "721c85b8b97e53f1"


@pytest.mark.parametrize("seed", range(5))
def test_only_the_combination_is_optimal(seed: int) -> None:
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


def pure(game: LockGame, player: int, shift: int) -> Array:
    """The policy whose action differs from the correct one by `shift` at every step."""
    policy = np.zeros((game.horizon, game.n_states), dtype=int)
    policy[:, :2] = (game.combination[..., player] + shift) % game.n_actions[player]
    return np.eye(game.n_actions[player])[policy]


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("surrender", [0, -1])  # at the first step or at the last
def test_equilibrium_of_the_game_has_value_one_half(horizon: int, surrender: int) -> None:
    game = LockGame(horizon, (3, 4), seed=1)
    gates = pure(game, 1, shift=0)
    gates[surrender] = pure(game, 1, shift=2)[surrender]
    found = best_responses(game, pure(game, 0, shift=0), gates)
    assert found == pytest.approx((0.5, 0.5), abs=1e-12)
