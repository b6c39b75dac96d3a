"""The UCB bonus of the deep agents, b(s, a) = gamma sqrt(phi' inv(Sigma) phi) (paper, l.423-470).

| symbol   | setting         |                                                                    |
|----------|-----------------|--------------------------------------------------------------------|
| phi(s,a) | `bonus.feature` | C51 probabilities of a, or the last hidden layer (one Sigma per a) |
| Sigma    | `bonus.pairs`   | ridge I + sum of phi phi' over sampled, window or visited pairs    |
| gamma    | `bonus.scale`   |                                                                    |

`DeepBonus` takes features from the network and pairs from the replay memory; the linear algebra is
in `bonus/online.py::EllipticalBonus`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import Network
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.nstep import first_end
from contrastive_ucb.data.replay import Batch, Replay
from contrastive_ucb.planning.categorical import take_actions

Encode = Callable[[Frames], Tensor]  # stored observations (n, *shape) -> latents (n, ...)
FEATURE = "feature"  # name of the stored features in the replay memory


class DeepBonus:
    """The bonus of one learner.

    extras  shape and data type of the features to store with each transition
    window  number of consecutive transitions, across ends, that a sampled transition needs
    """

    def __init__(self, config: RainbowConfig, network: Network, n_actions: int):
        bonus = self.config = config.bonus
        self.network, self.n_step, self.discount = network, config.n_step, config.discount
        self.is_hidden = bonus.feature == "hidden"
        self.is_previous = bonus.action == "previous"
        dim = len(network.head.first.weight) if self.is_hidden else len(network.support)
        kind = PublishedBonus if bonus.numerics == "published" else EllipticalBonus
        # Hidden features do not depend on the action, so each action has its own Sigma.
        blocks = n_actions if self.is_hidden else 1
        self.counted = kind(dim, bonus.scale, bonus.ridge, blocks=blocks)
        # Hidden features are float16: 100,000 of 512 numbers take 100 MB instead of 200 MB. Only
        # bonuses of stored steps are affected by the rounding, not Sigma.
        dtype = np.float16 if self.is_hidden else np.float32
        self.extras: dict[str, tuple[tuple[int, ...], Any]] = {FEATURE: ((dim,), dtype)}
        self.window = self.n_step if self.is_previous or bonus.cut == "published" else 0
        if bonus.pairs == "window":
            self.extras, self.window = {}, self.n_step + config.jumps_ahead + 1
        self.last_action = 0  # the previous action of the episode

    @torch.no_grad()
    def feature(self, latent: Tensor, actions: Tensor) -> Tensor:
        """phi of state-action pairs.   latent (B, ...), actions (B,) -> (B, d)"""
        if self.is_hidden:
            return self.network.head.hidden(latent, self.config.noisy)
        return take_actions(self.network.head(latent, self.config.noisy).softmax(-1), actions)

    @torch.no_grad()
    def of_all(self, latent: Tensor) -> Tensor:
        """The bonus of every action.   (B, ...) -> (B, A)"""
        if self.is_hidden:
            hidden = self.network.head.hidden(latent, self.config.noisy)
            return self.counted.of_all(hidden).to(latent.device)
        probs = self.network.head(latent, self.config.noisy).softmax(-1)  # (B, A, N)
        return self.counted(probs).to(latent.device)

    def visit(self, latent: Tensor, action: int) -> dict[str, NDArray[np.floating]]:
        """Process a step in the environment; returns the feature to store with the transition.

        latent  (1, ...)  of the observation in which `action` is taken
        """
        actions = torch.tensor([self.last_action if self.is_previous else action])
        self.last_action = action
        feature = self.feature(latent, actions.to(latent.device))
        if self.config.pairs == "visits":
            self.counted.observe(feature, actions)
        return {FEATURE: self._to_storage(feature)[0]}

    def of_batch(self, batch: Batch, replay: Replay, latent: Tensor, encode: Encode) -> Tensor:
        """The bonus (B,) added to each target. Updates Sigma if its pairs are sampled ones.

        latent  of s_t (B, ...); the stored features of s_t are replaced by the current ones
        encode  computes latents of windows
        """
        history, has_windows = replay.history, self.config.pairs == "window"
        times = history.following(batch.index, self.window) if has_windows else batch.steps
        given = history.previous_actions(times) if self.is_previous else history.at("action", times)
        actions = torch.from_numpy(given)  # (B, n), or (B, n + K + 1) in windows
        if has_windows:
            feature = self._of_windows(times, actions, replay, encode)
            self.counted.observe(feature, actions)
        else:
            current = self.feature(latent.detach(), actions[:, 0].to(latent.device)).cpu()
            if self.config.pairs == "sampled":
                self.counted.observe(current, actions[:, 0])
            replay.set_extra(FEATURE, batch.index, self._to_storage(current))
            feature = torch.from_numpy(replay.extra(FEATURE, times)).float()  # (B, n, d)
        bonus = self.counted(feature[:, : self.n_step], actions[:, : self.n_step])  # (B, n)
        if not torch.isfinite(bonus).all():
            raise ArithmeticError("the bonus has a NaN or infinite entry")
        weights = torch.from_numpy(self._step_weights(batch, replay))
        return (bonus[:, : weights.shape[1]] * weights).sum(-1).to(latent.device)

    def _of_windows(
        self, times: IntArray, actions: Tensor, replay: Replay, encode: Encode
    ) -> Tensor:
        """The current features (B, T, d) of all pairs of the windows; times, actions (B, T)."""
        history, shown = replay.history, times
        if self.config.cut == "published":  # after an end at step e <= K, s_{t+e} is repeated
            ends = history.at("terminated", times), history.at("truncated", times)
            end = first_end(*ends)[:, None]
            last = np.where(end <= replay.jumps, end, self.window)
            shown = np.take_along_axis(times, np.minimum(np.arange(self.window), last), axis=1)
        latent = encode(history.observations(shown.reshape(-1)))
        feature = self.feature(latent, actions.flatten().to(latent.device)).cpu()
        return feature.view(*times.shape, -1)

    def _step_weights(self, batch: Batch, replay: Replay) -> NDArray[np.float32]:
        """discount**k where the bonus of step k counts, else 0: (B, n), or (B, 1) for the first."""
        weights = batch.step_weights
        if self.config.cut == "published":
            history = replay.history
            ends = history.at("terminated", batch.index) | history.at("truncated", batch.index)
            powers = self.discount ** np.arange(self.n_step, dtype=np.float32)
            weights = np.where(ends[:, None], np.float32(0), powers)
        if self.config.steps == "later":
            weights = np.where(np.arange(self.n_step) == 0, np.float32(0), weights)
        return weights[:, :1] if self.config.steps == "first" else weights

    def after_update(
        self, n_updates: int, replay: Replay, encode: Encode, rng: np.random.Generator
    ) -> None:
        """Every `bonus.rebuild_every` updates, recompute Sigma of visits with current features.

        From more than `bonus.rebuild_sample` visits, one is drawn in each of as many intervals.
        """
        every, count = self.config.rebuild_every, self.config.rebuild_sample
        if self.config.pairs != "visits" or not every or n_updates % every:
            return
        times = chosen = visits(replay)
        if len(times) > count:
            place = (np.arange(count) + rng.random(count)) * (len(times) / count)
            chosen = times[np.minimum(place.astype(np.int64), len(times) - 1)]
        actions = torch.from_numpy(replay.history.at("action", chosen))
        latent = encode(replay.history.observations(chosen))
        feature = self.feature(latent, actions.to(latent.device)).cpu()
        replay.set_extra(FEATURE, chosen, self._to_storage(feature))
        self.counted.rebuild(feature, actions, weight=len(times) / len(chosen))

    def state_dict(self) -> dict[str, Any]:
        return {"counted": self.counted.state_dict(), "last_action": self.last_action}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counted.load_state_dict(state["counted"])
        self.last_action = state["last_action"]

    def _to_storage(self, feature: Tensor) -> NDArray[np.floating]:
        """Features in the data type of the replay memory."""
        dtype = self.extras[FEATURE][1]
        largest, limit = float(feature.abs().max()), float(np.finfo(dtype).max)
        if not largest <= limit:
            raise ArithmeticError(
                f"a feature of the bonus is {largest:.3g}, above the limit {limit:.3g} of the "
                "replay memory; scale the observations down"
            )
        return feature.cpu().numpy().astype(dtype)


def visits(replay: Replay) -> IntArray:
    """Times of all stored transitions with a complete observation, oldest first.

    Includes those that cannot be sampled yet because their n-step return is incomplete.
    """
    history = replay.history
    times = np.arange(history.oldest, history.now)
    first_frame = np.maximum(times + 1 - history.stack, history.at("start", times))
    complete = ~history.at("closing", times) & (first_frame >= history.oldest)
    chosen: IntArray = times[complete]
    return chosen


class PublishedBonus(EllipticalBonus):
    """The bonus with the arithmetic of the published code: float32, explicit inverse, NaN -> 0.

    With its ridge of 1e-5, the float32 sum loses the ridge after some thousand features, the
    inverse has negative eigenvalues, and the square root is NaN. The published code sets such a
    bonus to 0. This class does the same for comparison; elsewhere in the package a NaN is an error.
    """

    dtype = torch.float32  # `chol` holds the inverses

    def _reset(self) -> None:
        super()._reset()
        self.chol = torch.linalg.inv_ex(self.sigma).inverse

    def _factor(self, action: int, rows: Tensor) -> Tensor:
        inverse: Tensor = torch.linalg.inv_ex(self.sigma[action]).inverse
        return inverse

    def _bonus(self, rows: Tensor, inverse: Tensor) -> Tensor:
        width = ((rows @ inverse) * rows).sum(-1).sqrt()
        return self.scale * torch.where(width.isnan(), 0.0, width)
