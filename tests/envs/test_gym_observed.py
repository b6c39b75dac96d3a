"""GymObserved: rewards, ends of episodes, instances and factories, and errors."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import contrastive_ucb as cu
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.envs.gym_observed import GymObserved

NAN, INF = float("nan"), float("inf")


class Custom(gymnasium.Env[Any, Any]):
    """Returns the observations and rewards that its class attributes specify."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    first: Any = np.zeros(2)
    later: Any = np.zeros(2)
    reward: Any = 0.0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.first, {}

    def step(self, action: Any) -> Any:
        return self.later, self.reward, False, False, {}


def test_ended_episodes_continue_with_reward_zero() -> None:
    env, random = GymObserved("CartPole-v1", horizon=30), stream(0, "test")
    walk = env.begin(4, random)
    for _ in range(30):
        ended = walk.observations[:, -1] == 1
        rewards = walk.move(np.ones(4, dtype=np.int64), random)
        np.testing.assert_array_equal(rewards, 1.0 - ended)
    np.testing.assert_array_equal(walk.observations[:, -1], 1)  # a constant action ends it
    walk = env.begin(3, stream(0, "test"))
    np.testing.assert_array_equal(walk.observations, env.begin(3, stream(0, "test")).observations)


def test_truncated_episodes_are_ended() -> None:
    class Truncating(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            observation, reward, terminated, _, info = self.env.step(action)
            return observation, reward, terminated, True, info

    env = GymObserved(lambda: Truncating(gymnasium.make("CartPole-v1")), 3)
    walk = env.begin(2, stream(0, "test"))
    rewards = [walk.move(np.zeros(2, dtype=np.int64), stream(0, "unused")) for _ in range(3)]
    np.testing.assert_array_equal(rewards, [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(walk.observations[:, -1], 1)


# Ids, instances and factories


def returns_of(env: GymObserved) -> np.ndarray:
    walk, random, total = env.begin(3, stream(0, "test")), stream(0, "unused"), np.zeros(3)
    for step in range(env.horizon):
        total += walk.move(np.full(3, step % 2), random)
    return total


def test_an_instance_and_a_factory_equal_the_id() -> None:
    instance = gymnasium.make("CartPole-v1")
    expected = GymObserved("CartPole-v1", 30)
    for source in (instance, lambda: gymnasium.make("CartPole-v1")):
        env = GymObserved(source, 30)
        np.testing.assert_array_equal(returns_of(env), returns_of(expected))
    assert GymObserved(instance, 5).name == expected.name == "gym/CartPole-v1"
    with pytest.raises(gymnasium.error.ResetNeeded):  # the instance itself was never reset
        instance.step(0)
    assert GymObserved(Custom(), 3).name == GymObserved(Custom, 3).name == "gym/Custom"


def test_an_agent_learns_on_an_instance_which_load_needs_again(tmp_path: Path) -> None:
    def learn(source: Any) -> cu.ContrastiveUCB:
        agent = cu.ContrastiveUCB(GymObserved(source, 5), seed=0, fit_steps=3, trajectories=2)
        agent.learn(rounds=2)
        return agent

    agent, expected = learn(gymnasium.make("CartPole-v1")), learn("CartPole-v1")
    observation = np.zeros(5)
    assert agent.predict(observation) == expected.predict(observation)
    agent.save(tmp_path / "agent")
    with pytest.raises(UserError, match=r"gym/CartPole-v1, .* pass it again: cu.load\("):
        cu.load(tmp_path / "agent")
    with pytest.raises(UserError, match=r"trained in gym/CartPole-v1, .* got gym/Custom, "):
        cu.load(tmp_path / "agent", env=Custom)
    again = cu.load(tmp_path / "agent", env=gymnasium.make("CartPole-v1"))
    agent.learn(rounds=1)
    again.learn(rounds=1)
    np.testing.assert_array_equal(again.values, agent.values)
    expected.save(tmp_path / "agent")
    assert cu.load(tmp_path / "agent").envs[0].env_id == "CartPole-v1"


class Uncopyable(Custom):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle 'simulator'")


SHARED = Custom()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Nothing-v9", "Gymnasium cannot make 'Nothing-v9'"),
        ("nomodule:Foo-v0", r"Gymnasium cannot make 'nomodule:Foo-v0'.*nomodule"),  # a regression
        ("Pendulum-v1", "Box observations and Discrete"),
        (gymnasium.make("MountainCar-v0"), r"time limit of 200 steps.*horizon of at most 200"),
        (3, "env_id is 3; it must be an id .*'CartPole-v1'.*function"),
        (Uncopyable(), "Uncopyable cannot be copied .*pass a function"),
        (lambda: "CartPole-v1", "returned 'CartPole-v1'; it must return a new Gymnasium"),
        (lambda: SHARED, "must return a new Gymnasium environment at every call"),
    ],
)
def test_invalid_sources(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        GymObserved(source, horizon=201).begin(2, stream(0, "test"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"reward": None}, "gym/Custom returned the reward None .* must be a number"),
        ({"later": np.zeros(3)}, r"gym/Custom returned .* shape \(3,\) .* shape \(2,\)"),
        ({"later": "left"}, "gym/Custom returned the observation 'left' .* must be numbers"),
    ],
)
def test_invalid_observations_and_rewards(attributes: dict[str, Any], message: str) -> None:
    """Regression: they caused exceptions of NumPy."""
    env = GymObserved(type("Custom", (Custom,), attributes), 2)
    with pytest.raises(ValueError, match=message) as caught:
        env.begin(2, stream(0, "test")).move(np.zeros(2, dtype=np.int64), stream(0, "unused"))
    assert "\n" not in str(caught.value)


# Rewards


def plain_return(env_id: str, seed: int, horizon: int, policy: Any) -> float:
    """The return of the environment itself until it ends, or after H steps."""
    env, total = gymnasium.make(env_id), 0.0
    observation, _ = env.reset(seed=seed)
    for _ in range(horizon):
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total += float(reward)
        if terminated or truncated:
            break
    env.close()
    return total


@pytest.mark.parametrize(
    ("env_id", "horizon", "low", "high", "policy"),
    [
        ("CartPole-v1", 80, -0.5, 3.0, lambda seen: int(seen[2] > 0)),  # balances for a while
        ("MountainCar-v0", 200, -1.0, 0.0, lambda seen: 2 if seen[1] >= 0 else 0),  # solves it
    ],
)
def test_scaled_returns_are_an_affine_map_of_the_returns(
    env_id: str, horizon: int, low: float, high: float, policy: Any
) -> None:
    """Regression: ended episodes received `reward_low` per step instead of 0."""
    env, seeds = GymObserved(env_id, horizon, low, high), stream(0, "test").integers(2**31, size=3)
    expected = [plain_return(env_id, int(seed), horizon, policy) for seed in seeds]
    walk, scaled = env.begin(3, stream(0, "test")), np.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(horizon):
            actions = np.array([policy(row) for row in walk.observations])
            scaled += walk.move(actions, stream(0, "unused"))
    np.testing.assert_allclose(scaled * (high - low) + horizon * low, expected, atol=1e-9)


def test_clipped_rewards_are_reported_once() -> None:
    for low, high in ((0.5, 1), (-2, -1), (0, 0), (NAN, 1), (0, INF)):
        with pytest.raises(ValueError, match="reward_low must be"):
            GymObserved(reward_low=low, reward_high=high)
    for bounds, option in (((0.0, 1.0), "--reward-low -1"), ((-2.0, 0.0), None)):
        env, random = GymObserved("MountainCar-v0", 3, *bounds), stream(0, "test")
        walk = env.begin(2, random)
        with warnings.catch_warnings(record=True) as reported:
            warnings.simplefilter("always")
            for _ in range(3):
                walk.move(np.zeros(2, dtype=np.int64), random)
        assert len(reported) == (option is not None)
        assert all(str(option) in str(warning.message) for warning in reported)
    env = GymObserved("CartPole-v1", 3, reward_high=0.5)
    with pytest.warns(UserWarning, match="pays 1, .* clipped to 0.5: use --reward-high 1"):
        scaled = env.begin(1, random).move(np.zeros(1, dtype=np.int64), random)
    np.testing.assert_array_equal(scaled, 1)
