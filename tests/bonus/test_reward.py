"""The normalizer against a naive computation, and intrinsic rewards."""

import numpy as np
import pytest
from bonus_data import SCOPES, SHORT, N, make, same, transitions
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.bonus import IntrinsicReward, RewardNormalizer
from contrastive_ucb.core.errors import UserError

STEP = next(transitions("grid", 1))


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
def test_the_deviation_is_that_of_all_discounted_returns(discount: float) -> None:
    rewards = np.random.default_rng(0).exponential(size=(50, N))
    normalizer = RewardNormalizer(N, discount)
    for now in range(1, 51):
        returns = [sum(discount ** (t - k) * rewards[k] for k in range(t + 1)) for t in range(now)]
        divided = normalizer(rewards[now - 1])
        assert normalizer.deviation == pytest.approx(np.std(returns), rel=1e-9)
        np.testing.assert_allclose(divided * normalizer.deviation, rewards[now - 1])


def test_old_returns_are_forgotten_after_the_horizon() -> None:
    rng = np.random.default_rng(0)
    normalizer = RewardNormalizer(N, discount=0.0, horizon=50)
    for scale in (1.0, 100.0):
        for _ in range(1000):
            normalizer(scale * rng.normal(size=N))
        assert normalizer.deviation == pytest.approx(scale, rel=0.25)


@given(st.floats(1e-3, 1e3), st.integers(0, 100))
def test_normalized_rewards_do_not_depend_on_their_scale(scale: float, seed: int) -> None:
    plain, scaled = RewardNormalizer(2), RewardNormalizer(2)
    for reward in np.random.default_rng(seed).exponential(size=(20, 2)):
        np.testing.assert_allclose(scaled(scale * reward), plain(reward), rtol=1e-6)


def test_equal_returns_are_not_divided_by_0() -> None:
    normalizer = RewardNormalizer(N, discount=0.0)
    assert normalizer(np.full(N, 0.3)).tolist() == [0.3] * N
    assert RewardNormalizer(N)(np.zeros(N)).tolist() == [0.0] * N


@pytest.mark.parametrize("normalize", [True, False])
def test_an_intrinsic_reward_is_the_scaled_normalized_bonus(normalize: bool) -> None:
    intrinsic = IntrinsicReward(make("rnd", training=SHORT), 0.3, normalize, discount=0.9)
    bonus, normalizer = make("rnd", training=SHORT), RewardNormalizer(N, 0.9)
    for obs, actions, next_obs, dones in transitions("grid", 8):
        value = bonus.step(obs, actions, next_obs, dones)
        expected = 0.3 * (normalizer(value) if normalize else value)
        np.testing.assert_allclose(intrinsic.step(obs, actions, next_obs, dones), expected)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("scope", SCOPES)
def test_replayed_rewards_have_the_present_scale_and_change_no_state(
    scope: str, normalize: bool
) -> None:
    intrinsic = IntrinsicReward(make("e3b", scope=scope, training=SHORT), 0.3, normalize)
    for step in transitions("grid", 6):
        intrinsic.step(*step)
    before, transition = intrinsic.state_dict(), STEP[:3]
    deviation = 1.0 if intrinsic.normalizer is None else intrinsic.normalizer.deviation
    assert (deviation != 1) == normalize
    then = np.linspace(0.5, 2, N)  # the episodic part at the time of collection
    factors = then * (1 if scope == "episodic" else intrinsic.bonus.lifelong(*transition))
    rewards = intrinsic.replayed(*transition, then)
    np.testing.assert_allclose(rewards, 0.3 * factors / deviation)
    np.testing.assert_allclose(intrinsic.replayed(*transition) * then, rewards)
    assert same(intrinsic.state_dict(), before)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_loaded_intrinsic_reward_continues_bit_for_bit(normalize: bool) -> None:
    steps = list(transitions("grid", 12))
    one, other = (
        IntrinsicReward(make("e3b", training=SHORT, seed=seed), normalize=normalize)
        for seed in (0, 1)
    )
    for step in steps[:6]:
        one.step(*step)
    other.load_state_dict(one.state_dict())
    assert same([one.step(*s) for s in steps[6:]], [other.step(*s) for s in steps[6:]])
    with pytest.raises(UserError, match="state_dict"):
        one.load_state_dict({"bonus": one.bonus.state_dict()})
    unequal = IntrinsicReward(make("e3b", training=SHORT), normalize=not normalize)
    with pytest.raises(UserError, match=f"normalize={normalize}"):
        unequal.load_state_dict(one.state_dict())


@pytest.mark.parametrize(("name", "value"), [("scale", -1.0), ("scale", float("nan"))])
def test_wrong_settings_are_errors(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name):
        IntrinsicReward(make("counts"), **{name: value})


@pytest.mark.parametrize("scope", ["lifelong", "product"])
@pytest.mark.parametrize("n", [1, 2, N + 1])
def test_a_changed_number_of_environments_is_an_error(scope: str, n: int) -> None:
    """It changes no state. A single row once counted as one row of every environment."""
    intrinsic = IntrinsicReward(make("rnd", scope=scope))
    before = intrinsic.state_dict()
    obs, actions, next_obs, dones = (np.resize(x, (n, *x.shape[1:])) for x in STEP)
    with pytest.raises(UserError, match=f"n_envs={N}; pass env_ids, or .* n_envs={n}"):
        intrinsic.step(obs, actions, next_obs, dones)
    assert same(intrinsic.state_dict(), before)
    ids = np.arange(n)[:N]
    part = (x[: len(ids)] for x in (obs, actions, next_obs, dones))
    assert intrinsic.step(*part, env_ids=ids).shape == ids.shape
