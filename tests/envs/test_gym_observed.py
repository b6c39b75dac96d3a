"""Gymnasium environments for networks: what is paid, when it is over, what is refused and said."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.gym_observed import GymObserved


def test_a_gymnasium_environment_goes_on_without_rewards_when_it_is_over() -> None:
    env, random = GymObserved("CartPole-v1", horizon=30), stream(0, "test")
    walk = env.begin(4, random)
    for _ in range(30):
        before = walk.observations[:, -1] == 1
        rewards = walk.move(np.ones(4, dtype=np.int64), random)
        np.testing.assert_array_equal(rewards, 1.0 - before)
    np.testing.assert_array_equal(walk.observations[:, -1], 1)  # pushing one way ends it
    walk = env.begin(3, stream(0, "test"))
    np.testing.assert_array_equal(walk.observations, env.begin(3, stream(0, "test")).observations)


def test_what_gymnasium_does_not_offer_is_said_in_one_line() -> None:
    with pytest.raises(ValueError, match="Gymnasium cannot make 'Nothing-v9'"):
        GymObserved("Nothing-v9")
    with pytest.raises(ValueError, match="Box observations and Discrete"):
        GymObserved("Pendulum-v1")
    with pytest.raises(ValueError, match=r"time limit of 200 steps.*horizon of at most 200"):
        GymObserved("MountainCar-v0", horizon=201)
    assert GymObserved("MountainCar-v0", horizon=200).horizon == 200


def test_an_id_with_an_unknown_module_was_a_traceback() -> None:
    with pytest.raises(ValueError, match=r"Gymnasium cannot make 'nomodule:Foo-v0'.*nomodule"):
        GymObserved("nomodule:Foo-v0")


class Unruly(gymnasium.Env[Any, Any]):
    """Shows and pays what it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    first: Any = np.zeros(2)
    later: Any = np.zeros(2)
    reward: Any = 0.0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.first, {}

    def step(self, action: Any) -> Any:
        return self.later, self.reward, False, False, {}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"reward": None}, "gym/Unruly-v0 paid None; a reward must be a number"),
        ({"reward": "much"}, "gym/Unruly-v0 paid 'much'"),
        ({"later": np.zeros(3)}, r"gym/Unruly-v0 showed .* shape \(3,\), but .* \(2,\)"),
        ({"first": np.zeros((2, 1))}, r"gym/Unruly-v0 showed .* shape \(2, 1\)"),
        ({"later": None}, "gym/Unruly-v0 showed"),
        ({"later": "left"}, "gym/Unruly-v0 showed 'left', not numbers"),
    ],
)
def test_what_a_wrong_environment_gives_was_a_traceback(
    broken: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        gymnasium.registry,
        "Unruly-v0",
        gymnasium.envs.registration.EnvSpec(
            "Unruly-v0", entry_point=Unruly, disable_env_checker=True
        ),
    )
    for name, value in broken.items():
        monkeypatch.setattr(Unruly, name, value)
    with pytest.raises(ValueError, match=message) as caught:
        GymObserved("Unruly-v0", 2).begin(2, stream(0, "test")).move(
            np.zeros(2, dtype=np.int64), stream(0, "unused")
        )
    assert "\n" not in str(caught.value)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("low", "high"), [(0.5, 1), (-2, -1), (0, 0), (1, -1), (NAN, 1), (0, NAN), (-INF, 1), (0, INF)]
)
def test_bounds_of_rewards_have_0_inside(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="reward_low must be at most 0"):
        GymObserved(reward_low=low, reward_high=high)


def with_the_swing(seen: Any) -> int:
    """Ends MountainCar after about 120 steps."""
    return 2 if seen[1] >= 0 else 0


def by_the_tilt(seen: Any) -> int:
    """Balances CartPole for a while."""
    return int(seen[2] > 0)


def to_the_left(seen: Any) -> int:
    return 0


def plain_return(env_id: str, seed: int, horizon: int, policy: Any) -> float:
    """What the environment itself pays until it ends, or for H steps."""
    env, total = gymnasium.make(env_id), 0.0
    seen, _ = env.reset(seed=seed)
    for _ in range(horizon):
        seen, reward, terminated, truncated, _ = env.step(policy(seen))
        total += float(reward)
        if terminated or truncated:
            break
    env.close()
    return total


def scaled_returns(env: GymObserved, policy: Any) -> Any:
    walk, total = env.begin(3, stream(0, "test")), np.zeros(3)
    for _ in range(env.horizon):
        actions = np.array([policy(seen) for seen in walk.observations])
        total += walk.move(actions, stream(0, "unused"))
    return total


@pytest.mark.parametrize(
    ("env_id", "horizon", "low", "high", "policy"),
    [
        ("CartPole-v1", 40, -1.0, 1.0, to_the_left),
        ("CartPole-v1", 80, -0.5, 3.0, by_the_tilt),
        ("MountainCar-v0", 200, -1.0, 0.0, with_the_swing),
        ("MountainCar-v0", 200, -1.0, 0.0, to_the_left),
    ],
)
def test_scaled_returns_are_one_affine_map_of_the_returns(
    env_id: str, horizon: int, low: float, high: float, policy: Any
) -> None:
    """An episode that was over was paid `reward_low` a step instead of 0."""
    env = GymObserved(env_id, horizon, low, high)
    seeds = stream(0, "test").integers(2**31, size=3)
    plain = [plain_return(env_id, int(seed), horizon, policy) for seed in seeds]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = scaled_returns(env, policy)
    np.testing.assert_allclose(scaled * (high - low) + horizon * low, plain, atol=1e-9)


def test_who_ends_the_mountain_car_earlier_is_worth_more() -> None:
    env = GymObserved("MountainCar-v0", 200, -1.0, 0.0)
    assert scaled_returns(env, with_the_swing).min() > 30
    np.testing.assert_array_equal(scaled_returns(env, to_the_left), 0)


def test_a_truncated_episode_is_over() -> None:
    class Cut(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            seen, reward, terminated, _, more = self.env.step(action)
            return seen, reward, terminated, True, more

    walk = GymObserved("CartPole-v1", 3).begin(2, stream(0, "test"))
    walk.copies = [Cut(copy) for copy in walk.copies]
    paid = [walk.move(np.zeros(2, dtype=np.int64), stream(0, "unused")) for _ in range(3)]
    np.testing.assert_array_equal(paid, [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(walk.observations[:, -1], 1)


def test_clipped_rewards_are_said_once() -> None:
    for bounds, says in (((0.0, 1.0), "--reward-low -1"), ((-2.0, 0.0), None)):
        env, random = GymObserved("MountainCar-v0", 3, *bounds), stream(0, "test")
        walk = env.begin(2, random)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                walk.move(np.zeros(2, dtype=np.int64), random)
        assert len(said) == (says is not None)
        assert all(str(says) in str(one.message) for one in said)
    env = GymObserved("CartPole-v1", 3, reward_high=0.5)
    with pytest.warns(UserWarning, match="pays 1, which counts as 0.5: give --reward-high 1"):
        scaled = env.begin(1, random).move(np.zeros(1, dtype=np.int64), random)
    np.testing.assert_array_equal(scaled, 1)
