"""Planning against triple loops, its invariants on random kernels, a batch against its parts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import Kernel
from contrastive_ucb.planning.value_iteration import greedy, occupancy, plan, policy_value

sizes = st.tuples(*[st.integers(1, 5)] * 4)  # H, S, A, d
seeds = st.integers(0, 10**6)


def problem(seed: int, shape: tuple[int, int, int, int], n: int | None = None) -> tuple:
    """A random kernel, rewards, policy and first distribution, with a seed axis of n or without."""
    rng, leading = np.random.default_rng(seed), () if n is None else (n,)
    h, s, a, d = shape
    features = rng.dirichlet(np.ones(d), (*leading, h, s * a))
    measures = rng.dirichlet(np.ones(s), (*leading, h, d))
    policy = rng.dirichlet(np.ones(a), (*leading, h, s))
    initial = rng.dirichlet(np.ones(s), leading)
    return Kernel(features, measures), rng.random((*leading, h, s, a)), policy, initial


def plan_by_loops(table: Array, rewards: Array, ceiling: Array) -> tuple[Array, Array]:
    n_steps, n_states, n_actions = rewards.shape
    q, v = np.zeros(rewards.shape), np.zeros((n_steps + 1, n_states))
    for h in reversed(range(n_steps)):
        for s in range(n_states):
            for a in range(n_actions):
                ahead = sum(table[h, s * n_actions + a, t] * v[h + 1, t] for t in range(n_states))
                q[h, s, a] = min(max(rewards[h, s, a] + ahead, 0), ceiling[h])
            v[h, s] = max(q[h, s])
    return q, v[:-1]


@settings(max_examples=50, deadline=None)
@given(seed=seeds, shape=sizes, clipped=st.booleans())
def test_plan_equals_the_triple_loop(
    seed: int, shape: tuple[int, int, int, int], clipped: bool
) -> None:
    kernel, rewards, _, _ = problem(seed, shape)
    rewards = 4 * rewards - 1
    ceiling = np.arange(shape[0], 0, -1.0)
    if not clipped:
        rewards, ceiling = np.abs(rewards), np.full(shape[0], np.inf)
    q, v = plan(kernel, rewards, ceiling if clipped else None)
    slow_q, slow_v = plan_by_loops(kernel.table(), rewards, ceiling)
    np.testing.assert_allclose(q, slow_q, atol=1e-12)
    np.testing.assert_allclose(v, slow_v, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, shape=sizes)
def test_values_and_occupancies_agree(seed: int, shape: tuple[int, int, int, int]) -> None:
    kernel, rewards, policy, initial = problem(seed, shape)
    table = Kernel(kernel.table())
    q, v = plan(kernel, rewards)
    v_pi, d = policy_value(kernel, rewards, policy), occupancy(kernel, policy, initial)
    left = np.arange(shape[0], 0, -1.0)[:, None]
    assert (v_pi >= 0).all()
    assert (v_pi <= v + 1e-12).all()
    assert (v <= left + 1e-12).all()
    np.testing.assert_allclose(d.sum(-1), 1, atol=1e-12)
    paid = (d[..., None] * policy * rewards).sum()  # the return, summed forwards and backwards
    np.testing.assert_allclose(paid, initial @ v_pi[0], atol=1e-12)
    np.testing.assert_allclose(policy_value(kernel, rewards, greedy(q)), v, atol=1e-12)
    np.testing.assert_allclose(plan(table, rewards)[0], q, atol=1e-12)
    np.testing.assert_allclose(policy_value(table, rewards, policy), v_pi, atol=1e-12)
    np.testing.assert_allclose(occupancy(table, policy, initial), d, atol=1e-12)


def test_greedy_takes_the_first_of_equals() -> None:
    np.testing.assert_array_equal(greedy(np.array([[[1.0, 3.0, 3.0]]])), [[[0, 1, 0]]])
    np.testing.assert_array_equal(greedy(np.zeros((2, 1, 1, 2))), [[[[1, 0]]]] * 2)
