"""Rollouts in the world model step by step, and the experience that PPO gets from them."""

from typing import Any

import numpy as np
import pytest
import torch
from agents.simple_play import SEA, Spy, learner
from torch import Tensor

from contrastive_ucb.agents.simple import agent as module
from contrastive_ucb.agents.simple.agent import Experience, Simple, rollouts
from contrastive_ucb.data.replay import Replay


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def simulated(agent: Simple, replay: Replay, seed: int = 3) -> Experience:
    config, draws = agent.config, np.random.default_rng(seed)
    parts = agent.world.model, agent.ppo.network, agent.world.support, replay, draws
    return rollouts(*parts, config.rollout_steps, config.rollouts)


def test_rollouts_continue_with_predicted_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history of every step is the previous one with the predicted frame."""
    agent, replay = learner(rollout_steps=5, rollouts=4)
    model = agent.world.model
    with torch.no_grad():
        model.end.bias.fill_(-50)  # no episode ends
    spy = Spy(model, monkeypatch, "predict")
    real_draw = model.draw_frame
    drawn: list[Tensor] = []
    monkeypatch.setattr(
        model, "draw_frame", lambda *asked: drawn.append(real_draw(*asked)) or drawn[-1]
    )
    found = simulated(agent, replay)
    assert found.values.shape == (6, 4)
    assert not found.ended.any()
    for step in range(4):
        old = spy.histories[step][:, 4:]
        assert spy.histories[step + 1].equal(torch.cat([old, drawn[step]], dim=1))
        assert found.observations[step].equal(spy.histories[step][:, -4:])
    real = {x.tobytes() for x in replay.history.observations(replay.drawable())}
    assert all(x.numpy().tobytes() in real for x in spy.histories[0])


def test_rollouts_restart_from_real_frames_after_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, replay = learner(rollout_steps=5, rollouts=4)
    with torch.no_grad():
        agent.world.model.end.bias.fill_(50)  # every step ends
    spy = Spy(agent.world.model, monkeypatch, "predict")
    found = simulated(agent, replay)
    assert found.ended.all()
    real = {x.tobytes() for x in replay.history.observations(replay.drawable())}
    for histories in spy.histories:
        assert all(x.numpy().tobytes() in real for x in histories)
    assert len({x.numpy().tobytes() for every in spy.histories for x in every}) > 4


def test_rewards_are_expected_rewards() -> None:
    agent, replay = learner()
    with torch.no_grad():
        agent.world.model.reward.weight.zero_()
        agent.world.model.reward.bias.fill_(-50)
        agent.world.model.reward.bias[[0, 4]] = 0  # rewards 0 and 4 with probability 1/2
    found = simulated(agent, replay)
    torch.testing.assert_close(found.rewards, torch.full_like(found.rewards, 2.0))


def test_policy_learns_from_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Returns and advantages of every step, by a backward loop."""
    agent, replay = learner(discount=0.9, trace=0.6, rollout_steps=6, batch_size=99, passes=1)
    with torch.no_grad():
        agent.world.model.end.bias.zero_()  # half of the steps end
    simulations: list[Experience] = []
    learned: list[tuple[Tensor, ...]] = []

    class InOrder:
        permutation = staticmethod(np.arange)

    def recorded_rollouts(*given: Any) -> Experience:
        simulations.append(rollouts(*given))
        return simulations[-1]

    def updated(*given: Tensor) -> dict[str, float]:
        learned.append(given)
        return {}

    monkeypatch.setattr(module, "rollouts", recorded_rollouts)
    monkeypatch.setattr(agent.ppo, "_update", updated)
    monkeypatch.setitem(agent.streams, "ppo", InOrder())
    metrics = agent.update_policy(replay)
    (found,), (steps,) = simulations, learned
    observations, actions, log_probs, returns, standard = steps
    n_steps, count = found.rewards.shape
    advantages = np.zeros((n_steps + 1, count))
    for rollout in range(count):
        for step in reversed(range(n_steps)):
            goes_on = 1 - float(found.ended[step, rollout])
            ahead = 0.9 * float(found.values[step + 1, rollout]) * goes_on
            delta = float(found.rewards[step, rollout]) + ahead - float(found.values[step, rollout])
            advantages[step, rollout] = delta + 0.9 * 0.6 * goes_on * advantages[step + 1, rollout]
    flat = advantages[:-1].ravel()
    assert 0 < float(found.ended.mean()) < 1
    np.testing.assert_allclose(returns, flat + found.values[:-1].flatten().numpy(), rtol=1e-4)
    spread = (flat - flat.mean()) / flat.std(ddof=1)
    np.testing.assert_allclose(standard, spread, rtol=1e-3, atol=1e-5)
    assert actions.equal(found.actions.flatten())
    assert log_probs.equal(found.log_probs.flatten())
    assert observations.equal(agent.world.model.scaled(found.observations.flatten(0, 1)))
    assert metrics["charts/dreamt_reward"] == pytest.approx(found.rewards.mean().item())
    assert metrics["charts/dreamt_ends"] == pytest.approx(found.ended.mean().item())


def test_rollouts_depend_only_on_their_stream() -> None:
    agent, replay = learner(SEA)
    one, again, other = (simulated(agent, replay, seed) for seed in (1, 1, 2))
    assert one.observations.equal(again.observations)
    assert one.rewards.equal(again.rewards)
    assert not one.observations.equal(other.observations)
    log_probs = agent.ppo.network(one.observations[0])[0].log_softmax(-1)
    torch.testing.assert_close(
        one.log_probs[0], log_probs.gather(1, one.actions[0][:, None])[:, 0].detach()
    )
