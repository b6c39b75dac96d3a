"""The preset `reference` against the published SPR-UCB code, on equal weights, data and noise.

See `published_inputs.py`. The published code ran in float64. Our network also runs in float64 for
three updates, and in float32 (the default) for one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.deep.published_inputs import (
    BATCH,
    CONVOLUTIONS,
    ENDS,
    HIDDEN,
    JUMPS,
    MODEL,
    N_ACTIONS,
    PREDICTOR,
    START,
    STEPS,
    augmented,
    noise,
    streams,
    summary,
    weights,
)
from data.replay_oracle import stacked
from torch import Tensor

from contrastive_ucb.agents.deep import rainbow
from contrastive_ucb.agents.deep.presets import configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.data.replay import Batch, Replay
from contrastive_ucb.representation.heads import DuelingHead

PUBLISHED = np.load(Path(__file__).with_name("published_update.npz"))
FIRST = ("head.value.1", "head.advantage_hidden.1")  # the streams of our first layer, in order
SHAPE = (CHANNELS, SIDE, _) = (64, 7, 7)


def channels_last(columns: Tensor) -> Tensor:
    """Columns (..., C H W) in our order (..., H W C)."""
    return columns.unflatten(-1, SHAPE).movedim(-3, -1).flatten(-3)


def channels_first(columns: Tensor) -> Tensor:
    return columns.unflatten(-1, (SIDE, SIDE, CHANNELS)).movedim(-1, -3).flatten(-3)


def parameters(agent: Rainbow) -> dict[str, tuple[Tensor, Any]]:
    """Published name -> our tensor (or a view of it), and how its columns are reordered."""
    network, same = agent.network, lambda x: x
    assert network.prediction is not None
    head, model = network.head, network.prediction.transition
    assert head.value is not None
    found: dict[str, tuple[Tensor, Any]] = {}

    def add(name: str, layer: Any) -> None:
        found.update({f"{name}.weight": (layer.weight, same), f"{name}.bias": (layer.bias, same)})

    for at, layer in zip(CONVOLUTIONS, network.encoder.layers, strict=True):
        add(f"conv.conv.{at}", layer)
    for name, rows in zip(FIRST, (slice(0, HIDDEN), slice(HIDDEN, None)), strict=True):
        found[f"{name}.weight_mu"] = head.first.weight[rows], channels_last
        found[f"{name}.weight_sigma"] = head.first.weight_sigma[rows], channels_last
        found[f"{name}.bias_mu"] = head.first.bias[rows], same
        found[f"{name}.bias_sigma"] = head.first.bias_sigma[rows], same
    for name, layer in (("head.value.3", head.value), ("head.advantage_out", head.advantage)):
        found[f"{name}.weight_mu"], found[f"{name}.bias_mu"] = (
            (layer.weight, same),
            (layer.bias, same),
        )
        found[f"{name}.weight_sigma"] = layer.weight_sigma, same
        found[f"{name}.bias_sigma"] = layer.bias_sigma, same
    add(f"{MODEL}.0.net.0", model.first)
    add(f"{MODEL}.2", model.norm)
    add(f"{MODEL}.3.net.0", model.second)
    add(PREDICTOR, network.prediction.predictor)
    return found


def set_noise(head: DuelingHead, update: int) -> None:
    dtype = head.first.weight.dtype
    given = {
        name: [torch.from_numpy(x).to(dtype) for x in sides]
        for name, sides in noise(update).items()
    }
    assert head.value is not None
    for layer, names in (
        (head.first, FIRST),
        (head.value, ("head.value.3",)),
        (head.advantage, ("head.advantage_out",)),
    ):
        into = torch.stack([given[name][0] for name in names])
        layer.noise_in = channels_last(into) if layer is head.first else into
        layer.noise_out = torch.cat([given[name][1] for name in names])
        layer._cache = None


@torch.no_grad()
def learner(dtype: torch.dtype) -> Rainbow:
    settings = {"bonus.preset": "reference", "batch_size": BATCH, "replay_capacity": 400}
    config = configure("spr-ucb", settings, (1, 84, 84))
    agent = Rainbow(config, (1, 84, 84), 4, N_ACTIONS, (-10.0, 10.0), seed=0)
    assert agent.lagged is not None
    given, ours = weights(), parameters(agent)
    assert ours.keys() == given.keys()
    for name, (tensor, order) in ours.items():
        tensor.copy_(order(torch.from_numpy(given[name])))
    agent.lagged.load_state_dict(agent._spr_target_parts(agent.network).state_dict())
    agent.network.to(dtype)
    agent.lagged.to(dtype)
    agent.network.support = torch.linspace(-10, 10, 51, dtype=dtype)
    tensor, plain = agent._tensor, agent.inputs.plain
    agent._tensor = lambda x: tensor(x.astype(_kind(x, dtype)))  # type: ignore[method-assign]
    agent.inputs.plain = lambda x: plain(x).to(dtype)  # type: ignore[method-assign]
    set_noise(agent.network.head, 0)
    return agent


def _kind(x: np.ndarray, dtype: torch.dtype) -> Any:
    """The type of an array of an agent in `dtype`: integers stay."""
    return x.dtype if x.dtype.kind != "f" else torch.zeros(0, dtype=dtype).numpy().dtype


def stored(agent: Rainbow) -> tuple[Replay, np.ndarray]:
    """A memory of the streams in sequence, and the start times of the windows."""
    replay, index = agent.new_replay(), []
    frames, actions, rewards = streams()
    for stream in range(BATCH):
        for step in range(STEPS):
            if not replay.history.running:
                replay.begin(frames[step, stream][None])
            if step == START:
                index.append(replay.history.now)
            is_last = step == STEPS - 1
            over = step == START + ENDS.get(stream, STEPS)
            shown = frames[min(step + 1, STEPS - 1), stream][None]
            reward = float(rewards[step, stream])
            replay.add(int(actions[step, stream]), reward, shown, over, is_last)
    return replay, np.array(index)


def batch_at(replay: Replay, index: np.ndarray, update: int) -> Batch:
    """The batch of these times, with the published importance weights."""
    replay.tree.sample = lambda *_, **__: index % replay.history.slots  # type: ignore[method-assign]
    batch = replay.sample(np.zeros(BATCH), 0.4)
    assert np.array_equal(batch.index, index)
    return replace(batch, weights=PUBLISHED[f"is_weights/{update}"].astype(np.float32))


def augment(agent: Rainbow, update: int) -> None:
    """Replace our augmentation by the published one."""
    inputs, dtype = agent.inputs, agent.network.support.dtype

    def of_batch(batch: Batch, rng: Any) -> tuple[Tensor, Tensor]:
        seen = stacked(batch.frames, 4)  # (B, 1 + K, 4, 84, 84)
        now = augmented(seen[:, 0], update, "online")
        targets = augmented(seen.reshape(-1, 4, 84, 84), update, "targets")
        targets = targets.reshape(BATCH, JUMPS + 1, 4, 84, 84)[:, 1:].reshape(-1, 4, 84, 84)
        last = augmented(batch.bootstrap, update, "target_net")
        later = np.concatenate([targets, last])
        return torch.from_numpy(now).to(dtype), torch.from_numpy(later).to(dtype)

    def another_view(batch: Batch, rng: Any) -> Tensor:
        return torch.from_numpy(augmented(batch.bootstrap, update, "double")).to(dtype)

    inputs.of_batch, inputs.another_view = of_batch, another_view  # type: ignore[method-assign]


# The bonus is float32 in both, and the inverse of a covariance with a ridge of 1e-5 has few digits,
# which differ between processors.
@pytest.mark.parametrize(
    ("dtype", "updates", "rounding", "moved"),
    [(torch.float64, 3, 1e-4, 2e-8), (torch.float32, 1, 1e-4, 2e-6)],
    ids=str,
)
def test_updates_equal_the_published_code(
    dtype: torch.dtype,
    updates: int,
    rounding: float,
    moved: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step of Adam changes a weight by up to 1e-4; `moved` is the tolerance of the change."""
    agent = learner(dtype)
    replay, index = stored(agent)
    seen: dict[str, Any] = {}

    def record(owner: Any, name: str, key: str) -> None:
        call = getattr(owner, name)

        def recorded(*given: Any, **more: Any) -> Any:
            seen[key] = call(*given, **more)
            return seen[key]

        monkeypatch.setattr(owner, name, recorded)

    record(agent, "_next_actions", "next_a")
    record(rainbow, "project_categorical", "target_p")
    record(agent, "_value_losses", "losses")
    record(agent.bonus, "of_batch", "bonus")
    record(rainbow, "spr_loss", "spr")
    for update in range(1, updates + 1):

        def expected(name: str, at: int = update) -> np.ndarray:
            return np.asarray(PUBLISHED[f"{name}/{at}"])

        augment(agent, update)
        monkeypatch.setattr(
            agent.network.head,
            "sample_noise",
            lambda _, at=update: set_noise(agent.network.head, at),
        )
        agent.update(replay, batch_at(replay, index, update))
        assert seen["next_a"].tolist() == expected("next_a").tolist()
        np.testing.assert_allclose(seen["bonus"], expected("bonus"), rtol=rounding)
        assert agent.bonus is not None
        triangle = agent.bonus.counted.sigma[0].numpy()[np.triu_indices(51)]
        np.testing.assert_allclose(triangle, expected("lambda_triu"), rtol=rounding)
        np.testing.assert_allclose(seen["target_p"], expected("target_p"), atol=rounding)
        losses, priorities = (x.detach() for x in seen["losses"])
        np.testing.assert_allclose(losses, expected("value_loss"), rtol=rounding)
        np.testing.assert_allclose(priorities, expected("kl"), rtol=rounding)
        spr = (expected("spr_loss") * expected("nonterminals"))[1:].mean(0)
        spr = (spr * expected("is_weights")).mean()
        assert seen["spr"].item() == pytest.approx(spr, rel=rounding / 10)
        tensors = {name: tensor.detach() for name, (tensor, _) in parameters(agent).items()}
        for row, name in enumerate(PUBLISHED["param_names"]):
            tensor = tensors[name]
            if "weight" in name and name.startswith(FIRST):
                tensor = channels_first(tensor)
            size = np.array([tensor.numel()] * 2 + [1] * 5)
            found, wanted = summary(tensor.numpy()) / size, expected("param")[row] / size
            np.testing.assert_allclose(found, wanted, rtol=0, atol=moved, err_msg=str(name))
