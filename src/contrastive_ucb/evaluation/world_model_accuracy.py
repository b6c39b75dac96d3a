"""How well a world model foresees steps it was not learnt from, beside guesses that need no model.

| guess        | frame            | reward                                                       |
|--------------|------------------|--------------------------------------------------------------|
| copy         | the last frame   | the last reward, 0 at the beginning of an episode            |
| constant     |                  | the mean of the steps that the model was learnt from         |
| usual        |                  | the most frequent one of them                                |

The error of a frame is the distance of the one that the model draws, summed over the frame: wrong
cells of marks, brightness (0 to 1) of pixels, numbers of vectors. That of a reward is the square of
what the model expects too much. Nats are log-losses. What the model expects of reward and end is a
mean over draws of its bits. The nats of its frames are a bound: with bits of the posterior, plus
what these cost. Copying has the probabilities with which cells stayed what they were, and the
constant those that rewards and ends had, in the steps learnt from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.simple.world_model_training import ModelLearner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.data.history import Frames, Windows, read_windows
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import cross_entropy
from contrastive_ucb.representation.world_model import LEVELS, Outcome, WorldModel

CHUNK = 500  # steps that are looked at together
DRAWS = 8  # of the bits, over which what is expected of reward and end is a mean


@dataclass(frozen=True)
class Foresight:
    """Means over steps; the frame of one that terminates is nothing to foresee and left out."""

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
def foresight(
    learner: ModelLearner, known: Replay, unseen: Replay, rng: np.random.Generator
) -> Foresight:
    """How well the steps of `unseen` are foreseen by what was learnt from those of `known`."""
    guesses = _Guesses(learner, read_windows(known.history, known.drawable(), 1))
    times = unseen.drawable()
    totals: dict[str, float] = {}
    counts: dict[str, float] = {}
    for at in range(0, len(times), CHUNK):
        some = times[at : at + CHUNK]
        steps = read_windows(unseen.history, some, 1)
        found = _of_model(learner, steps, rng) | guesses.of(steps, _rewards_before(unseen, some))
        for name, values in found.items():
            counted = steps.shown[:, 0] if name.startswith("frame") else steps.alive[:, 0]
            totals[name] = totals.get(name, 0.0) + float(values[counted].sum())
            counts[name] = counts.get(name, 0) + int(counted.sum())
    return Foresight(len(times), **{name: totals[name] / counts[name] for name in totals})


def _of_model(
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
    log_rewards = _log_mean([one.reward.log_softmax(-1) for one in outcomes])
    log_end = _log_mean([F.logsigmoid(one.end) for one in outcomes])
    log_no_end = _log_mean([F.logsigmoid(-one.end) for one in outcomes])
    bits = learner.floats(rng.random((size, learner.config.bits), dtype=np.float32))
    told, divergence = model.loss(history, actions, target, bits)
    rewards, ended = learner.floats(steps.rewards[:, 0]), learner.tensor(steps.terminated[:, 0])
    found = {
        "frame_error": _distance(model, model.draw_frame(outcomes[0], history), target),
        "frame_nats": model.frame_loss(told, history, target) + divergence,
        "reward_error": (log_rewards.exp() @ learner.support - rewards).square(),
        "reward_nats": cross_entropy(learner.reward_mass(rewards), log_rewards),
        "end_nats": -torch.where(ended, log_end, log_no_end),
    }
    return {name: values.cpu().numpy() for name, values in found.items()}


def _log_mean(logs: list[Tensor]) -> Tensor:
    """The logarithm of the mean of numbers whose logarithms are given."""
    return torch.stack(logs).logsumexp(0) - math.log(len(logs))


class _Guesses:
    """What needs no model but a count of the steps that were learnt from."""

    def __init__(self, learner: ModelLearner, known: Windows):
        self.learner = learner
        rewards = known.rewards[:, 0]
        values, often = np.unique(rewards, return_counts=True)
        self.constant, self.usual = rewards.mean(), values[often.argmax()]
        # One more of everything: no guess is ever quite sure.
        mass = learner.reward_mass(learner.floats(rewards)).sum(0) + 1
        self.log_rewards = (mass / mass.sum()).log()
        self.end = (known.terminated.sum() + 1) / (len(rewards) + 2)
        self.stay = _stay(
            known.frames[:, -2][known.shown[:, 0]], known.frames[:, -1][known.shown[:, 0]]
        )

    def of(self, steps: Windows, before: Array) -> dict[str, NDArray[np.floating]]:
        """The errors and log-losses (B,); before (B,) are the rewards of the steps before."""
        learner, own, ended = self.learner, steps.rewards[:, 0], steps.terminated[:, 0]
        frames = learner.tensor(steps.frames)
        distance = _distance(learner.model, frames[:, -2], frames[:, -1])
        nats = cross_entropy(learner.reward_mass(learner.floats(own)), self.log_rewards)
        return {
            "frame_error_copy": distance.cpu().numpy(),
            "frame_nats_copy": self._copying(frames),
            "reward_error_constant": (own - self.constant) ** 2,
            "reward_error_usual": (own - self.usual) ** 2,
            "reward_error_copy": (own - before) ** 2,
            "reward_nats_constant": nats.cpu().numpy(),
            "end_nats_constant": -np.where(ended, np.log(self.end), np.log1p(-self.end)),
        }

    def _copying(self, frames: Tensor) -> NDArray[np.floating]:
        """The log-loss (B,) of the last frame as a guess."""
        model, (*_, last, target) = self.learner.model, frames.unbind(1)
        if model.kind == "gaussian":
            still = Outcome(torch.zeros_like(last), last, last)
            losses = model.frame_loss(still, frames[:, :-1].flatten(1, 2), target)
            return np.asarray(losses.cpu())
        others = (LEVELS if model.kind == "softmax" else 2) - 1
        was, same = last.cpu().numpy() > 0, (last == target).cpu().numpy()
        channel = np.arange(was.shape[1])[:, None, None]
        stay = self.stay[channel, was.astype(np.int64)]
        nats: Array = -np.where(same, np.log(stay), np.log((1 - stay) / others))
        total: Array = nats.reshape(len(nats), -1).sum(1)
        return total


def _stay(last: Frames, after: Frames) -> Array:
    """How often cells of each channel (C,) that were 0, and others, stayed the same, (C, 2)."""
    axes = (0, *range(2, last.ndim))
    found = [
        ((was & (last == after)).sum(axes) + 1) / (was.sum(axes) + 2)
        for was in (last == 0, last > 0)
    ]
    return np.stack(found, axis=1)


def _distance(model: WorldModel, one: Tensor, other: Tensor) -> Tensor:
    return (model.scaled(one) - model.scaled(other)).abs().flatten(1).sum(1)


def _rewards_before(replay: Replay, times: IntArray) -> Array:
    """The rewards (B,) of the steps before `times` (B,), 0 where there is none in the episode."""
    history = replay.history
    inside = (times > history.at("start", times)) & (times > history.oldest)
    rewards: Array = np.where(inside, history.at("reward", np.maximum(times - 1, 0)), 0.0)
    return rewards
