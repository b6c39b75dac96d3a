"""Lock and LockGame: arrays by their rules, and who can exploit whom in the game."""

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


def test_properties() -> None:
    lock, game = Lock(), LockGame()
    assert (lock.horizon, lock.n_actions, lock.n_states, lock.rank) == (6, 10, 3, 2)
    assert (game.horizon, game.n_actions, game.n_states, game.rank) == (5, (3, 3), 12, 2)
    for env in (lock, game):
        assert (env.reveals_reward, env.suggested_alpha, env.solved_gap) == (False, 1.0, 0.05)
    draws = LockGame(horizon=200, n_actions=(2, 5)).combination
    assert (draws[..., 0].max(), draws[..., 1].max()) == (1, 4)


@pytest.mark.parametrize("kind", [Lock, LockGame])
def test_seed_and_sizes(kind: type[Lock] | type[LockGame]) -> None:
    np.testing.assert_array_equal(kind(seed=1).combination, kind(seed=1).combination)
    assert (kind(seed=1).combination != kind(seed=2).combination).any()
    for name in ("horizon", "n_actions", "n_dead"):
        least = 2 if (kind, name) == (LockGame, "n_actions") else 1
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {least - 1}"):
            kind(**{name: least - 1})


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


def test_wrong_actions_pay_a_tenth_half_of_the_time() -> None:
    lock, game = Lock(horizon=1, n_actions=2, seed=0), LockGame(horizon=2, n_actions=2, seed=0)
    lock.reset(seed=0)
    game.reset(seed=0)
    rewards = []
    for _ in range(2000):
        (_, state), _ = lock.reset()
        of_lock = lock.step(1 - lock.combination[0, state])[1]
        _, state = game.reset()[0]["row"]
        key, gate = game.combination[0, state]
        rewards.append((of_lock, game.step({"row": 1 - key, "column": gate})[1]["row"]))
    assert set(np.unique(rewards)) == {0.0, 0.1}
    assert (abs(np.mean(rewards, axis=0) - 0.05) < 4.5 * 0.05 / np.sqrt(2000)).all()
    (_, state), _ = lock.reset()
    assert lock.step(lock.combination[0, state])[1] == 1.0


def best_responses(game: LockGame, keys: Array, gates: Array) -> tuple[float, float]:
    """Values of the best responses to `gates` and to `keys`, (H, S, A) each, by plain induction."""
    best, worst = np.zeros(game.n_states), np.zeros(game.n_states)
    for h in reversed(range(game.horizon)):
        of_best, of_worst = (game.rewards[h] + game.transitions[h] @ v for v in (best, worst))
        best = np.einsum("sab,sb->sa", of_best, gates[h]).max(-1)
        worst = np.einsum("sab,sa->sb", of_worst, keys[h]).min(-1)
    return float(game.initial @ best), float(game.initial @ worst)


def pure(game: LockGame, player: int, shift: int) -> Array:
    """The policy whose action differs from the correct one by `shift` at every step."""
    policy = np.zeros((game.horizon, game.n_states), dtype=int)
    policy[:, :2] = (game.combination[..., player] + shift) % game.n_actions[player]
    return np.eye(game.n_actions[player])[policy]


@pytest.mark.parametrize("horizon", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_unexplored_policies_are_exploitable(horizon: int, seed: int) -> None:
    game = LockGame(horizon, (3, 4), seed=seed)
    best, worst = best_responses(game, pure(game, 0, shift=1), pure(game, 1, shift=0))
    assert best == pytest.approx(1)
    assert worst == pytest.approx(0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("depth", range(1, 5))
def test_an_intruder_who_knows_only_some_steps_is_exploitable(seed: int, depth: int) -> None:
    game = LockGame(5, 3, seed=seed)
    keys = pure(game, 0, shift=0)
    keys[depth:] = pure(game, 0, shift=1)[depth:]
    gates = np.random.default_rng(seed).dirichlet(np.ones(3), (5, game.n_states))
    best, worst = best_responses(game, keys, gates)
    assert best - worst >= 0.45 - 1e-12


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("surrender", [0, -1])  # at the first step or at the last
def test_equilibrium_of_the_game_has_value_one_half(horizon: int, surrender: int) -> None:
    game = LockGame(horizon, (3, 4), seed=1)
    gates = pure(game, 1, shift=0)
    gates[surrender] = pure(game, 1, shift=2)[surrender]
    best, worst = best_responses(game, pure(game, 0, shift=0), gates)
    assert best == pytest.approx(0.5, abs=1e-12)
    assert worst == pytest.approx(0.5, abs=1e-12)
