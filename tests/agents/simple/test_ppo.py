"""PPO: advantages against a loop, the objective by hand, and a bandit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.agents.simple import agent as module
from contrastive_ucb.agents.simple.agent import (
    PPO,
    ActorCritic,
    Experience,
    action_log_probs,
    gae,
    standardized,
)
from contrastive_ucb.agents.simple.config import configure_simple

TINY = {"hidden": 8, "mlp": (8,), "batch_size": 16, "learning_rate": 0.01}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def slow_gae(
    rewards: Tensor, values: Tensor, ended: Tensor, discount: float, trace: float
) -> list[list[float]]:
    """sum_k (gamma lambda)^k delta_{t+k} of each step, until the first end."""
    steps, count = rewards.shape
    found = [[0.0] * count for _ in range(steps)]
    for at in range(count):
        for first in range(steps):
            weight = 1.0
            for step in range(first, steps):
                over = bool(ended[step, at])
                ahead = 0.0 if over else discount * float(values[step + 1, at])
                delta = float(rewards[step, at]) + ahead - float(values[step, at])
                found[first][at] += weight * delta
                weight *= discount * trace
                if over:
                    break
    return found


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_advantages_equal_loop(
    steps: int, count: int, discount: float, trace: float, seed: int
) -> None:
    draw = rng(seed)
    rewards = torch.from_numpy(draw.standard_normal((steps, count)))
    values = torch.from_numpy(draw.standard_normal((steps + 1, count)))
    ended = torch.from_numpy((draw.random((steps, count)) < 0.3).astype(float))
    got = gae(rewards, values, ended, discount, trace)
    expected = slow_gae(rewards, values, ended, discount, trace)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


def bandit(config_changes: dict[str, object] | None = None) -> PPO:
    config = configure_simple({**TINY, **(config_changes or {})}, (3,))
    return PPO(ActorCritic((3,), 4, config, rng()), config)


def experience(ppo: PPO, seed: int = 0, n: int = 64) -> Experience:
    """Single steps; action 2 has reward 1."""
    draw = rng(seed)
    seen = torch.from_numpy(draw.random((n, 3), dtype=np.float32))
    with torch.no_grad():
        log_probs = ppo.network(seen)[0].log_softmax(-1)
    actions = torch.from_numpy(draw.integers(0, 4, n))
    paid = (actions == 2).float()
    taken = action_log_probs(log_probs, actions)
    columns = (x[None] for x in (seen, actions, taken, paid, torch.ones(n)))
    return Experience(*columns, values=torch.zeros(2, n))


def test_learns_a_bandit() -> None:
    ppo = bandit()
    for turn in range(30):
        metrics = ppo.learn(experience(ppo, turn), lambda seen: seen, rng(turn))
    assert metrics.keys() == {"losses/policy", "losses/value", "losses/entropy"}
    assert ppo.n_updates == 30 * 3 * 4
    chosen = ppo.network(torch.rand(50, 3))[0].argmax(-1)
    assert set(chosen.tolist()) == {2}


def test_loss_is_the_sum_of_policy_value_and_entropy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against a loop over steps."""
    ppo = bandit({"batch_size": 64, "passes": 1, "value_weight": 0.7, "entropy": 0.3})
    steps = experience(ppo)
    steps.log_probs.add_(torch.linspace(-0.5, 0.5, 64))  # as if the policy had changed
    logits, values = (part.detach() for part in ppo.network(steps.observations[0]))
    advantages = standardized(steps.rewards[0])
    total = 0.0
    for row in range(64):
        probs = logits[row].double().softmax(-1).numpy()
        ratio = float(probs[steps.actions[0, row]]) / np.exp(float(steps.log_probs[0, row]))
        advantage = float(advantages[row])
        kept = min(max(ratio, 1 - ppo.config.clip), 1 + ppo.config.clip)
        total -= min(ratio * advantage, kept * advantage)
        total += 0.7 * (float(values[row]) - float(steps.rewards[0, row])) ** 2 / 2
        total += 0.3 * float((probs * np.log(probs)).sum())
    seen: list[float] = []
    monkeypatch.setattr(module, "gradient_step", lambda *given: seen.append(given[-1].item()))
    ppo.learn(steps, lambda seen: seen, rng())
    assert seen == pytest.approx([total / 64], rel=1e-5)


def test_resumed_policy_equals_uninterrupted_one() -> None:
    one, other = bandit(), bandit()
    for turn in range(2):
        one.learn(experience(one, turn), lambda seen: seen, rng(turn))
    other.load_state_dict(one.state_dict())
    kept = one.state_dict()
    for ppo in (one, other):
        ppo.learn(experience(ppo, 7), lambda seen: seen, rng(7))
    for name, value in one.network.state_dict().items():
        assert value.equal(other.network.state_dict()[name])
    assert one.n_updates == other.n_updates
    assert kept["n_updates"] < one.n_updates  # the state is a copy


def test_nan_weight_and_gradient_are_named() -> None:
    ppo = bandit({"batch_size": 64})
    steps = experience(ppo)
    with torch.no_grad():
        ppo.network.critic.bias.fill_(torch.inf)
    message = r"the weight critic.bias has a NaN .* in update 1 of the policy"
    with pytest.raises(ArithmeticError, match=message):
        ppo.learn(steps, lambda seen: seen, rng())
    ppo = bandit({"batch_size": 64})
    ppo.network.actor.weight.register_hook(lambda gradient: gradient * torch.nan)
    message = r"the gradient of actor.weight has a NaN .* in update 1 of the policy"
    with pytest.raises(ArithmeticError, match=message):
        ppo.learn(experience(ppo), lambda seen: seen, rng())
    assert ppo.n_updates == 0
