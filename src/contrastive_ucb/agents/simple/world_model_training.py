"""Training of SimPLe's world model with scheduled sampling (Kaiser et al. 2020).

An update predicts `unroll` steps. The inputs of the first step are real frames; those of later
steps include the model's own predictions with increasing probability, so that it learns to continue
from its own errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.deep.network import Optimized, error_location, gradient_step, not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.data.history import Windows, read_windows
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import cross_entropy, project_categorical
from contrastive_ucb.representation.world_model import WorldModel

MEASURED = 10_000  # latest steps from which the range of vectors is measured


class ModelLearner(Optimized):
    """A world model and its optimizer.

    support  (N,)  atoms of the reward
    """

    def __init__(self, model: WorldModel, support: Tensor, config: SimpleConfig):
        self.model, self.support, self.config = model, support, config
        parameters, rate = model.parameters(), config.model_learning_rate
        super().__init__(model, torch.optim.Adam(parameters, rate, fused=True))

    def measure(self, replay: Replay) -> None:
        """Measure the range of vectors on the latest steps; images have a fixed range."""
        if self.model.kind == "gaussian":
            windows = read_windows(replay.history, replay.drawable()[-MEASURED:], 1)
            frames = torch.from_numpy(windows.frames[:, -2:]).to(self.support.device)
            self.model.measure(frames.flatten(0, 1), (frames[:, 1] - frames[:, 0]))

    def update(self, replay: Replay, rng: np.random.Generator) -> dict[str, float]:
        """One update; returns its losses. A NaN raises ArithmeticError and changes no weight."""
        with error_location(self.model, f"update {self.n_updates + 1} of the world model"):
            metrics = self._update(replay, rng)
        self.n_updates += 1
        return metrics

    def losses(self, windows: Windows, rng: np.random.Generator, own: float) -> dict[str, Tensor]:
        """The mean losses () over the steps of the windows.

        own  probability that the newest input frame of a later step is a prediction
        """
        model, config = self.model, self.config
        model.check(windows.frames)
        size, length = windows.actions.shape
        frames, actions = self.tensor(windows.frames), self.tensor(windows.actions)
        alive, has_target = self.floats(windows.alive), self.floats(windows.shown)
        ended, rewards = self.floats(windows.terminated), self.floats(windows.rewards)
        n_inputs = frames.shape[1] - length
        history = frames[:, :n_inputs].flatten(1, 2)
        totals = dict.fromkeys(("frame", "bits", "reward", "end"), alive.new_zeros(()))
        for step in range(length):
            target = frames[:, n_inputs + step]
            draws = self.floats(rng.random((size, config.bits + 1), dtype=np.float32))
            outcome, divergence = model.loss(history, actions[:, step], target, draws[:, 1:])
            frame = model.frame_loss(outcome, history, target, config.loss_floor)
            reward = cross_entropy(
                self.reward_mass(rewards[:, step]), outcome.reward.log_softmax(-1)
            )
            end = F.binary_cross_entropy_with_logits(outcome.end, ended[:, step], reduction="none")
            totals["frame"] = totals["frame"] + (has_target[:, step] * frame).sum()
            # Also at the end of an episode: otherwise the bits could encode the end at no cost, and
            # the prior would not learn to predict it.
            totals["bits"] = totals["bits"] + (alive[:, step] * divergence).sum()
            totals["reward"] = totals["reward"] + (alive[:, step] * reward).sum()
            totals["end"] = totals["end"] + (alive[:, step] * end).sum()
            predicted = model.draw_frame(outcome, history).detach()
            is_predicted = (draws[:, 0] < own).view(-1, *(1,) * (target.ndim - 1))
            newest = torch.where(is_predicted, predicted, target)
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
        warmup = min(1.0, (self.n_updates + 1) / max(1, config.model_warmup))
        for group in self.optimizer.param_groups:
            group["lr"] = config.model_learning_rate * warmup
        groups = [(list(self.model.parameters()), config.model_clip_norm)]
        gradient_step(self.optimizer, self.model, groups, loss)
        return {f"losses/model_{name}": value.item() for name, value in losses.items()}

    def reward_mass(self, rewards: Tensor) -> Tensor:
        """Rewards (B,) as distributions on the two nearest atoms, (B, N)."""
        mass = rewards.new_zeros(len(rewards), len(self.support))
        mass[:, 0] = 1
        return project_categorical(self.support, rewards[:, None].expand_as(mass), mass)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.support.device)

    def floats(self, array: NDArray[Any]) -> Tensor:
        return self.tensor(array).float()
