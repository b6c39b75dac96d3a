"""The combination lock: its kernel, its two rewards, and that only the combination opens it."""

import hashlib

import numpy as np
import pytest

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Lock, LockGame
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


def test_a_lock_keeps_its_numbers_from_version_to_version() -> None:
    lock = Lock(horizon=4, n_actions=3, n_dead=20, seed=2)
    assert lock.combination.tolist() == [[2, 0], [1, 2], [1, 2], [1, 1]]
    features, measures = lock.kernel.features, lock.kernel.measures
    arrays = (features, measures, lock.rewards, lock.reward_scale, lock.initial)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert digest.hexdigest()[:16] == "721c85b8b97e53f1"


@pytest.mark.parametrize("n_dead", [1, 20])
def test_arrays_of_the_game_by_the_rules_one_by_one(n_dead: int) -> None:
    game = LockGame(horizon=4, n_actions=(2, 3), n_dead=n_dead, seed=2)
    assert game.combination.shape == (4, 2, 2)
    assert game.reward_scale is not None
    for h, s, a, b in np.ndindex(4, 2 + n_dead, 2, 3):
        key, gate = game.combination[h, s] if s < 2 else (-1, -1)
        right = a == key and b == gate
        after = [0.5, 0.5] + [0.0] * n_dead if right else [0.0, 0.0] + [1 / n_dead] * n_dead
        np.testing.assert_allclose(game.transitions[h, s, a, b], after, atol=1e-15)
        paid, chance = 0.0, 1.0
        if s < 2 and b != gate:
            paid = 0.5
        elif s < 2 and a != key:
            paid, chance = 0.1, 0.5
        elif right and h == 3:
            paid = 1.0
        assert game.reward_scale[h, s, a, b] == paid
        assert game.rewards[h, s, a, b] == paid * chance
    np.testing.assert_array_equal(game.initial, [0.5, 0.5] + [0.0] * n_dead)


def test_the_game_says_what_it_is() -> None:
    game = LockGame()
    assert (game.horizon, game.n_actions, game.n_states, game.rank) == (5, (3, 3), 12, 2)
    assert (game.reveals_reward, game.suggested_alpha, game.solved_gap) == (False, 1.0, 0.05)
    assert game.name == "lock-game"
    draws = LockGame(horizon=200, n_actions=(2, 5)).combination
    assert draws[..., 0].max() == 1
    assert draws[..., 1].max() == 4


def best_responses(game: LockGame, keys: Array, gates: Array) -> tuple[float, float]:
    """What the intruder can reach against `gates`, and the guard against `keys`, (H, S, A) each.

    Backward induction by hand; the difference is the exploitability of the two together.
    """
    best, worst = np.zeros(game.n_states), np.zeros(game.n_states)
    for h in reversed(range(game.horizon)):
        of_best, of_worst = (game.rewards[h] + game.transitions[h] @ v for v in (best, worst))
        best = np.einsum("sab,sb->sa", of_best, gates[h]).max(-1)
        worst = np.einsum("sab,sa->sb", of_worst, keys[h]).min(-1)
    return float(game.initial @ best), float(game.initial @ worst)


def pure(game: LockGame, player: int, shift: int) -> Array:
    """The player's policy that is `shift` actions off the right one, at every step."""
    policy = np.zeros((game.horizon, game.n_states), dtype=int)
    policy[:, :2] = (game.combination[..., player] + shift) % game.n_actions[player]
    return np.eye(game.n_actions[player])[policy]


@pytest.mark.parametrize("horizon", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_who_does_not_know_the_vault_loses(horizon: int, seed: int) -> None:
    game = LockGame(horizon, (3, 4), seed=seed)
    best, worst = best_responses(game, pure(game, 0, shift=1), pure(game, 1, shift=0))
    assert best == pytest.approx(1)
    assert worst == pytest.approx(0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("depth", range(1, 5))
def test_an_intruder_who_knows_some_steps_only_loses(seed: int, depth: int) -> None:
    game = LockGame(5, 3, seed=seed)
    keys = pure(game, 0, shift=0)
    keys[depth:] = pure(game, 0, shift=1)[depth:]
    anybody = np.random.default_rng(seed).dirichlet(np.ones(3), (5, game.n_states))
    best, worst = best_responses(game, keys, anybody)
    assert best - worst >= 0.45 - 1e-12


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("surrender", [0, -1])  # at the first step or at the last
def test_the_guard_surrenders_to_an_intruder_who_knows(horizon: int, surrender: int) -> None:
    game = LockGame(horizon, (3, 4), seed=1)
    gates = pure(game, 1, shift=0)
    gates[surrender] = pure(game, 1, shift=2)[surrender]
    best, worst = best_responses(game, pure(game, 0, shift=0), gates)
    assert best == pytest.approx(0.5, abs=1e-12)
    assert worst == pytest.approx(0.5, abs=1e-12)


def test_bribes_of_the_game_are_a_tenth_half_of_the_time() -> None:
    game = LockGame(horizon=2, n_actions=2, seed=0)
    seen = []
    game.reset(seed=0)
    for _ in range(2000):
        (_, state) = game.reset()[0]["row"]
        key, gate = game.combination[0, state]
        seen.append(game.step({"row": 1 - key, "column": gate})[1]["row"])
    assert set(seen) == {0.0, 0.1}
    assert abs(np.mean(seen) - 0.05) < 4.5 * 0.05 / np.sqrt(2000)


def test_same_seed_same_vault_other_seed_another() -> None:
    np.testing.assert_array_equal(LockGame(seed=1).combination, LockGame(seed=1).combination)
    assert (LockGame(seed=1).combination != LockGame(seed=2).combination).any()


@pytest.mark.parametrize(("name", "least"), [("horizon", 1), ("n_actions", 2), ("n_dead", 1)])
def test_small_games_are_refused(name: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {least - 1}"):
        LockGame(**{name: least - 1})
