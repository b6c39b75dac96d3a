"""Prediction errors of a world model on held-out steps, and of baselines without a model.

| baseline     | frame            | reward                                                       |
|--------------|------------------|--------------------------------------------------------------|
| copy         | the last frame   | the last reward, 0 at the beginning of an episode            |
| constant     |                  | the mean of the training steps                               |
| usual        |                  | the most frequent reward of the training steps               |

The error of a frame is the L1 distance to a sampled frame, summed over its cells (wrong cells for
binary frames, brightness from 0 to 1 for pixels). The error of a reward is the squared difference
from the expected reward. Nats are log-losses. Predictions of reward and end are means over draws of
the latent bits. The nats of frames are an upper bound: the reconstruction loss with bits of the
posterior plus their divergence. The copy baseline uses the frequencies with which cells kept their
value, and the constant baseline those of rewards and ends, in the training steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.simple.agent import ModelLearner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.history import Frames, Windows, read_windows
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import cross_entropy
from contrastive_ucb.representation.world_model import LEVELS, Outcome, WorldModel

CHUNK = 500  # steps per batch
DRAWS = 8  # of the latent bits, over which predictions are averaged


@dataclass(frozen=True)
class ModelAccuracy:
    """Means over steps; frames after a terminal step are not predicted and not included."""

    steps: int
    frame_error: float
    frame_error_copy: float
    frame_nats: float
    frame_nats_copy: float
    reward_error: float
    reward_error_constant: float
    reward_error_usual: float
    reward_error_copy: float
    reward_nats: float
    reward_nats_constant: float
    end_nats: float
    end_nats_constant: float


@torch.no_grad()
def model_accuracy(
    learner: ModelLearner, training: Replay, held_out: Replay, rng: np.random.Generator
) -> ModelAccuracy:
    """Errors on the steps of `held_out` of the model and baselines fitted to `training`."""
    baselines = _Baselines(learner, read_windows(training.history, training.drawable(), 1))
    times = held_out.drawable()
    totals: dict[str, float] = {}
    counts: dict[str, float] = {}
    for at in range(0, len(times), CHUNK):
        chunk = times[at : at + CHUNK]
        steps = read_windows(held_out.history, chunk, 1)
        errors = _model_errors(learner, steps, rng)
        errors |= baselines.errors(steps, _previous_rewards(held_out, chunk))
        for name, values in errors.items():
            counted = steps.shown[:, 0] if name.startswith("frame") else steps.alive[:, 0]
            totals[name] = totals.get(name, 0.0) + float(values[counted].sum())
            counts[name] = counts.get(name, 0) + int(counted.sum())
    return ModelAccuracy(len(times), **{name: totals[name] / counts[name] for name in totals})


def _model_errors(
    learner: ModelLearner, steps: Windows, rng: np.random.Generator
) -> dict[str, NDArray[np.floating]]:
    """The errors and log-losses (B,) of the model."""
    model, size = learner.model, len(steps.actions)
    frames, actions = learner.tensor(steps.frames), learner.tensor(steps.actions[:, 0])
    history, target = frames[:, :-1].flatten(1, 2), frames[:, -1]
    shape = (size, model.prior.n_groups)
    outcomes = [
        model.predict(history, actions, learner.floats(rng.random(shape, dtype=np.float32)))
        for _ in range(DRAWS)
    ]
    log_rewards = _log_mean([outcome.reward.log_softmax(-1) for outcome in outcomes])
    log_end = _log_mean([F.logsigmoid(outcome.end) for outcome in outcomes])
    log_no_end = _log_mean([F.logsigmoid(-outcome.end) for outcome in outcomes])
    bits = learner.floats(rng.random((size, learner.config.bits), dtype=np.float32))
    reconstruction, divergence = model.loss(history, actions, target, bits)
    rewards, ended = learner.floats(steps.rewards[:, 0]), learner.tensor(steps.terminated[:, 0])
    errors = {
        "frame_error": _distance(model, model.draw_frame(outcomes[0], history), target),
        "frame_nats": model.frame_loss(reconstruction, history, target) + divergence,
        "reward_error": (log_rewards.exp() @ learner.support - rewards).square(),
        "reward_nats": cross_entropy(learner.reward_mass(rewards), log_rewards),
        "end_nats": -torch.where(ended, log_end, log_no_end),
    }
    return {name: values.cpu().numpy() for name, values in errors.items()}


def _log_mean(logs: list[Tensor]) -> Tensor:
    """The logarithm of the mean of exp(logs)."""
    return torch.stack(logs).logsumexp(0) - math.log(len(logs))


class _Baselines:
    """Predictions from frequencies in the training steps."""

    def __init__(self, learner: ModelLearner, training: Windows):
        self.learner = learner
        rewards = training.rewards[:, 0]
        values, counts = np.unique(rewards, return_counts=True)
        self.constant, self.usual = rewards.mean(), values[counts.argmax()]
        # Add-one smoothing keeps log-losses finite.
        mass = learner.reward_mass(learner.floats(rewards)).sum(0) + 1
        self.log_rewards = (mass / mass.sum()).log()
        self.end = (training.terminated.sum() + 1) / (len(rewards) + 2)
        shown = training.shown[:, 0]
        self.stay = _stay(training.frames[:, -2][shown], training.frames[:, -1][shown])

    def errors(self, steps: Windows, previous: Array) -> dict[str, NDArray[np.floating]]:
        """Errors and log-losses (B,); previous (B,) are the rewards of the previous steps."""
        learner, rewards, ended = self.learner, steps.rewards[:, 0], steps.terminated[:, 0]
        frames = learner.tensor(steps.frames)
        distance = _distance(learner.model, frames[:, -2], frames[:, -1])
        nats = cross_entropy(learner.reward_mass(learner.floats(rewards)), self.log_rewards)
        return {
            "frame_error_copy": distance.cpu().numpy(),
            "frame_nats_copy": self._copy_nats(frames),
            "reward_error_constant": (rewards - self.constant) ** 2,
            "reward_error_usual": (rewards - self.usual) ** 2,
            "reward_error_copy": (rewards - previous) ** 2,
            "reward_nats_constant": nats.cpu().numpy(),
            "end_nats_constant": -np.where(ended, np.log(self.end), np.log1p(-self.end)),
        }

    def _copy_nats(self, frames: Tensor) -> NDArray[np.floating]:
        """The log-loss (B,) of the last frame as a prediction."""
        model, (*_, last, target) = self.learner.model, frames.unbind(1)
        if model.kind == "gaussian":
            unchanged = Outcome(torch.zeros_like(last), last, last)
            losses = model.frame_loss(unchanged, frames[:, :-1].flatten(1, 2), target)
            return np.asarray(losses.cpu())
        others = (LEVELS if model.kind == "softmax" else 2) - 1
        was, same = last.cpu().numpy() > 0, (last == target).cpu().numpy()
        channel = np.arange(was.shape[1])[:, None, None]
        stay = self.stay[channel, was.astype(np.int64)]
        nats: Array = -np.where(same, np.log(stay), np.log((1 - stay) / others))
        total: Array = nats.reshape(len(nats), -1).sum(1)
        return total


def _stay(last: Frames, after: Frames) -> Array:
    """Frequencies (C, 2) with which cells that were zero, or not, kept their value, per channel."""
    axes = (0, *range(2, last.ndim))
    frequencies = [
        ((was & (last == after)).sum(axes) + 1) / (was.sum(axes) + 2)
        for was in (last == 0, last > 0)
    ]
    return np.stack(frequencies, axis=1)


def _distance(model: WorldModel, first: Tensor, second: Tensor) -> Tensor:
    return (model.scaled(first) - model.scaled(second)).abs().flatten(1).sum(1)


def _previous_rewards(replay: Replay, times: IntArray) -> Array:
    """The rewards (B,) of the steps before `times` (B,), 0 at the first step of an episode."""
    history = replay.history
    inside = (times > history.at("start", times)) & (times > history.oldest)
    rewards: Array = np.where(inside, history.at("reward", np.maximum(times - 1, 0)), 0.0)
    return rewards
