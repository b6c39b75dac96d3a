"""Exact evaluation against loops over every state, and the potential lemma where it holds."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Kernel, LowRankGame, LowRankMDP
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.evaluation.exact import (
    model_error,
    one_step_later,
    optimal_value,
    potential,
    rolled_in,
    suboptimality,
)
from contrastive_ucb.planning.value_iteration import greedy, occupancy, plan

H, S, A = 4, 10, 3


def random_kernel(seed: int, rank: int, n: int | None = None) -> Kernel:
    rng, leading = np.random.default_rng(seed), () if n is None else (n,)
    features = rng.dirichlet(np.ones(rank), (*leading, H, S * A))
    return Kernel(features, rng.dirichlet(np.ones(S), (*leading, H, rank)))


def random_policy(seed: int) -> Array:
    return np.random.default_rng(seed).dirichlet(np.ones(A), (H, S))


def test_data_distributions_by_enumeration() -> None:
    kernel, policy, initial = random_kernel(0, 3), random_policy(1), np.eye(S)[2]
    d = occupancy(kernel, policy, initial)
    tilde = rolled_in(d, A)
    breve = one_step_later(kernel, tilde)
    table = kernel.table().reshape(H, S, A, S)
    for h, s, a in np.ndindex(H, S, A):
        assert tilde[h, s * A + a] == pytest.approx(d[h, s] / A)
        before = sum(
            d[h - 1, t] / A * table[h - 1, t, b, s] for t in range(S) for b in range(A) if h > 0
        )
        assert breve[h, s * A + a] == pytest.approx(before / A)
    np.testing.assert_allclose(tilde.sum(-1), 1)
    np.testing.assert_allclose(breve.sum(-1), [0, 1, 1, 1], atol=1e-12)


def test_data_distributions_of_a_batch() -> None:
    kernel = random_kernel(0, 3)
    policies = np.stack([random_policy(seed) for seed in range(4)])
    tilde = rolled_in(occupancy(kernel, policies, np.eye(S)[0]), A)
    breve = one_step_later(kernel, tilde)
    for i in range(4):
        np.testing.assert_array_equal(breve[i], one_step_later(kernel, tilde[i]))


@pytest.mark.parametrize("chunk", [1, 7 * H * S, 1 << 18])
def test_model_error_by_enumeration(chunk: int) -> None:
    true, learnt = random_kernel(0, 3), random_kernel(1, 2)
    weights = np.random.default_rng(2).random((H, S * A))
    slow = np.zeros(H)
    for h, z in np.ndindex(H, S * A):
        distance = sum(abs(true.table()[h, z, t] - learnt.table()[h, z, t]) for t in range(S))
        slow[h] += weights[h, z] * distance**2
    np.testing.assert_allclose(model_error(true, learnt, weights, chunk), slow, rtol=1e-12)
    dense = Kernel(true.table())
    np.testing.assert_allclose(model_error(dense, learnt, weights, chunk), slow, rtol=1e-12)
    np.testing.assert_allclose(model_error(dense, true, weights, chunk), 0, atol=1e-25)


@pytest.mark.parametrize("chunk", [3 * H * S, 1 << 18])
def test_model_error_of_a_batch_equals_its_parts_bit_for_bit(chunk: int) -> None:
    true, learnt = random_kernel(0, 3), random_kernel(1, 2, n=5)
    weights = np.random.default_rng(2).random((5, H, S * A))
    errors = model_error(true, learnt, weights, chunk)
    assert errors.shape == (5, H)
    assert learnt.measures is not None
    for i in range(5):
        one = Kernel(learnt.features[i], learnt.measures[i])
        np.testing.assert_array_equal(errors[i], model_error(true, one, weights[i], chunk))


def test_model_error_of_a_large_kernel_takes_little_memory() -> None:
    mdp = LowRankMDP(n_states=1000, n_actions=5, rank=3, horizon=3)
    other = LowRankMDP(n_states=1000, n_actions=5, rank=3, horizon=3, seed=1)
    weights = np.full((3, 5000), 1 / 5000)
    tracemalloc.start()
    errors = model_error(mdp.kernel, other.kernel, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ((errors > 0) & (errors <= 4)).all()
    assert peak < 20e6  # a table would take 120 MB


@pytest.mark.parametrize("reward", ["sparse", "linear"])
def test_suboptimality_of_known_policies(reward: str) -> None:
    mdp = LowRankMDP(S, A, 3, H, seed=5, reward=reward)
    q, v = plan(mdp.kernel, mdp.rewards)
    assert optimal_value(mdp) == v[0, 0]
    assert suboptimality(mdp, greedy(q)) == pytest.approx(0, abs=1e-12)
    assert suboptimality(mdp, q.argmax(-1)) == pytest.approx(0, abs=1e-12)
    assert suboptimality(mdp, (-q).argmax(-1)) > 0.1 * optimal_value(mdp)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((H, S + 1), dtype=int), "policy has shape"),
        (np.zeros((H, S)), "policy has shape .* of float64"),
        (np.full((H, S), A), r"policy takes action 3; actions are 0\.\.2"),
        (np.full((H, S), -1), "policy takes action -1"),
        (np.full((H, S, A), 0.5), "must be a distribution"),
        (np.full((H, S, A), np.nan), "must be a distribution"),
    ],
)
def test_bad_policies_are_refused(policy: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        suboptimality(LowRankMDP(S, A, 3, H), policy)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 5), ridge=st.floats(0.4, 10))
def test_potential_lemma(seed: int, d: int, ridge: float) -> None:
    phi = np.random.default_rng(seed).normal(size=(30, 2, d))
    phi /= np.maximum(np.linalg.norm(phi, axis=-1, keepdims=True), 1)
    gains = phi[..., :, None] * phi[..., None, :]
    spent, allowed = potential(gains, ridge)
    assert spent.shape == allowed.shape == (2,)
    assert (spent <= allowed + 1e-12).all()
    sigma, slow = ridge * np.eye(d), 0.0
    for gain in gains[:, 0]:
        slow += np.trace(gain @ np.linalg.inv(sigma))
        sigma = sigma + gain
    assert spent[0] == pytest.approx(slow)
    assert allowed[0] == pytest.approx(2 * np.log(np.linalg.det(sigma) / ridge**d))


def test_the_potential_lemma_fails_for_a_small_ridge() -> None:
    spent, allowed = potential(np.ones((1, 1, 1)), ridge=0.1)
    assert spent == pytest.approx(10)
    assert allowed == pytest.approx(2 * np.log(11))
    with pytest.raises(ValueError, match="ridge must be positive, got 0"):
        potential(np.ones((1, 1, 1)), ridge=0)


@pytest.mark.parametrize("env", [RichLock(3, 2), GymObserved("CartPole-v1", 3)], ids=str)
def test_observations_were_said_to_be_no_mdp(env: Any) -> None:
    for ask in (optimal_value, lambda given: suboptimality(given, np.zeros((3, 2), dtype=int))):
        with pytest.raises(ValueError, match=r"is seen through observations.*result\.gap"):
            ask(env)


def test_a_game_is_no_mdp() -> None:
    with pytest.raises(ValueError, match="LowRankGame is not an MDP; a game has nash_value"):
        optimal_value(LowRankGame())  # type: ignore[arg-type]
