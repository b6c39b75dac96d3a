"""How the world model of SimPLe is learnt: windows of real steps, and its own frames in between.

An update looks `unroll` steps ahead. The first begins with real frames; later ones begin with the
frame that the model foresaw itself, ever more often (scheduled sampling), so that it learns to go
on from its own mistakes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.deep.optim import descend, naming, not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.data.history import Windows, read_windows
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import cross_entropy, project_categorical
from contrastive_ucb.representation.world_model import WorldModel

MEASURED = 10_000  # steps that say what range vectors have


class ModelLearner:
    """A world model and its optimiser.

    support  (N,)  the rewards that are told apart
    """

    def __init__(self, model: WorldModel, support: Tensor, config: SimpleConfig):
        self.model, self.support, self.config = model, support, config
        self.optimiser = torch.optim.Adam(
            model.parameters(), config.model_learning_rate, fused=True
        )
        self.n_updates = 0

    def measure(self, replay: Replay) -> None:
        """Look at the latest steps for the range of what is shown; only vectors need it."""
        if self.model.kind == "gaussian":
            windows = read_windows(replay.history, replay.drawable()[-MEASURED:], 1)
            frames = torch.from_numpy(windows.frames[:, -2:]).to(self.support.device)
            self.model.measure(frames.flatten(0, 1), (frames[:, 1] - frames[:, 0]))

    def update(self, replay: Replay, rng: np.random.Generator) -> dict[str, float]:
        """One step of gradient descent; the losses. A NaN stops it before any weight changes."""
        with naming(self.model, f"update {self.n_updates + 1} of the world model"):
            figures = self._update(replay, rng)
        self.n_updates += 1
        return figures

    def losses(self, windows: Windows, rng: np.random.Generator, own: float) -> dict[str, Tensor]:
        """The mean losses () of the steps of the windows.

        own  how likely a step after the first begins with a frame of the model's own
        """
        model, config = self.model, self.config
        model.check(windows.frames)
        size, length = windows.actions.shape
        frames, actions = self.tensor(windows.frames), self.tensor(windows.actions)
        alive, shown = self.floats(windows.alive), self.floats(windows.shown)
        ended, rewards = self.floats(windows.terminated), self.floats(windows.rewards)
        seen = frames.shape[1] - length
        history = frames[:, :seen].flatten(1, 2)
        totals = dict.fromkeys(("frame", "bits", "reward", "end"), alive.new_zeros(()))
        for step in range(length):
            target = frames[:, seen + step]
            draws = self.floats(rng.random((size, config.bits + 1), dtype=np.float32))
            outcome, divergence = model.loss(history, actions[:, step], target, draws[:, 1:])
            frame = model.frame_loss(outcome, history, target, config.loss_floor)
            reward = cross_entropy(
                self.reward_mass(rewards[:, step]), outcome.reward.log_softmax(-1)
            )
            end = F.binary_cross_entropy_with_logits(outcome.end, ended[:, step], reduction="none")
            totals["frame"] = totals["frame"] + (shown[:, step] * frame).sum()
            # Also where the episode ends: were bits free there, they would tell of the end for
            # nothing, and nobody would teach the prior to foresee it.
            totals["bits"] = totals["bits"] + (alive[:, step] * divergence).sum()
            totals["reward"] = totals["reward"] + (alive[:, step] * reward).sum()
            totals["end"] = totals["end"] + (alive[:, step] * end).sum()
            mine = model.draw_frame(outcome, history).detach()
            is_mine = (draws[:, 0] < own).view(-1, *(1,) * (target.ndim - 1))
            newest = torch.where(is_mine, mine, target)
            history = torch.cat([history[:, target.shape[1] :], newest], dim=1)
        return {name: total / alive.sum() for name, total in totals.items()}

    def _update(self, replay: Replay, rng: np.random.Generator) -> dict[str, float]:
        config = self.config
        batch = replay.sample(rng.random(config.model_batch), importance_exponent=0.0)
        windows = read_windows(replay.history, batch.index, config.unroll)
        own = min(1.0, self.n_updates / max(1, config.own_frames_after))
        losses = self.losses(windows, rng, own)
        loss = config.frame_weight * (losses["frame"] + losses["bits"])
        loss = loss + losses["reward"] + losses["end"]
        if not torch.isfinite(loss):
            broken = not_finite(losses)
            raise ArithmeticError(f"the loss of the {broken} has a NaN or infinite entry")
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate(self.n_updates + 1)
        groups = [(list(self.model.parameters()), config.model_clip_norm)]
        descend(self.optimiser, self.model, groups, loss)
        return {f"losses/model_{name}": value.item() for name, value in losses.items()}

    def learning_rate(self, number: int) -> float:
        """Of update `number`, which counts from 1: it rises from 0, and stays."""
        risen = min(1.0, number / max(1, self.config.model_warmup))
        return self.config.model_learning_rate * risen

    def reward_mass(self, rewards: Tensor) -> Tensor:
        """Rewards (B,) as mass on the atoms (B, N), on the two beside them."""
        mass = rewards.new_zeros(len(rewards), len(self.support))
        mass[:, 0] = 1
        return project_categorical(self.support, rewards[:, None].expand_as(mass), mass)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.support.device)

    def floats(self, array: NDArray[Any]) -> Tensor:
        return self.tensor(array).float()

    def state_dict(self) -> dict[str, Any]:
        """Copies: what the learner does next leaves them as they are."""
        state = {
            "model": dict(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "n_updates": self.n_updates,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(copy.deepcopy(dict(state["optimiser"])))
        self.n_updates = state["n_updates"]
