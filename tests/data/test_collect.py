"""The sampler of Algorithm 3 against the exact distributions it is meant to draw from."""

import numpy as np
import pytest
from scipy.stats import chisquare

from contrastive_ucb.core.arrays import Array
from contrastive_ucb.data.sampler import TabularSampler, Tuples, steps_per_round
from contrastive_ucb.envs import LowRankMDP, TabularMDP
from contrastive_ucb.envs.batch import EnvBatch
from contrastive_ucb.planning.value_iteration import occupancy, one_step_later, rolled_in

H, S, A = 3, 4, 2
NEGATIVES = np.array([0.4, 0.3, 0.2, 0.1])
N = 20_000  # rounds: one a seed of a batch, as they are independent
STREAMS = ("walk", "label")
LEAST = 1e-4  # p-value below which a distribution counts as wrong; the draws are fixed


def small_mdp(factored: bool) -> TabularMDP:
    rng = np.random.default_rng(5)
    mdp = LowRankMDP(S, A, 3, H, seed=3)
    rewards = rng.uniform(0, 0.5, (H, S, A))
    initial = rng.dirichlet(np.ones(S))
    kernel = mdp.kernel if factored else mdp.transitions
    return TabularMDP(kernel, rewards, initial, reward_scale=rewards + 0.5)


def policy() -> Array:
    return np.random.default_rng(6).dirichlet(np.full(A, 0.1), (H, S))


def many_rounds(factored: bool, n: int = N) -> Tuples:
    batch = EnvBatch([small_mdp(factored)] * n)
    streams = {name: [np.random.default_rng(7 + at)] * n for at, name in enumerate(STREAMS)}
    return TabularSampler(batch, NEGATIVES, streams).collect(np.stack([policy()] * n))


@pytest.fixture(scope="module", params=[True, False], ids=["factored", "table"])
def tuples(request: pytest.FixtureRequest) -> Tuples:
    return many_rounds(request.param)


def assert_drawn_from(outcomes: np.ndarray, probs: Array) -> None:
    """The outcomes (n,) follow `probs`, and nothing of probability zero occurs."""
    seen = np.bincount(outcomes, minlength=len(probs))
    possible = probs > 0
    assert not seen[~possible].any()
    expected = probs[possible] / probs[possible].sum() * len(outcomes)
    assert chisquare(seen[possible], expected).pvalue > LEAST


@pytest.mark.parametrize("horizon", range(1, 12))
def test_steps_per_round_by_counting(horizon: int) -> None:
    steps = 0
    for target in range(1, horizon + 1):
        last = target + 1 if target < horizon else horizon
        for _ in range(last):
            steps += 1
    assert steps_per_round(horizon) == steps


def test_pairs_follow_d_tilde_and_d_breve(tuples: Tuples) -> None:
    mdp = small_mdp(True)
    tilde = rolled_in(occupancy(mdp.kernel, policy(), mdp.initial), A)
    breve = one_step_later(mdp.kernel, tilde)
    for h in range(H):
        assert_drawn_from(tuples.pair[:, h], tilde[h])
    for h in range(1, H):
        assert_drawn_from(tuples.pair[:, H + h - 1], breve[h])


def test_next_states_follow_the_kernel(tuples: Tuples) -> None:
    table = small_mdp(True).kernel.table()
    for column, h in enumerate(tuples.step):
        for z in range(S * A):
            arrived = tuples.next_state[tuples.pair[:, column] == z, column]
            if len(arrived) > 200:
                assert_drawn_from(arrived, table[h, z])


def test_d_breve_continues_the_trajectory_of_the_step_before(tuples: Tuples) -> None:
    """s-breve_{h+1} is the next state of s~_h of the same trajectory."""
    for h in range(1, H):
        np.testing.assert_array_equal(tuples.pair[:, H + h - 1] // A, tuples.next_state[:, h - 1])


def test_labels_are_fair_and_independent(tuples: Tuples) -> None:
    n, n_tuples = tuples.label.shape
    assert set(np.unique(tuples.label)) == {0, 1}
    assert_drawn_from(tuples.label.ravel(), np.array([0.5, 0.5]))
    for i in range(n_tuples):
        assert_drawn_from(tuples.label[:, i], np.array([0.5, 0.5]))
        for j in range(i):  # E11: also the two labels of one trajectory
            both = 2 * tuples.label[:, i] + tuples.label[:, j]
            assert_drawn_from(both, np.full(4, 0.25))
        for z in range(S * A):  # the label says nothing about the pair
            there = tuples.label[tuples.pair[:, i] == z, i]
            if len(there) > 200:
                assert_drawn_from(there, np.array([0.5, 0.5]))
    assert n == N


def test_positives_are_next_states_and_negatives_follow_p_minus(tuples: Tuples) -> None:
    positive = tuples.label == 1
    np.testing.assert_array_equal(tuples.contrast[positive], tuples.next_state[positive])
    for column in range(len(tuples.step)):
        drawn = tuples.contrast[~positive[:, column], column]
        assert_drawn_from(drawn, NEGATIVES)
        for s in range(S):  # whatever the true next state was
            beside = drawn[tuples.next_state[~positive[:, column], column] == s]
            if len(beside) > 200:
                assert_drawn_from(beside, NEGATIVES)


def test_rewards_have_the_right_mean(tuples: Tuples) -> None:
    mdp = small_mdp(True)
    assert mdp.reward_scale is not None
    for column, h in enumerate(tuples.step):
        mean = mdp.rewards[h].ravel()[tuples.pair[:, column]]
        scale = mdp.reward_scale[h].ravel()[tuples.pair[:, column]]
        seen = tuples.reward[:, column]
        assert np.isin(seen, [0.0, *scale]).all()
        assert ((seen == 0) | (seen == scale)).all()
        error = np.sqrt((mean * (scale - mean)).sum())
        assert abs((seen - mean).sum()) < 4.5 * error


def test_batch_of_different_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="one size"):
        EnvBatch([LowRankMDP(4, 2, 2, 3), LowRankMDP(5, 2, 2, 3)])
