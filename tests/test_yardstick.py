"""The plain implementation of `make bench NAME=deep` computes the update of preset `reference`.

Both have the same weights and noise, no augmentation, and the same windows. In both, the two passes
of double DQN use different noise.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.yardstick import WINDOW, PlainReplay, Windows, Yardstick
from contrastive_ucb.agents.deep.network import Network
from contrastive_ucb.agents.deep.presets import SPR_RELEASE, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.data.replay import Batch, Replay

N_ACTIONS, BATCH = 3, 8


def learner(preset: str, ridge: float) -> Rainbow:
    settings = {
        "bonus.preset": preset,
        "bonus.ridge": ridge,
        **SPR_RELEASE,  # the rules of the yardstick, also without a bonus
        "augment": False,
        "batch_size": BATCH,
        "replay_capacity": 400,
    }
    config = configure("spr-ucb", settings, (1, 84, 84))
    return Rainbow(config, (1, 84, 84), 4, N_ACTIONS, (-10.0, 10.0), seed=1)


def played(agent: Rainbow, rng: np.random.Generator) -> Replay:
    """Episodes of 3 to 40 random steps, so that windows have ends of all kinds."""
    replay = agent.new_replay()
    for length in [4, 40, 3, 25, 12, 7, 30, 5, 40, 9, 20, 60]:
        replay.begin(rng.integers(0, 256, (1, 84, 84), dtype=np.uint8))
        for step in range(length):
            frame = rng.integers(0, 256, (1, 84, 84), dtype=np.uint8)
            reward = float(rng.normal())
            replay.add(int(rng.integers(N_ACTIONS)), reward, frame, step == length - 1, False)
    return replay


def windows(replay: Replay, batch: Batch) -> Any:
    history, size = replay.history, len(batch.index)
    times = history.following(batch.index, WINDOW)
    ends = history.at("terminated", times) | history.at("truncated", times)
    end = np.where(ends.any(1), ends.argmax(1), WINDOW)[:, None]
    repeated = np.where(end <= replay.jumps, end, WINDOW)  # after an end at step e <= K
    shown = np.take_along_axis(times, np.minimum(np.arange(WINDOW), repeated), axis=1)
    return Windows(
        observations=history.observations(shown.reshape(-1)).reshape(size, WINDOW, 4, 84, 84),
        actions=history.at("action", times),
        previous=history.previous_actions(times),
        rewards=history.at("reward", times),
        ends=ends,
        weights=batch.weights,
        index=batch.index,
    )


def by_channel(columns: Tensor) -> Tensor:
    """Columns (..., 7 7 64) in the order (..., 64 7 7)."""
    return columns.unflatten(-1, (7, 7, 64)).movedim(-1, -3).flatten(-3)


@torch.no_grad()
def copied(network: Network, plain: torch.nn.Module) -> torch.nn.Module:
    """A copy of the plain network with the weights and noise of the network of the package."""
    plain = deepcopy(plain)
    for theirs, layer in zip((0, 2, 4), network.encoder.layers, strict=True):
        plain.encoder[theirs].load_state_dict(layer.state_dict())
    head, size = network.head, network.head.width
    assert head.value is not None
    for name, rows in (("value_hidden", slice(0, size)), ("advantage_hidden", slice(size, None))):
        layer = getattr(plain, name)
        layer.weight_mu.copy_(by_channel(head.first.weight[rows]))
        layer.weight_sigma.copy_(by_channel(head.first.weight_sigma[rows]))
        layer.bias_mu.copy_(head.first.bias[rows])
        layer.bias_sigma.copy_(head.first.bias_sigma[rows])
    for name, given in (("value", head.value), ("advantage", head.advantage)):
        layer = getattr(plain, name)
        layer.weight_mu.copy_(given.weight)
        layer.weight_sigma.copy_(given.weight_sigma)
        layer.bias_mu.copy_(given.bias)
        layer.bias_sigma.copy_(given.bias_sigma)
    give_noise(network, plain)
    assert network.prediction is not None
    model = network.prediction.transition
    for theirs, layer in ((0, model.first), (3, model.second)):
        plain.transition[theirs].load_state_dict(layer.state_dict())
    plain.transition[2].load_state_dict(model.norm.state_dict(), strict=False)
    plain.predictor.load_state_dict(network.prediction.predictor.state_dict())
    return plain


@torch.no_grad()
def give_noise(network: Network, plain: torch.nn.Module) -> None:
    """Copy the noise of the network of the package to the plain network."""
    head, size = network.head, network.head.width
    assert head.value is not None
    first = head.first
    for name, group in (("value_hidden", 0), ("advantage_hidden", 1)):
        layer, out = getattr(plain, name), first.noise_out[group * size : (group + 1) * size]
        layer.weight_epsilon.copy_(torch.outer(out, by_channel(first.noise_in[group])))
        layer.bias_epsilon.copy_(out)
    for name, given in (("value", head.value), ("advantage", head.advantage)):
        layer = getattr(plain, name)
        layer.weight_epsilon.copy_(torch.outer(given.noise_out, given.noise_in[0]))
        layer.bias_epsilon.copy_(given.noise_out)


# With the ridge of the release, 1e-5, the float32 inverse has few exact digits.
@pytest.mark.parametrize(
    ("preset", "ridge", "tolerance"),
    [("none", 1.0, 1e-4), ("reference", 1e-2, 1e-4), ("reference", 1e-5, 2e-3)],
)
def test_the_plain_implementation_computes_the_update_of_reference(
    preset: str, ridge: float, tolerance: float
) -> None:
    agent = learner(preset, ridge)
    rng = np.random.default_rng(0)
    replay = played(agent, rng)
    replay.update_priorities(replay.drawable(), rng.random(len(replay)))
    yardstick = Yardstick(N_ACTIONS, bonus=preset != "none", augment=False, ridge=ridge)
    before = copied(agent.network, yardstick.online)
    for network in (yardstick.online, yardstick.target, yardstick.lagged):
        network.load_state_dict(before.state_dict())
    yardstick.reset_noise = lambda: give_noise(agent.network, yardstick.online)
    selected: list[Tensor] = []
    select = agent._next_actions
    agent._next_actions = lambda *a: selected.append(select(*a)) or selected[-1]  # type: ignore
    for _ in range(2):  # in the second update, Sigma and the target network have changed
        batch = replay.sample(rng.random(BATCH), importance_exponent=0.6)
        given = windows(replay, batch)
        expected = agent.update(replay, batch)
        figures = yardstick.update(given)
        for name, value in expected.items():
            assert figures[name] == pytest.approx(value, rel=tolerance), name
        assert torch.equal(selected[-1], yardstick.selected)
        leaves = replay.tree.get(batch.index % replay.history.slots) ** 2
        latest = dict(zip(batch.index, figures["priorities"], strict=True))
        assert leaves == pytest.approx([latest[at] for at in batch.index], rel=tolerance)
        assert (preset == "none") == ("bonus/mean" not in expected)
    after = copied(agent.network, yardstick.online)
    for name, parameter in after.named_parameters():
        moved = (parameter - before.get_parameter(name)).abs().mean()
        apart = (parameter - yardstick.online.get_parameter(name)).abs().mean()
        assert apart <= 10 * tolerance * moved, name


def test_the_plain_replay_samples_the_windows_of_the_package() -> None:
    agent = learner("reference", 1.0)
    replay = played(agent, np.random.default_rng(0))
    entries = replay.history.entries(0, replay.history.now)
    acted = ~entries["closing"]
    frames, times = entries["frame"][acted, 0], np.flatnonzero(acted)
    fields = [entries[name][acted] for name in ("action", "reward", "terminated")]
    sample = PlainReplay(frames, *fields).sample()
    batch = replay.sample(np.zeros(1), importance_exponent=1.0)
    index = np.array([times[at] for at in sample.index])
    expected = windows(replay, replace(batch, index=index))
    for name in ("observations", "actions", "previous", "rewards", "ends"):
        assert np.array_equal(getattr(sample, name), getattr(expected, name)), name
    assert sample.ends[:, 1:6].any()
    assert (sample.observations[:, 0, 0] == 0).all((1, 2)).any()  # a blank frame
    assert sample.weights.tolist() == [1.0] * 32
