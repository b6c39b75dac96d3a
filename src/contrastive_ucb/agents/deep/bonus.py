"""The UCB bonus of the deep agents, b(s, a) = gamma sqrt(phi' inv(Sigma) phi) (paper, l.423-470).

| symbol   | setting         |                                                                    |
|----------|-----------------|--------------------------------------------------------------------|
| phi(s,a) | `bonus.feature` | C51 probabilities of a, or the last hidden layer (one Sigma per a) |
| Sigma    | `bonus.pairs`   | ridge I + sum of phi phi' over sampled, window or visited pairs    |
| gamma    | `bonus.scale`   |                                                                    |

`DeepBonus` takes features from the network and pairs from the replay memory; the linear algebra is
in `bonus/online.py::EllipticalBonus`. `PublishedBonus` has the same methods with the float32
arithmetic of the published code, for comparisons with its results.
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
from contrastive_ucb.data.replay import Batch, Replay
from contrastive_ucb.planning.categorical import take_actions

Encode = Callable[[Frames], Tensor]  # stored observations (n, *shape) -> latents (n, ...)
FEATURE = "feature"  # name of the stored features in the replay memory


class DeepBonus:
    """The bonus of one learner."""

    def __init__(self, config: RainbowConfig, network: Network, n_actions: int):
        self.config, self.network = config.bonus, network
        self.n_step, self.discount = config.n_step, config.discount
        self.is_hidden = self.config.feature == "hidden"
        self.is_previous = self.config.action == "previous"
        self.dim = len(network.head.first.weight) if self.is_hidden else len(network.support)
        kind = PublishedBonus if self.config.numerics == "published" else EllipticalBonus
        self.counted: EllipticalBonus | PublishedBonus = kind(
            self.dim,
            self.config.scale,
            self.config.ridge,
            blocks=n_actions if self.is_hidden else 1,
        )
        self.window = self._window(config.jumps_ahead)
        self.last_action = 0  # the previous action of the episode

    def _window(self, jumps: int) -> int:
        """Number of consecutive transitions, across ends, that a sampled transition needs."""
        if self.config.pairs == "window":
            return self.n_step + jumps + 1
        return self.n_step if self.is_previous or self.config.cut == "published" else 0

    @property
    def extras(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shape and data type of the features to store with each transition.

        Hidden features are float16: 100,000 of 512 numbers take 100 MB instead of 200 MB. Only
        bonuses of stored steps are affected by the rounding, not Sigma.
        """
        dtype = np.float16 if self.is_hidden else np.float32
        return {} if self.config.pairs == "window" else {FEATURE: ((self.dim,), dtype)}

    @torch.no_grad()
    def feature(self, latent: Tensor, actions: Tensor) -> Tensor:
        """phi of state-action pairs.   latent (B, ...), actions (B,) -> (B, d)"""
        if self.is_hidden:
            return self.network.head.hidden(latent, self.config.noisy)
        return take_actions(self._probs(latent), actions)

    @torch.no_grad()
    def of_all(self, latent: Tensor) -> Tensor:
        """The bonus of every action.   (B, ...) -> (B, A)"""
        if self.is_hidden:
            hidden = self.network.head.hidden(latent, self.config.noisy)
            return self.counted.of_all(hidden).to(latent.device)
        return self.counted(self._probs(latent)).to(latent.device)

    def visit(self, latent: Tensor, action: int) -> dict[str, NDArray[np.floating]]:
        """Process a step in the environment; returns the feature to store with the transition.

        latent  (1, ...)  of the observation in which `action` is taken
        """
        actions = torch.tensor([self.last_action if self.is_previous else action])
        self.last_action = action
        feature = self.feature(latent, actions.to(latent.device))
        if self.config.pairs == "visits":
            self.counted.observe(feature, self._block(actions))
        return {FEATURE: self._to_storage(feature)[0]}

    def of_batch(self, batch: Batch, replay: Replay, latent: Tensor, encode: Encode) -> Tensor:
        """The bonus (B,) added to each target. Updates Sigma if its pairs are sampled ones.

        latent  of s_t (B, ...); the stored features of s_t are replaced by the current ones
        encode  computes latents of windows
        """
        weights = torch.from_numpy(self._step_weights(batch, replay))  # (B, n) or (B, 1)
        if self.config.pairs == "window":
            bonus = self._of_windows(batch, replay, encode)
        else:
            bonus = self._of_stored(batch, replay, latent)
        return (bonus[:, : weights.shape[1]] * weights).sum(-1).to(latent.device)

    def _of_stored(self, batch: Batch, replay: Replay, latent: Tensor) -> Tensor:
        """The bonuses (B, n) of the steps from stored features; that of s_t is up to date."""
        if self.is_previous:
            actions = torch.from_numpy(replay.window(batch.index, self.n_step).previous)
        else:
            actions = torch.from_numpy(replay.history.at("action", batch.steps))
        feature = self.feature(latent.detach(), actions[:, 0].to(latent.device)).cpu()
        if self.config.pairs == "sampled":
            self.counted.observe(feature, self._block(actions[:, 0]))
        replay.set_extra(FEATURE, batch.index, self._to_storage(feature))
        stored = torch.from_numpy(replay.extra(FEATURE, batch.steps)).float()  # (B, n, d)
        return self.counted(stored, self._block(actions))

    def _of_windows(self, batch: Batch, replay: Replay, encode: Encode) -> Tensor:
        """The bonuses (B, n) of the steps, after adding all pairs of the windows to Sigma."""
        window = replay.window(batch.index, self.window)
        observations, size = window.observations(), len(batch.index)
        if self.config.cut == "published":
            observations = observations[np.arange(size)[:, None], window.shown]
        actions = torch.from_numpy(window.previous if self.is_previous else window.actions)
        latent = encode(observations.reshape(-1, *observations.shape[2:]))
        feature = self.feature(latent, actions.flatten().to(latent.device)).cpu()
        feature = feature.view(size, self.window, -1)  # (B, n + K + 1, d)
        self.counted.observe(feature, self._block(actions))
        n = self.n_step
        return self.counted(feature[:, :n], self._block(actions[:, :n]))

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
        """Every `bonus.rebuild_every` updates, recompute Sigma of visits with current features."""
        every = self.config.rebuild_every
        if self.config.pairs != "visits" or not every or n_updates % every:
            return
        times = visits(replay)
        chosen = stratified(times, self.config.rebuild_sample, rng)
        actions = torch.from_numpy(replay.history.at("action", chosen))
        latent = encode(replay.observations(chosen))
        feature = self.feature(latent, actions.to(latent.device)).cpu()
        replay.set_extra(FEATURE, chosen, self._to_storage(feature))
        self.counted.rebuild(feature, self._block(actions), weight=len(times) / len(chosen))

    def state_dict(self) -> dict[str, Any]:
        return {"counted": self.counted.state_dict(), "last_action": self.last_action}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counted.load_state_dict(state["counted"])
        self.last_action = state["last_action"]

    def _probs(self, latent: Tensor) -> Tensor:
        """Probabilities (B, A, N) of C51."""
        logits: Tensor = self.network.head(latent, self.config.noisy)
        return logits.softmax(-1)

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

    def _block(self, actions: Tensor) -> Tensor | None:
        """Hidden features do not depend on the action, so each action has its own Sigma."""
        return actions if self.is_hidden else None


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


def stratified(times: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """`count` of the times, one from each of `count` equal intervals; all if there are fewer."""
    if len(times) <= count:
        return times
    place = (np.arange(count) + rng.random(count)) * (len(times) / count)
    return times[np.minimum(place.astype(np.int64), len(times) - 1)]


class PublishedBonus:
    """scale * sqrt(phi' inv(Sigma) phi) as in the published code: float32, explicit inverse, NaN
    replaced by 0.

    With its ridge of 1e-5, the float32 sum loses the ridge after some thousand features, the
    inverse has negative eigenvalues, and the square root is NaN. The published code sets such a
    bonus to 0. This class does the same for comparison; elsewhere in the package a NaN is an error.

    dim     d, the size of a feature
    blocks  number of actions with their own Sigma; 1 if features depend on the action
    """

    def __init__(self, dim: int, scale: float = 1.0, ridge: float = 1e-5, blocks: int = 1):
        self.dim, self.scale, self.ridge = dim, scale, ridge
        self.sigma = self._initial(blocks)
        self._inverse: Tensor | None = None

    @property
    def blocks(self) -> int:
        return len(self.sigma)

    def observe(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Sigma += weight * sum phi phi'.   features (..., d), block (...) their actions"""
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        if not torch.isfinite(rows).all():
            raise ArithmeticError("the features have a NaN or infinite entry")
        block = self._block(block, len(rows))
        for action in range(self.blocks):
            selected = rows[block == action]
            self.sigma[action] += weight * (selected.mT @ selected)
        self._inverse = None

    def __call__(self, features: Tensor, block: Tensor | None = None) -> Tensor:
        """(..., d) -> (...)"""
        widths = self.of_all(features).flatten(0, -2)  # (n, blocks)
        return widths.gather(1, self._block(block, len(widths))[:, None]).view(features.shape[:-1])

    def of_all(self, features: Tensor) -> Tensor:
        """The bonus in every block.   (..., d) -> (..., blocks)"""
        if self._inverse is None:
            self._inverse = torch.linalg.inv_ex(self.sigma).inverse
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        width = ((rows @ self._inverse) * rows).sum(-1).sqrt()  # (blocks, n)
        width = torch.where(width.isnan(), 0.0, width)
        return self.scale * width.mT.reshape(*features.shape[:-1], self.blocks)

    def rebuild(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Sigma = ridge I + weight * sum phi phi'."""
        self.sigma = self._initial(self.blocks)
        self.observe(features, block, weight)

    def state_dict(self) -> dict[str, Any]:
        return {"sigma": self.sigma.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        sigma = torch.as_tensor(state["sigma"])
        if sigma.shape != self.sigma.shape:
            raise ValueError(
                f"the saved Sigma has shape {tuple(sigma.shape)}, this bonus "
                f"{tuple(self.sigma.shape)}; create it with the same dim and blocks"
            )
        self.sigma, self._inverse = sigma.clone(), None

    def _block(self, block: Tensor | None, count: int) -> Tensor:
        return torch.zeros(count, dtype=torch.int64) if block is None else block.reshape(-1).cpu()

    def _initial(self, blocks: int) -> Tensor:
        return self.ridge * torch.eye(self.dim).repeat(blocks, 1, 1)
