"""Every detail of a preset reaches the object that uses it."""

from __future__ import annotations

from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrastive_ucb.agents.deep.presets import DEEP_PRESETS, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.cli import main
from contrastive_ucb.envs.atari import Atari

FRAME, STACK, N_ACTIONS = (1, 84, 84), 4, 6
REFERENCE = {"bonus.preset": "reference"}
DOPAMINE = ("der", "otr", "drq", "drq-eps")
PRESETS: list[tuple[str, dict[str, Any]]] = [
    *((algo, {}) for algo in DEEP_PRESETS),
    ("spr-ucb", REFERENCE),
]


def agent_of(algo: str, settings: dict[str, Any]) -> Rainbow:
    config = configure(algo, settings, FRAME)
    return Rainbow(config, FRAME, STACK, N_ACTIONS, (-1.0, 1.0), seed=0)


@pytest.mark.parametrize(("algo", "settings"), PRESETS)
def test_initial_weights_replay_and_clipping(algo: str, settings: dict[str, Any]) -> None:
    """Plain layers: Xavier with zero biases in Dopamine; noisy layers: +-1/sqrt(inputs) always.

    Sigma of biases: sigma0 / sqrt(inputs), or / sqrt(outputs of one layer) in the SPR and CURL
    releases. Gradient norms are clipped except in Dopamine.
    """
    agent, dopamine = agent_of(algo, settings), algo in DOPAMINE
    config, head = agent.config, agent.network.head
    outputs = {"first": config.hidden, "advantage": N_ACTIONS * 51, "value": 51}
    for name, n_outputs in outputs.items():
        layer = getattr(head, name, None)
        if layer is not None and config.noisy:
            size = n_outputs if algo == "curl" or settings == REFERENCE else layer.weight.shape[1]
            expected = config.noisy / sqrt(size)
            np.testing.assert_allclose(layer.bias_sigma.detach(), expected, rtol=1e-6)
    for layer in (*agent.network.encoder.layers, head.first):
        n_inputs, area = layer.weight[0].numel(), layer.weight[0, 0].numel()
        xavier = dopamine and not hasattr(layer, "weight_sigma")
        n_outputs = layer.weight.shape[0] * area
        bound = sqrt(6 / (n_inputs + n_outputs)) if xavier else 1 / sqrt(n_inputs)
        assert 0.98 * bound < layer.weight.detach().abs().max().item() <= bound
        assert (layer.bias.detach() == 0).all() == xavier
    replay = agent.new_replay()
    largest = dopamine or algo in ("curl", "rainbow")
    assert replay.new_priority == ("largest" if largest else "one")
    assert replay.draws == ("independent" if settings == REFERENCE else "stratified")
    assert agent.network.groups(config.clip_norm)[0][1] == (inf if dopamine else 10.0)


@pytest.mark.parametrize(("algo", "largest"), [("drq", 7), ("drq-eps", 7), ("spr", 8)])
def test_largest_offset_of_random_shifts(algo: str, largest: int) -> None:
    """A frame with one bright pixel: the pixel moves by at most 4 up, and by `largest` - 4 down."""
    agent = agent_of(algo, {})
    frames = np.zeros((1, 1 + agent.config.jumps_ahead + STACK, 1, 84, 84), dtype=np.uint8)
    frames[..., 40, 40] = 255
    rng = np.random.default_rng(0)
    rows = set()
    for _ in range(100):
        shifted = agent.inputs._shifted(frames, rng)
        rows |= {int(row) for row in shifted.flatten(0, 2).flatten(1).argmax(1) // 84}
    assert (min(rows), max(rows)) == (40 + 4 - largest, 40 + 4)


@pytest.mark.parametrize(
    ("algo", "settings", "draws_per_action"),
    [("der", {}, True), ("spr", {}, False), ("curl", {}, False), ("spr-ucb", REFERENCE, False)],
)
def test_acting_draws_noise(algo: str, settings: dict[str, Any], draws_per_action: bool) -> None:
    """Dopamine draws noise for every action; the others keep the noise of the last update."""
    agent = agent_of(algo, settings)
    agent.n_updates = 1  # before the first update, every action has its own noise
    observation = np.zeros((STACK, 84, 84), dtype=np.uint8)
    noises = []
    for _ in range(2):
        agent.act(observation)
        noises.append(agent.network.head.first.noise_out.clone())
    assert torch.equal(*noises) != draws_per_action


@pytest.mark.parametrize(
    ("algo", "rules"), [("der", "dopamine"), ("curl", "curl-release"), ("reference", "spr-release")]
)
def test_training_and_evaluation_have_the_rules_of_the_preset(
    algo: str, rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: set[tuple[bool, str]] = set()
    original = Atari.__init__

    def recording(self: Atari, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        made.add((self.training, self.rules_name))

    monkeypatch.setattr(Atari, "__init__", recording)
    settings = ["first_update=100", "hidden=8", "batch_size=4"]
    if algo == "reference":
        algo, settings = "spr-ucb", ["bonus.preset=reference", *settings]
    command = ["train", "Pong", "--algo", algo, "--steps", "8", "--eval-episodes", "1"]
    assert main([*command, "--out", str(tmp_path), "--set", *settings]) == 0
    assert made == {(True, rules), (False, rules)}


def test_lives_are_counted_again_after_the_no_op_of_a_lost_life() -> None:
    """The life that a no-op may cost must not end the next episode a second time."""
    env = Atari("Breakout", seed=0, training=True, rules="spr-release")
    env.reset()
    lives = [5, 4, 3]  # the fourth frame of the step loses a life, and the no-op another one
    emulator = env._ale

    class Emulator:
        n_frames = 0

        def lives(self) -> int:
            return lives[0]

        def act(self, action: int) -> int:
            self.n_frames += 1
            if self.n_frames >= 4:
                lives.pop(0)
            return 0

        def __getattr__(self, name: str) -> Any:
            return getattr(emulator, name)

    env._ale = Emulator()  # type: ignore[assignment]
    step = env.step(0)
    assert step.terminated
    assert env._lives == 3
