"""The wrapper and the callback for Stable-Baselines3."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bonus.walks import Walk
from gymnasium.vector import AutoresetMode, SyncVectorEnv

pytest.importorskip("stable_baselines3")
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecNormalize
from torch import nn

from contrastive_ucb.bonus import (
    BonusCallback,
    BonusVecEnv,
    BonusWrapper,
    Training,
    VectorBonusWrapper,
)
from contrastive_ucb.core.errors import UserError

LENGTHS = (2, 3, 5)
QUICK: dict[str, Any] = {
    "training": Training(every=20, steps=2, batch_size=8, memory=30),
    "snapshot_every": 1,
}
COUNTS: dict[str, Any] = {"bonus": "elliptical", "scale": 1.0, "normalize": False}


def venv(kind: str = "discrete", truncates: bool = False, lengths: Any = LENGTHS) -> DummyVecEnv:
    return DummyVecEnv([lambda n=n: Monitor(Walk(n, kind, truncates)) for n in lengths])


@pytest.mark.parametrize("kind", ["discrete", "box", "flat_dict"])
@pytest.mark.parametrize("truncates", [False, True])
def test_the_wrapper_equals_that_of_gymnasium(kind: str, truncates: bool) -> None:
    actions = np.random.default_rng(0).integers(0, 2, (41, len(LENGTHS)))
    makers = [lambda n=n: Walk(n, kind, truncates) for n in LENGTHS]
    envs = VectorBonusWrapper(
        SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP), seed=5, **QUICK
    )
    venvs = BonusVecEnv(venv(kind, truncates), seed=5, **QUICK)
    for again in range(2):  # the second reset is in the middle of episodes
        envs.reset(seed=0)
        venvs.reset()
        for action in actions:
            _, expected, terminations, truncations, info = envs.step(action)
            _, rewards, dones, infos = venvs.step(action)
            assert dones.tolist() == (terminations | truncations).tolist(), again
            for name in ("raw_reward", "intrinsic_reward"):
                assert [x[name] for x in infos] == info[name].tolist()
            assert rewards == pytest.approx(expected, rel=1e-6)


class OneBuffer(VecEnvWrapper):
    """Returns the same array at each step, with other entries."""

    def reset(self) -> Any:
        self.buffer = self.venv.reset().copy()
        return self.buffer

    def step_wait(self) -> Any:
        self.buffer[:], *others = self.venv.step_wait()
        return (self.buffer, *others)


def test_overwritten_observations_are_copied() -> None:
    made = [
        BonusVecEnv(x, of="pair", encoder=nn.Identity(), **COUNTS)
        for x in (venv("box"), OneBuffer(venv("box")))
    ]
    for env in made:
        env.reset()
    for action in np.random.default_rng(0).integers(0, 2, (20, len(LENGTHS))):
        plain, overwritten = (env.step(action)[1].tolist() for env in made)
        assert plain == overwritten


def test_saving_and_loading_the_wrapper_is_exact() -> None:
    saved, loaded = (BonusVecEnv(venv("box"), **QUICK) for _ in range(2))
    actions = np.random.default_rng(0).integers(0, 2, (45, len(LENGTHS)))

    def rewards(env: BonusVecEnv) -> Any:
        env.reset()
        return [env.step(action)[1].tolist() for action in actions]

    rewards(saved)
    loaded.load_state_dict(saved.state_dict())
    assert rewards(saved) == rewards(loaded)


def test_ppo_learns_with_the_wrapper_and_logs_raw_returns() -> None:
    env = BonusVecEnv(venv("box", lengths=(3, 3)), scale=5.0, **QUICK)
    agent = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu")
    agent.learn(128)
    assert env.intrinsic.bonus.n_seen == 128
    assert agent.ep_info_buffer
    for episode in agent.ep_info_buffer:  # the Monitor is inside
        assert episode["r"] == int(episode["r"])


def dqn(env: Any, **settings: Any) -> DQN:
    policy = "MultiInputPolicy" if "Dict" in str(env.observation_space) else "MlpPolicy"
    given: dict[str, Any] = {
        "buffer_size": 3 * 200,
        "learning_starts": 10,
        "batch_size": 8,
        "policy_kwargs": {"net_arch": [8]},
        "seed": 0,
        "device": "cpu",
    }
    return DQN(policy, env, **{**given, **settings})


class Reads(BonusCallback):
    """Reads all stored rewards from the buffer after each rollout, as sampling does."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.read: list[Any] = []

    def _on_rollout_end(self) -> None:
        super()._on_rollout_end()
        buffer = self.model.replay_buffer
        assert buffer is not None
        rows = np.arange(buffer.pos)[:, None], np.arange(buffer.n_envs)
        self.read.append(buffer.rewards[rows])


def cells(agent: DQN) -> tuple[Any, Any, Any, Any]:
    """Cell, action, next cell and reward of the stored steps, each (steps, environments)."""
    buffer = agent.replay_buffer
    assert buffer is not None
    n = buffer.pos
    parts = (buffer.observations, buffer.actions, buffer.next_observations)
    return (*(part[:n, :, 0] for part in parts), buffer.rewards[:n])


def test_bonuses_of_replayed_transitions_use_the_present_counts() -> None:
    """The bonus is 1 / sqrt(1 + visits of s'), which decreases as visits are added."""
    callback = Reads(**COUNTS)
    agent = dqn(venv())
    agent.learn(240, callback=callback)
    cell, action, after, raw = cells(agent)
    assert np.array_equal(raw, 10 * cell + action)
    rollouts = range(4, 81, 4)  # DQN collects four steps per rollout
    for n, read in zip(rollouts, callback.read, strict=False):
        visits = np.bincount(after[:n].ravel(), minlength=9)[after[:n]]
        assert read == pytest.approx(raw[:n] + 1 / np.sqrt(1 + visits), rel=1e-5)
    assert callback.read[0][0, 0] > callback.read[-1][0, 0]


def test_the_episodic_part_is_that_of_the_time_of_collection() -> None:
    callback = Reads(**COUNTS, scope="product")
    agent = dqn(venv(truncates=True))
    agent.learn(240, callback=callback)
    cell, action, after, raw = cells(agent)
    assert np.array_equal(raw, 10 * cell + action)
    visits = np.bincount(after.ravel(), minlength=9)[after]
    in_episode = np.zeros((len(LENGTHS), 9))
    factors = np.zeros(raw.shape)
    for t, row in enumerate(after):
        for env, (seen, length) in enumerate(zip(row, LENGTHS, strict=True)):
            factors[t, env] = 1 / (0.1 + in_episode[env, seen])
            in_episode[env, seen] += 1
            if seen == length:
                in_episode[env] = 0
    assert callback.read[-1] == pytest.approx(raw + factors / np.sqrt(1 + visits), rel=1e-5)
    assert len(np.unique(factors)) > 3


def test_a_second_call_of_learn_starts_new_episodes() -> None:
    """The first bonus of an episode is 1 / 0.1, and the environments are in no finished one."""
    callback = Reads(**COUNTS, scope="episodic")
    agent = dqn(venv(lengths=(9, 9)), learning_starts=999, exploration_fraction=1e-9)
    agent.action_space.seed(0)
    agent.learn(8, callback=callback)
    agent.learn(8, callback=callback)
    cell, _, after, raw = cells(agent)
    assert cell[4].tolist() == [0, 0]
    assert after[3].max() > 0
    assert (callback.read[-1] - raw)[4] == pytest.approx([10, 10])


@pytest.mark.parametrize(
    ("kind", "normalized"),  # Stable-Baselines3 does not normalize discrete observations
    [("discrete", False), ("box", False), ("flat_dict", False), ("box", True), ("flat_dict", True)],
)
def test_the_buffer_stores_raw_rewards(kind: str, normalized: bool) -> None:
    def trained(callback: BonusCallback | None) -> Any:
        env: Any = venv(kind, truncates=True)
        if normalized:
            env = VecNormalize(env, norm_obs=kind == "box", norm_reward=True)
        agent = dqn(env, learning_starts=100)
        agent.learn(144, callback=callback)
        return agent.replay_buffer

    callback = BonusCallback(**QUICK)
    buffer = trained(callback)
    assert type(buffer.rewards) is np.ndarray  # also usable without the callback
    assert set(np.unique(buffer.rewards)) <= {10.0 * cell + a for cell in range(5) for a in (0, 1)}
    assert callback.intrinsic is not None
    assert callback.intrinsic.bonus.n_seen == 144


def test_samples_contain_the_bonus_also_with_several_steps_and_continuous_actions() -> None:
    sampled: list[float] = []

    class Samples(BonusCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            buffer = self.model.replay_buffer
            assert buffer is not None
            sampled.append(float(buffer.sample(64).rewards.max()))

    agent = dqn(venv("box", lengths=(8, 8)), n_steps=3)
    agent.learn(64, callback=Samples(scale=1e6, normalize=False))
    sac = SAC("MlpPolicy", "Pendulum-v1", learning_starts=99, device="cpu", seed=0)
    sac.learn(20, callback=Samples(scale=1e6, normalize=False))
    assert min(sampled) > 1e4  # rewards of the environments are below 100


def test_saving_and_loading_the_callback_is_exact(tmp_path: Path) -> None:
    """The stored transitions have the same bonuses before and after."""
    first = Reads(**QUICK)
    agent = dqn(venv("box"), learning_starts=999)
    agent.learn(60, callback=first)
    agent.save_replay_buffer(tmp_path / "buffer")

    class Loaded(BonusCallback):
        def _on_rollout_start(self) -> None:
            rows = np.arange(20)[:, None], np.arange(3)
            assert np.array_equal(self.model.replay_buffer.rewards[rows], first.read[-1])  # type: ignore[union-attr]
            raise StopIteration

    again = dqn(venv("box"))
    again.load_replay_buffer(tmp_path / "buffer")
    second = Loaded(**QUICK)
    second.load_state_dict(first.state_dict())
    with pytest.raises(StopIteration):
        again.learn(60, callback=second)


def test_a_buffer_that_is_saved_during_training_has_raw_rewards(tmp_path: Path) -> None:
    class Saves(BonusCallback):
        def _on_rollout_end(self) -> None:
            super()._on_rollout_end()
            self.model.save_replay_buffer(tmp_path / "buffer")

    agent = dqn(venv())
    agent.learn(60, callback=Saves(**COUNTS))
    again = dqn(venv())
    again.load_replay_buffer(tmp_path / "buffer")
    assert again.replay_buffer is not None
    assert agent.replay_buffer is not None
    assert type(again.replay_buffer.rewards) is np.ndarray
    n = again.replay_buffer.pos
    assert np.array_equal(again.replay_buffer.rewards[:n], agent.replay_buffer.rewards[:n])
    again.learn(60, callback=BonusCallback(**COUNTS))


def wrapped_twice() -> None:
    BonusVecEnv(DummyVecEnv([lambda: BonusWrapper(Walk())]))


def on_policy() -> None:
    agent = PPO("MlpPolicy", venv(), n_steps=32, batch_size=32, device="cpu")
    agent.learn(64, callback=BonusCallback())


def without_final_observations() -> None:
    settings = {"handle_timeout_termination": False}
    agent = dqn(venv(), optimize_memory_usage=True, replay_buffer_kwargs=settings)
    agent.learn(64, callback=BonusCallback())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BonusVecEnv(Walk()), r"must be a VecEnv.*make_vec_env\(id, n_envs\)"),
        (lambda: BonusVecEnv(venv(), "novelty"), "no bonus is called 'novelty'"),
        (wrapped_twice, "already have a BonusWrapper; remove it"),
        (on_policy, "PPO has no replay buffer; wrap its environment in BonusVecEnv"),
        (without_final_observations, "optimize_memory_usage=False"),
        (lambda: BonusCallback().state_dict(), "made when training starts"),
        (lambda: dqn(venv()).learn(9, BonusCallback("novelty")), "no bonus is called 'novelty'"),
    ],
)
def test_invalid_input_is_an_error_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
