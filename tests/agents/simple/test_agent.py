"""The learner of SimPLe: losses of the world model, actions, state and errors."""

from typing import Any

import numpy as np
import pytest
import torch
from agents.simple_play import BREAKOUT, SEA, Spy, learner
from runs.training_runs import same
from torch import Tensor

from contrastive_ucb.data.history import Windows, read_windows


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("env", [BREAKOUT, SEA])
def test_updates_change_only_their_network(env: str) -> None:
    agent, replay = learner(env)
    before = agent.state_dict()
    metrics = agent.update_model(replay)
    names = {"frame", "bits", "reward", "end"}
    assert metrics.keys() == {f"losses/model_{name}" for name in names}
    after = agent.state_dict()
    same(after["ppo"], before["ppo"])
    changed = [
        name
        for name, value in after["world"]["network"].items()
        if not value.equal(before["world"]["network"][name])
    ]
    assert any(name.startswith("trunk") for name in changed)
    assert {"frame.weight", "reward.weight", "end.weight"} <= set(changed)
    assert any(name.startswith("prior") for name in changed)
    assert "posterior.weight" in changed
    metrics_of_policy = agent.update_policy(replay)
    assert {"losses/policy", "losses/value", "charts/dreamt_reward"} <= metrics_of_policy.keys()
    same(agent.state_dict()["world"], after["world"])
    assert (agent.world.n_updates, agent.ppo.n_updates) == (1, 4)
    assert agent.n_updates == 5


def windows_with(frames: Any, **fields: list[list[float]]) -> Windows:
    return Windows(
        frames=frames,
        actions=np.array(fields["actions"], np.int64),
        rewards=np.array(fields["rewards"], np.float64),
        terminated=np.array(fields["terminated"], bool),
        alive=np.array(fields["alive"], bool),
        shown=np.array(fields["shown"], bool),
    )


def test_losses_ignore_steps_after_an_end() -> None:
    """A window whose second step is masked has the losses of its first step."""
    agent, replay = learner(unroll=2)
    times = replay.drawable()[:1]
    real = read_windows(replay.history, times, 2)
    fields = {
        "actions": [[0, 1]],
        "rewards": [[1.0, 7.0]],
        "terminated": [[True, True]],
        "alive": [[True, False]],
        "shown": [[False, False]],
    }
    both = agent.world.losses(windows_with(real.frames, **fields), rng(), own=0.0)
    short = {name: [row[:1] for row in rows] for name, rows in fields.items()}
    first = agent.world.losses(windows_with(real.frames[:, :-1], **short), rng(), own=0.0)
    assert both.keys() == first.keys()
    for name in ("reward", "end", "bits"):
        torch.testing.assert_close(both[name], first[name])
    assert both["frame"].item() == 0
    assert both["bits"].item() > 0


def test_support_of_rewards() -> None:
    """Regression: rewards outside the guessed range were clipped and could not be represented."""
    usual, _ = learner(steps=0)
    assert (usual.world.support[0], usual.world.support[-1]) == (0.0, 20.0)
    agent, _ = learner(reward_atoms=5, support=(-40.0, 40.0), steps=0)
    assert agent.world.support.tolist() == [-40.0, -20.0, 0.0, 20.0, 40.0]
    rewards = torch.tensor([-40.0, 30.0, 99.0])
    expected = agent.world.reward_mass(rewards) @ agent.world.support
    torch.testing.assert_close(expected, torch.tensor([-40.0, 30.0, 40.0]))


def test_learning_rate_warmup() -> None:
    agent, replay = learner(model_learning_rate=1e-3, model_warmup=4)
    rates = []
    for _ in range(6):
        agent.update_model(replay)
        rates += [group["lr"] for group in agent.world.optimizer.param_groups]
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])


def test_update_raises_for_entries_above_frame_max() -> None:
    agent, replay = learner()
    replay.history.frame[:50, 0, 4, 4] = 3
    with pytest.raises(ValueError, match="an entry 3, but frame_max is 1; --set frame_max=3"):
        agent.update_model(replay)


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_inputs_of_later_steps_are_real_or_predicted(
    own: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, replay = learner(unroll=2)
    model = agent.world.model
    spy = Spy(model, monkeypatch, "loss")
    real_draw = model.draw_frame
    drawn: list[Tensor] = []

    def draw(*asked: Any) -> Tensor:
        frame = 1 - real_draw(*asked)  # differs from the real one
        drawn.append(frame)
        return frame

    monkeypatch.setattr(model, "draw_frame", draw)
    windows = read_windows(replay.history, replay.drawable()[:6], 2)
    agent.world.losses(windows, rng(), own)
    frames = torch.from_numpy(windows.frames)
    assert spy.histories[0].equal(frames[:, :2].flatten(1, 2))
    newest = drawn[0] if own else frames[:, 2]
    assert spy.histories[1].equal(torch.cat([frames[:, 1], newest], dim=1))


def test_scheduled_sampling() -> None:
    agent, replay = learner(own_frames_after=10)
    seen = []
    real = agent.world.losses

    def noted(windows: Windows, draws: Any, own: float) -> Any:
        seen.append(own)
        return real(windows, draws, own)

    agent.world.losses = noted  # type: ignore[method-assign]
    for agent.world.n_updates in (0, 5, 10, 1000):
        agent.update_model(replay)
    assert seen == [0.0, 0.5, 1.0, 1.0]


def test_acting_samples_and_evaluation_does_not() -> None:
    agent, replay = learner()
    with torch.no_grad():
        agent.ppo.network.actor.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    observation = replay.observation()
    drawn = {agent.act(observation, uniform) for uniform in np.linspace(0, 0.999, 50)}
    assert drawn == {0, 1, 2}
    newest = observation[-4:]
    assert agent.best(np.stack([newest, newest])).tolist() == [1, 1]
    preferences, _ = agent.values(newest)
    assert preferences.argmax() == 1
    value = agent.ppo.network(agent.inputs.plain(newest[None]))[1].item()
    assert preferences.max() == pytest.approx(value, abs=1e-6)


def test_actions_are_sampled_with_their_probabilities() -> None:
    agent, replay = learner()
    logits = agent.ppo.network(agent.inputs.plain(replay.observation()[None, -4:]))[0]
    probs = logits.softmax(-1)[0].tolist()
    drawn = [agent.act(replay.observation(), u) for u in (np.arange(600) + 0.5) / 600]
    often = np.bincount(drawn, minlength=3) / 600
    np.testing.assert_allclose(often, probs, atol=0.01)


@pytest.mark.parametrize("env", [BREAKOUT, SEA])
def test_resumed_learner_equals_uninterrupted_one(env: str) -> None:
    one, replay = learner(env)
    one.world.measure(replay)
    one.update_model(replay)
    one.update_policy(replay)
    other, _ = learner(env, steps=0)
    other.load_state_dict(one.state_dict())
    kept = one.state_dict()
    for agent in (one, other):
        agent.update_model(replay)
        agent.update_policy(replay)
    same(one.state_dict(), other.state_dict())
    assert kept["world"]["n_updates"] == 1  # the state is a copy


def test_range_of_vectors_is_measured_and_saved() -> None:
    agent, replay = learner("CartPole-v1")
    agent.world.measure(replay)
    frames = replay.history.frame[replay.drawable() % replay.history.capacity]
    low = agent.world.model.low.numpy()
    assert (low <= frames.min(0)).all()
    other, _ = learner("CartPole-v1", steps=0)
    other.load_state_dict(agent.state_dict())
    assert other.world.model.low.equal(agent.world.model.low)


def test_nan_weights_are_named() -> None:
    agent, replay = learner()
    agent.check_finite()
    with torch.no_grad():
        agent.ppo.network.critic.bias.fill_(torch.nan)
    with pytest.raises(ArithmeticError, match=r"critic.bias of the policy is not finite"):
        agent.check_finite()
    agent, replay = learner()
    with torch.no_grad():
        agent.world.model.tell.weight.fill_(torch.inf)
    with pytest.raises(ArithmeticError, match=r"tell.weight of the world model is not finite"):
        agent.check_finite()
    message = r"the weight tell.weight has a NaN .* in update 1 of the world model"
    with pytest.raises(ArithmeticError, match=message):
        agent.update_model(replay)


def test_large_images_use_the_softmax_model() -> None:
    agent, replay = learner("Pong", steps=12, size="small", rollouts=2, rollout_steps=2)
    assert agent.world.model.kind == "softmax"
    assert agent.history == 4
    metrics = agent.update_model(replay) | agent.update_policy(replay)
    assert all(np.isfinite(value) for value in metrics.values())
